# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/playbooks.md from the table that the playbooks themselves read: `make playbooks-page`."""

from __future__ import annotations

import typing as t
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
Table = dict[str, t.Any]


def page(table: Table) -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(section(name, table) for name in table["playbooks"])])


def section(name: str, table: Table) -> str:
    """Return the section of a playbook."""
    book = table["playbooks"][name]
    parts = [f"## {name}", f"{book['description']} With `--check` it {book['check']}."]
    if roles := book.get("roles"):
        links = ", ".join(f"[{role}](../roles/{role}/README.md)" for role in roles)
        parts.append(f"It takes the options of the roles {links} too." if book.get("takes") else
                     f"Its variables are the options of the role {links}.")
    if tags := book.get("tags"):
        parts.append(f"Tags: {', '.join(f'`{tag}`' for tag in tags)}.")
    if names := takes(name, table):
        rows = [row(each, table["variables"][each]) for each in names]
        parts.append("\n".join(["| Variable | Type | Default | Meaning |", "|---|---|---|---|", *rows]))
    for stat, text in book.get("returns", {}).items():
        parts.append(f"It sets the statistic `{stat}`: {text}. Automation controllers show it as an artifact.")
    return "\n\n".join(parts) + "\n"


def row(name: str, option: Table) -> str:
    """Return the row of a variable."""
    default = "required" if option.get("required") else f"`{shown(option['default'])}`" if "default" in option else ""
    allowed = f" Allowed: {', '.join(f'`{each}`' for each in option['choices'])}." if "choices" in option else ""
    return f"| `composable_{name}` | {option['type']} | {default} | {option['description']}{allowed} |"


def shown(value: object) -> str:
    """Return a default as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(yaml.safe_load(TABLE.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
