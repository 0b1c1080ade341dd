# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the README files for Galaxy and Automation Hub, with links to the project's page.

In the repository, links are relative to files of the same checkout. Galaxy shows no other files. So
the archive is built from a copy with links that begin with `repository` of galaxy.yml
(`make address`).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .address import current

_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?P<target>[^)\s#]+)(?P<heading>#[^)\s]*)?\)")


def copied(sources: Path, into: Path) -> Path:
    """Return a copy of the collection at ``ansible_collections/composable/infra`` in ``into``,
    ready to build."""
    copy = into / "ansible_collections" / "composable" / "infra"
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(sources, copy, ignore=shutil.ignore_patterns(".git", ".ansible"))
    for page in (copy / "README.md", *sorted(copy.glob("roles/*/README.md"))):
        page.write_text(absolute(page, copy), encoding="utf-8")
    return copy


def absolute(page: Path, root: Path) -> str:
    """Return the text of a page with URLs for links to files of the collection at ``root``."""
    address = current(root)

    def replaced(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / found["target"]))
        if "://" in found["target"] or not target.is_relative_to(root) or not target.exists():
            return found[0]
        kind = "raw" if found["image"] else "tree" if target.is_dir() else "blob"
        url = f"{address}/{kind}/main/{target.relative_to(root).as_posix()}{found['heading'] or ''}"
        return f"{found['image']}{found['text']}({url})"

    return _LINK.sub(replaced, page.read_text(encoding="utf-8"))
