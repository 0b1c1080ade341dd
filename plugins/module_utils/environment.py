# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables as values of options, and clear errors that name the variable.

Ansible's own errors name only the option.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Container, Iterable, Mapping

from ansible.module_utils.basic import AnsibleFallbackNotFound
from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.parsing.convert_bool import boolean

Options = Mapping[str, Mapping[str, t.Any]]
# Conversion of a text for each type that not every text fits, and the text of the error.
TYPES: t.Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "bool": (boolean, "true or false"), "float": (float, "a number"),
    "dict": (check_type_dict, "a mapping as JSON, such as {\"name\": \"value\"}")}


def environment_value(*names: str) -> str:
    """Return the first of these variables that is not blank, as the fallback of an option.

    AWX sets every variable of a credential type, and sets it to an empty text if its field is
    empty. Source: ansible/awx, ``CredentialType.inject_credential`` in
    awx/main/models/credential.py. Raise AnsibleFallbackNotFound.
    """
    return os.environ[in_force(names)]


def in_force(names: Iterable[str]) -> str:
    """Return the name of the first variable that is not blank. Raise AnsibleFallbackNotFound."""
    for name in names:
        if os.environ.get(name, "").strip():
            return name
    raise AnsibleFallbackNotFound


def problem(options: Options, given: Container[str]) -> str:
    """Return the problem of a variable of an option that is not set, or an empty text.

    Args:
        options: Options as in an argument specification. Those with a ``fallback`` have variables.
        given: Names and aliases of the options that the user set. Their variables do not count.
    """
    for name, option in options.items():
        known = (name, *option.get("aliases", ()))
        if not option.get("fallback") or any(each in given for each in known):
            continue
        try:
            variable = in_force(option["fallback"][1])
        except AnsibleFallbackNotFound:
            continue
        if found := wrong(variable, option):
            return found
    return ""


def wrong(variable: str, option: Mapping[str, t.Any]) -> str:
    """Return the problem of a variable's value for an option with ``type`` and ``choices``.

    Return an empty text if the value is allowed.
    """
    text, choices = os.environ[variable], option.get("choices")
    if choices and text not in choices:
        return f"{variable}: {text!r} is not allowed. Allowed are {', '.join(choices)}"
    convert, must_be = TYPES.get(option["type"], (str, ""))
    try:
        convert(text)
    except (TypeError, ValueError):
        return f"{variable}: {text!r} is not allowed. It must be {must_be}"
    return ""


def source_of(name: str, value: object, options: Options) -> str:
    """Return the variable that has the value of an option, or an empty text."""
    option = options.get(name) or {}
    try:
        variable = in_force((option.get("fallback") or (None, ()))[1])
        convert, _unused = TYPES.get(option["type"], (str, ""))
        return variable if convert(os.environ[variable]) == value else ""
    except (AnsibleFallbackNotFound, TypeError, ValueError):
        return ""
