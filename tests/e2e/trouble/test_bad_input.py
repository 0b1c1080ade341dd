# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unusable input: each front door says in one sentence what is wrong, and ends or goes on trying."""

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CRDS
from ansible_collections.composable.infra.tests.e2e.support.launch import (
    Ended,
    begin,
    launch,
    with_fabric,
    write_config,
)
from ansible_collections.composable.infra.tests.e2e.support.modules import Json, play
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, PATIENCE, wait_for

STAGE: dict[str, t.Any] = {"nodes": 1, "devices": {A100: 1}}
Change = t.Callable[[Json], None]
CLOSED_PORT = "https://127.0.0.1:9"


def _edit(change: Change) -> t.Callable[[Stage], t.Any]:
    def make(stage: Stage) -> t.Any:
        config = copy.deepcopy(stage.config())
        change(config)
        return config

    return make


def _set(*path: str | int, value: t.Any) -> t.Callable[[Stage], t.Any]:
    def change(config: t.Any) -> None:
        for key in path[:-1]:
            config = config[key]
        config[path[-1]] = value

    return _edit(change)


def _drop(*path: str) -> t.Callable[[Stage], t.Any]:
    def change(config: t.Any) -> None:
        for key in path[:-1]:
            config = config[key]
        del config[path[-1]]

    return _edit(change)


def _without_model_name(stage: Stage) -> t.Any:
    config = copy.deepcopy(stage.config())
    del config["device_info"][0]["cdi-model-name"]
    return config


# name -> (configuration, what the one sentence must name)
CONFIGS: dict[str, tuple[t.Callable[[Stage], t.Any], tuple[str, ...]]] = {
    "not-yaml": (lambda stage: "fabric: [unclosed\nx: y: z", ("is not valid YAML", "line")),
    "not-a-mapping": (lambda stage: "- just\n- a list\n", ("must be a mapping",)),
    "empty": (lambda stage: "", ("must be a mapping",)),
    "no-device-info": (_drop("device_info"), ("device_info",)),
    "no-model-name": (_without_model_name, ("device_info[0]", "cdi-model-name")),
    "no-fabric": (_drop("fabric"), ("fabric", "connection to the CDI Manager")),
    "no-endpoint": (_drop("fabric", "endpoint"), ("endpoint", "required")),
    "no-password": (_drop("fabric", "password"), ("password", "required")),
    "unknown-key": (_set("scan_intervall", value=5), ("scan_intervall", "unknown key")),
    "unknown-fabric-key": (_set("fabric", "endpont", value="x"), ("endpont", "endpoint")),
    "unknown-manager": (_set("fabric", "manager", value="xyz"), ("manager", "xyz", "fm")),
    "scan-interval": (_set("scan_interval", value="soon"), ("scan_interval", "soon", "number")),
    "http": (_set("fabric", "endpoint", value="http://127.0.0.1:1"), ("endpoint", "https")),
    "tenant": (_set("fabric", "tenant", value="mine"), ("tenant", "mine", "UUID")),
    "ca": (_set("fabric", "ca_path", value="/nowhere/ca.pem"), ("ca_path", "/nowhere/ca.pem")),
    "credentials-dir": (_set("fabric", "credentials_dir", value="/nowhere"), ("credentials_dir", "/nowhere")),
}


@pytest.fixture(scope="module")
def refused(stage: Stage) -> dict[str, Ended]:
    """What a controller said about each of CONFIGS; a few run at the same time."""
    processes = {name: begin(stage, f"bad-{name}", config=write_config(stage, name, make(stage)))
                 for name, (make, _unused) in CONFIGS.items()}
    try:
        return {name: _result(process) for name, process in processes.items()}
    finally:
        OPENED.stop_all(but=[p for p in OPENED.processes if p not in processes.values()])


def _result(process: front_doors.Process) -> Ended:
    return Ended(process.process.wait(PATIENCE), process.text())


@pytest.mark.parametrize("name", CONFIGS)
def test_unusable_configuration_is_one_sentence_and_status_2(refused: dict[str, Ended], name: str) -> None:
    ended, words = refused[name], CONFIGS[name][1]
    assert ended.status == 2, ended.text
    line, = ended.text.splitlines()
    assert " ERROR " in line
    assert [word for word in (f"{name}.yml", *words) if word not in line] == [], line


def test_files_that_are_not_there(stage: Stage) -> None:
    ended = [launch(stage, config=Path("/nowhere/config.yml")), launch(stage, kubeconfig=Path("/nowhere/kubeconfig"))]
    assert [e.status for e in ended] == [2, 2]
    assert "/nowhere/config.yml: cannot be read: No such file" in ended[0].errors[0]
    assert "/nowhere/kubeconfig" in ended[1].errors[0]
    assert [len(e.text.splitlines()) for e in ended] == [1, 1]


def test_kubeconfig_with_wrong_certificate_authority_and_token(stage: Stage) -> None:
    config = yaml.safe_load(stage.kubeconfig.read_text())
    other = Path(stage.emulator.ca_path)
    no_user, no_trust = copy.deepcopy(config), copy.deepcopy(config)
    no_user["users"][0]["user"]["token"] = "no-such-token"
    no_trust["clusters"][0]["cluster"].pop("certificate-authority-data", None)
    no_trust["clusters"][0]["cluster"]["certificate-authority"] = str(other)
    user = launch(stage, kubeconfig=write_config(stage, "no-user", no_user), until="refuses")
    trust = launch(stage, kubeconfig=write_config(stage, "no-trust", no_trust), until="certificate")
    assert f"{stage.lab.server} refuses the credentials" in user.text
    assert "no-such-token" not in user.text
    assert stage.lab.server.removeprefix("https://") in trust.text
    assert "certificate" in trust.text
    assert "Traceback" not in user.text + trust.text


def wrong_fabrics(stage: Stage) -> dict[str, tuple[Json, tuple[str, ...]]]:
    """Options of the CDI Manager that only it can refuse, and what must be said."""
    return {
        "wrong-url": ({"endpoint": CLOSED_PORT}, (CLOSED_PORT, "refused")),
        "wrong-host": ({"endpoint": "https://fabric.invalid"}, ("https://fabric.invalid",)),
        "wrong-ca": ({"ca_path": str(stage.lab.ca)}, (stage.emulator.url, "certificate")),
        "wrong-password": ({"password": "not-the-password"}, ("'composer'", "Invalid user credentials", "password")),
        "wrong-client": ({"client_secret": "not-the-secret"}, ("composable-infra", "client_secret")),
        "wrong-realm": ({"realm": "elsewhere"}, ("'elsewhere'", "Realm does not exist")),
        "unknown-tenant": ({"tenant": machine_uuid("nobody")}, (machine_uuid("nobody"), "not found")),
    }


def warning(text: str) -> str:
    """The first warning of a log that is not about a slow machine."""
    return next((line for line in text.splitlines() if " WARNING " in line and "SlowReconcile" not in line), "")


@pytest.mark.parametrize("name", ["wrong-url", "wrong-ca", "wrong-password", "unknown-tenant"])
def test_controller_names_what_the_manager_refuses_and_goes_on(stage: Stage, name: str) -> None:
    changes, words = wrong_fabrics(stage)[name]
    process = begin(stage, f"refused-{name}", config=write_config(stage, name, with_fabric(stage, **changes)))
    line = wait_for("it says so", lambda: warning(process.text()))
    assert [word for word in words if word not in line] == [], line
    assert process.process.poll() is None
    assert OPENED.stop(process) == 0, process.text()[-3000:]
    assert "Traceback" not in process.text()
    assert "not-the-password" not in process.text()


def test_modules_name_what_is_wrong(stage: Stage) -> None:
    wrong = wrong_fabrics(stage)
    base = stage.emulator.fabric_config()
    tasks: list[Json] = [{"composable.infra.fabric_info": {**base, **changes}} for changes, _unused in wrong.values()]
    machine = machine_uuid("nobody")
    tasks += [
        {"composable.infra.fabric_device": {**base, "machine": machine, "model": A100}},
        {"composable.infra.fabric_device": {**base, "machine": machine_uuid("node-0"), "model": "NO-SUCH-MODEL"}},
        {"composable.infra.fabric_device": {**base, "machine": machine_uuid("node-0"), "model": A100, "count": 0}},
        {"composable.infra.scale": {"config_path": "/nowhere/config.yml"}},
        {"composable.infra.scale": {"config": with_fabric(stage, endpoint=CLOSED_PORT), "ready_timeout": 1}},
        {"composable.infra.claim_info": {"kubeconfig": "/nowhere/kubeconfig"}},
    ]
    expected = [*(words for _unused, words in wrong.values()), (machine,), ("NO-SUCH-MODEL", "insufficient"),
                ("count", "0"), ("/nowhere/config.yml",), (CLOSED_PORT,), ("/nowhere/kubeconfig",)]
    played = play(stage, tasks)
    for result, words in zip(played.results, expected, strict=True):
        assert result["failed"], result
        assert [word for word in words if word not in result["msg"]] == [], result["msg"]
        assert "\n" not in result["msg"]
    assert "Traceback" not in played.output


def test_rulebook_names_a_kubeconfig_that_is_not_there(stage: Stage) -> None:
    shipped = stage.kubeconfig
    stage.kubeconfig = Path("/nowhere/kubeconfig")
    try:
        process = OPENED.add(front_doors.rulebook(stage))
    finally:
        stage.kubeconfig = shipped
    process.wait_for("'/nowhere/kubeconfig: cannot be read: No such file or directory'", PATIENCE)
    OPENED.stop(process)
    assert "Traceback" not in process.text()


def test_missing_crd_is_named_and_work_begins_once_it_is_there(stage: Stage) -> None:
    name = "composableresources.cro.hpsys.ibm.ie.com"
    crd = stage.client.get(CRDS, name)
    stage.client.delete(CRDS, name)
    wait_for("it is gone", lambda: not _exists(stage, name))
    ended = launch(stage)
    stage.client.create(CRDS, {**crd, "metadata": {"name": name, "annotations": crd["metadata"].get("annotations")}})
    assert ended.status == 2
    assert len(ended.text.splitlines()) == 1
    assert "does not serve composableresources (cro.hpsys.ibm.ie.com/v1alpha1). Apply deploy/crds" in ended.errors[0]
    assert launch(stage, until="leading as").status is None


def _exists(stage: Stage, name: str) -> bool:
    return name in {item["metadata"]["name"] for item in stage.client.list(CRDS).items}
