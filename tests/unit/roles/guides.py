# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands and YAML of the guides, as a person would copy them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

GUIDES = ROOT / "docs" / "guides"
MARK = re.compile(r"^\s*<!-- (.*) -->$")
FENCE = re.compile(r"^(\s*)```(\w*)$")
HARDWARE = "needs hardware: "


@dataclass(frozen=True)
class Block:
    """A fenced block: its guide, language (empty for commands), the remark above it, and its text."""

    guide: str
    language: str
    mark: str
    text: str

    @property
    def needs_hardware(self) -> bool:
        """Whether it says that no test can run it, and why."""
        return self.mark.startswith(HARDWARE)

    @property
    def commands(self) -> list[list[str]]:
        """Its lines as words, without leading assignments of variables; empty for another language."""
        lines = [shlex.split(line) for line in self.text.splitlines() if line.strip()] if not self.language else []
        return [without_assignments(words) for words in lines]


def without_assignments(words: list[str]) -> list[str]:
    """`A=b command` without what is only for the environment."""
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def blocks() -> list[Block]:
    """Every fenced block of every guide."""
    found = []
    for path in sorted(GUIDES.glob("*.md")):
        found += blocks_of(path.name, path.read_text(encoding="utf-8"))
    return found


def blocks_of(guide: str, text: str) -> list[Block]:
    """The fenced blocks of one text, unindented."""
    found, inside, mark, language, indent = [], False, "", "", ""
    lines: list[str] = []
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence and not inside:
            inside, indent, language, lines = True, fence[1], fence[2], []
        elif inside and line.strip() == "```":
            found.append(Block(guide, language, mark, "\n".join(lines) + "\n"))
            inside, mark = False, ""
        elif inside:
            lines.append(line.removeprefix(indent))
        elif line.strip():
            mark = match[1] if (match := MARK.match(line)) else ""
    return found
