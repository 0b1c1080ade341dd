# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site as HTML: the pages of docs/ by MyST-Parser, and the plugins by antsibull-docs.

`make docsite` builds it from a copy of the sources. Each warning of Sphinx is a fault, except for
references to Ansible's own documentation, which is not part of the build.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from ..gates.workspace import CACHE, ROOT, run, sources
from .pages import DeadLink, redirects, write

WORK = CACHE / "docsite"
COPY = WORK / "ansible_collections" / "composable" / "infra"
NAME = "composable.infra"
SETTINGS = f"""\
project = "{NAME}"
copyright = "composable.infra contributors"
title = html_title = html_short_title = "{NAME}"
extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinx_reredirects"]
html_theme = "furo"
myst_heading_anchors = 4
default_role = "any"
highlight_language = "YAML+Jinja"
suppress_warnings = ["misc.highlighting_failure"]
"""
# labels of docs.ansible.com, and plugins of other collections
FOREIGN = re.compile(r"undefined label: '(?!ansible_collections\.composable\.infra\.)")


def copied() -> Path:
    """Copy the sources, and return the folder of the copy."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(sources(), COPY, ignore=shutil.ignore_patterns(".git", ".ansible"))
    return COPY


def build(into: Path) -> int:
    """Write the HTML into ``into``. Print each fault, and return 0 if there is none."""
    copied()
    return html(into)


def html(into: Path) -> int:
    """Write the HTML of the copy into ``into``. Print each fault, and return 0 if there is none."""
    source, log = WORK / "source", WORK / "warnings"
    plugins = source / "plugins"
    plugins.mkdir(mode=0o700, parents=True)
    try:
        write(source, COPY)
    except DeadLink as dead:
        print(dead, file=sys.stderr)
        return 1
    status = run(["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--no-breadcrumbs",
                  "--fail-on-error", "--dest-dir", str(plugins), NAME],
                 ANSIBLE_COLLECTIONS_PATH=str(WORK), ANSIBLE_LOCAL_TEMP=str(WORK / "tmp"))
    settings = f"{SETTINGS}redirects = {redirects(path.stem for path in plugins.glob('*.rst'))!r}\n"
    (source / "conf.py").write_text(settings, encoding="utf-8")
    status = status or run(["sphinx-build", "-Q", "-b", "html", "-w", str(log), str(source), str(into)])
    found = faults(log.read_text(encoding="utf-8")) if log.is_file() else []
    print("\n".join(found) or f"docsite: {len(list(into.rglob('*.html')))} pages in {into.name}")
    return 1 if status or found else 0


def faults(log: str) -> list[str]:
    """Return the warnings of Sphinx that are faults."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", log).splitlines() if line.strip()]
    return [line for line in lines if not FOREIGN.search(line)]


def main() -> int:
    """Build into dist/docs."""
    return build(ROOT / "dist" / "docs")


if __name__ == "__main__":
    sys.exit(main())
