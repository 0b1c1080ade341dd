# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small AWX: stores what it is sent, refuses what AWX would refuse, hides secrets, keeps associations and roles.

It is a stand-in. As a controller behind the gateway of Automation Platform it makes no organisations and teams, as with
the setting ALLOW_LOCAL_RESOURCE_MANAGEMENT off (ansible/awx, awx/api/views/__init__.py), and no older API for roles.
"""

from __future__ import annotations

import threading
import typing as t
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path

from ansible_collections.composable.infra.tests.integration.awx import rest_stub, rules
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import Refused
from ansible_collections.composable.infra.tests.integration.awx.shapes import MODULES, REFERENCES, Json, shapes

ENCRYPTED, API, VERSION = "$encrypted$", "/api/v2/", "24.6.1"
BEHIND_GATEWAY = "/api/controller/v2/"
UNIFIED = ("job_templates", "workflow_job_templates", "projects", "workflow_approval_templates")
ROLES = ("admin_role", "read_role", "execute_role", "use_role", "approval_role", "member_role")
ASKED = ("ask_limit_on_launch", "ask_labels_on_launch", "ask_inventory_on_launch", "ask_variables_on_launch")
# the API answers an empty text where a module sends nothing
DEFAULTS: dict[str, Json] = {"inventories": {"kind": ""}}


def managed_type(name: str, kind: str, *fields: str, secret: tuple[str, ...] = ()) -> Json:
    """A credential type that AWX brings. Source: ansible/awx, awx/main/models/credential.py."""
    found = [{"id": field, "type": "boolean" if field == "verify_ssl" else "string",
              **({"secret": True} if field in secret else {})} for field in fields]
    return {"name": name, "kind": kind, "managed": True, "injectors": {}, "inputs": {"fields": found}}


BROUGHT = (
    managed_type("Machine", "ssh", "username", "password", "ssh_key_data", "ssh_key_unlock", "become_method",
                 "become_username", "become_password", secret=("password", "ssh_key_data", "ssh_key_unlock",
                                                               "become_password")),
    managed_type("Source Control", "scm", "username", "password", "ssh_key_data", "ssh_key_unlock",
                 secret=("password", "ssh_key_data", "ssh_key_unlock")),
    managed_type("Container Registry", "registry", "host", "username", "password", "verify_ssl", secret=("password",)))
# Source: ansible/awx, awx/main/migrations/_dab_rbac.py and awx/main/models/rbac.py.
DEFINITIONS = {"JobTemplate Execute": "job_templates", "JobTemplate Admin": "job_templates",
               "WorkflowJobTemplate Execute": "workflow_job_templates",
               "WorkflowJobTemplate Approve": "workflow_job_templates"}
# Source: ansible/awx, awx/main/constants.py, ACTIVE_STATES.
ACTIVE = ("new", "pending", "waiting", "running")


class Awx:
    """The state, and what was asked of it. `project`: the folder whose playbooks the project has; `gateway`: it is a
    controller behind the gateway of Automation Platform.
    """

    def __init__(self, project: Path, *, gateway: bool = False) -> None:
        self.project, self.shapes, self.gateway = project, shapes(), gateway
        self.api = BEHIND_GATEWAY if gateway else API
        self.items: dict[str, dict[int, Json]] = {
            name: {} for name in (*MODULES, "workflow_approval_templates", "role_definitions")}
        self.linked: dict[str, list[int]] = {}
        self.surveys: dict[int, Json] = {}
        self.writes: list[tuple[str, str]] = []
        self.jobs: list[Json] = []
        self._next, self.lock = 0, threading.Lock()
        for kind in BROUGHT:
            self.create("credential_types", kind)
        for name in DEFINITIONS:
            self.create("role_definitions", {"name": name, "managed": True})

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, t.Any]:
        """Status and body. Raises Refused."""
        if not path.startswith(self.api):
            raise rules.not_found()
        parts = path.removeprefix(self.api).strip("/").split("/")
        if method != "GET":
            self.writes.append((method, path))
        if self.gateway:
            refuse_behind_gateway(method, parts[0])
        if len(parts) == 1:
            rules.allow(method, rules.LISTS.get(parts[0]))
            return self._collection(method, parts[0], query, body)
        if not parts[1].isdecimal() or parts[0] not in rules.OBJECTS:
            raise rules.not_found()
        return self._within(method, path, parts, body)

    def _within(self, method: str, path: str, parts: list[str], body: Json) -> tuple[int, t.Any]:
        """An object, or what belongs to it."""
        kind, number = parts[0], int(parts[1])
        below = "/".join(parts[2:])
        if not below:
            rules.allow(method, rules.OBJECTS[kind])
        elif below in rules.ASSOCIATED.get(kind, {}):
            rules.allow(method, rules.LIST)
        else:
            rules.allow(method, rules.ACTIONS.get(kind, {}).get(below))
        item = self._item(kind, number)
        if not below:
            return self._one(method, kind, item, body)
        if below == "survey_spec":
            return self._survey(method, number, body)
        if below == "create_approval_template":
            return self._approval(method, item, body)
        if below == "launch":
            return (200, {}) if method == "GET" else self._launch(item, body)
        return self._association(method, path, rules.ASSOCIATED[kind][below], body)

    def _collection(self, method: str, name: str, query: dict[str, str], body: Json) -> tuple[int, t.Any]:
        if name == "config":
            return 200, {"version": VERSION}
        if name in ("unified_jobs", "jobs"):
            return 200, page([job for job in self.jobs if active(job, query)])
        if method == "GET":
            found = [self._shown(kind, item) for kind in (UNIFIED if name == "unified_job_templates" else (name,))
                     for item in self.items.get(kind, {}).values() if matches(item, query)]
            return 200, page(found)
        self._check(name, body, body)
        return 201, self._shown(name, self.create(name, body))

    def create(self, name: str, body: Json) -> Json:
        """Store an object, unasked."""
        self._next += 1
        plain = {k: v for k, v in body.items() if v is not None}
        item = {**DEFAULTS.get(name, {}), **plain, "id": self._next, "url": f"{self.api}{name}/{self._next}/"}
        item.setdefault("type", MODULES.get(name, name.removesuffix("s")))
        self.items[name][self._next] = item
        return item

    def _one(self, method: str, name: str, item: Json, body: Json) -> tuple[int, t.Any]:
        if method in ("PATCH", "PUT"):
            self._check(name, {**item, **body}, {**item, **body} if method == "PATCH" else body)
            item.update({k: v for k, v in body.items() if v is not None})
        if method == "DELETE" and name == "jobs":
            self.jobs.remove(item)
            return 204, None
        if method == "DELETE":
            self._refuse_in_use(name, item)
            self._delete(name, item["id"])
            return 204, None
        return 200, item if name in ("jobs", "roles") else self._shown(name, item)

    def _refuse_in_use(self, name: str, item: Json) -> None:
        """As AWX: awx/api/generics.py, RelatedJobsPreventDeleteMixin; awx/api/views, InventoryDetail."""
        used = [job for job in self.jobs if job["status"] in ACTIVE]
        if used and name in ("job_templates", "workflow_job_templates", "projects", "inventories"):
            raise Refused(409, {"error": "Resource is being used by running jobs.",
                                "active_jobs": [{"type": job["type"], "id": job["id"]} for job in used]})
        if item.get("pending_deletion"):
            raise Refused(400, {"error": "Inventory is already pending deletion."})

    def _delete(self, name: str, number: int) -> None:
        """With everything that cannot be without it, as AWX's database does."""
        del self.items[name][number]
        owners = {field for field, kind in REFERENCES.items()
                  if kind == name or (kind == "unified_job_templates" and name in UNIFIED)}
        cascading = {"schedules", "workflow_job_template_nodes", "inventory_sources", "teams", "role_team_assignments"}
        owners |= {"object_id"} if name in DEFINITIONS.values() else set()
        for kind in cascading:
            for other in [i for i in self.items[kind].values() if any(i.get(field) == number for field in owners)]:
                self._delete(kind, other["id"])

    def _check(self, name: str, body: Json, given: Json) -> None:
        """``body``: the object as it would be. ``given``: where the required fields must be."""
        others = [item for number, item in self.items[name].items() if number != body.get("id")]
        faults = rules.missing(name, given) or rules.taken(name, body, others)
        if faults:
            raise Refused(400, faults)
        self._check_values(name, body)

    def _check_values(self, name: str, body: Json) -> None:
        own = ("id", "url") if name == "workflow_job_template_nodes" else ("id", "url", "type")
        faults = self.shapes[name].faults({k: v for k, v in body.items() if k not in own})
        for field, kind in REFERENCES.items():
            if body.get(field) and not self._exists(kind, body[field]):
                faults[field] = [f"Invalid pk \"{body[field]}\" - object does not exist."]
        if name == "job_templates" and not (self.project / str(body.get("playbook"))).is_file():
            faults["playbook"] = ["Playbook not found for project."]
        if name == "schedules":
            faults.update(self._unanswered(body["unified_job_template"], body.get("extra_data") or {}))
        if name == "role_team_assignments" and not faults:
            about = DEFINITIONS[self.items["role_definitions"][body["role_definition"]]["name"]]
            if body.get("object_id") not in self.items[about]:
                faults["object_id"] = [f"{about} {body.get('object_id')} does not exist"]
        if faults:
            raise Refused(400, faults)

    def _unanswered(self, template: int, given: Json) -> dict[str, list[str]]:
        survey = self.surveys.get(template, {})
        missing = [q["variable"] for q in survey.get("spec", ())
                   if q["required"] and not q.get("default") and given.get(q["variable"]) in (None, "")]
        return {"variables_needed_to_start": [f"'{name}' value missing" for name in missing]} if missing else {}

    def _exists(self, kind: str, number: object) -> bool:
        return any(number in self.items[name] for name in (UNIFIED if kind == "unified_job_templates" else (kind,)))

    def _item(self, name: str, number: int) -> Json:
        """An object, a job, or a role: see `_shown` for the numbers of roles."""
        if name == "roles":
            owner, role = divmod(number, 100)
            found = [{"id": number}] if role < len(ROLES) and any(owner in of for of in self.items.values()) else []
        elif name == "jobs":
            found = [job for job in self.jobs if job["id"] == number]
        else:
            found = [self.items[name][number]] if number in self.items[name] else []
        if not found:
            raise Refused(404, {"detail": "Not found."})
        return found[0]

    def _survey(self, method: str, number: int, body: Json) -> tuple[int, t.Any]:
        if method == "POST":
            self.surveys[number] = body
        if method == "DELETE":
            self.surveys.pop(number, None)
        return 200, self.surveys.get(number, {}) if method == "GET" else {}

    def _approval(self, method: str, node: Json, body: Json) -> tuple[int, t.Any]:
        if method == "GET":
            return 200, {}
        if faults := rules.missing("workflow_approval_templates", body):
            raise Refused(400, faults)
        template = self.create("workflow_approval_templates", body)
        node["unified_job_template"] = template["id"]
        return 201, self._shown("workflow_approval_templates", template)

    def _launch(self, template: Json, body: Json) -> tuple[int, t.Any]:
        """As AWX: variables that neither the survey nor a prompt asks for are ignored.

        Source: awx/api/serializers.py, JobLaunchSerializer.validate, and awx/main/models/mixins.py, survey errors.
        """
        given = body.get("extra_vars") or {}
        if template.get("survey_enabled") and (missing := self._unanswered(template["id"], given)):
            raise Refused(400, missing)
        survey = self.surveys.get(template["id"], {}) if template.get("survey_enabled") else {}
        asked = {question["variable"] for question in survey.get("spec", ())}
        prompts = template.get("ask_variables_on_launch")
        kept = {name: value for name, value in given.items() if prompts or name in asked}
        number = len(self.jobs) + 1
        self.jobs.append({"id": number, "url": f"{self.api}jobs/{number}/", "status": "successful", "type": "job",
                          "created": datetime.now(UTC).isoformat(), "name": template["name"], "extra_vars": kept,
                          "ignored_fields": {}, "organization": template.get("organization")})
        return 201, self.jobs[-1]

    def _association(self, method: str, path: str, kind: str, body: Json) -> tuple[int, t.Any]:
        """As awx/api/generics.py, SubListCreateAttachDetachAPIView: to repeat it changes nothing."""
        linked = self.linked.setdefault(path, [])
        if method == "GET":
            return 200, page([{"id": number} for number in linked])
        if not isinstance(body.get("id"), int):
            raise Refused(400, {"msg": '"id" field must be an integer.'})
        if not self._exists(kind, body["id"]):
            raise Refused(400, {"detail": f"{kind} matching query does not exist."})
        if "disassociate" in body:
            self.linked[path] = [number for number in linked if number != body["id"]]
        elif body["id"] not in linked:
            linked.append(body["id"])
        return 204, None

    def _shown(self, kind: str, item: Json) -> Json:
        related = {"survey_spec": f"{item['url']}survey_spec/", "launch": f"{item['url']}launch/"}
        if kind == "workflow_job_template_nodes" and (number := item.get("unified_job_template")):
            (name,) = [name for name in UNIFIED if number in self.items[name]]
            related["unified_job_template"] = f"{self.api}{name}/{number}/"
        roles = {role: {"id": item["id"] * 100 + i} for i, role in enumerate(ROLES)}
        organization = self.items["organizations"].get(item.get("organization", 0), {})
        shown = {**dict.fromkeys(ASKED, False), **item, "related": related,
                 "summary_fields": {"object_roles": roles, "organization": {"name": organization.get("name", "")}}}
        if kind == "credentials":
            shown["inputs"] = self._hidden(item)
        return shown

    def _hidden(self, credential: Json) -> Json:
        fields = self.items["credential_types"][credential["credential_type"]]["inputs"]["fields"]
        secret = {field["id"] for field in fields if field.get("secret")}
        return {k: ENCRYPTED if k in secret else v for k, v in credential.get("inputs", {}).items()}


def refuse_behind_gateway(method: str, kind: str) -> None:
    """What a controller of Automation Platform does not do itself. Raises Refused."""
    if kind == "roles":
        raise Refused(404, {"detail": "Not found."})
    if kind in ("organizations", "teams") and method != "GET":
        raise Refused(403, {"detail": "Creation of this resource is not allowed. Create this resource via the platform "
                                      "ingress."})


def page(found: list[Json]) -> Json:
    """A list as the API answers it."""
    return {"count": len(found), "next": None, "previous": None, "results": found}


def matches(item: Json, query: dict[str, str]) -> bool:
    """Whether an item fits the search."""
    return all(str(item.get(field)) == value for field, value in query.items() if value != "None")


def active(job: Json, query: dict[str, str]) -> bool:
    """Whether a job fits the filters of the list of jobs. Source: awx/api/filters.py."""
    wanted = query.get("status__in", str(job["status"])).split(",")
    return job["status"] in wanted and query.get("organization", str(job.get("organization"))) == str(
        job.get("organization"))


def serve(awx: Awx) -> ThreadingHTTPServer:
    """A server on a free port of the loopback; start and stop it."""
    return rest_stub.serve(awx, {"X-API-Product-Name": "AWX", "X-API-Product-Version": VERSION})
