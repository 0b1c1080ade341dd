# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check documentation and change log: antsibull-docs on collection, plugins and guides with all
links, and antsibull-changelog.

The guides are checked as pages of the documentation site, which is built. Sphinx finds dead links.
"""

from __future__ import annotations

import sys

from ..docsite import build
from .workspace import run

CHECKS = (
    ["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all",
     "--disallow-unknown-collection-refs", "."],
    ["antsibull-changelog", "lint"],
)


def main() -> int:
    """Run all checks. Return 0 if every check passes."""
    folder = build.copied()
    return max(*(run(check, cwd=folder) for check in CHECKS), build.html(build.WORK / "html"))


if __name__ == "__main__":
    sys.exit(main())
