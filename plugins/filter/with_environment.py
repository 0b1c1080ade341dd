# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completes a configuration with the connection that a credential of AWX, or a shell, has put into the environment."""

from __future__ import annotations

DOCUMENTATION = r"""
name: with_environment
short_description: Complete a configuration with the connection that the environment names
version_added: 1.0.0
description:
  - Options of the connection to the CDI Manager that C(fabric) does not set are taken from the variables that the
    modules know, such as E(COMPOSABLE_ENDPOINT). So a configuration that is kept in the open needs no secrets.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The configuration; text is read as YAML.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Serve all waiting claims with the connection of the job's credential
  composable.infra.scale:
    config: "{{ my_config | composable.infra.with_environment }}"
"""

RETURN = r"""
_value:
  description: The completed configuration.
  type: dict
"""

import os
import typing as t
from collections.abc import Callable, Mapping

import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils.door import FABRIC_OPTIONS

CONVERTED: dict[str, Callable[[str], object]] = {"bool": boolean, "float": float}


def with_environment(config: object) -> dict[str, t.Any]:
    """The configuration with what the environment adds. Raises AnsibleFilterError."""
    data = parsed(config)
    given = data.get("fabric") or {}
    if not isinstance(given, Mapping):
        raise AnsibleFilterError("config: fabric: must be a mapping with the connection to the CDI Manager")
    found = {
        name: value
        for name in FABRIC_OPTIONS
        if given.get(name) is None and (value := of_environment(name)) is not None
    }
    return {**data, "fabric": {**found, **given}}


def parsed(config: object) -> Mapping[str, t.Any]:
    """A configuration that may come as text."""
    try:
        data = yaml.safe_load(config) if isinstance(config, str) else config
    except yaml.YAMLError:
        raise AnsibleFilterError("config: is not valid YAML") from None
    if not isinstance(data, Mapping):
        raise AnsibleFilterError(f"config: must be a mapping of settings, is {type(data).__name__}")
    return data


def of_environment(name: str) -> object:
    """An option's value from its variable, None without one. Raises AnsibleFilterError for one that does not fit."""
    variable = f"COMPOSABLE_{name.upper()}"
    text = os.environ.get(variable)
    if not text:
        return None
    kind = FABRIC_OPTIONS[name]["type"]
    try:
        return CONVERTED[kind](text) if kind in CONVERTED else text
    except (TypeError, ValueError):
        raise AnsibleFilterError(f"{variable}: {text!r} is not usable: must be a {kind}") from None


class FilterModule:
    """What Ansible asks a filter plugin for."""

    def filters(self) -> dict[str, Callable[[object], dict[str, t.Any]]]:
        """The filter by its name."""
        return {"with_environment": with_environment}
