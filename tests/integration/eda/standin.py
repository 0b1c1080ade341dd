# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for the modules of ansible.eda that the role eda calls, where that collection is not installed.

They take the arguments and send the requests of ansible.eda 2.13.0 (github.com/ansible/event-driven-ansible: the
argument specs in plugins/modules, and plugins/module_utils/controller.py). What matters for the role: a value that the
API hides counts as a change each time, a field that is not given is not compared, and an activation that exists is only
enabled or disabled when its state says so. Ansible copies this file into a module, so it needs nothing but Ansible.
"""

from __future__ import annotations

import json
import time
import typing as t
from urllib.error import HTTPError
from urllib.parse import urlencode

from ansible.module_utils.basic import AnsibleModule, env_fallback
from ansible.module_utils.urls import Request

Json = dict[str, t.Any]
HIDDEN = "$encrypted$"
AUTH: Json = {
    "controller_host": {"fallback": (env_fallback, ["CONTROLLER_HOST", "AAP_HOSTNAME"]), "required": True,
                        "aliases": ["aap_hostname"]},
    "controller_username": {"fallback": (env_fallback, ["CONTROLLER_USERNAME", "AAP_USERNAME"]),
                            "aliases": ["aap_username"]},
    "controller_password": {"fallback": (env_fallback, ["CONTROLLER_PASSWORD", "AAP_PASSWORD"]), "no_log": True,
                            "aliases": ["aap_password"]},
    "validate_certs": {"type": "bool", "default": True, "aliases": ["aap_validate_certs"],
                       "fallback": (env_fallback, ["CONTROLLER_VERIFY_SSL", "AAP_VALIDATE_CERTS"])},
    "request_timeout": {"type": "float", "default": 10.0, "aliases": ["aap_request_timeout"],
                        "fallback": (env_fallback, ["CONTROLLER_REQUEST_TIMEOUT", "AAP_REQUEST_TIMEOUT"])},
    "controller_token": {"fallback": (env_fallback, ["CONTROLLER_TOKEN", "AAP_TOKEN", "AAP_OAUTH_TOKEN"]),
                         "no_log": True, "aliases": ["aap_token", "aap_oauth_token"]}}
NAMED: Json = {"name": {"required": True}, "new_name": {}, "description": {}}
OWNED: Json = {"organization_name": {"type": "str", "aliases": ["organization"]}}
STATE: Json = {"state": {"choices": ["present", "absent"], "default": "present"}}
SPECS: dict[str, Json] = {
    "credential_type": {**NAMED, "inputs": {"type": "dict"}, "injectors": {"type": "dict"},
                        "test_inputs": {"type": "dict"}, "test_metadata": {"type": "dict"},
                        "state": {"choices": ["present", "absent", "test"], "default": "present"}},
    "credential": {**NAMED, **OWNED, "copy_from": {}, "inputs": {"type": "dict"}, "credential_type_name": {},
                   "metadata": {"type": "dict"},
                   "state": {"choices": ["present", "absent", "test"], "default": "present"}},
    "decision_environment": {**NAMED, **OWNED, **STATE, "image_url": {}, "credential": {},
                             "pull_policy": {"choices": ["always", "never", "missing"], "default": "always"}},
    "project": {**NAMED, **OWNED, **STATE, "url": {}, "proxy": {}, "credential": {}, "scm_branch": {},
                "sync": {"type": "bool", "default": False}, "wait": {"type": "bool", "default": True},
                "update_revision_on_launch": {"type": "bool", "default": False},
                "scm_update_cache_timeout": {"type": "int", "default": 0}},
    "rulebook_activation": {
        **NAMED, **OWNED, "project_name": {"aliases": ["project"]}, "rulebook_name": {"aliases": ["rulebook"]},
        "extra_vars": {"type": "str"}, "restart": {"type": "bool", "default": False},
        "restart_policy": {"choices": ["on-failure", "always", "never"], "default": "on-failure"},
        "decision_environment_name": {"aliases": ["decision_environment"]}, "awx_token_name": {},
        "eda_credentials": {"type": "list", "elements": "str", "aliases": ["credentials"]}, "k8s_service_name": {},
        "log_level": {"choices": ["debug", "info", "error"], "default": "error"},
        "enable_persistence": {"type": "bool", "default": False}, "rule_engine_credential_id": {"type": "int"},
        "restart_on_project_update": {"type": "bool", "default": False},
        "state": {"choices": ["present", "absent", "enabled", "disabled"], "default": "present"}},
    "credential_info": {"name": {}}, "rulebook_activation_info": {"name": {}}, "project_info": {"name": {}},
    "decision_environment_info": {"name": {}}}
# what a module with _info returns its list as
LISTS = {"credential_info": "credentials", "rulebook_activation_info": "activations", "project_info": "projects",
         "decision_environment_info": "decision_environments"}
NEEDS = {"credential_type": ("inputs", "injectors"), "decision_environment": ("image_url",),
         "credential": ("credential_type_name", "inputs", "organization_name")}
ENDPOINTS = {"credential_type": "credential-types", "credential": "eda-credentials", "project": "projects",
             "decision_environment": "decision-environments", "rulebook_activation": "activations",
             "credential_info": "eda-credentials", "rulebook_activation_info": "activations",
             "project_info": "projects", "decision_environment_info": "decision-environments"}
# the field that is sent, by option; with the endpoint where the name is looked up
SENT: Json = {"credential_type_name": ("credential_type_id", "credential-types"), "extra_vars": ("extra_var", ""),
              "organization_name": ("organization_id", "organizations"),
              "credential": ("eda_credential_id", "eda-credentials"),
              "decision_environment_name": ("decision_environment_id", "decision-environments")}
BESIDE = {*AUTH, "state", "new_name", "project_name", "rulebook_name", "eda_credentials", "restart", "sync", "wait",
          "copy_from", "metadata", "test_inputs", "test_metadata", "awx_token_name"}


class Api:
    """Requests to the EDA controller, as the module's options say."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def send(self, method: str, path: str, body: Json | None = None) -> t.Any:
        """The answer's body; the module fails on a refusal."""
        params = self.module.params
        headers = {"Authorization": f"Bearer {params['controller_token']}", "Content-Type": "application/json"}
        url = f"{params['controller_host'].rstrip('/')}/api/eda/v1/{path}"
        try:
            reply = Request().open(method, url, headers=headers, timeout=params["request_timeout"],
                                   data=None if body is None else json.dumps(body))
        except HTTPError as refused:
            self.module.fail_json(msg=f"HTTP error {refused.read().decode()}")
        return json.loads(reply.read() or b"{}")

    def find(self, endpoint: str, name: str | None = None, **query: t.Any) -> list[Json]:
        """What a list has, filtered by the server."""
        given = {**query, **({"name": name} if name else {})}
        found: list[Json] = self.send("GET", f"{endpoint}/" + (f"?{urlencode(given)}" if given else ""))["results"]
        return found

    def one(self, endpoint: str, name: str, **query: t.Any) -> Json:
        """The object of exactly this name, empty when there is none."""
        found = [item for item in self.find(endpoint, name, **query) if item["name"] == name]
        if len(found) > 1:
            self.module.fail_json(msg=f"Request returned {len(found)} items, expected 1")
        return found[0] if found else {}


def hides(value: object) -> bool:
    """Whether there is a value that the API does not tell."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value == HIDDEN or any(hides(each) for each in inner)


def differs(old: Json, new: Json) -> bool:
    """As the collection compares: a hidden value counts as another one."""
    return any(old.get(field) != value or hides(value) for field, value in new.items())


def wanted(api: Api, kind: str, existing: Json) -> Json:
    """What is sent for the options; what is not given is left out."""
    params = api.module.params
    found: Json = {"name": params["new_name"] or existing.get("name") or params["name"]}
    for option, value in params.items():
        if option in BESIDE or value is None or (not isinstance(value, (bool, int)) and not value) or option == "name":
            continue
        field, endpoint = SENT.get(option, (option, ""))
        number = api.one(endpoint, str(value)).get("id") if endpoint else value
        if number is None and kind == "rulebook_activation":
            api.module.fail_json(msg=f"{option} {value} not found.")
        found.update({} if number is None else {field: number})
    return {**found, **(of_activation(api) if kind == "rulebook_activation" else {})}


def of_activation(api: Api) -> Json:
    """The fields whose names are looked up in another way."""
    params = api.module.params
    project = api.one("projects", params["project_name"])
    if not project:
        api.module.fail_json(msg=f"Project {params['project_name']} not found.")
    rulebook = api.one("rulebooks", params["rulebook_name"], project_id=project["id"])
    if not rulebook:
        api.module.fail_json(msg=f"Rulebook {params['rulebook_name']} not found for project {params['project_name']}.")
    credentials = [api.one("eda-credentials", name).get("id") for name in params["eda_credentials"] or ()]
    return {"rulebook_id": rulebook["id"], "eda_credentials": [number for number in credentials if number is not None],
            "is_enabled": params["state"] != "disabled"}


def switched(api: Api, existing: Json) -> None:
    """Enable or disable an activation that exists; ends the module."""
    state = api.module.params["state"]
    verb = {(False, "enabled"): "enable", (True, "disabled"): "disable"}.get((existing["is_enabled"], state))
    if verb and not api.module.check_mode:
        api.send("POST", f"activations/{existing['id']}/{verb}/", {})
    api.module.exit_json(changed=bool(verb))


def written(api: Api, endpoint: str, existing: Json, new: Json) -> Json:
    """Create or update; what the module returns."""
    if existing and not differs(existing, new):
        return {"changed": False, "id": existing["id"]}
    if api.module.check_mode:
        return {"changed": True}
    if not existing:
        return {"changed": True, "id": api.send("POST", f"{endpoint}/", new)["id"]}
    after = api.send("PATCH", f"{endpoint}/{existing['id']}/", new)
    return {"changed": differs(existing, {field: after.get(field) for field in new}), "id": existing["id"]}


def imported(api: Api, number: int) -> None:
    """Wait until the project has been imported."""
    for _attempt in range(60):
        project = api.send("GET", f"projects/{number}/")
        if project["import_state"] == "completed":
            return
        if project["import_state"] == "failed":
            api.module.fail_json(msg=f"Project import failed: {project['import_error']}")
        time.sleep(0.1)
    api.module.fail_json(msg="Timeout waiting for project import to complete")


def run(kind: str) -> None:
    """The module of this name."""
    rules = [("state", "present", NEEDS[kind])] if kind in NEEDS else []
    module = AnsibleModule(argument_spec={**SPECS[kind], **AUTH}, required_if=rules, supports_check_mode=True)
    api, endpoint = Api(module), ENDPOINTS[kind]
    if kind.endswith("_info"):
        module.exit_json(**{LISTS[kind]: api.find(endpoint, module.params["name"])})
    existing = api.one(endpoint, module.params["name"])
    if module.params["state"] == "absent":
        if existing and not module.check_mode:
            api.send("DELETE", f"{endpoint}/{existing['id']}/")
        module.exit_json(changed=bool(existing))
    if kind == "rulebook_activation" and existing:
        existing["eda_credentials"] = [item["id"] for item in existing["eda_credentials"]]
        if module.params["state"] in ("enabled", "disabled"):
            switched(api, existing)
    result = written(api, endpoint, existing, wanted(api, kind, existing))
    if kind == "project" and module.params["wait"] and result["changed"] and "id" in result:
        imported(api, result["id"])
    module.exit_json(**result)
