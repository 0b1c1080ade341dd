# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/playbooks.md from the table that the playbooks read: `make playbooks-page`."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

from ansible_collections.composable.infra.plugins.lookup.playbook_problem import TABLE, takes

PAGE = Path(__file__).resolve().parents[1] / "docs" / "playbooks.md"
HEAD = """\
# Playbooks

This page lists every playbook of the collection with its variables. It is for Ansible users. Run a playbook with
`ansible-playbook composable.infra.attach -e composable_config_path=config.yml`. To see what it would do, add `--check`.

A variable with the prefix `composable_` that is not on this page is refused if you give it with `-e`. So is a value
that is not allowed. `make playbooks-page` writes this page.
"""
COMMON = "Variables of several playbooks"
COLUMNS = ("| Variable | Type | Default | Meaning |", "|---|---|---|---|")
Table = dict[str, t.Any]


def page(table: Table) -> str:
    """Return the whole page."""
    common = shared(table)
    rows = [row(name, table["variables"][name]) for name in common]
    head = f"## {COMMON}\n\nThe sections of the playbooks name those that they take.\n\n" + "\n".join([*COLUMNS, *rows])
    return "\n".join([HEAD, head + "\n", *(section(name, table, common) for name in table["playbooks"])])


def shared(table: Table) -> list[str]:
    """Return the variables that at least three playbooks take, in the order of the table."""
    counts = Counter(name for book in table["playbooks"] for name in takes(book, table))
    return [name for name in table["variables"] if counts[name] > 2]


def section(name: str, table: Table, common: Sequence[str] = ()) -> str:
    """Return the section of a playbook. The variables ``common`` are described elsewhere on the page."""
    book = table["playbooks"][name]
    parts = [f"## {name}", f"{book['description']} With `--check` it {book['check']}."]
    if roles := book.get("roles"):
        links = ", ".join(f"[{role}](../roles/{role}/README.md)" for role in roles)
        parts.append(f"It takes the options of the roles {links} too." if book.get("takes") else
                     f"Its variables are the options of the role {links}.")
    if tags := book.get("tags"):
        parts.append(f"Tags: {', '.join(f'`{tag}`' for tag in tags)}.")
    names = takes(name, table)
    if named := [f"`composable_{each}`" for each in names if each in common]:
        link = f"[{COMMON}](#{COMMON.lower().replace(' ', '-')})"
        parts.append(f"{link}: {', '.join(named)}.")
    if rows := [row(each, table["variables"][each]) for each in names if each not in common]:
        parts.append("\n".join([*COLUMNS, *rows]))
    for stat, text in book.get("returns", {}).items():
        parts.append(f"It sets the statistic `{stat}`: {text}. Automation controllers show it as an artifact.")
    return "\n\n".join(parts) + "\n"


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
