# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure and check the language of README.md and docs/.

``python -m tools.words`` prints the figures of each page. ``python -m tools.words --check`` prints
each sentence that breaks a rule of ``tools/words.yml``, and fails if there is one. `make lint` runs
the check.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_suffix(".yml")
INVERTED = re.compile(r"(?:Of|What|Where|Who|Whose|Whoever|Whatever|Nor|One that|So many)\b")
YOU = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
WORD = re.compile(r"\S*\w\S*")
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[A-Z`\"“(])")
MESSAGE = re.compile(r'"[^"]+"')
"""A message of the product, which is checked where it is written."""
QUOTED = "x"
"""Stands in a sentence in place of code and messages, so that these count as one word."""


@dataclass(frozen=True)
class Figures:
    """Counts of one page, or of several pages together."""

    words: int = 0
    sentences: int = 0
    inverted: int = 0
    colons: int = 0
    semicolons: int = 0
    you: int = 0

    def __add__(self, other: Figures) -> Figures:
        """Return the counts of both."""
        return Figures(self.words + other.words, self.sentences + other.sentences,
                       self.inverted + other.inverted, self.colons + other.colons,
                       self.semicolons + other.semicolons, self.you + other.you)

    def __sub__(self, other: Figures) -> Figures:
        """Return the counts without those of ``other``, which are part of them."""
        return Figures(self.words - other.words, self.sentences - other.sentences,
                       self.inverted - other.inverted, self.colons - other.colons,
                       self.semicolons - other.semicolons, self.you - other.you)

    def share(self, count: int) -> float:
        """Return ``count`` as a percentage of the sentences, 0 if there is no sentence."""
        return 100 * count / self.sentences if self.sentences else 0.0


@dataclass(frozen=True)
class Rules:
    """The data of ``tools/words.yml``.

    ``banned`` maps a pattern to the words to use instead. ``allowed`` maps a page to parts of its
    sentences, each with a reason. ``waiting`` names the pages that are not checked yet, and
    ``code`` the folders of Python files that are checked already. ``messages`` and
    ``allowed_messages`` are the folders and the exceptions of the check of messages.
    """

    banned: Mapping[re.Pattern[str], str]
    allowed: Mapping[str, Mapping[str, str]]
    waiting: frozenset[str]
    code: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    allowed_messages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def rules(path: Path = RULES) -> Rules:
    """Return the rules of a file.

    Raises ValueError if an exception has no reason.
    """
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    allowed = {page: dict(lines) for page, lines in (data["allowed"] or {}).items()}
    messages = {page: dict(lines) for page, lines in (data.get("allowed_messages") or {}).items()}
    for page, lines in [*allowed.items(), *messages.items()]:
        if lacking := [line for line, reason in lines.items() if not reason]:
            raise ValueError(f"{path.name}: the exception {lacking[0]!r} of {page} has no reason")
    banned = {re.compile(pattern): instead for pattern, instead in data["banned"].items()}
    return Rules(banned, allowed, frozenset(data["waiting"] or ()), tuple(data.get("code") or ()),
                 tuple(data.get("messages") or ()), messages)


def pages(root: Path = ROOT) -> list[str]:
    """Return the paths of README.md and of all pages below docs/, relative to ``root``."""
    found = sorted((root / "docs").rglob("*.md"))
    return ["README.md", *(path.relative_to(root).as_posix() for path in found)]


def prose(text: str, *, cells: bool = False) -> Iterator[tuple[int, str]]:
    """Yield first line and text of each paragraph, list item and, with ``cells``, table cell.

    Code, headings, heads of tables, pictures and comments are no prose.
    """
    outer: list[str] = []
    skipped = {"heading_open", "thead_open" if cells else "table_open"}
    start = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type.endswith("_open"):
            outer.append(token.type)
            start = token.map[0] + 1 if token.map else start
        elif token.type.endswith("_close"):
            outer.pop()
        elif token.type == "inline" and not skipped & set(outer):
            yield start, _plain(token.children or ())


def _plain(tokens: Iterable[Token]) -> str:
    """Return the text of inline tokens, with ``QUOTED`` in place of code."""
    text = ""
    for token in tokens:
        if token.type == "code_inline":
            text += QUOTED
        elif token.type in ("softbreak", "hardbreak"):
            text += " "
        elif token.type == "text":
            text += token.content
    return text.strip()


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph."""
    return [part for part in SENTENCE_END.split(paragraph) if len(part.split()) > 1]


def measure(text: str) -> Figures:
    """Return the counts of a page.

    ``words`` counts the words of the whole file with its code, without the marks of tables and
    lists. The rest counts prose.
    """
    found = [sentence for _line, paragraph in prose(text) for sentence in sentences(paragraph)]
    return Figures(
        words=len(WORD.findall(text)), sentences=len(found),
        inverted=sum(bool(INVERTED.match(sentence)) for sentence in found),
        colons=sum(":" in sentence for sentence in found),
        semicolons=sum(";" in sentence for sentence in found),
        you=sum(bool(YOU.search(sentence)) for sentence in found))


def problems(page: str, text: str, by: Rules) -> Iterator[str]:
    """Yield one line for each sentence of a page that has a banned word or opening."""
    if page in by.waiting:
        return
    allowed = by.allowed.get(page, {})
    for line, paragraph in prose(text, cells=True):
        said = MESSAGE.sub(f'"{QUOTED}"', paragraph)
        for sentence in sentences(said) or [said]:
            for pattern, instead in by.banned.items():
                found = pattern.search(sentence)
                if found and not any(known in sentence for known in allowed):
                    yield f"{page}:{line}: {found[0]!r}: {instead}: {sentence}"


def unused(texts: Mapping[str, str], by: Rules) -> Iterator[str]:
    """Yield one line for each exception without a sentence, and for each page that is not there."""
    for page, lines in by.allowed.items():
        found = " ".join(paragraph for _line, paragraph in prose(texts.get(page, ""), cells=True))
        yield from (f"{RULES.name}: {page}: no sentence contains {line!r}"
                    for line in lines if line not in found)
    gone = sorted(by.waiting - set(texts))
    yield from (f"{RULES.name}: the page {page} does not exist" for page in gone)


def table(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the figures of each page, and of all pages, as the rows of a table."""
    yield f"{'page':40} {'words':>6} {'inverted':>9} {'colon':>7} {'semicolon':>10} {'you':>6}"
    measured = {page: measure(text) for page, text in texts.items()}
    groups = {"how-to": ("docs/guides/",), "contributors": ("docs/contributors/",)}
    sums = {name: sum((found for page, found in measured.items() if page.startswith(begins)), Figures())
            for name, begins in groups.items()}
    whole = sum(measured.values(), Figures())
    sums |= {"users": whole - sums["contributors"], "all": whole}
    for name, found in {**measured, **sums}.items():
        counts = (found.inverted, found.colons, found.semicolons, found.you)
        shares = [f"{found.share(count):.1f}%" for count in counts]
        yield (f"{name:40} {found.words:6} {shares[0]:>9} {shares[1]:>7} {shares[2]:>10} "
               f"{shares[3]:>6}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, or check the pages. Return 1 if the check finds something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="print sentences that break a rule")
    options = parser.parse_args(arguments)
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages()}
    if not options.check:
        print("\n".join(table(texts)))
        return 0
    by = rules()
    found = [line for page, text in texts.items() for line in problems(page, text, by)]
    found += unused(texts, by)
    print("\n".join(found) or f"words: {len(texts) - len(by.waiting)} pages keep to {RULES.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
