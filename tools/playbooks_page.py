# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/playbooks.md from the table that the playbooks read: `make playbooks-page`."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from pathlib import Path

import yaml

from ansible_collections.composable.infra.plugins.lookup.playbook_problem import TABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "playbooks.md"
HEAD = """\
# Playbooks

This page lists every playbook of the collection with its variables. It is for Ansible users. Run a playbook with
`ansible-playbook composable.infra.attach -e composable_config_path=config.yml`. With `--check`, a playbook changes and
writes nothing, and you see what it would do.

A playbook refuses a variable `composable_…` that is not on this page, and a value that is not allowed. It also takes
the variables of its *sets* and the options of its *roles*. Automation controllers show its *artifact*.
"""
COMMON = "Variables of several playbooks"
COLUMNS = ("| Variable | Type | Default | Meaning |", "|---|---|---|---|")
Table = dict[str, t.Any]


def page(table: Table) -> str:
    """Return the whole page."""
    shared = shared_names(table)
    head = f"## {COMMON}\n\n{rows(shared, table)}\n"
    sets = [f"### {titled(name)}\n\n{variables(names, table)}\n" for name, names in table["sets"].items()]
    return "\n".join([HEAD, head, *sets, *(section(name, table) for name in table["playbooks"])])


def shared_names(table: Table) -> list[str]:
    """Return the variables of more than one set or playbook, which have their rows at the top."""
    takes = [*table["sets"].values(), *(book.get("takes", ()) for book in table["playbooks"].values())]
    return [name for name in table["variables"] if sum(name in names for names in takes) > 1]


def variables(names: Sequence[str], table: Table) -> str:
    """Return the rows of the variables, and the names of those with a row at the top."""
    shared = [name for name in names if name in shared_names(table)]
    own = [name for name in names if name not in shared]
    also = f"Takes {', '.join(f'`composable_{name}`' for name in shared)}."
    return "\n\n".join([*([also] if shared else []), *([rows(own, table)] if own else [])])


def titled(name: str) -> str:
    """Return the title of a set of variables."""
    return f"Set {name.replace('_', ' ')}"


def section(name: str, table: Table) -> str:
    """Return the section of a playbook."""
    book = table["playbooks"][name]
    parts = [book["description"]]
    takes = book.get("takes", ())
    if roles := book.get("roles"):
        parts.append(f"Runs the {_named('role', [f'[{role}](../roles/{role}/README.md)' for role in roles])}.")
    if tags := book.get("tags"):
        named = f"Has the {_named('tag', [f'`{tag}`' for tag in tags])}."
        parts.append("Each role is a tag." if tags == roles else named)
    if sets := [titled(each) for each in takes if each in table["sets"]]:
        parts.append(f"Takes the {_named('set', [f'[{each[4:]}](#{anchor(each)})' for each in sets])}.")
    parts += [f"Returns the artifact `{stat}`, {text}." for stat, text in book.get("returns", {}).items()]
    found = [f"## {name}", " ".join(parts)]
    if own := [each for each in takes if each not in table["sets"]]:
        found.append(variables(own, table))
    return "\n\n".join(found) + "\n"


def _named(kind: str, names: Sequence[str]) -> str:
    """Return the kind in the right number, and the names."""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def anchor(title: str) -> str:
    """Return a heading as links name it."""
    return title.lower().replace(" ", "-")


def rows(names: Sequence[str], table: Table) -> str:
    """Return a table with one row for each variable."""
    return "\n".join([*COLUMNS, *(row(name, table["variables"][name]) for name in names)])


def row(name: str, option: Table) -> str:
    """Return the row of a variable."""
    default = "required" if option.get("required") else f"`{shown(option['default'])}`" if "default" in option else ""
    allowed = f" Allowed: {', '.join(f'`{each}`' for each in option['choices'])}." if "choices" in option else ""
    return f"| `composable_{name}` | {option['type']} | {default} | {option['description']}{allowed} |"


def shown(value: object) -> str:
    """Return a default as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(yaml.safe_load(TABLE.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
