# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands and YAML of README, quickstart and guides, as a person would copy them.

The comment above a block says what a test does with it. `tests/archive` runs blocks with such a mark.

    <!-- runs: SETTING -->               run in a folder that the setting prepares
    <!-- runs: SETTING, until TEXT -->   the same for a program that does not end by itself: it is stopped after TEXT
    <!-- not run: REASON -->

The blocks of a tutorial run one after the other in one folder. A block of text below shows what the commands print:

    <!-- prints -->                  each of its lines is in the output, in this order
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

FIRST = ("README.md", "docs/quickstart.md")
FOLDERS = ("", "guides", "tutorials")
PRINTS = "prints"
MARK = re.compile(r"^\s*<!-- (.*) -->$")
FENCE = re.compile(r"^(\s*)```(\w*)$")
RUNS = re.compile(r"runs: ([^,]+)(?:, until (.+))?")
NOT_RUN = "not run: "


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line and language (empty for commands), the remark above it, and its text."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def setting(self) -> str:
        """Return the setting in which the block runs, or nothing."""
        return found[1] if (found := RUNS.fullmatch(self.mark)) else ""

    @property
    def until(self) -> str:
        """Return the text after which its program is stopped, or nothing if it ends by itself."""
        return (found[2] or "") if (found := RUNS.fullmatch(self.mark)) else ""

    @property
    def not_run(self) -> str:
        """Return the reason why no test runs the block, or nothing."""
        return self.mark.removeprefix(NOT_RUN) if self.mark.startswith(NOT_RUN) else ""

    @property
    def commands(self) -> list[list[str]]:
        """Its lines as words, without leading assignments of variables; empty for another language."""
        lines = [shlex.split(line, comments=True) for line in self.text.splitlines()] if not self.language else []
        return [words for line in lines if (words := without_assignments(line))]


def without_assignments(words: list[str]) -> list[str]:
    """`A=b command` without what is only for the environment."""
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def blocks() -> list[Block]:
    """Every fenced block of every page."""
    pages = dict.fromkeys([*FIRST, *(page for folder in FOLDERS for page in pages_of(folder))])
    return [block for page in pages for block in blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))]


def pages_of(folder: str) -> list[str]:
    """Paths of the pages in a folder of the docs."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / folder).glob("*.md"))


def missing(shown: str, output: str) -> list[str]:
    """Return the first of the shown lines that the output does not have after those before it, or nothing."""
    at = 0
    for line in shown.splitlines():
        found = output.find(line.strip(), at)
        if found < 0:
            return [line]
        at = found + len(line.strip())
    return []


def blocks_of(page: str, text: str) -> list[Block]:
    """The fenced blocks of one text, unindented."""
    found, inside, mark, language, indent, start = [], False, "", "", "", 0
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and not inside:
            inside, indent, language, start, lines = True, fence[1], fence[2], number, []
        elif inside and line.strip() == "```":
            found.append(Block(page, start, language, mark, "\n".join(lines) + "\n"))
            inside, mark = False, ""
        elif inside:
            lines.append(line.removeprefix(indent))
        elif line.strip():
            mark = match[1] if (match := MARK.match(line)) else ""
    return found
