# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables a playbook reads: those in its own text and task files, and those that its roles document."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
NAME = re.compile(r"[a-z_][a-z0-9_]*", re.I)
# what a playbook takes with the prefix composable_
ASKED = re.compile(r"lookup\('composable\.infra\.playbook_variables',([^)]*)\)")
INCLUDED = re.compile(r"(?:include_tasks|import_tasks|import_playbook):\s*(\S+)")


@functools.cache
def known_variables(playbook: Path) -> set[str]:
    """Every name that the playbook or one of its roles could read."""
    text = with_includes(playbook)
    names = names_in_expressions(text)
    documents = [option for path in ROLES.iterdir() if path.name in names for option in options_of(path.name)]
    asked = {name for words in ASKED.findall(text) for name in re.findall(r"'(\w+)'", words)}
    return {*names, *documents, *(f"composable_{name}" for name in asked)}


def with_includes(path: Path) -> str:
    """The text of a file and of those that it includes."""
    text = path.read_text(encoding="utf-8")
    parts = [text]
    for name in INCLUDED.findall(text):
        target = path.parent / name.strip("\"'").rpartition("composable.infra.")[2]
        target = target if target.suffix else target.with_suffix(".yml")
        parts.append(with_includes(target))
    return "\n".join(parts)


def names_in_expressions(text: str) -> set[str]:
    """Names in template expressions and conditions; comments do not count."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return set(NAME.findall("\n".join(lines)))


@functools.cache
def options_of(role: str) -> list[str]:
    """Options that a role documents, and the shared variables that its defaults read."""
    specs = ROLES / role / "meta" / "argument_specs.yml"
    if not specs.is_file():
        return []
    document: dict[str, t.Any] = yaml.safe_load(specs.read_text(encoding="utf-8"))
    shared = re.findall(r"composable_[a-z_]+", (ROLES / role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    return [*document["argument_specs"]["main"].get("options", {}), *shared]
