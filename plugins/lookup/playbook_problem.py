# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find misspelled variables of a playbook of this collection before it does anything."""

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_problem
short_description: Check the variables of a playbook of this collection
version_added: 0.1.0
description:
  - Returns one sentence about a variable that begins with C(composable_), if no playbook of this collection takes the
    variable, or its value is not allowed. Returns an empty text if there is no such variable.
  - Extra variables count (C(-e)), and those of the play and of every host of the inventory, also from files of
    C(group_vars) and C(host_vars). Names that the inventory plugins and the statistics of this collection use are
    allowed.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: Name of the playbook.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Fail if a variable is misspelt
  ansible.builtin.assert:
    that: problem == ''
    fail_msg: "{{ problem }}"
  vars:
    problem: "{{ lookup('composable.infra.playbook_problem', 'attach') }}"
"""

RETURN = r"""
_raw:
  description: The sentence, or an empty text.
  type: list
  elements: str
"""

import difflib
import typing as t
from collections.abc import Mapping
from pathlib import Path

import yaml
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

PREFIX = "composable_"
TABLE = Path(__file__).resolve().parents[2] / "playbooks" / "vars" / "arguments.yml"


class LookupModule(LookupBase):
    """The lookup plugin."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Return a sentence about the problem, or an empty text."""
        (playbook,) = terms
        loader: t.Any = self._loader
        table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
        found = problem(playbook, load_extra_vars(loader), table)
        known = variables or {}
        found = found or problem(playbook, {name: known[name] for name in known if name.startswith(PREFIX)}, table)
        hosts: t.Any = known.get("hostvars")
        for host in known.get("groups", {}).get("all", []) if hosts is not None and not found else ():
            if wrong := problem(playbook, hosts.raw_get(host), table):
                return [f"{wrong}. It is a variable of the host {host}"]
        return [found]


def problem(playbook: str, given: Mapping[str, t.Any], table: Mapping[str, t.Any]) -> str:
    """Return a sentence about a wrong variable in ``given``, by the table of arguments.

    Return an empty text if all are right.
    """
    known = {PREFIX + name: option for name, option in table["variables"].items()}
    # AWX passes the statistics of a job to the next job of its workflow as extra variables.
    set_by_us = {PREFIX + name for name in table["inventory"]} | {
        name for each in table["playbooks"].values() for name in each.get("returns", ())}
    for name, value in given.items():
        if not name.startswith(PREFIX) or name in set_by_us - set(known):
            continue
        if name not in known:
            return f"{name}: is not a variable of the playbooks of composable.infra. {advice(name, playbook, table)}"
        wrong = not_allowed(value, known[name].get("choices"))
        if wrong:
            return f"{name}: {wrong[0]!r} is not allowed. Allowed are {', '.join(known[name]['choices'])}"
    return ""


def advice(name: str, playbook: str, table: Mapping[str, t.Any]) -> str:
    """Return the variable that may be meant, or the variables of the playbook."""
    close = difflib.get_close_matches(name[len(PREFIX):], table["variables"], n=1)
    if close:
        return f"Did you mean {PREFIX}{close[0]}?"
    own = ", ".join(PREFIX + each for each in takes(playbook, table))
    return f"{playbook} takes {own}" if own else "It takes the options of its role"


def takes(playbook: str, table: Mapping[str, t.Any]) -> list[str]:
    """Return the names of a playbook's variables without the prefix, in the order of the table."""
    named = table["playbooks"][playbook].get("takes", [])
    return [each for name in named for each in table["sets"].get(name, [name])]


def not_allowed(value: t.Any, choices: list[str] | None) -> list[t.Any]:
    """Return the values that are not among the choices. Templates are checked at their use."""
    if choices is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [each for each in values if "{{" not in str(each) and each not in choices]
