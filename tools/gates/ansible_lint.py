# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-lint with the production profile, offline, on the copy of the sources."""

from __future__ import annotations

import sys

from .workspace import run, sources


def main() -> int:
    """Exit status of ansible-lint; warnings count."""
    return run(["ansible-lint", "--profile", "production", "--offline", "--strict", "--nocolor", *sys.argv[1:]],
               cwd=sources())


if __name__ == "__main__":
    sys.exit(main())
