# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small EDA controller: a stand-in for the API below /api/eda/v1 of Automation Platform.

It refuses what the real one refuses (rules.py), hides secrets, imports a project's rulebooks a moment after it was
created, stops and deletes activations a moment after it was asked, and refuses to change one that runs. Source:
ansible/eda-server of August 2026, src/aap_eda/api/views and serializers.
"""

from __future__ import annotations

import threading
import typing as t
from http.server import ThreadingHTTPServer
from pathlib import Path

import yaml

from ansible_collections.composable.infra.tests.integration.awx import rest_stub
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import Refused
from ansible_collections.composable.infra.tests.integration.eda import rules
from ansible_collections.composable.infra.tests.integration.eda.rules import AAP, REGISTRY, SOURCE_CONTROL, Json

HIDDEN, API = "$encrypted$", "/api/eda/v1/"
LISTS = ("organizations", "credential-types", "eda-credentials", "projects", "rulebooks", "decision-environments",
         "activations")
NEEDED = {"credential-types": ("name",), "eda-credentials": ("name", "credential_type_id", "inputs", "organization_id"),
          "projects": ("name", "url", "organization_id"), "activations": (
              "name", "rulebook_id", "decision_environment_id", "organization_id"),
          "decision-environments": ("name", "image_url", "organization_id")}
REQUIRED = {"organization_id": "Organization is required"}
DEFAULTS: dict[str, Json] = {
    "credential-types": {"description": "", "inputs": {}, "injectors": {}, "managed": False},
    "projects": {"description": "", "scm_branch": "", "eda_credential_id": None, "update_revision_on_launch": False,
                 "scm_update_cache_timeout": 0, "import_state": "pending", "import_error": None},
    "decision-environments": {"description": "", "eda_credential_id": None, "pull_policy": "always"},
    "eda-credentials": {"description": "", "managed": False},
    "activations": {"description": "", "is_enabled": True, "restart_policy": "on-failure", "log_level": "error",
                    "eda_credentials": [], "extra_var": None, "restart_on_project_update": False,
                    "enable_persistence": False, "status": "running"}}
BUSY = ("starting", "stopping", "deleting", "running", "unresponsive", "workers offline")


def field(name: str, **rest: t.Any) -> Json:
    """An input of a credential type."""
    return {"id": name, "label": name, "type": "string", **rest}


BROUGHT: tuple[Json, ...] = (
    {"name": AAP, "inputs": {"fields": [
        field("host"), field("username"), field("password", secret=True), field("oauth_token", secret=True),
        field("verify_ssl", type="boolean"), field("request_timeout", default="10")], "required": ["host"]},
     "injectors": {"extra_vars": {"aap_hostname": "{{host}}"}}},
    {"name": SOURCE_CONTROL, "inputs": {"fields": [
        field("username"), field("password", secret=True), field("ssh_key_data", secret=True, multiline=True),
        field("ssh_key_unlock", secret=True)]}, "injectors": {}},
    {"name": REGISTRY, "inputs": {"fields": [
        field("host", default="quay.io"), field("username"), field("password", secret=True),
        field("verify_ssl", type="boolean", default=True)], "required": ["host"]}, "injectors": {}})


class Eda:
    """The state, and what was asked of it. `project`: the repository that every project is a clone of."""

    def __init__(self, project: Path, *organizations: str) -> None:
        self.project = project
        self.items: dict[str, dict[int, Json]] = {name: {} for name in LISTS}
        self.writes: list[tuple[str, str]] = []
        self._next, self.lock = 0, threading.Lock()
        for name in organizations:
            self.create("organizations", {"name": name})
        for kind in BROUGHT:
            self.create("credential-types", {**kind, "managed": True})

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, t.Any]:
        """Status and body. Raises Refused."""
        parts = path.removeprefix(API).strip("/").split("/")
        if method != "GET":
            self.writes.append((method, "/".join(parts)))
        if parts[0] == "config":
            return 200, {"time_zone": "UTC"}
        if parts[0] not in self.items or not path.startswith(API):
            raise Refused(404, {"detail": "Not found."})
        if len(parts) == 1:
            return self._list(parts[0], query) if method == "GET" else self._made(parts[0], body)
        item = self._item(parts[0], int(parts[1]))
        if len(parts) == 3:
            return self._switch(item, parts[2])
        return self._one(method, parts[0], item, body)

    def create(self, name: str, body: Json) -> Json:
        """Store an object, unasked."""
        self._next += 1
        self.items[name][self._next] = {**DEFAULTS.get(name, {}), **body, "id": self._next}
        return self.items[name][self._next]

    def _list(self, name: str, query: dict[str, str]) -> tuple[int, Json]:
        """Filters take parts of names, and are left out where the list has no field of that name."""
        self._time_passes(name)
        found = [self._shown(name, item) for item in self.items[name].values()
                 if query.get("name", "").lower() in item["name"].lower()
                 and query.get("project_id", str(item.get("project_id"))) == str(item.get("project_id"))]
        return 200, {"count": len(found), "next": None, "previous": None, "page_size": 20, "page": 1, "results": found}

    def _made(self, name: str, body: Json) -> tuple[int, Json]:
        missing = {need: [REQUIRED.get(need, "This field is required.")] for need in NEEDED[name]
                   if body.get(need) in (None, "")}
        if missing:
            raise Refused(400, missing)
        if any(item["name"] == body["name"] for item in self.items[name].values()):
            raise Refused(400, {"name": [f"{name} with this name already exists."]})
        self._check(name, body)
        return 201, self._shown(name, self.create(name, body))

    def _one(self, method: str, name: str, item: Json, body: Json) -> tuple[int, t.Any]:
        if name == "projects" and method == "GET":
            self._time_passes("projects")
        if method == "PATCH":
            self._change(name, item, body)
        if method == "DELETE":
            self._delete(name, item)
            return 204, None
        return 200, self._shown(name, item)

    def _change(self, name: str, item: Json, body: Json) -> None:
        if item.get("managed"):
            raise Refused(400, {"errors": f"Managed {name} cannot be updated"})
        if name == "activations" and (item["is_enabled"] or item["status"] in BUSY):
            raise Refused(409, {"detail": "Activation is not in disabled mode and in stopped status"})
        if name == "credential-types" and self._users("credential_type_id", item["id"]) and (
                body.get("inputs") or body.get("injectors")):
            raise Refused(400, {"inputs": ["Modifications to inputs are not allowed for credential types that are in "
                                           "use"]})
        fresh = {k: v for k, v in body.items() if k != "credential_type_id"}
        if name == "eda-credentials":
            fresh["inputs"] = {**item["inputs"], **{k: v for k, v in body.get("inputs", {}).items() if v != HIDDEN}}
        self._check(name, {**item, **fresh})
        item.update(fresh)
        if name == "activations":
            item["status"] = "running" if item["is_enabled"] else "stopped"

    def _delete(self, name: str, item: Json) -> None:
        used = {"credential-types": "credential_type_id", "decision-environments": "decision_environment_id",
                "eda-credentials": "eda_credential_id"}.get(name)
        in_use = [*(self._users(used, item["id"]) if used else ()),
                  *(a for a in self.items["activations"].values() if name == "eda-credentials"
                    and item["id"] in a["eda_credentials"])]
        if in_use:
            raise Refused(409, {"detail": f"{item['name']} is being used by {in_use[0]['name']}"})
        if name == "projects" and item["import_state"] in ("pending", "running"):
            raise Refused(409, {"detail": "Project Sync is running. Please try again in a moment."})
        if name == "activations":
            item["status"] = "deleting"
            return
        del self.items[name][item["id"]]
        for number in [n for n, r in self.items["rulebooks"].items() if r["project_id"] == item["id"]]:
            del self.items["rulebooks"][number]

    def _users(self, reference: str, number: int) -> list[Json]:
        return [other for items in self.items.values() for other in items.values() if other.get(reference) == number]

    def _switch(self, activation: Json, verb: str) -> tuple[int, t.Any]:
        if verb not in ("enable", "disable"):
            raise Refused(404, {"detail": "Not found."})
        activation.update(is_enabled=verb == "enable", status="running" if verb == "enable" else "stopping")
        return 204, None

    def _time_passes(self, name: str) -> None:
        """What takes a moment has gone one step on whenever somebody looks."""
        for number, item in list(self.items[name].items()):
            if name == "projects" and item["import_state"] != "completed":
                item["import_state"] = {"pending": "running"}.get(item["import_state"], "completed")
                if item["import_state"] == "completed":
                    self._import(item)
            if name == "activations" and item["status"] == "leaving":
                del self.items[name][number]
            elif name == "activations" and item["status"] in ("stopping", "deleting"):
                item["status"] = {"stopping": "stopped", "deleting": "leaving"}[item["status"]]

    def _import(self, project: Json) -> None:
        folders = [self.project / name for name in ("extensions/eda/rulebooks", "rulebooks")]
        for path in sorted(next(folder for folder in folders if folder.is_dir()).rglob("*.y*ml")):
            text = path.read_text(encoding="utf-8")
            if rules.is_rulebook(yaml.safe_load(text)):
                self.create("rulebooks", {"name": path.name, "project_id": project["id"], "rulesets": text})

    def _check(self, name: str, body: Json) -> None:
        faults = {**self._references(body), **(getattr(self, f"_{name.replace('-', '_')}")(body))}
        if faults:
            raise Refused(400, faults)

    def _references(self, body: Json) -> Json:
        known = {"organization_id": "organizations", "credential_type_id": "credential-types",
                 "rulebook_id": "rulebooks", "eda_credential_id": "eda-credentials",
                 "decision_environment_id": "decision-environments"}
        return {name: [f"{kind} with id {body[name]} does not exist"] for name, kind in known.items()
                if body.get(name) is not None and body[name] not in self.items[kind]}

    def _credential_types(self, body: Json) -> Json:
        schema = body.get("inputs") or {}
        found = {"inputs": rules.schema_faults(schema),
                 "injectors": rules.injector_faults(schema, body.get("injectors") or {})}
        return {name: faults for name, faults in found.items() if faults}

    def _eda_credentials(self, body: Json) -> Json:
        kind = self.items["credential-types"].get(body["credential_type_id"], {"inputs": {}})
        return rules.input_faults(kind["inputs"], body["inputs"])

    def _of_type(self, number: object, *kinds: str) -> bool:
        credential = self.items["eda-credentials"].get(t.cast("int", number), {})
        kind = self.items["credential-types"].get(credential.get("credential_type_id", 0), {})
        return kind.get("name") in kinds

    def _projects(self, body: Json) -> Json:
        fault = rules.address_fault(body["url"])
        found = {"url": [fault]} if fault else {}
        if body.get("eda_credential_id") and not self._of_type(body["eda_credential_id"], SOURCE_CONTROL):
            found["eda_credential_id"] = [f"The type of credential can only be one of ['{SOURCE_CONTROL}']"]
        return found

    def _decision_environments(self, body: Json) -> Json:
        fault = rules.image_fault(body["image_url"])
        found = {"image_url": [fault]} if fault else {}
        if body.get("eda_credential_id") and not self._of_type(body["eda_credential_id"], REGISTRY):
            found["eda_credential_id"] = [f"The type of credential can only be one of ['{REGISTRY}']"]
        return found

    def _activations(self, body: Json) -> Json:
        variables = yaml.safe_load(body.get("extra_var") or "{}")
        if not isinstance(variables, dict) or rules.RESERVED & set(variables):
            return {"extra_var": ["Extra var is not in object format"]}
        credentials = body.get("eda_credentials") or []
        if any(self._of_type(number, REGISTRY, SOURCE_CONTROL) for number in credentials):
            return {"eda_credentials": ["The type of credential can not be one of these"]}
        ruleset = yaml.safe_load(self.items["rulebooks"].get(body["rulebook_id"], {"rulesets": "[]"})["rulesets"])
        if rules.starts_jobs(ruleset) and not any(self._of_type(number, AAP) for number in credentials):
            return {"non_field_errors": ["The rulebook requires a RH AAP credential."]}
        return self._injected_twice(credentials, variables)

    def _injected_twice(self, credentials: list[int], variables: Json) -> Json:
        seen = {"extra_vars": set(variables), "env": set(), "file": set()}
        for number in credentials:
            kind = self.items["credential-types"][self.items["eda-credentials"][number]["credential_type_id"]]
            for where, keys in kind["injectors"].items():
                if both := seen[where] & set(keys):
                    return {"non_field_errors": [f"Key: {sorted(both)[0]} already exists in {where}."]}
                seen[where] |= set(keys)
        return {}

    def _item(self, name: str, number: int) -> Json:
        if number not in self.items[name]:
            raise Refused(404, {"detail": "Not found."})
        return self.items[name][number]

    def _shown(self, name: str, item: Json) -> Json:
        if name == "eda-credentials":
            kind = self.items["credential-types"][item["credential_type_id"]]
            secret = {each["id"] for each in kind["inputs"].get("fields", ()) if each.get("secret")}
            inputs = {k: HIDDEN if k in secret else v for k, v in item["inputs"].items() if v or k not in secret}
            rest = {k: v for k, v in item.items() if k not in ("credential_type_id", "organization_id")}
            return {**rest, "inputs": inputs, "credential_type": {"id": kind["id"], "name": kind["name"]},
                    "organization": {"id": item["organization_id"]}}
        if name == "activations":
            own = [self._shown("eda-credentials", self.items["eda-credentials"][n])
                   for n in sorted(item["eda_credentials"])]
            # what was given as text comes back as this YAML, whatever its form was
            variables = yaml.safe_dump(yaml.safe_load(item["extra_var"])) if item["extra_var"] else None
            return {**item, "eda_credentials": own, "extra_var": variables,
                    "project_id": self.items["rulebooks"][item["rulebook_id"]]["project_id"],
                    "rulebook_name": self.items["rulebooks"][item["rulebook_id"]]["name"]}
        return dict(item)


def serve(eda: Eda) -> ThreadingHTTPServer:
    """A server on a free port of the loopback; start and stop it."""
    return rest_stub.serve(eda)
