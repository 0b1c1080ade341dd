# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables as values of options, and what is wrong with one: Ansible names the option only."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Container, Iterable, Mapping

from ansible.module_utils.basic import AnsibleFallbackNotFound
from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.parsing.convert_bool import boolean

Options = Mapping[str, Mapping[str, t.Any]]
# of a type that not every text fits: how a text is read, and what it must be
TYPES: t.Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "bool": (boolean, "true or false"), "float": (float, "a number"),
    "dict": (check_type_dict, "a mapping as JSON, such as {\"name\": \"value\"}")}


def environment_value(*names: str) -> str:
    """Return the first of these variables that is not blank, as the fallback of an option.

    AWX sets every variable of a credential type, to nothing where its field was left empty.
    Source: ansible/awx, ``CredentialType.inject_credential`` in awx/main/models/credential.py.
    Raises AnsibleFallbackNotFound.
    """
    return os.environ[in_force(names)]


def in_force(names: Iterable[str]) -> str:
    """Return the name of the first variable that is not blank. Raises AnsibleFallbackNotFound."""
    for name in names:
        if os.environ.get(name, "").strip():
            return name
    raise AnsibleFallbackNotFound


def problem(options: Options, given: Container[str]) -> str:
    """Return what is wrong with the variables of options that are not given, as one sentence, or nothing.

    Args:
        options: Options as in an argument specification. Those with a ``fallback`` have variables.
        given: Names and aliases of the options that the user gave. Their variables do not count.
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
    """Return what is wrong with the value of a variable for an option with ``type`` and ``choices``, or nothing."""
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
    """Return the variable that has the value of an option, or nothing."""
    option = options.get(name) or {}
    try:
        variable = in_force((option.get("fallback") or (None, ()))[1])
        convert, _unused = TYPES.get(option["type"], (str, ""))
        return variable if convert(os.environ[variable]) == value else ""
    except (AnsibleFallbackNotFound, TypeError, ValueError):
        return ""
