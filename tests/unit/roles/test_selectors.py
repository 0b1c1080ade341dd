# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors of roles select what they say: one that is wrong finds nothing, and nobody is told."""

from __future__ import annotations

import typing as t

import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

CONTROLLERS = ROOT / "roles" / "controllers"


def test_absent_selects_the_secrets_that_the_role_has_made() -> None:
    tasks = yaml.safe_load((CONTROLLERS / "tasks" / "absent.yml").read_text(encoding="utf-8"))
    (removal,) = [task["kubernetes.core.k8s"] for task in tasks
                  if task.get("kubernetes.core.k8s", {}).get("kind") == "Secret"]
    values: dict[str, t.Any] = yaml.safe_load((CONTROLLERS / "vars" / "main.yml").read_text(encoding="utf-8"))
    selected: object = NativeEnvironment().from_string(removal["label_selectors"]).render(values)
    assert selected == [f"{key}={value}" for key, value in values["controllers_secret_labels"].items()]
    for made in ("controllers_credentials_object", "controllers_pull_secret_object"):
        assert values[made]["metadata"]["labels"] == "{{ controllers_secret_labels }}"
