# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role eda against a stand-in of the EDA controller.

The modules are those of ansible.eda where that collection is installed, and otherwise the stand-ins of standin.py that
send the same requests (tools/setup/stand_ins.py).
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims as source
from ansible_collections.composable.infra.plugins.module_utils.cluster_module import CLUSTER_OPTIONS
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, role, well
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN, Refused
from ansible_collections.composable.infra.tests.integration.eda.stub import BROUGHT, Eda, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

OPTIONS: Json = {
    "eda_decision_environment_image": "registry.example.com/composable/decision:0.1.0",
    "eda_project_url": "https://git.example.com/composable.infra.git",
    "eda_cluster_inputs": {"host": "https://api.example.com", "api_key": "of-the-cluster", "ca_cert": "-----BEGIN"},
    "eda_controller_inputs": {"host": "https://platform.example.com", "oauth_token": "of-the-controller",
                              "verify_ssl": True},
    "eda_project_inputs": {"username": "git", "password": "of-the-repository"},
    "eda_registry_inputs": {"host": "registry.example.com", "username": "pull", "password": "of-the-registry"},
    "eda_variables": {"lease_namespace": "gpus", "release_after": 300}}
SECRETS = ("of-the-cluster", "of-the-controller", "of-the-repository", "of-the-registry")
ORGANIZATION = "Composable infrastructure"
Run = Callable[..., Played]


@pytest.fixture(scope="module")
def eda() -> Eda:
    """An EDA controller whose projects are clones of this checkout."""
    return Eda(ROOT, "Default", ORGANIZATION)


@contextmanager
def running(eda: Eda, folder: Path) -> Iterator[Run]:
    """``run("--check", eda_state="absent")``: the role against the stub."""
    server = serve(eda)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def start(*options: str, **variables: t.Any) -> Played:
        return play(folder, role("eda", **{**OPTIONS, **variables}), {}, *options, AAP_TOKEN=TOKEN,
                    AAP_HOSTNAME=f"http://127.0.0.1:{server.server_address[1]}")

    try:
        yield start
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def run(eda: Eda, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The role against the stub."""
    with running(eda, tmp_path_factory.mktemp("eda")) as start:
        yield start


@pytest.fixture(scope="module")
def made(eda: Eda, run: Run) -> Played:
    """The role has run. Check mode, a second run and removal are in the molecule scenario eda."""
    return well(run())


def named(eda: Eda, kind: str) -> dict[str, Json]:
    return {item["name"]: item for item in eda.items[kind].values()}


def test_everything_is_there(eda: Eda, made: Played) -> None:
    counts = {kind: len(items) for kind, items in eda.items.items()}
    assert counts == {"organizations": 2, "credential-types": len(BROUGHT) + 1, "eda-credentials": 4, "projects": 1,
                      "decision-environments": 1, "activations": 1, "rulebooks": 3}
    assert [word for word in SECRETS if word in made.output] == []


def test_the_activation_runs_our_rulebook_with_what_it_needs(eda: Eda, made: Played) -> None:
    (activation,) = eda.items["activations"].values()
    names = {number: item["name"] for number, item in eda.items["eda-credentials"].items()}
    assert eda.items["rulebooks"][activation["rulebook_id"]]["name"] == "claim_job.yml"
    assert {names[number] for number in activation["eda_credentials"]} == {
        "Cluster of the claims", "Controller of the jobs"}
    assert yaml.safe_load(activation["extra_var"]) == {"organization": ORGANIZATION, **OPTIONS["eda_variables"]}
    assert (activation["is_enabled"], activation["restart_policy"]) == (True, "always")
    (project,) = eda.items["projects"].values()
    (environment,) = eda.items["decision-environments"].values()
    assert (names[project["eda_credential_id"]], names[environment["eda_credential_id"]]) == (
        "Repository of the playbooks", "Registry of the image")


def test_what_the_credential_injects_is_what_the_source_reads(eda: Eda, made: Played) -> None:
    kind = named(eda, "credential-types")["Cluster of composable.infra"]
    read = {variable for option in CLUSTER_OPTIONS.values() for variable in option["fallback"][1]}
    assert set(kind["injectors"]["env"]) <= read
    secret = {field["id"] for field in kind["inputs"]["fields"] if field.get("secret")}
    assert secret == {"kubeconfig", "api_key"}


def test_variables_of_the_activation_are_those_of_the_rulebook(eda: Eda, made: Played) -> None:
    text = (ROOT / "extensions/eda/rulebooks/claim_job.yml").read_text(encoding="utf-8")
    for name in (*OPTIONS["eda_variables"], "organization"):
        assert f"{{{{ {name} | default(" in text
    assert set(OPTIONS["eda_variables"]) <= set(yaml.safe_load(source.DOCUMENTATION)["options"])


def test_one_that_runs_is_stopped_to_be_changed(eda: Eda, made: Played, run: Run) -> None:
    (activation,) = eda.items["activations"].values()
    before = len(eda.writes)
    others = {"eda_variables": {"lease_namespace": "others"}}
    assert "Create or change the activation" in " ".join(well(run("--check", **others)).changed)
    assert len(eda.writes) == before
    inputs = {**OPTIONS["eda_cluster_inputs"], "api_key": "another"}
    played = well(run(eda_update_secrets=True, eda_cluster_inputs=inputs, **others))
    assert "Create the credentials" in " ".join(played.changed), "secrets are written again when asked"
    assert named(eda, "eda-credentials")["Cluster of the claims"]["inputs"]["api_key"] == "another"
    number = activation["id"]
    assert eda.writes[-2:] == [("POST", f"activations/{number}/disable"), ("PATCH", f"activations/{number}")]
    assert yaml.safe_load(activation["extra_var"])["lease_namespace"] == "others"
    assert (activation["is_enabled"], activation["status"]) == (True, "running")


@pytest.mark.parametrize(("variables", "words"), [
    ({"eda_decision_environment_image": ""}, "eda_decision_environment_image"),
    ({"eda_project_url": ""}, "eda_project_url"),
    ({"eda_rulebook": "node_scale"}, "eda_variables.node_group"),
    ({"eda_rulebook": "claim_attach"}, "value of eda_rulebook must be one of: claim_job, node_scale"),
    ({"eda_project_url": "ftp://git.example.com/x"}, "Invalid source control URL"),
    ({"eda_controller_inputs": {}, "eda_controller_credential": "Nobody's"}, "The credential Nobody's does not exist")])
def test_bad_input_is_named(run: Run, made: Played, variables: Json, words: str) -> None:
    refused = run(**variables)
    assert refused.status != 0
    assert words in "".join(refused.failures)


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["run", "check"])
def test_an_organisation_that_does_not_exist_is_named_first(tmp_path: Path, options: tuple[str, ...]) -> None:
    eda = Eda(ROOT, "Default", f"{ORGANIZATION} of others")
    with running(eda, tmp_path) as run:
        refused = run(*options)
    assert refused.failures == [f"eda_organization: {ORGANIZATION} does not exist in the EDA controller. Create it "
                                "there (ansible.platform.organization), or name one that exists"]
    assert eda.writes == [], "nothing was created before"
    assert [word for word in (*SECRETS, TOKEN) if word in refused.output] == []


def test_without_an_address_in_the_environment_the_controller_refuses(tmp_path: Path) -> None:
    """The options of the login then come as `module_defaults`."""
    alone = Eda(ROOT, "Default")
    server = serve(alone)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        (book,) = role("eda", **OPTIONS)
        login = {"aap_hostname": f"http://127.0.0.1:{server.server_address[1]}", "aap_token": TOKEN}
        modules = ("credential_type", "credential_info", "credential", "decision_environment", "project")
        refused = play(tmp_path, [{**book, "module_defaults": {f"ansible.eda.{name}": login for name in modules}}], {})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert f"eda_organization: {ORGANIZATION} does not exist in the EDA controller" in "".join(refused.failures)


@pytest.mark.parametrize(("kind", "body", "words"), [
    ("credential-types", {"name": "n", "inputs": {"fields": [{"id": "a", "label": "A", "type": "number"}]}}, "type"),
    ("credential-types", {"name": "n", "injectors": {"env": {"A": "{{ nothing }}"}}}, "nothing"),
    ("eda-credentials", {"name": "n", "inputs": {"hosst": "x"}}, "hosst"),
    ("decision-environments", {"name": "n", "image_url": "no host"}, "malformed"),
    ("activations", {"name": "n", "eda_credentials": []}, "requires a RH AAP credential"),
    ("activations", {"name": "n", "extra_var": "- a list"}, "object format"),
    ("projects", {"name": "n", "url": "file:///tmp"}, "Invalid source control URL")])
def test_the_stub_refuses_what_the_controller_refuses(
    eda: Eda, made: Played, kind: str, body: Json, words: str
) -> None:
    first = {"organization_id": named(eda, "organizations")["Default"]["id"],
             "credential_type_id": named(eda, "credential-types")[BROUGHT[0]["name"]]["id"],
             "rulebook_id": named(eda, "rulebooks")["claim_job.yml"]["id"],
             "decision_environment_id": next(iter(eda.items["decision-environments"]))}
    with pytest.raises(Refused, match=words):
        eda.answer("POST", f"/api/eda/v1/{kind}/", {}, {**first, **body})


def test_one_that_is_switched_off(eda: Eda, made: Played, run: Run) -> None:
    well(run(eda_activation_enabled=False))
    (activation,) = eda.items["activations"].values()
    assert not activation["is_enabled"]
    well(run())
    assert activation["is_enabled"]


def test_an_activation_of_its_own_orders_nodes(eda: Eda, made: Played, run: Run) -> None:
    variables = {"node_group": "gpu", "node_selector": "pool=gpu"}
    well(run(eda_rulebook="node_scale", eda_activation="Order nodes", eda_variables=variables))
    activation = named(eda, "activations")["Order nodes"]
    assert eda.items["rulebooks"][activation["rulebook_id"]]["name"] == "node_scale.yml"
    assert yaml.safe_load(activation["extra_var"]) == {"organization": ORGANIZATION, **variables}
    assert len(eda.items["projects"]) == len(eda.items["decision-environments"]) == 1, "shared with the other"
    for _repeat in range(2):
        well(run(eda_state="absent"))
        assert list(named(eda, "activations")) == ["Order nodes"]
        assert len(eda.items["projects"]) == len(eda.items["decision-environments"]) == 1, "the other uses them"
    well(run(eda_state="absent", eda_activation="Order nodes"))
    assert (eda.items["activations"], eda.items["projects"], eda.items["eda-credentials"]) == ({}, {}, {})
