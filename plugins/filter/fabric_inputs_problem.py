# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the inputs of AWX's credential for a CDI Manager before a job fails because of them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_inputs_problem
short_description: Check the inputs of a credential for a CDI Manager
version_added: 0.1.0
description:
  - Returns one sentence that names the input, its value and what is allowed. Returns an empty text when jobs with this
    credential can use the CDI Manager.
  - Inputs are texts, as AWX stores them. An empty input counts as absent.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The inputs, as C(awx_fabric_inputs) of the role P(composable.infra.awx#role) has them.
    type: dict
    required: true
  connection:
    description: C(fabric) of the configuration that jobs use with the credential.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Refuse a credential with which each job would fail
  ansible.builtin.assert:
    that: problem == ''
    fail_msg: "awx_fabric_inputs: {{ problem }}"
  vars:
    problem: "{{ awx_fabric_inputs | composable.infra.fabric_inputs_problem }}"
"""

RETURN = r"""
_value:
  description: The sentence, or an empty text.
  type: str
"""

import typing as t
from collections.abc import Callable, Mapping

from ..module_utils.environment import TYPES
from ..module_utils.fabric.config import FabricConfig
from ..module_utils.fabric.errors import BadConfiguration
from ..module_utils.fabric_module import FABRIC_OPTIONS

# Inputs with a PEM text, which a job receives as a file.
AS_FILES = ("certificate", "client_certificate", "client_key")
TRUTH = {"true": True, "false": False}


def fabric_inputs_problem(inputs: Mapping[str, object], connection: Mapping[str, object] | None = None) -> str:
    """Return the error of a module with `inputs` and `connection` together, or an empty text."""
    given = {name: value for name, value in inputs.items() if value not in (None, "")}
    unknown = sorted(set(given) - set(FABRIC_OPTIONS) - set(AS_FILES))
    if unknown:
        return f"{unknown[0]}: is not an input of the credential type CDI Manager"
    ours = {name: value for name, value in (connection or {}).items() if name in FABRIC_OPTIONS}
    try:
        read = {name: as_option(name, value) for name, value in given.items() if name not in AS_FILES}
        FabricConfig.from_dict({**ours, **read})
    except BadConfiguration as error:
        return str(error)
    if "client_key" in given and "client_certificate" not in given:
        return "client_key: give client_certificate too"
    return ""


def as_option(name: str, value: object) -> t.Any:
    """Return the value of the module's option for the text of an input. Raise BadConfiguration."""
    kind = FABRIC_OPTIONS[name].get("type", "str")
    if kind == "bool" and not isinstance(value, bool):
        if str(value).lower() not in TRUTH:
            raise BadConfiguration(name, value, "allowed are true, false")
        return TRUTH[str(value).lower()]
    if kind == "dict" and isinstance(value, str):
        convert, words = TYPES[kind]
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise BadConfiguration(name, value, f"it must be {words}") from None
    if kind in ("int", "float") and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise BadConfiguration(name, value, "it must be a number") from None
    return value


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by its name."""
        return {"fabric_inputs_problem": fabric_inputs_problem}
