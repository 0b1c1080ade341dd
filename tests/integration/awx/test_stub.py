# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stub of AWX refuses what AWX refuses: paths, methods, names that are taken, fields, associations (rules.py)."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN, Refused
from ansible_collections.composable.infra.tests.integration.awx.stub import API, Awx, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT


@dataclass(frozen=True)
class Site:
    """An AWX with one object of some kinds, by their numbers."""

    awx: Awx
    numbers: dict[str, int]

    def refusal(self, method: str, path: str, body: Json) -> tuple[int, list[str]]:
        """Return status and fields of the refusal. Numbers stand in the path and in the body as names in braces."""
        filled = {field: self.numbers[value[1:-1]] if isinstance(value, str) and value[1:-1] in self.numbers else value
                  for field, value in body.items()}
        with pytest.raises(Refused) as refused:
            self.awx.answer(method, API + path.format(**self.numbers), {}, filled)
        return refused.value.status, list(refused.value.body)


@pytest.fixture(scope="module")
def site() -> Site:
    """Everything was asked for and allowed, so what the tests ask beside it is what is refused."""
    awx = Awx(ROOT)
    numbers: dict[str, int] = {}

    def add(key: str, kind: str, body: Json) -> None:
        status, made = awx.answer("POST", f"{API}{kind}/", {}, body)
        assert status == 201
        numbers[key] = made["id"]

    add("org", "organizations", {"name": "o"})
    add("team", "teams", {"name": "t", "organization": numbers["org"]})
    add("label", "labels", {"name": "l", "organization": numbers["org"]})
    add("project", "projects", {"name": "p", "organization": numbers["org"]})
    add("inventory", "inventories", {"name": "i", "organization": numbers["org"]})
    add("type", "credential_types", {"name": "c", "kind": "cloud"})
    add("job", "job_templates", {"name": "j", "organization": numbers["org"], "project": numbers["project"],
                                 "playbook": "playbooks/plan.yml"})
    add("flow", "workflow_job_templates", {"name": "w", "organization": numbers["org"]})
    add("node", "workflow_job_template_nodes", {"identifier": "n", "workflow_job_template": numbers["flow"]})
    numbers["role"] = numbers["job"] * 100
    numbers["ran"] = awx.answer("POST", f"{API}job_templates/{numbers['job']}/launch/", {}, {})[1]["id"]
    return Site(awx, numbers)


@pytest.mark.parametrize("path", [
    "nonsense/", "nonsense/5/", "config/x/y/", "config/5/", "unified_jobs/1/", "jobs/nonsense/",
    "jobs/{ran}/nonsense/", "roles/{role}/nonsense/", "roles/{role}/teams/1/", "organizations/99/nonsense/",
    "organizations/{org}/nonsense/", "organizations/abc/", "teams/{team}/labels/", "workflow_approval_templates/",
    "job_templates/{job}/success_nodes/", "workflow_job_template_nodes/{node}/survey_spec/",
    "job_templates/{job}/credentials/1/", "labels/{label}/copies/", "inventories/{inventory}/launch/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_stub_refuses_paths_that_awx_lacks(site: Site, method: str, path: str) -> None:
    assert site.refusal(method, path, {"name": "x", "id": 1}) == (404, ["detail"])


@pytest.mark.parametrize("path", ["jobs/99/", "roles/5/", "organizations/99/", "workflow_approval_templates/99/"])
def test_the_stub_has_no_objects_that_were_not_made(site: Site, path: str) -> None:
    assert site.refusal("GET", path, {}) == (404, ["detail"])


@pytest.mark.parametrize(("method", "path"), [
    ("PUT", "organizations/"), ("DELETE", "organizations/"), ("PATCH", "job_templates/"), ("POST", "config/"),
    ("POST", "jobs/"), ("POST", "unified_jobs/"), ("POST", "unified_job_templates/"), ("POST", "roles/"),
    ("POST", "organizations/{org}/"), ("PATCH", "jobs/{ran}/"), ("DELETE", "labels/{label}/"),
    ("DELETE", "roles/{role}/"), ("DELETE", "job_templates/{job}/labels/"), ("PUT", "job_templates/{job}/survey_spec/"),
    ("PATCH", "job_templates/{job}/launch/"), ("POST", "jobs/99/"), ("POST", "organizations/99/"),
    ("DELETE", "workflow_job_template_nodes/{node}/create_approval_template/")])
def test_the_stub_refuses_methods_that_the_view_lacks(site: Site, method: str, path: str) -> None:
    assert site.refusal(method, path, {}) == (405, ["detail"])


@pytest.mark.parametrize(("kind", "body", "field"), [
    ("organizations", {"name": "o"}, "name"),
    ("teams", {"name": "t", "organization": "{org}"}, "__all__"),
    ("labels", {"name": "l", "organization": "{org}"}, "__all__"),
    ("projects", {"name": "p", "organization": "{org}"}, "__all__"),
    ("inventories", {"name": "i", "organization": "{org}"}, "__all__"),
    ("credential_types", {"name": "c", "kind": "cloud"}, "__all__"),
    ("job_templates", {"name": "j", "organization": "{org}", "project": "{project}", "playbook": "playbooks/plan.yml"},
     "__all__"),
    ("workflow_job_templates", {"name": "w", "organization": "{org}"}, "__all__"),
    ("workflow_job_template_nodes", {"identifier": "n", "workflow_job_template": "{flow}"}, "__all__")])
def test_the_stub_refuses_a_name_that_is_taken(site: Site, kind: str, body: Json, field: str) -> None:
    assert site.refusal("POST", f"{kind}/", body) == (400, [field])


@pytest.mark.parametrize(("kind", "body", "fields"), [
    ("organizations", {}, ["name"]), ("organizations", {"name": ""}, ["name"]),
    ("teams", {"name": "x"}, ["organization"]),
    ("labels", {"name": "x"}, ["organization"]), ("projects", {"scm_type": "git"}, ["name"]),
    ("inventories", {"name": "x"}, ["organization"]), ("credential_types", {"name": "x"}, ["kind"]),
    ("credentials", {"name": "x", "credential_type": "{type}"}, ["detail"]),
    ("credentials", {"name": "x", "organization": "{org}"}, ["credential_type"]),
    ("execution_environments", {"name": "x"}, ["image"]),
    ("inventory_sources", {"name": "x", "source": "scm"}, ["inventory", "source_project"]),
    ("notification_templates", {"name": "x", "organization": "{org}"}, ["notification_type"]),
    ("job_templates", {"name": "x"}, ["project", "playbook"]), ("workflow_job_templates", {}, ["name"]),
    ("workflow_job_template_nodes", {"identifier": "x"}, ["workflow_job_template"]),
    ("schedules", {"name": "x", "unified_job_template": "{job}"}, ["rrule"]),
    ("role_team_assignments", {"team": "{team}"}, ["role_definition", "object_id"]),
    ("workflow_job_template_nodes/{node}/create_approval_template", {"timeout": 5}, ["name"])])
def test_the_stub_refuses_what_lacks_a_field(site: Site, kind: str, body: Json, fields: list[str]) -> None:
    assert site.refusal("POST", f"{kind}/", body) == (400, fields)


@pytest.mark.parametrize(("kind", "body", "field"), [
    ("job_templates", {"playbook": "playbooks/no_such.yml"}, "playbook"),
    ("job_templates", {"invented": 1}, "invented"),
    ("job_templates", {"inventory": 4711}, "inventory"), ("job_templates", {"job_type": "guess"}, "job_type"),
    ("notification_templates", {"organization": "{org}", "notification_type": "pigeon"}, "notification_type"),
    ("projects", {"name": 7}, "name")])
def test_the_stub_refuses_values(site: Site, kind: str, body: Json, field: str) -> None:
    needed: Json = {"project": "{project}", "playbook": "playbooks/plan.yml"} if kind == "job_templates" else {}
    assert site.refusal("POST", f"{kind}/", {"name": "x", **needed, **body}) == (400, [field])


@pytest.mark.parametrize("path", [
    "job_templates/{job}/labels/", "job_templates/{job}/credentials/", "roles/{role}/teams/",
    "workflow_job_template_nodes/{node}/success_nodes/", "organizations/{org}/notification_templates_error/"])
@pytest.mark.parametrize("number", ["{inventory}", "{org}", 4711, "not a number", None])
@pytest.mark.parametrize("more", [{}, {"disassociate": True}], ids=["associate", "disassociate"])
def test_the_stub_refuses_to_associate_an_object_of_another_kind(
    site: Site, path: str, number: object, more: Json
) -> None:
    assert site.refusal("POST", path, {"id": number, **more})[0] == 400


def test_an_association_that_is_repeated_changes_nothing(site: Site) -> None:
    path = f"{API}job_templates/{site.numbers['job']}/labels/"
    for body, left in (({}, [site.numbers["label"]]), ({"disassociate": True}, [])):
        for _repeat in range(2):
            assert site.awx.answer("POST", path, {}, {"id": site.numbers["label"], **body})[0] == 204
            assert site.awx.answer("GET", path, {}, {})[1]["results"] == [{"id": number} for number in left]


def test_put_needs_every_field_and_stores_it(site: Site) -> None:
    path = f"{API}teams/{site.numbers['team']}/"
    assert site.refusal("PUT", f"teams/{site.numbers['team']}/", {"name": "t"}) == (400, ["organization"])
    body = {"name": "t", "organization": site.numbers["org"], "description": "stored"}
    assert site.awx.answer("PUT", path, {}, body)[1]["description"] == "stored"
    assert site.awx.answer("GET", path, {}, {})[1]["description"] == "stored"


@pytest.mark.parametrize("kind", ["jobs", "unified_jobs"])
def test_jobs_are_those_of_the_organization(site: Site, kind: str) -> None:
    counts = {number: site.awx.answer("GET", f"{API}{kind}/", {"organization": str(number)}, {})[1]["count"]
              for number in (site.numbers["org"], 4711)}
    assert counts == {site.numbers["org"]: 1, 4711: 0}


@pytest.mark.parametrize(("method", "path", "status"), [
    ("PUT", "organizations/", 405), ("GET", "nonsense/", 404), ("POST", "workflow_approval_templates/", 404)])
def test_the_stub_answers_over_http(site: Site, method: str, path: str, status: int) -> None:
    server = serve(site.awx)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{server.server_address[1]}{API}{path}", b"{}",
                                         {"Authorization": f"Bearer {TOKEN}"}, method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert (refused.value.code, list(json.loads(refused.value.read()))) == (status, ["detail"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
