# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the configuration from a variable or a file, or return the problem."""

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_config
short_description: Configuration of a playbook of this collection
version_added: 0.1.0
description:
  - Returns the configuration from the variable C(composable_config), or from the file that C(composable_config_path) or
    E(COMPOSABLE_CONFIG_PATH) names.
  - If the configuration cannot be read, the plugin returns a sentence with the reason and does not fail. So a task can
    print the reason although it hides the configuration.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: One dictionary, as P(composable.infra.playbook_variables#lookup) returns it.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the configuration is not valid
  ansible.builtin.assert:
    that: found.problem == ''
    fail_msg: "{{ found.problem }}"
  vars:
    given: "{{ lookup('composable.infra.playbook_variables', 'config', 'config_path') }}"
    found: "{{ lookup('composable.infra.playbook_config', given) }}"
"""

RETURN = r"""
_raw:
  description:
    - One dictionary. C(config) is the configuration, empty if it cannot be read. C(problem) is the reason, else empty.
  type: list
  elements: dict
"""

import os
import typing as t
from collections.abc import Mapping
from pathlib import Path

import yaml
from ansible.plugins.lookup import LookupBase
from ansible.utils.path import unfrackpath

VARIABLE = "composable_config_path"
ENVIRONMENT = "COMPOSABLE_CONFIG_PATH"
MISSING = (f"{VARIABLE}: is missing: name the file with the configuration, or give "
           "composable_config")


class Unreadable(Exception):
    """The configuration cannot be read. The message is a sentence with the reason."""


class LookupModule(LookupBase):
    """The lookup plugin."""

    def run(self, terms: list[Mapping[str, t.Any]], variables: t.Any = None,
            **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the configuration, or the problem."""
        (given,) = terms
        try:
            return [{"config": read(given, os.environ), "problem": ""}]
        except Unreadable as error:
            return [{"config": {}, "problem": str(error)}]


def read(given: Mapping[str, t.Any], environment: Mapping[str, str]) -> Mapping[str, t.Any]:
    """Return the configuration of a playbook's variables `given`. Raise Unreadable."""
    if given.get("config") is not None:
        return mapping(given["config"], "composable_config")
    path, of_environment = given.get("config_path"), environment.get(ENVIRONMENT)
    if not path:
        raise Unreadable(MISSING)
    file = Path(path)
    name = ENVIRONMENT if of_environment and path == unfrackpath(of_environment, follow=False) else VARIABLE
    try:
        return mapping(file.read_text(encoding="utf-8"), f"{name}: {file}")
    except OSError as error:
        raise Unreadable(f"{name}: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{name}: {file}: is not text in UTF-8") from None


def mapping(data: object, where: str) -> Mapping[str, t.Any]:
    """Return a configuration, which may be YAML text, as a mapping.

    `where` begins the message of Unreadable.
    """
    try:
        found = yaml.safe_load(data) if isinstance(data, str) else data
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise Unreadable(f"{where}: is not valid YAML{line}") from None
    if not isinstance(found, Mapping):
        raise Unreadable(f"{where}: must be a mapping of settings, is {type(found).__name__}")
    return found
