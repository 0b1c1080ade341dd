# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the variables of a playbook by their present or former names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_variables
short_description: Variables of a playbook of this collection
version_added: 0.1.0
description:
  - Returns the values of some variables, by their names without the prefix C(composable_).
  - A variable without the prefix also counts, with a deprecation. The variable with the prefix wins.
  - Paths are returned as absolute paths. A relative path begins in the folder in which C(ansible-playbook) was started.
  - C(config_path) is taken from E(COMPOSABLE_CONFIG_PATH) if neither C(config) nor C(config_path) was given.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: Names without the prefix, for example V(detach_nodes) for the variable C(composable_detach_nodes).
    type: list
    elements: str
  was:
    description: Former names of variables, by the name without the prefix.
    type: dict
    default: {}
  of:
    description: Mapping that has the variables. If not set, it is the variables of the task's host.
    type: dict
"""

EXAMPLES = r"""
- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ (lookup('composable.infra.playbook_variables', 'detach_nodes')).detach_nodes | default([]) }}"
"""

RETURN = r"""
_raw:
  description: One dictionary with the variables that were given, by their names without the prefix.
  type: list
  elements: dict
"""

import os
import typing as t
from collections.abc import Mapping

from ansible.plugins.lookup import LookupBase
from ansible.utils.path import unfrackpath

PREFIX = "composable_"
PATHS = ("config_path", "emulator_dir", "emulator_fabric", "images_path", "kubeconfig", "report_dir", "usage_path",
         "whatif_capture")
ENVIRONMENT = "COMPOSABLE_CONFIG_PATH"


class LookupModule(LookupBase):
    """The lookup plugin."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the variables that are set."""
        given: Mapping[str, t.Any] = kwargs.get("of") or variables or {}
        was: Mapping[str, str] = kwargs.get("was") or {}
        found: dict[str, t.Any] = {}
        for name in terms:
            old, new = was.get(name, name), PREFIX + name
            if new in given:
                found[name] = given[new]
            elif old in given:
                self.deprecate(old, new)
                found[name] = given[old]
        templar: t.Any = self._templar
        found = templar.template(found)
        absent = "config" not in found and not found.get("config_path")
        if "config_path" in terms and absent and os.environ.get(ENVIRONMENT):
            found["config_path"] = os.environ[ENVIRONMENT]
        return [{name: resolved(value) if name in PATHS else value for name, value in found.items()}]

    def deprecate(self, old: str, new: str) -> None:
        """Warn that a variable has a new name."""
        said = f"The variable {old} is now called {new}."
        self._display.deprecated(said, version="2.0.0", collection_name="composable.infra")


def resolved(path: t.Any) -> t.Any:
    """Return an absolute path.

    Ansible resolves a relative path beside the playbook, in the installed collection. Return other
    values than texts unchanged, such as a kubeconfig as a mapping.
    """
    return unfrackpath(str(path), follow=False) if isinstance(path, str) and path else path
