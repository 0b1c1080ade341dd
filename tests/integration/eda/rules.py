# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the EDA controller refuses, written down from ansible/eda-server of August 2026.

Credential types and credentials: src/aap_eda/core/utils/credentials.py. Images, addresses, rulebooks:
core/validators.py, services/project/imports.py. Each function returns what is wrong, as the API would say it in short.
"""

from __future__ import annotations

import re
import typing as t
from urllib.parse import urlsplit

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

Json = dict[str, t.Any]
RESERVED = {"ansible", "eda"}
SANDBOX = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
AAP, SOURCE_CONTROL, REGISTRY = "Red Hat Ansible Automation Platform", "Source Control", "Container Registry"
# part of a name in an image's address, and its tag
OCI_NAME = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
OCI_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


def schema_faults(schema: t.Any) -> list[str]:
    """Of the inputs of a credential type."""
    fields = schema.get("fields") or []
    names = [field.get("id") for field in fields]
    found = [f"duplicate field {name}" for name in names if names.count(name) > 1]
    for field in fields:
        found += [f"{option} must exist and be a string" for option in ("id", "label")
                  if not isinstance(field.get(option), str) or not field[option]]
        if not re.fullmatch(r"\w+", str(field.get("id"))) or str(field.get("id")).upper().startswith("EDA_"):
            found.append(f"{field.get('id')} is not usable as an id")
        if field.get("type", "string") not in ("string", "boolean"):
            found.append("type must be either string or boolean")
        if any(not isinstance(choice, str) for choice in field.get("choices", ())):
            found.append("choices must be a list of strings")
        if not isinstance(field.get("default", ""), (str, bool)):
            found.append("default must be a string or boolean")
        found += [f"{option} must be a boolean" for option in ("secret", "multiline")
                  if not isinstance(field.get(option, False), bool)]
    return found + [f"required field {name} does not exist" for name in schema.get("required", ()) if name not in names]


def injector_faults(schema: Json, injectors: Json) -> list[str]:
    """Of the injectors of a credential type: keys, and templates that read what no field has."""
    if unknown := set(injectors) - {"env", "extra_vars", "file"}:
        return [f"unknown injectors {sorted(unknown)}"]
    files = {label.partition(".")[2]: "" for label in injectors.get("file", ())}
    context: Json = {field["id"]: field.get("default") or (field.get("choices") or [""])[0]
                     for field in schema.get("fields", ())}
    context["eda"] = {"filename": files}
    found = [f"file key {label} must be template or template.NAME" for label in injectors.get("file", ())
             if not re.fullmatch(r"template(\.\w+)?", label)]
    found += [f"{key} is reserved" for kind in ("env", "extra_vars") for key in RESERVED & set(injectors.get(kind, ()))]
    keys = [key for kind in injectors.values() for key in kind]
    found += [f"key {key} exists twice" for key in set(keys) if keys.count(key) > 1]
    for kind in injectors.values():
        for key, template in kind.items():
            try:
                SANDBOX.from_string(str(template)).render(context)
            except jinja2.TemplateError as problem:
                found.append(f"{key}: {problem}")
    return found


def input_faults(schema: Json, inputs: Json) -> Json:
    """Of the inputs of a credential, by field."""
    fields = {field["id"]: field for field in schema.get("fields", ())}
    if unknown := set(inputs) - set(fields):
        return {"inputs": [f"Input keys {sorted(unknown)} are not defined in the schema"]}
    found = {}
    for name, field in fields.items():
        value = inputs.get(name)
        if name in schema.get("required", ()) and not field.get("default") and not value:
            found[f"inputs.{name}"] = ["Cannot be blank"]
        elif value is not None and not isinstance(value, (str, bool)):
            found[f"inputs.{name}"] = [f"must have a boolean or string value, is {type(value).__name__}"]
        elif field.get("type") == "boolean" and value and not isinstance(value, bool):
            found[f"inputs.{name}"] = ["Must be a boolean"]
        elif field.get("choices") and value and value not in field["choices"]:
            found[f"inputs.{name}"] = [f"Must be one of the choices: {field['choices']}"]
    return found


def image_fault(url: str) -> str:
    """Of the address of an image, which has a host, a path and perhaps a tag."""
    host, slash, path = url.partition("/")
    name, _colon, tag = path.partition("@" if "@sha" in path else ":")
    if not slash or not re.fullmatch(r"[A-Za-z0-9.-]+(:\d+)?", host):
        return f"Image url {url} is malformed; invalid host name"
    if not OCI_NAME.fullmatch(name) or ("@sha" not in path and tag and not OCI_TAG.fullmatch(tag)):
        return f"Image url {url} is malformed"
    return ""


def address_fault(url: str) -> str:
    """Of the address of a repository."""
    parts = urlsplit(url)
    if url.startswith("git@"):
        return "" if re.fullmatch(r"git@[\w.-]+:[\w.@/\-~%]+", url) else "Invalid source control URL"
    usable = parts.scheme in ("http", "https", "git", "ssh", "git+ssh") and parts.netloc and parts.path
    return "" if usable else "Invalid source control URL"


def is_rulebook(content: t.Any) -> bool:
    """Whether a file of the project is taken; another is left out without a word to the user."""
    if not isinstance(content, list):
        return False
    return all(isinstance(ruleset.get("rules"), list) and all(
        rule.get("name") is not None and rule.get("condition") is not None
        and (rule.get("action") is not None or rule.get("actions") is not None) for rule in ruleset["rules"])
        for ruleset in content)


def starts_jobs(rulesets: list[Json]) -> bool:
    """Whether a rule has an action that needs a credential for the controller."""
    actions = [action for ruleset in rulesets for rule in ruleset["rules"]
               for action in (*rule.get("action", {}), *(name for each in rule.get("actions", ()) for name in each))]
    return bool({"run_job_template", "run_workflow_template"} & set(actions))
