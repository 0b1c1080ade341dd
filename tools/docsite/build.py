# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site as HTML: guides and plugins, by antsibull-docs and Sphinx: `make docsite`.

It works on a copy of the sources, to which the pages are added. Each warning of Sphinx is a fault, but for references
to Ansible's own documentation, which is not at hand.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from ..gates.workspace import CACHE, ROOT, run, sources
from .pages import DeadLink, write

WORK = CACHE / "docsite"
COPY = WORK / "ansible_collections" / "composable" / "infra"
NAME = "composable.infra"
SETTINGS = f"""\
project = "{NAME}"
copyright = "composable.infra contributors"
title = html_title = html_short_title = "{NAME}"
extensions = ["sphinx_antsibull_ext"]
html_theme = "alabaster"
default_role = "any"
highlight_language = "YAML+Jinja"
suppress_warnings = ["misc.highlighting_failure"]
"""
# labels of docs.ansible.com, and plugins of other collections
FOREIGN = re.compile(r"undefined label: '(?!ansible_collections\.composable\.infra\.)")


def copied() -> Path:
    """A copy of the sources with the pages of the site. Raises DeadLink."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(sources(), COPY, ignore=shutil.ignore_patterns(".git", ".ansible"))
    write(COPY / "docs" / "docsite")
    return COPY


def build(into: Path) -> int:
    """Write the HTML into ``into``; 0 when there was no fault, which is printed."""
    try:
        copied()
    except DeadLink as error:
        print(error, file=sys.stderr)
        return 1
    return html(into)


def html(into: Path) -> int:
    """The HTML of the copy that is there; 0 when there was no fault."""
    source, log = WORK / "source", WORK / "warnings"
    source.mkdir(mode=0o700)
    (source / "conf.py").write_text(SETTINGS, encoding="utf-8")
    status = run(["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--no-breadcrumbs",
                  "--fail-on-error", "--dest-dir", str(source), NAME],
                 ANSIBLE_COLLECTIONS_PATH=str(WORK), ANSIBLE_LOCAL_TEMP=str(WORK / "tmp"))
    status = status or run(["sphinx-build", "-q", "-b", "html", "-w", str(log), str(source), str(into)])
    found = faults(log.read_text(encoding="utf-8")) if log.is_file() else []
    print("\n".join(found) or f"docsite: {len(list(into.glob('*.html')))} pages in {into.name}")
    return 1 if status or found else 0


def faults(log: str) -> list[str]:
    """Lines of Sphinx's warnings that are faults."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", log).splitlines() if line.strip()]
    return [line for line in lines if not FOREIGN.search(line)]


def main() -> int:
    """Build into dist/docs."""
    return build(ROOT / "dist" / "docs")


if __name__ == "__main__":
    sys.exit(main())
