# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add the connection of AWX's credential or a shell's variables to a configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: with_environment
short_description: Complete a configuration with connection options from the environment
version_added: 0.1.0
description:
  - Options of the connection to the CDI Manager that C(fabric) does not set are taken from the environment variables of
    the modules, such as E(COMPOSABLE_ENDPOINT). So the configuration needs no secrets.
  - If the environment has secrets, the filter refuses a configuration with another C(endpoint) or C(layout_endpoint)
    than the environment. Otherwise a user who starts a job with their own variables could have the secrets of its
    credential sent to their own server.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The configuration, as a mapping or as YAML text.
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

import typing as t
from collections.abc import Callable, Mapping

import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils.basic import AnsibleFallbackNotFound

from ..module_utils.environment import TYPES, environment_value, wrong
from ..module_utils.fabric.config import ENDPOINTS
from ..module_utils.fabric_module import FABRIC_OPTIONS

SECRETS: t.Final = ("password", "client_secret", "credentials_dir")


def with_environment(config: object) -> dict[str, t.Any]:
    """Return the configuration with the values of the environment. Raise AnsibleFilterError."""
    data = parsed(config)
    given = data.get("fabric") or {}
    if not isinstance(given, Mapping):
        raise AnsibleFilterError("config: fabric: must be a mapping with the connection to the CDI Manager")
    found = {
        name: value
        for name in FABRIC_OPTIONS
        if given.get(name) is None and (value := of_environment(name)) is not None
    }
    refuse_foreign_endpoint(given, found)
    return {**data, "fabric": {**found, **given}}


def refuse_foreign_endpoint(given: Mapping[str, t.Any], found: Mapping[str, object]) -> None:
    """Raise AnsibleFilterError if secrets of the environment would go to another endpoint."""
    secrets = [f"COMPOSABLE_{name.upper()}" for name in SECRETS if name in found]
    for name in ENDPOINTS:
        if secrets and given.get(name) is not None and given[name] != of_environment(name):
            raise AnsibleFilterError(
                f"config: fabric.{name}: is not COMPOSABLE_{name.upper()}, so {' and '.join(secrets)} would be sent to "
                f"another server: leave {name} out, or set COMPOSABLE_{name.upper()} to it")


def parsed(config: object) -> Mapping[str, t.Any]:
    """Return a configuration as a mapping. It may be YAML text."""
    try:
        data = yaml.safe_load(config) if isinstance(config, str) else config
    except yaml.YAMLError:
        raise AnsibleFilterError("config: is not valid YAML") from None
    if not isinstance(data, Mapping):
        raise AnsibleFilterError(f"config: must be a mapping of settings, is {type(data).__name__}")
    return data


def of_environment(name: str) -> object:
    """Return the value of an option from its variable, or None.

    Raise AnsibleFilterError if the value does not fit.
    """
    variable = f"COMPOSABLE_{name.upper()}"
    try:
        text = environment_value(variable)
    except AnsibleFallbackNotFound:
        return None
    if problem := wrong(variable, FABRIC_OPTIONS[name]):
        raise AnsibleFilterError(problem)
    convert, _unused = TYPES.get(FABRIC_OPTIONS[name]["type"], (str, ""))
    return convert(text)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[[object], dict[str, t.Any]]]:
        """Return the filter by its name."""
        return {"with_environment": with_environment}
