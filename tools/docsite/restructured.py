# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown as reStructuredText, which Ansible's documentation sites take.

Headings get labels, as antsibull-docs wants them: links between pages then are references that Sphinx checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode as Node

UNDERLINES = {"h1": "=", "h2": "-", "h3": "~", "h4": "^"}
SPECIAL = re.compile(r"([\\*`|]|_(?=\W|$))")
# Sphinx knows what these are; anything else is shown as it is
LANGUAGES = {"yaml": "yaml", "python": "python", "": "text"}
Target = Callable[[str], str]


def label(page: str, heading: str = "") -> str:
    """The name by which other pages refer to a page or to one of its headings."""
    parts = ["ansible_collections.composable.infra.docsite", page, *([slug(heading)] if heading else [])]
    return ".".join(parts)


def slug(heading: str) -> str:
    """A heading as links in Markdown name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def converted(text: str, page: str, target: Target) -> str:
    """The page as reStructuredText. ``target`` says where a link leads: ``ref:LABEL`` or a URL."""
    tree = Node(MarkdownIt().enable("table").parse(text))
    body = "\n\n".join(block for node in tree.children for block in _block(node, page, target))
    return f".. _{label(page)}:\n\n{body}\n"


def _block(node: Node, page: str, target: Target) -> Iterator[str]:
    """The paragraphs of one node of the page."""
    if node.type == "heading":
        yield from _heading(node, page, target)
    elif node.type == "paragraph":
        yield _inline(node.children[0], target)
    elif node.type in ("fence", "code_block"):
        language = LANGUAGES.get(node.info.strip(), "text")
        yield f".. code-block:: {language}\n\n{_indent(node.content.rstrip(), 3)}"
    elif node.type in ("bullet_list", "ordered_list"):
        yield _list(node, page, target)
    elif node.type == "table":
        yield _table(node, target)
    elif node.type != "html_block":
        raise ValueError(f"{page}: {node.type} has no form in reStructuredText here")


def _heading(node: Node, page: str, target: Target) -> Iterator[str]:
    text = _inline(node.children[0], target)
    if node.tag != "h1":
        yield f".. _{label(page, _plain(node.children[0]))}:"
    yield f"{text}\n{UNDERLINES[node.tag] * len(text)}"


def _list(node: Node, page: str, target: Target) -> str:
    marks = (f"{number}. " for number in range(1, 1000)) if node.type == "ordered_list" else iter(lambda: "- ", "")
    items = []
    for item, mark in zip(node.children, marks, strict=False):
        text = "\n\n".join(block for child in item.children for block in _block(child, page, target))
        items.append(mark + _indent(text, len(mark)).lstrip(" "))
    return "\n\n".join(items)


def _table(node: Node, target: Target) -> str:
    rows = [row for part in node.children for row in part.children]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        for number, cell in enumerate(row.children):
            text = _indent(_inline(cell.children[0], target), 7).strip()
            lines.append(f"   {'*' if number == 0 else ' '} - {text}".rstrip())
    return "\n".join(lines)


def _inline(node: Node, target: Target) -> str:
    """Text with markup, in one line for each line of the source."""
    found = ""
    for child in node.children:
        piece, markup = _piece(child, target)
        found += ("\\ " if _touch(found, piece, markup=markup) else "") + piece
    return found


def _touch(before: str, piece: str, *, markup: bool) -> bool:
    """Whether markup and letters would touch, which reStructuredText does not allow."""
    if markup:
        return bool(before) and not re.search(r"[\s(\[{<\"'/:-]$", before)
    return piece[:1].isalnum() and before.endswith(("`", "*", "__"))


def _piece(node: Node, target: Target) -> tuple[str, bool]:
    """One piece of a text, and whether it is markup, which must stand apart from letters."""
    if node.type == "code_inline":
        return f"``{node.content}``", True
    if node.type == "strong":
        return f"**{_plain(node)}**", True
    if node.type == "em":
        return f"*{_plain(node)}*", True
    if node.type == "link":
        return _link(_plain(node), target(str(node.attrs["href"]))), True
    return ("\n" if node.type in ("softbreak", "hardbreak") else SPECIAL.sub(r"\\\1", node.content)), False


def _link(text: str, leads_to: str) -> str:
    text = text.replace("<", "\\<").replace("`", "")
    return f":ref:`{text} <{leads_to[4:]}>`" if leads_to.startswith("ref:") else f"`{text} <{leads_to}>`__"


def _plain(node: Node) -> str:
    """The text without markup."""
    if node.type in ("softbreak", "hardbreak"):
        return " "
    return "".join(_plain(child) for child in node.children) if node.children else node.content


def _indent(text: str, width: int) -> str:
    return "\n".join(" " * width + line if line else "" for line in text.split("\n"))
