# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX's API has and refuses, of the kinds that the role touches. What AWX has beside them is 404 here as well.

Each rule names the file of github.com/ansible/awx (devel of 23 October 2024, e21dd0a0) from which it was taken.
"""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.tests.integration.awx.rest_stub import Refused

Json = dict[str, t.Any]
READ, LIST = ("GET",), ("GET", "POST")
OBJECT = ("GET", "PUT", "PATCH", "DELETE")

# Lists and their methods. Source: awx/api/urls/urls.py and the file there of each kind; awx/api/generics.py,
# ListAPIView and ListCreateAPIView. Approval templates have no list: awx/api/urls/workflow_approval_template.py. Roles
# are only read: awx/api/views/__init__.py, RoleList. Definitions of roles: the router of django-ansible-base.
LISTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((
        "organizations", "teams", "labels", "credential_types", "credentials", "execution_environments", "projects",
        "inventories", "inventory_sources", "notification_templates", "job_templates", "workflow_job_templates",
        "workflow_job_template_nodes", "schedules", "role_definitions", "role_team_assignments"), LIST),
    "config": READ, "unified_job_templates": READ, "unified_jobs": READ, "jobs": READ, "roles": READ}

# Objects. Source: awx/api/generics.py, RetrieveUpdateDestroyAPIView; a label goes with the last that has it
# (awx/api/views/labels.py), a job is only read or removed (awx/api/views/__init__.py, JobDetail), and an assignment is
# never changed (django-ansible-base, rbac/api/views.py).
OBJECTS: dict[str, tuple[str, ...]] = {
    **{kind: OBJECT for kind, methods in LISTS.items() if methods == LIST}, "workflow_approval_templates": OBJECT,
    "labels": ("GET", "PUT", "PATCH"), "roles": READ, "jobs": ("GET", "DELETE"),
    "role_team_assignments": ("GET", "DELETE")}

_NOTIFIED = dict.fromkeys((f"notification_templates_{moment}" for moment in ("started", "success", "error")),
                          "notification_templates")
_APPROVED = {"notification_templates_approvals": "notification_templates"}
_NODES = dict.fromkeys(("success_nodes", "failure_nodes", "always_nodes"), "workflow_job_template_nodes")
# Lists below an object, and the kind of what is associated there. Source: awx/api/urls/*.py, and `model` of the views
# in awx/api/views that these files name.
ASSOCIATED: dict[str, dict[str, str]] = {
    "organizations": {**_NOTIFIED, **_APPROVED, "galaxy_credentials": "credentials"},
    "projects": _NOTIFIED, "inventories": {"input_inventories": "inventories", "labels": "labels"},
    "inventory_sources": {**_NOTIFIED, "credentials": "credentials"},
    "job_templates": {**_NOTIFIED, "credentials": "credentials", "labels": "labels"},
    "workflow_job_templates": {**_NOTIFIED, **_APPROVED, "labels": "labels"},
    "workflow_job_template_nodes": {**_NODES, "credentials": "credentials", "labels": "labels"},
    "schedules": {"credentials": "credentials", "labels": "labels"}, "roles": {"teams": "teams"}}

# What else is below an object. Source: awx/api/views/__init__.py, JobTemplateSurveySpec, JobTemplateLaunch,
# WorkflowJobTemplateNodeCreateApproval.
ACTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    kind: {"survey_spec": ("GET", "POST", "DELETE"), "launch": LIST}
    for kind in ("job_templates", "workflow_job_templates")}
ACTIONS["workflow_job_template_nodes"] = {"create_approval_template": LIST}

# Fields without which nothing is made. Source: fields without default in awx/main/models/*.py; awx/api/serializers.py,
# JobOptionsSerializer.validate (project, playbook); of an assignment: django-ansible-base, rbac/api/serializers.py.
REQUIRED: dict[str, tuple[str, ...]] = {
    "organizations": ("name",), "teams": ("name", "organization"), "labels": ("name", "organization"),
    "credential_types": ("name", "kind"), "credentials": ("name", "credential_type"),
    "execution_environments": ("name", "image"), "projects": ("name",), "inventories": ("name", "organization"),
    "inventory_sources": ("name", "inventory"), "job_templates": ("name", "project", "playbook"),
    "notification_templates": ("name", "organization", "notification_type"), "workflow_job_templates": ("name",),
    "workflow_job_template_nodes": ("workflow_job_template",), "schedules": ("name", "rrule", "unified_job_template"),
    "workflow_approval_templates": ("name",), "role_definitions": ("name",),
    "role_team_assignments": ("role_definition", "team", "object_id")}

# Fields that together are one object's alone. Source: unique_together and SOFT_UNIQUE_TOGETHER in awx/main/models/*.py;
# awx/main/models/base.py, CommonModel (name).
UNIQUE: dict[str, tuple[str, ...]] = {
    "organizations": ("name",), "execution_environments": ("name",), "teams": ("name", "organization"),
    "labels": ("name", "organization"), "inventories": ("name", "organization"), "projects": ("name", "organization"),
    "job_templates": ("name", "organization"), "workflow_job_templates": ("name", "organization"),
    "notification_templates": ("name", "organization"), "inventory_sources": ("name", "inventory"),
    "credentials": ("name", "organization", "credential_type"), "credential_types": ("name", "kind"),
    "schedules": ("name", "unified_job_template"),
    "workflow_job_template_nodes": ("identifier", "workflow_job_template")}


def not_found() -> Refused:
    """Return the answer where no view has the path. Source: awx/api/views/__init__.py, api_exception_handler."""
    return Refused(404, {"detail": "The requested resource could not be found."})


def allow(method: str, methods: tuple[str, ...] | None) -> None:
    """Refuse a path that no view has, and a method that the view lacks. Raises Refused."""
    if methods is None:
        raise not_found()
    if method not in methods:
        raise Refused(405, {"detail": f'Method "{method}" not allowed.'})


def missing(kind: str, body: Json) -> dict[str, list[str]]:
    """Return the required fields that an object lacks, with AWX's message."""
    faults = {field: ["This field is required."] for field in REQUIRED[kind] if body.get(field) in (None, "")}
    if kind == "credentials" and not any(body.get(owner) for owner in ("organization", "team", "user")):
        # awx/api/serializers.py, CredentialSerializerCreate.validate
        faults["detail"] = ["Missing 'user', 'team', or 'organization'."]
    if kind == "inventory_sources" and body.get("source") == "scm" and not body.get("source_project"):
        # awx/api/serializers.py, InventorySourceSerializer.validate
        faults["source_project"] = ["Project required for scm type sources."]
    return faults


def taken(kind: str, body: Json, others: t.Iterable[Json]) -> dict[str, list[str]]:
    """Return the fault of an object that has the names of another one. Source: awx/main/models/base.py."""
    fields = UNIQUE.get(kind, ())
    own = [body.get(field) for field in fields]
    if not any(own) or not any([other.get(field) for field in fields] == own for other in others):
        return {}
    if len(fields) == 1:
        return {fields[0]: [f"{kind} with this {fields[0].title()} already exists."]}
    return {"__all__": [f"{kind} with this ({', '.join(fields)}) combination already exists."]}
