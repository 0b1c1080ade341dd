# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert the Markdown of our documentation into HTML, so that the controllers can serve it.

It reads the parts that our pages use, which are headings, paragraphs, lists, tables, code, emphasis
and links. All other markup stays text. Source: GitHub Flavored Markdown,
https://github.github.com/gfm/.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape

_COMMENT: t.Final = re.compile(r"^ *<!--.*?--> *\n|<!--.*?-->", re.DOTALL | re.MULTILINE)
_HEADING: t.Final = re.compile(r"(#{1,6}) (.+)")
_FENCE: t.Final = re.compile(r" *```")
_ITEM: t.Final = re.compile(r"( *)(?:[-*]|(\d+)\.) +(.*)")
_RULE: t.Final = re.compile(r"\|?[ :|-]+\|[ :|-]*")
_CELL: t.Final = re.compile(r"(?<!\\)\|")
# Code first, since it contains no other markup.
_INLINE: t.Final = re.compile(
    r"(?P<code>`+)(?P<text>.+?)(?P=code)|!\[(?P<alt>[^]]*)\]\([^)]*\)|\[(?P<label>(?:`[^`]*`|[^]`])+)\]\((?P<to>[^)\s]+)\)"
    r"|<(?P<auto>https?://[^>\s]+)>|\*\*(?P<strong>.+?)\*\*|\*(?P<em>[^*\s][^*]*)\*|(?P<line><br>)")
_OUTSIDE: t.Final = ("https://", "http://")


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def html(text: str, linked: Callable[[str], str]) -> str:
    """Return the HTML of a page.

    ``text``: the page in Markdown. ``linked``: gets the target of a link inside the documentation,
    and returns the address to use, or an empty text for a target that is not served.
    """
    return "\n".join(_Reader(_COMMENT.sub("", text).splitlines(), linked).blocks())


class _Reader:
    """Read the lines of a page, one block after the other."""

    def __init__(self, lines: list[str], linked: Callable[[str], str]) -> None:
        self._lines, self._linked, self._at = lines, linked, 0
        self._anchors: Counter[str] = Counter()

    def blocks(self) -> Iterator[str]:
        """Yield the HTML of each block."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip():
                self._at += 1
            elif found := _HEADING.fullmatch(line):
                self._at += 1
                yield self._heading(len(found[1]), found[2])
            elif _FENCE.match(line):
                yield self._code()
            elif line.lstrip().startswith("|"):
                yield self._table()
            elif _ITEM.fullmatch(line):
                yield self._list()
            else:
                yield f"<p>{self._inline(self._paragraph())}</p>"

    def _heading(self, level: int, text: str) -> str:
        name = slug(re.sub(r"[`*]", "", text))
        number = self._anchors[name]
        self._anchors[name] += 1
        anchor = f"{name}-{number}" if number else name
        return f'<h{level} id="{escape(anchor)}">{self._inline(text)}</h{level}>'

    def _code(self) -> str:
        indent = len(self._lines[self._at]) - len(self._lines[self._at].lstrip())
        self._at += 1
        found: list[str] = []
        while self._at < len(self._lines) and not _FENCE.match(self._lines[self._at]):
            found.append(self._lines[self._at][indent:])
            self._at += 1
        self._at += 1
        return f'<pre tabindex="0"><code>{escape(chr(10).join(found))}</code></pre>'

    def _table(self) -> str:
        rows: list[list[str]] = []
        while self._at < len(self._lines) and self._lines[self._at].lstrip().startswith("|"):
            line = self._lines[self._at].strip()
            if len(rows) != 1 or not _RULE.fullmatch(line):
                cells = _CELL.split(line.removeprefix("|").removesuffix("|"))
                rows.append([cell.strip().replace("\\|", "|") for cell in cells])
            self._at += 1
        rows = [[*row, *[""] * (len(rows[0]) - len(row))] for row in rows]
        head = "".join(self._cell(cell, "th") for cell in rows[0])
        body = "".join(f"<tr>{''.join(self._cell(cell, 'td') for cell in row)}</tr>" for row in rows[1:])
        return (f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
                f"<tbody>{body}</tbody></table></div>")

    def _cell(self, text: str, tag: str) -> str:
        if tag == "th" and not text:
            return "<td></td>"
        return f'<{tag}{" scope=col" if tag == "th" else ""}>{self._inline(text)}</{tag}>'

    def _list(self) -> str:
        """Return a list with the contents of its items, such as further lines, code and inner
        lists.
        """
        first = _ITEM.fullmatch(self._lines[self._at])
        assert first
        indent, items = len(first[1]), list[str]()
        while (found := self._item(indent)) is not None:
            inside = _Reader(found, self._linked)
            lead = inside._paragraph()
            items.append(f"<li>{self._inline(lead)}{''.join(inside.blocks())}</li>")
        tag = "ol" if first[2] else "ul"
        return f"<{tag}>{''.join(items)}</{tag}>"

    def _item(self, indent: int) -> list[str] | None:
        """Return the lines of the next item at this indentation, None at the end of the list."""
        start = self._at
        while start < len(self._lines) and not self._lines[start].strip():
            start += 1
        found = _ITEM.fullmatch(self._lines[start]) if start < len(self._lines) else None
        if not found or len(found[1]) != indent:
            return None
        self._at, lines = start + 1, [found[3]]
        inner = len(self._lines[start]) - len(found[3])
        while self._at < len(self._lines):
            line = self._lines[self._at]
            deeper = len(line) - len(line.lstrip()) > indent
            if line.strip() and not deeper and (_ITEM.fullmatch(line) or self._begins_block(line) or not lines[-1]):
                break
            lines.append(line[min(inner, len(line) - len(line.lstrip())):])
            self._at += 1
        return lines

    def _paragraph(self) -> str:
        """Return the text up to the next block."""
        found: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip() or (found and (self._begins_block(line) or _ITEM.fullmatch(line))):
                break
            found.append(line.strip())
            self._at += 1
        return " ".join(found)

    @staticmethod
    def _begins_block(line: str) -> bool:
        return bool(_HEADING.fullmatch(line) or _FENCE.match(line) or line.lstrip().startswith("|"))

    def _inline(self, text: str) -> str:
        found, at = [], 0
        for match in _INLINE.finditer(text):
            found += [escape(text[at:match.start()], quote=False), self._span(match)]
            at = match.end()
        return "".join([*found, escape(text[at:], quote=False)])

    def _span(self, match: re.Match[str]) -> str:
        part = match.groupdict()
        if part["code"]:
            return f"<code>{escape(part['text'].strip(), quote=False)}</code>"
        if part["alt"] is not None:
            return f"<em>{escape(part['alt'])}</em>"
        if part["auto"]:
            return _link(part["auto"], escape(part["auto"]))
        if part["label"]:
            to = part["to"] if part["to"].startswith(_OUTSIDE) else self._linked(part["to"])
            words = self._inline(part["label"])
            return _link(to, words) if to else words
        if part["line"]:
            return "<br>"
        tag = "strong" if part["strong"] else "em"
        return f"<{tag}>{self._inline(part[tag])}</{tag}>"


def _link(to: str, words: str) -> str:
    return f'<a href="{escape(to)}" rel="noreferrer noopener">{words}</a>'
