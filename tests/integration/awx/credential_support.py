# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The credential type of a CDI Manager, and what AWX sets by it."""

from __future__ import annotations

from pathlib import Path

import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ansible_collections.composable.infra.tests.integration.modules.conftest import Json
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

TYPE: Json = {}
for part in (ROOT / "roles/awx/vars/main").glob("*.yml"):
    TYPE |= yaml.safe_load(part.read_text(encoding="utf-8").replace("!unsafe ", ""))
FIELDS = {field["id"] for field in TYPE["awx_fabric_fields"]}


class FileName:
    """``tower.filename``: where AWX has put a rendered file."""

    certificate: str
    client_certificate: str
    client_key: str


def injected(inputs: Json, folder: Path) -> dict[str, str]:
    """The variables that AWX sets for a credential with these inputs."""
    sandbox, files = ImmutableSandboxedEnvironment(), FileName()
    namespace = {**{name: value for name, value in inputs.items() if len(value)}, "tower": {"filename": files}}
    for label, template in TYPE["awx_fabric_injectors"]["file"].items():
        path = folder / label
        path.write_text(sandbox.from_string(template).render(**namespace), encoding="utf-8")
        setattr(files, label.split(".")[1], str(path))
    return {name: sandbox.from_string(template).render(**namespace)
            for name, template in TYPE["awx_fabric_injectors"]["env"].items()}


def inputs_of(config: Json) -> Json:
    """What somebody fills in for a manager; the rest of the form stays empty."""
    form = {name: value for name, value in config.items() if name in FIELDS}
    if "ca_path" in config:
        form["certificate"] = Path(config["ca_path"]).read_text(encoding="utf-8")
    return {**dict.fromkeys(FIELDS, ""), **form}
