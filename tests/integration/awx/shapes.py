# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX's API takes, read from the documented options of awx.awx's modules: names, types, choices, references."""

from __future__ import annotations

import ast
import json
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.composable.infra.tools.setup import collections

Json = dict[str, t.Any]
MODULES = {
    "organizations": "organization", "teams": "team", "labels": "label", "credential_types": "credential_type",
    "credentials": "credential", "execution_environments": "execution_environment", "projects": "project",
    "inventories": "inventory", "inventory_sources": "inventory_source",
    "notification_templates": "notification_template", "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node", "schedules": "schedule",
    "role_team_assignments": "role_team_assignment"}
REFERENCES = {
    "organization": "organizations", "team": "teams", "role_definition": "role_definitions",
    "webhook_credential": "credentials", "credential_type": "credential_types", "credential": "credentials",
    "project": "projects", "source_project": "projects", "inventory": "inventories",
    "execution_environment": "execution_environments", "default_environment": "execution_environments",
    "workflow_job_template": "workflow_job_templates", "unified_job_template": "unified_job_templates"}
# dictionaries that the API keeps as text
AS_TEXT = ("extra_vars", "variables", "source_vars")
# what the modules add on their own
ADDED = {"credential_types": {"managed": "bool"}, "workflow_job_template_nodes": {"type": "str"}}
TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "dict": (dict,), "list": (list,),
                                      "path": (str,), "raw": (object,)}


@dataclass(frozen=True)
class Shape:
    """Fields that one kind of object may have."""

    fields: dict[str, Json]

    def faults(self, body: Json) -> dict[str, list[str]]:
        """What AWX would answer with 400, by field."""
        found = {name: self._fault(name, value) for name, value in body.items() if value is not None}
        return {name: [fault] for name, fault in found.items() if fault}

    def _fault(self, name: str, value: object) -> str:
        option = self.fields.get(name)
        if option is None:
            return "unknown field"
        kind = "int" if name in REFERENCES else "str" if name in AS_TEXT else option.get("type", "str")
        if not isinstance(value, TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
            return f"must be a {kind}, is {value!r}"
        choices = [str(choice) for choice in option.get("choices") or []]
        if choices and str(value) not in choices:
            return f"must be one of {', '.join(choices)}, is {value!r}"
        if name in AS_TEXT:
            json.loads(str(value))
        return ""


def shapes() -> dict[str, Shape]:
    """The shape of every endpoint."""
    folder = collections.place(collections.home(), "awx.awx") / "plugins" / "modules"
    found = {}
    for endpoint, module in MODULES.items():
        options = documented(folder / f"{module}.py")
        more = {name: {"type": kind} for name, kind in ADDED.get(endpoint, {}).items()}
        found[endpoint] = Shape({**options, **more})
    return found


def documented(path: Path) -> dict[str, Json]:
    """The options in a module's documentation."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            options: dict[str, Json] = yaml.safe_load(ast.literal_eval(node.value))["options"]
            return options
    raise AssertionError(f"{path.name} documents nothing")
