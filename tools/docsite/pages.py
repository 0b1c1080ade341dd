# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages below docs/ as the sources of the documentation site, and their order there.

The pages are copied as they are. Only links to files outside docs/ change: they lead to the
repository. docs/contributors/ is no part of the site.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..address import current

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTORS = "contributors"
# The navigation of the site. A test checks that it names every page once.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Tutorials": ("demo", "tutorials/first-hour", "quickstart"),
    "How to set up": ("guides/bootstrap", "guides/connect-a-manager", "guides/redfish", "guides/write-a-driver",
                      "guides/node-agent", "guides/own-driver",
                      "guides/permissions", "guides/event-driven", "guides/awx", "guides/air-gap",
                      "guides/two-clusters"),
    "How to serve pods": ("guides/gate-pods", "guides/prewarm", "guides/groups", "guides/quotas", "guides/usage",
                          "guides/kueue", "guides/extended-resources", "guides/locality", "guides/share-a-device",
                          "guides/cxl-memory", "guides/defragment"),
    "How to operate": ("guides/alerts", "guides/operating", "guides/upgrading",
                       "guides/page", "guides/metrics", "guides/tracing", "whatif", "autoscaling"),
    "How to move": ("guides/moving-from-cohdi", "guides/moving-drivers"),
    "Reference": ("configuration", "modules", "playbooks", "managers", "support-matrix", "objects", "kubernetes",
                  "versions", "glossary"),
    "Explanation": ("handover", "gated", "architecture", "gpu_stack", "guides/what-happens-when",
                    "guides/tenants", "performance", "limits"),
}
# Old addresses of the site, with the page that has the text now.
MOVED: Mapping[str, str] = {"docsite/compatibility": "guides/moving-from-cohdi", "docsite/reliability": "limits",
                             "docsite/troubleshooting": "guides/alerts", "guides/troubleshooting": "guides/alerts"}
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)


class DeadLink(ValueError):
    """A link of a page leads nowhere. The message names page and link."""


def listed() -> list[str]:
    """Return all pages of the site in their order, such as ``guides/air-gap``."""
    return ["index", *(page for pages in SECTIONS.values() for page in pages)]


def redirects(plugins: Iterable[str] = ()) -> dict[str, str]:
    """Return the address to which each old address of the site leads, relative to the old one.

    The first site had ``guides/air-gap`` at ``docsite/air_gap``, and the pages of ``plugins`` at
    its root.
    """
    former = {f"docsite/{page.rpartition('/')[2].replace('-', '_')}": page for page in listed()}
    moved = {**former, **MOVED, **{name: f"plugins/{name}" for name in plugins if name not in listed()}}
    return {old: os.path.relpath(f"{page}.html", Path(old).parent) for old, page in moved.items()}


def write(into: Path, root: Path = ROOT) -> None:
    """Write the pages and pictures of ``root``/docs as sources of the site into ``into``.

    Raises DeadLink.
    """
    shutil.copytree(root / "docs" / "images", into / "images", dirs_exist_ok=True)
    for page in listed():
        source, target = root / "docs" / f"{page}.md", into / f"{page}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        text = linked(source, source.read_text(encoding="utf-8"), root)
        target.write_text(text + ("\n" + "\n".join(contents()) if page == "index" else ""), encoding="utf-8")


def contents() -> Iterator[str]:
    """Yield the lines of the table of contents."""
    for title, names in {**SECTIONS, "Modules and plugins": ("plugins/index",)}.items():
        yield from ("```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", "")


def linked(page: Path, text: str, root: Path = ROOT) -> str:
    """Return the text of a page with links to the repository for files outside docs/.

    Raise DeadLink.
    """
    return _LINK.sub(lambda found: found[1] + leads_to(page, found[2], root) + found[3], text)


def leads_to(page: Path, link: str, root: Path = ROOT) -> str:
    """Return where a link of ``page`` leads: the link itself within the site, otherwise a URL.

    Raises DeadLink.
    """
    if "://" in link:
        return link
    name, _hash, heading = link.partition("#")
    file = Path(os.path.normpath(page.parent / name)) if name else page
    if not file.exists():
        raise DeadLink(f"{page.relative_to(root)}: the target of the link {link} does not exist")
    if heading and heading not in headings(file):
        raise DeadLink(f"{page.relative_to(root)}: {file.name} has no heading {heading}")
    docs = root / "docs"
    inside = file.relative_to(docs) if file.is_relative_to(docs) else None
    if inside and (inside.parts[:1] == ("images",) or inside.with_suffix("").as_posix() in listed()):
        return link
    kind = "tree" if file.is_dir() else "blob"
    address = f"{current(root)}/{kind}/main/{file.relative_to(root).as_posix()}"
    return address + (f"#{heading}" if heading else "")


def headings(file: Path) -> set[str]:
    """Return the headings of a file as links name them."""
    return {slug(found) for found in _HEADING.findall(file.read_text(encoding="utf-8"))}


def slug(heading: str) -> str:
    """Return a heading as links name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
