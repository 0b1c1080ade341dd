# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role that sets AWX up, against a stub of its API: what it makes there, and which input it refuses.

That a second run changes nothing and that everything is taken away again is what extensions/molecule/awx holds it to,
with the same stub.
"""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.cluster_module import CLUSTER_OPTIONS
from ansible_collections.composable.infra.plugins.module_utils.fabric_module import FABRIC_OPTIONS
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, well
from ansible_collections.composable.infra.tests.integration.awx.conftest import SECRETS, Run, named
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import Refused
from ansible_collections.composable.infra.tests.integration.awx.role_support import (
    ON_HOSTS,
    SURVEY,
    sources_before,
)
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.roles.playbook_inputs import known_variables

# what is text on the form and a path for the modules
FILES = {"certificate": "ca_path", "client_certificate": "client_cert_path", "client_key": "client_key_path"}


@pytest.fixture(scope="module")
def made(awx: Awx, run: Run) -> Played:
    """The role has run, in check mode before."""
    check = well(run("--check"))
    assert check.changed
    assert awx.writes == []
    return well(run())


def test_secrets_are_those_that_the_role_refuses_in_a_configuration() -> None:
    """Another secret option of the managers needs a place in the role's list."""
    tasks = yaml.safe_load((ROOT / "roles/awx/tasks/main.yml").read_text(encoding="utf-8"))
    (refusal,) = [task["vars"]["awx_secret_keys"] for task in tasks if "awx_secret_keys" in task.get("vars", {})]
    secret = {name for name, option in FABRIC_OPTIONS.items() if option.get("no_log")}
    assert secret <= {name for name in (*secret, "client_key") if f"'{name}'" in refusal}


def test_everything_is_there(awx: Awx, made: Played) -> None:
    counts = {kind: len(items) for kind, items in awx.items.items()}
    assert counts == {"organizations": 1, "teams": 1, "credential_types": 5, "credentials": 2, "projects": 1,
                      "execution_environments": 1, "inventories": 3, "inventory_sources": 2,
                      "notification_templates": 1, "job_templates": 10, "workflow_job_templates": 3,
                      "workflow_job_template_nodes": 6, "workflow_approval_templates": 3, "schedules": 2,
                      "labels": 0, "role_definitions": 4, "role_team_assignments": 10}


def test_injected_names_are_the_options_of_the_modules(awx: Awx, made: Played) -> None:
    types = named(awx, "credential_types")
    known = {f"COMPOSABLE_{name.upper()}" for name in FABRIC_OPTIONS}
    injected = types["CDI Manager"]["injectors"]["env"]
    assert set(injected) <= known
    inputs = {field["id"] for field in types["CDI Manager"]["inputs"]["fields"]}
    assert {f"COMPOSABLE_{FILES.get(name, name).upper()}" for name in inputs} == set(injected)
    # a folder or a file of the control node is nothing that a job could read
    assert set(FABRIC_OPTIONS) - {FILES.get(name, name) for name in inputs} == {"credentials_dir"}
    cluster = types["Kubeconfig"]["injectors"]["env"]
    (_kind, names) = CLUSTER_OPTIONS["kubeconfig"]["fallback"]
    assert set(cluster) == set(names)


def test_what_the_modules_hide_is_a_secret_here(awx: Awx, made: Played) -> None:
    fields = named(awx, "credential_types")["CDI Manager"]["inputs"]["fields"]
    secret = {field["id"] for field in fields if field.get("secret")}
    assert secret == {name for name, option in FABRIC_OPTIONS.items() if option.get("no_log")} | {"client_key"}
    assert not [text for text in SECRETS.values() if text in made.output]


def test_every_choice_is_one_of_the_modules(awx: Awx, made: Played) -> None:
    for field in named(awx, "credential_types")["CDI Manager"]["inputs"]["fields"]:
        if "choices" in field:
            allowed = FABRIC_OPTIONS[field["id"]].get("choices", ("true", "false"))
            assert set(field["choices"]) - {""} == set(allowed)


def test_every_survey_is_one_that_awx_takes(awx: Awx, made: Played) -> None:
    surveyed = [number for kind in ("job_templates", "workflow_job_templates") for number, item
                in awx.items[kind].items() if item["survey_enabled"]]
    assert len(surveyed) == 10
    for number in surveyed:
        jsonschema.validate(awx.surveys[number], SURVEY)
        variables = [question["variable"] for question in awx.surveys[number]["spec"]]
        assert len(set(variables)) == len(variables)


def test_only_jobs_that_need_hosts_wait_for_an_inventory(awx: Awx, made: Played) -> None:
    assert {name for name, sources in sources_before(awx).items() if sources} == ON_HOSTS
    assert {name: sources for name, sources in sources_before(awx).items() if "Machines of the fabric" in sources} == {}
    inventories = [source["inventory"] for source in awx.items["inventory_sources"].values()]
    assert len(set(inventories)) == len(inventories)


def test_a_caller_of_the_api_leaves_out_what_has_a_default(awx: Awx, made: Played) -> None:
    needed = {question["variable"] for survey in awx.surveys.values() for question in survey["spec"]
              if question["required"] and question["default"] != ""}
    assert needed == set()


@pytest.mark.parametrize(("template", "answers", "missing"), [
    ("Composable defragment proposal", {}, "composable_defragment_claim"),
    ("Composable defragment proposal", {"composable_defragment_claim": ""}, "composable_defragment_claim"),
    ("Composable detach", {}, "composable_detach_nodes"),
    ("Composable defragment", {"composable_defragment_claim": "training/large"}, "composable_defragment_proposal")])
def test_a_template_is_not_launched_without_the_answers_that_its_playbook_needs(
    awx: Awx, made: Played, template: str, answers: Json, missing: str
) -> None:
    url = named(awx, "job_templates")[template]["url"]
    with pytest.raises(Refused) as refused:
        awx.answer("POST", f"{url}launch/", {}, {"extra_vars": answers})
    assert refused.value.body == {"variables_needed_to_start": [f"'{missing}' value missing"]}


@pytest.mark.parametrize("damage", [{"type": "number"}, {"variable": "with space"}, {"question_name": ""},
                                    {"type": "multiplechoice", "choices": []}, {"surprise": 1}])
def test_the_survey_schema_refuses(awx: Awx, made: Played, damage: Json) -> None:
    survey = json.loads(json.dumps(next(iter(awx.surveys.values()))))
    survey["spec"][0].update(damage)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(survey, SURVEY)


def test_every_variable_of_a_job_template_is_read_by_its_playbook(awx: Awx, made: Played) -> None:
    for number, template in awx.items["job_templates"].items():
        asked = [question["variable"] for question in awx.surveys.get(number, {}).get("spec", ())]
        given = set(json.loads(template["extra_vars"])) | set(asked)
        known = known_variables(ROOT / template["playbook"])
        assert given <= known, f"{template['name']}: {sorted(given - known)}"


def test_a_workflow_asks_what_its_job_asks_and_waits_for_approval(awx: Awx, made: Played) -> None:
    for workflow in awx.items["workflow_job_templates"].values():
        nodes = {node["identifier"]: node for node in awx.items["workflow_job_template_nodes"].values()
                 if node["workflow_job_template"] == workflow["id"]}
        work = nodes["work"]["unified_job_template"]
        assert awx.surveys[workflow["id"]]["spec"] == awx.surveys[work]["spec"]
        assert awx.linked[f"{nodes['approval']['url']}success_nodes/"] == [nodes["work"]["id"]]
        assert nodes["approval"]["unified_job_template"] in awx.items["workflow_approval_templates"]


def test_the_team_starts_dangerous_jobs_through_their_workflows_only(awx: Awx, made: Played) -> None:
    granted = {item["object_id"] for item in awx.items["role_team_assignments"].values()}
    names = {item["name"] for kind in ("job_templates", "workflow_job_templates")
             for number, item in awx.items[kind].items() if number in granted}
    dangerous = {"Composable detach", "Composable defragment", "Composable uninstall"}
    assert {"Composable attach", *(f"{name} with approval" for name in dangerous)} <= names
    assert not dangerous & names


def test_inventory_files_exist_and_name_our_plugins(awx: Awx, made: Played) -> None:
    for source in awx.items["inventory_sources"].values():
        plugin = yaml.safe_load((ROOT / source["source_path"]).read_text(encoding="utf-8"))["plugin"]
        assert (ROOT / "plugins" / "inventory" / f"{plugin.removeprefix('composable.infra.')}.py").is_file()


def test_a_schedule_must_answer_the_survey(awx: Awx, made: Played) -> None:
    detach = named(awx, "job_templates")["Composable detach"]["id"]
    body = {"name": "nightly", "unified_job_template": detach, "rrule": "DTSTART:20260101T000000Z RRULE:FREQ=DAILY"}
    with pytest.raises(Refused, match="composable_detach_nodes"):
        awx.answer("POST", "/api/v2/schedules/", {}, body)


@pytest.mark.parametrize(("variables", "words"), [
    ({"awx_execution_environment_image": ""}, "awx_execution_environment_image"),
    ({"awx_project_url": ""}, "awx_project_url"), ({"awx_project_scm_type": "manual"}, "awx_project_path"),
    ({"awx_template_changes": {"Composable atach": {"forks": 2}}},
     "awx_template_changes: Composable atach is not a template"),
    ({"awx_config": {"fabric": {"password": "of-the-config"}}}, "awx_config: fabric.password is not allowed"),
    ({"awx_fabric_inputs": {"endpoint": "https://manager.example.com", "username": "gpu", "password": "of-the-config"}},
     "awx_fabric_inputs: tenant is not set. It is required"),
    ({"awx_team_rights": "all"}, "awx_team_rights")])
def test_bad_input_is_named(run: Run, made: Played, variables: Json, words: str) -> None:
    refused = run(**variables)
    assert refused.status != 0
    assert words in "".join(refused.failures)
    assert "of-the-config" not in refused.output
