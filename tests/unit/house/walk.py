# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a reader of one claim opens, as docs/contributors/code.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.composable.infra.tests.unit.house.files import text

PAGE = Path("docs/contributors/code.md")
UTILS = "plugins/module_utils/"
ROW = re.compile(r"\d+\. `([\w/]+\.py)`")
# The most files of each way; a gated claim's way is the other one and these. Five are the writers of single kinds.
MOST = {"reschedule": 23, "gated": 14, "fabric_device": 12}


def listed(way: str) -> list[str]:
    """Files of a way in order, relative to the checkout."""
    page = text(PAGE)
    begin = page.index(f"### Files: {way}\n")
    section = page[begin:page.find("\n#", begin + 4)]
    return [found if found.startswith("plugins/") else UTILS + found for found in ROW.findall(section)]
