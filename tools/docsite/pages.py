# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All pages below docs/ as docs/docsite/rst, which Ansible's documentation sites read.

They are made when the site is built, so that each page stands once in the repository.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from ..address import current
from .restructured import converted, label, slug

ROOT = Path(__file__).resolve().parents[2]
# Order of the pages in the site. A test sees that none is left out.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "First steps": ("tutorials/first-hour", "quickstart", "guides/bootstrap", "configuration", "modules", "playbooks"),
    "Guides": ("guides/connect-a-manager", "guides/redfish", "guides/operating", "guides/upgrading",
               "guides/defragment", "guides/moving-drivers", "guides/page", "guides/metrics", "guides/alerts",
               "guides/tracing", "whatif",
               "guides/event-driven", "guides/awx", "guides/node-agent", "guides/tenants", "guides/permissions",
               "guides/air-gap", "guides/moving-from-cohdi", "guides/troubleshooting", "guides/two-clusters",
               "guides/what-happens-when"),
    "Background": ("handover", "gated", "autoscaling", "architecture", "managers", "gpu_stack", "kubernetes",
                   "compatibility", "performance", "reliability", "versions", "limits"),
}


class DeadLink(ValueError):
    """A link of a page leads nowhere; the message names page and link."""


def name_of(page: str) -> str:
    """``guides/air-gap`` as ``air_gap``."""
    return page.rpartition("/")[2].replace("-", "_")


def written() -> dict[str, str]:
    """Text of every file of the site by its path below docs/docsite. Raises DeadLink."""
    files = {f"rst/{name_of(page)}.rst": restructured(page) for pages in SECTIONS.values() for page in pages}
    sections = [{"title": title, "toctree": [name_of(page) for page in pages]} for title, pages in SECTIONS.items()]
    files["extra-docs.yml"] = "---\n" + yaml.safe_dump({"sections": sections}, sort_keys=False)
    return files


def restructured(page: str) -> str:
    """One page as reStructuredText."""
    path = ROOT / "docs" / f"{page}.md"
    return converted(path.read_text(encoding="utf-8"), name_of(page), lambda link: leads_to(path, link))


def leads_to(path: Path, link: str) -> str:
    """Where a link of the page at ``path`` leads: ``ref:LABEL`` within the site, else a URL."""
    if "://" in link:
        return link
    name, _hash, heading = link.partition("#")
    file = Path(os.path.normpath(path.parent / name)) if name else path
    page = file.relative_to(ROOT / "docs").with_suffix("").as_posix() if file.is_relative_to(ROOT / "docs") else ""
    if any(page in pages for pages in SECTIONS.values()):
        return f"ref:{label(name_of(page), checked(path, file, heading))}"
    if not file.exists():
        raise DeadLink(f"{path.relative_to(ROOT)}: {link} leads nowhere")
    kind = "tree" if file.is_dir() else "blob"
    return f"{current()}/{kind}/main/{file.relative_to(ROOT).as_posix()}" + (f"#{heading}" if heading else "")


def checked(path: Path, file: Path, heading: str) -> str:
    """The heading of ``file`` that a link names, empty for none. Raises DeadLink."""
    lines = file.read_text(encoding="utf-8").splitlines()
    known = {slug(line.lstrip("#").strip().replace("`", "")) for line in lines if line.startswith("##")}
    if heading and heading not in known:
        raise DeadLink(f"{path.relative_to(ROOT)}: {file.name} has no heading {heading}")
    return heading


def write(site: Path) -> None:
    """Put the files into ``site``, a folder docs/docsite. Raises DeadLink."""
    (site / "rst").mkdir(parents=True, exist_ok=True)
    for name, text in written().items():
        (site / name).write_text(text, encoding="utf-8")
