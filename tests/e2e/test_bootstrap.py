# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster is set up from an inventory file, serves a claim, and is left as it was by uninstall."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.demo import doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import NODES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.played import Json, Played, play, stored, well
from ansible_collections.composable.infra.tests.e2e.support import (
    PATIENCE,
    all_free,
    delete_all,
    settled,
    wait_for,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 1}}
PARTS = ["controllers", "monitoring"]
CREDENTIALS = ("username", "password", "realm", "client_id", "client_secret")
CONFIGMAP = "/api/v1/namespaces/composable-infra/configmaps/composable-infra-config"
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def run(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("bootstrap", "--check")``: a playbook with one inventory file that says everything."""
    folder = tmp_path_factory.mktemp("bootstrap")
    config = stage.config()
    fabric = config["fabric"]
    credentials = {name: fabric.pop(name) for name in CREDENTIALS}
    fabric.pop("ca_path")
    authority = Path(stage.emulator.ca_path).read_text(encoding="utf-8")
    variables: Json = {
        "composable_kubeconfig": str(stage.lab.kubeconfig), "composable_wait_timeout": 60,
        "controllers_image": "registry.example.com/composable/infra:1", "controllers_config": config,
        "controllers_credentials": {**credentials, "certificate": authority},
        "bootstrap_parts": PARTS, "uninstall_parts": PARTS, "uninstall_crds": "true"}
    inventory = folder / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": {"ansible_connection": "local"}},
                                                 "vars": variables}}), encoding="utf-8")

    def start(name: str, *options: str) -> Played:
        return play(folder, f"composable.infra.{name}", {}, "-i", str(inventory), *options)

    return start


@pytest.fixture(scope="module")
def bare(stage: Stage, run: Run) -> dict[str, str]:
    """What is stored in a cluster without anything of ours (a lab brings CRDs and RBAC along)."""
    well(run("uninstall"))
    return stored(stage.lab)


@pytest.fixture(scope="module")
def installed(bare: dict[str, str], run: Run) -> Played:
    """Bootstrap has run."""
    return well(run("bootstrap"))


def test_upgrade_of_a_cluster_that_was_never_set_up_is_refused(bare: dict[str, str], run: Run) -> None:
    refused = run("upgrade")
    assert refused.status != 0
    assert "run composable.infra.bootstrap" in "".join(refused.failures)


def test_check_mode_on_a_fresh_cluster_writes_nothing(stage: Stage, bare: dict[str, str], run: Run) -> None:
    assert well(run("bootstrap", "--check")).changed
    assert stored(stage.lab) == bare


def test_a_second_run_changes_nothing(stage: Stage, installed: Played, run: Run) -> None:
    assert installed.changed
    before = stored(stage.lab)
    assert well(run("bootstrap")).changed == []
    assert well(run("upgrade")).changed == []
    assert stored(stage.lab) == before


@pytest.fixture(scope="module")
def config_path(stage: Stage, installed: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that bootstrap has stored, with the Secret where this process can read it."""
    folder = tmp_path_factory.mktemp("pod")
    config = yaml.safe_load(stage.lab.api.get(CONFIGMAP)["data"]["config.yml"])
    fabric = stage.config()["fabric"]
    for name in CREDENTIALS:
        (folder / name).write_text(fabric[name], encoding="utf-8")
    (folder / "certificate").write_bytes(Path(stage.emulator.ca_path).read_bytes())
    config["fabric"]["credentials_dir"] = str(folder)
    path = folder / "config.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_claim_runs_with_what_was_stored_and_stands_in_the_way_of_uninstall(
    stage: Stage, config_path: Path, run: Run, timeline: Timeline, open_process: OpenProcess
) -> None:
    stage.config_path = config_path
    stage.kubeconfig = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra")
    open_process(doors.controller, stage)
    stage.pod("train", A100)
    assert timeline.wait(lambda: settled(timeline, "train"), PATIENCE)
    before = stored(stage.lab)
    refused = run("uninstall")
    assert refused.status != 0
    assert "claim default/train" in "".join(refused.failures)
    assert f"{A100} " in "".join(refused.failures)
    assert set(stored(stage.lab)) == set(before)
    delete_all(stage)
    wait_for("the device is returned", lambda: all_free(stage))


def test_uninstall_leaves_the_api_server_as_it_was(
    stage: Stage, bare: dict[str, str], installed: Played, run: Run
) -> None:
    labels = [{k: v for k, v in node["metadata"]["labels"].items() if not k.startswith("cohdi.io/")}
              for node in stage.client.list(NODES).items]
    check = well(run("uninstall", "--check"))
    assert "controllers: publisher, scaler and operator" in " ".join(str(r.get("msg")) for _name, r in check.tasks)
    well(run("uninstall"))
    # what the nodes announce of themselves is not ours
    left = {name for name in stored(stage.lab) if not name.startswith("resourceslices /node-")}
    assert left == {name for name in bare if not name.startswith("resourceslices /node-")}
    assert [node["metadata"]["labels"] for node in stage.client.list(NODES).items] == labels
    assert well(run("uninstall")).changed == []
