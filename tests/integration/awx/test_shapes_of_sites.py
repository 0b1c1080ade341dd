# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sites add to the role awx: credentials, labels, templates of their own, a file of data, the gateway."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.controller.autoscaler.providers import awx as awx_provider
from ansible_collections.composable.infra.controller.autoscaler.providers import static
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, well
from ansible_collections.composable.infra.tests.integration.awx.conftest import OPTIONS, SECRETS, Run, named, running
from ansible_collections.composable.infra.tests.integration.awx.role_support import (
    SURVEY,
)
from ansible_collections.composable.infra.tests.integration.awx.shapes import REFERENCES
from ansible_collections.composable.infra.tests.integration.awx.stub import BROUGHT, Awx
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

CREDENTIALS: Json = {
    "awx_machine_inputs": {"username": "admin", "ssh_key_data": "-----BEGIN KEY-----", "become_method": "sudo"},
    "awx_project_inputs": {"username": "git", "password": "of-the-repository"},
    "awx_registry_inputs": {"host": "registry.example.com", "username": "pull", "password": "of-the-registry",
                            "verify_ssl": True}}
HIDDEN = (*SECRETS.values(), "BEGIN KEY", "of-the-repository", "of-the-registry")
SITE: Json = {
    **CREDENTIALS, "awx_labels": ["gpu", "production"],
    "awx_node_playbook": "playbooks/upgrade.yml",
    "awx_template_changes": {
        "Composable attach": {"forks": 2, "extra_vars": {"composable_node_hosts": "gpu_nodes"}, "labels": ["gpu"]},
        "Composable scale pass": {"webhook_service": "github"},
        "Site images": {"playbook": "playbooks/images.yml", "description": "Which images the site mirrors"}},
    "awx_schedule_changes": {
        "Composable report": {"enabled": False},
        "Site images": {"unified_job_template": "Site images",
                        "rrule": "DTSTART:20260101T000000Z RRULE:FREQ=WEEKLY;INTERVAL=1"}}}
# the stub's kinds by the name of the list in the file
KINDS = {"aap_organizations": "organizations", "aap_teams": "teams", "controller_labels": "labels",
         "controller_credential_types": "credential_types", "controller_credentials": "credentials",
         "controller_execution_environments": "execution_environments", "controller_projects": "projects",
         "controller_inventories": "inventories", "controller_inventory_sources": "inventory_sources",
         "controller_notifications": "notification_templates", "controller_templates": "job_templates",
         "controller_workflows": "workflow_job_templates", "controller_schedules": "schedules"}
# only to find what is meant: these belong to an inventory or a template
LOOKED_UP = {"controller_inventory_sources": {"organization"}, "controller_schedules": {"organization"}}
# fields that are no part of the stored object: associations, or what a module does
BESIDE = {"credentials", "labels", "notification_templates_error", "notification_templates_approvals", "survey_spec",
          "workflow_nodes", "wait", "update_secrets"}


@pytest.fixture(scope="module")
def made(run: Run) -> Played:
    """The role has run with all that a site adds."""
    return well(run(**SITE))


@pytest.fixture(scope="module")
def data(run: Run, awx: Awx, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The variables of the file that the role writes with the same options; no AWX is asked."""
    path = tmp_path_factory.mktemp("data") / "aap.yml"
    before = len(awx.writes)
    well(run(awx_data_path=str(path), **SITE))
    text = path.read_text(encoding="utf-8")
    assert [word for word in HIDDEN if word in text] == []
    assert len(awx.writes) == before
    found: Json = yaml.safe_load(text)
    return found


def linked(awx: Awx, kind: str, number: int, field: str) -> list[int]:
    """Numbers of what is associated with an object."""
    return awx.linked.get(f"/api/v2/{kind}/{number}/{field}/", [])


class TestCredentials:
    def test_project_and_image_have_theirs(self, awx: Awx, made: Played) -> None:
        names = {number: item["name"] for number, item in awx.items["credentials"].items()}
        (project,) = awx.items["projects"].values()
        (image,) = awx.items["execution_environments"].values()
        assert (names[project["credential"]], names[image["credential"]]) == (
            "Repository of the playbooks", "Registry of the image")
        assert [word for word in HIDDEN if word in made.output] == []

    def test_jobs_that_work_on_hosts_can_log_in(self, awx: Awx, made: Played) -> None:
        """With AWX's own credential type Machine; the other jobs cannot reach the hosts."""
        machine = named(awx, "credentials")["Hosts of the nodes"]["id"]
        carriers = {name for name, item in named(awx, "job_templates").items()
                    if machine in linked(awx, "job_templates", item["id"], "credentials")}
        assert carriers == {f"Composable {name}" for name in
                            ("attach", "scale pass", "detach", "bootstrap", "verify", "uninstall", "nodes")}


class TestChanges:
    def test_templates_are_changed_and_the_rest_stays(self, awx: Awx, made: Played) -> None:
        attach = named(awx, "job_templates")["Composable attach"]
        assert attach["forks"] == 2
        assert json.loads(attach["extra_vars"]) == {
            "composable_config": OPTIONS["awx_config"], "composable_node_hosts": "gpu_nodes"}
        assert named(awx, "job_templates")["Composable scale pass"]["webhook_service"] == "github"
        assert awx.surveys[attach["id"]]["spec"][0]["variable"] == "composable_timeout"

    def test_a_template_of_the_site_is_like_the_others(self, awx: Awx, made: Played) -> None:
        own = named(awx, "job_templates")["Site images"]
        assert own["playbook"] == "playbooks/images.yml"
        assert own["id"] in {item["object_id"] for item in awx.items["role_team_assignments"].values()}
        assert named(awx, "schedules")["Site images"]["unified_job_template"] == own["id"]
        assert not named(awx, "schedules")["Composable report"]["enabled"]

    def test_playbook_for_nodes_has_a_template_that_takes_what_the_provider_gives(self, awx: Awx, made: Played) -> None:
        nodes = named(awx, "job_templates")["Composable nodes"]
        assert (nodes["playbook"], nodes["allow_simultaneous"]) == ("playbooks/upgrade.yml", False)
        survey = awx.surveys[nodes["id"]]
        jsonschema.validate(survey, SURVEY)
        questions = {question["variable"]: question for question in survey["spec"]}
        assert {name for name, each in questions.items() if each["required"]} == {"node_action", "node_group"}
        assert questions["node_action"]["choices"] == [awx_provider.ADD, awx_provider.REMOVE, static.JOIN]
        assert set(questions) == {"node_action", "node_group", "node_count", "node_name"}

    def test_labels(self, awx: Awx, made: Played) -> None:
        labels = {number: item["name"] for number, item in awx.items["labels"].items()}
        found = {name: {labels[n] for n in linked(awx, "job_templates", item["id"], "labels")}
                 for name, item in named(awx, "job_templates").items()}
        assert found.pop("Composable attach") == {"gpu"}
        assert set(map(frozenset, found.values())) == {frozenset({"gpu", "production"})}


class TestData:
    """The file for infra.aap_configuration says what the role has made."""

    def test_the_same_objects(self, awx: Awx, made: Played, data: Json) -> None:
        brought = {kind["name"] for kind in BROUGHT}
        assert set(data) == {*KINDS, "controller_roles"}
        for name, kind in KINDS.items():
            assert {item["name"] for item in data[name]} == set(named(awx, kind)) - brought, name

    @pytest.mark.parametrize("name", [name for name in KINDS if name not in ("controller_credentials",)])
    def test_the_same_fields(self, name: str, awx: Awx, made: Played, data: Json) -> None:
        stored = named(awx, KINDS[name])
        for item in data[name]:
            beside = BESIDE | LOOKED_UP.get(name, set())
            told = {field: value for field, value in item.items() if field not in beside}
            have = {field: known_by_name(awx, field, stored[item["name"]].get(field)) for field in told}
            assert have == as_dispatch_reads(told), item["name"]

    def test_the_same_surveys_nodes_and_associations(self, awx: Awx, made: Played, data: Json) -> None:
        for name in ("controller_templates", "controller_workflows"):
            kind = KINDS[name]
            for item in data[name]:
                number = named(awx, kind)[item["name"]]["id"]
                assert awx.surveys.get(number, {}) == item["survey_spec"]
                for field, where in (("labels", "labels"), ("credentials", "credentials"),
                                     ("notification_templates_error", "notification_templates")):
                    names = {awx.items[where][n]["name"] for n in linked(awx, kind, number, field)}
                    assert names == set(item.get(field, ())), (item["name"], field)
                nodes = {node["identifier"] for node in awx.items["workflow_job_template_nodes"].values()
                         if node["workflow_job_template"] == number}
                assert nodes == {node["identifier"] for node in item.get("workflow_nodes", ())}

    def test_the_same_rights(self, awx: Awx, made: Played, data: Json) -> None:
        (right,) = [each for each in data["controller_roles"] if each["role"] == "execute"]
        numbers = {item["object_id"] for item in awx.items["role_team_assignments"].values()}
        for field, kind in (("job_templates", "job_templates"), ("workflows", "workflow_job_templates")):
            assert set(right[field]) == {item["name"] for n, item in awx.items[kind].items() if n in numbers}

    def test_secrets_are_in_the_variables_that_are_named(self, data: Json) -> None:
        for item in (*data["controller_credentials"], *data["controller_notifications"]):
            text = json.dumps(item.get("inputs", item.get("notification_configuration")))
            assert set(re.findall(r"{{ (\w+) }}", text)) <= set(OPTIONS) | set(CREDENTIALS)
            assert "{{ awx_" in text


def known_by_name(awx: Awx, field: str, value: t.Any) -> object:
    """A reference as its name, as the modules take it; text that the API keeps for a mapping as the mapping."""
    if field == "extra_vars":
        return json.loads(str(value))
    found = [items[value]["name"] for items in awx.items.values() if field in REFERENCES and value in items]
    return found[0] if found else value


def as_dispatch_reads(told: Json) -> Json:
    """Its role for credential types takes two spaces between braces for a template of AWX; variables are filled in."""
    text = json.dumps(told).replace("{  {", "{{")
    filled: Json = json.loads(text.replace('"{{ awx_notification_configuration }}"',
                                           json.dumps(OPTIONS["awx_notification_configuration"])))
    return filled


def test_a_second_run_changes_nothing_and_absent_takes_all(awx: Awx, run: Run, made: Played) -> None:
    assert well(run(**SITE)).changed == []
    well(run(awx_state="absent", awx_remove_organization=True, **SITE))
    # AWX itself removes a label that nothing has, and what stands for an approval
    left = {kind for kind, items in awx.items.items() if items}
    assert left == {"credential_types", "role_definitions", "labels", "workflow_approval_templates"}
    assert list(named(awx, "credential_types")) == [kind["name"] for kind in BROUGHT]


class TestGateway:
    def test_nothing_is_asked_that_the_platform_does_not_serve(self, tmp_path: Path) -> None:
        awx = Awx(ROOT, gateway=True)
        with running(awx, tmp_path) as run:
            refused = run()
            assert "only the gateway can create it" in "".join(refused.failures)
            assert awx.writes == []
            organization = awx.create("organizations", {"name": "Composable infrastructure"})
            awx.create("teams", {"name": "GPU operators", "organization": organization["id"]})
            well(run())
            assert len(awx.items["role_team_assignments"]) == 10
            well(run(awx_state="absent", awx_remove_organization=True))
        assert [path for _method, path in awx.writes if "/roles/" in path or "/teams/" in path] == []
        assert (len(awx.items["job_templates"]), len(awx.items["organizations"]), len(awx.items["teams"])) == (0, 1, 1)
