# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve the documentation below the page, for a project that has no address on the web yet.

Without this, every "what to do" of the page would lead to the placeholder address of galaxy.yml.
"""

from __future__ import annotations

import posixpath
import typing as t
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from ansible_collections.composable.infra.controller.build import ROOT
from ansible_collections.composable.infra.controller.ui.bundle import StaticFile, static_file
from ansible_collections.composable.infra.controller.ui.markdown import html

FOLDER: t.Final = ROOT / "docs"
HERE: t.Final = "docs"
"""Where the pages are, from the page's own address."""
PLACEHOLDER: t.Final = "example.com"
_HEAD: t.Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<title>{title} · composable.infra</title>
<link rel="icon" href="{up}icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{up}app.css">
</head>
<body class="doc">
<header><p><a href="{up}./">composable.infra</a></p></header>
<main>
{body}
</main>
</body>
</html>
"""


def address(told: str, folder: Path = FOLDER) -> str:
    """Return the address to which the page's links to the documentation lead.

    ``told``: the address of the documentation by the collection's metadata. If it is empty or the
    placeholder, return the address of the pages that are served here. If ``folder`` has no pages,
    return an empty text, and the page has no links.
    """
    if (urlsplit(told).hostname or PLACEHOLDER) != PLACEHOLDER:
        return told
    return HERE if pages(folder) else ""


def pages(folder: Path = FOLDER) -> dict[str, Path]:
    """Return the files of all pages by their address below the page, such as
    ``docs/guides/page.md``.
    """
    return {f"{HERE}/{path.relative_to(folder).as_posix()}": path for path in sorted(folder.rglob("*.md"))}


class DocsPages:
    """Make the HTML of a page once, at its first request.

    Only files that existed at the start are served.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._paths = pages(folder)
        self._made: dict[str, StaticFile] = {}

    def get(self, name: str) -> StaticFile | None:
        """Return a page by its address below the page, None if there is none."""
        path = self._paths.get(name)
        if path is None:
            return None
        if name not in self._made:
            self._made[name] = self._make(name, path.read_text(encoding="utf-8"))
        return self._made[name]

    def _make(self, name: str, text: str) -> StaticFile:
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), name)
        body = html(text, lambda target: self._linked(name, target))
        up = "../" * name.count("/")
        return static_file(".html", _HEAD.format(title=escape(title), up=up, body=body).encode())

    def _linked(self, name: str, target: str) -> str:
        """Return the link if it leads to a served page or heading, else an empty text."""
        file = target.partition("#")[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
        return target if place in self._paths else ""
