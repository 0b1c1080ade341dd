# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-lint with the production profile, offline, on the copy of the sources."""

from __future__ import annotations

import os
import sys

from ..setup.launchers import tree
from .workspace import COLLECTIONS, ROOT, run, sources


def main() -> int:
    """Return the exit status of ansible-lint. Warnings count."""
    # the tree has stand-ins for collections that no package index has, and our own copy comes first
    places = os.pathsep.join(map(str, (COLLECTIONS, tree(ROOT))))
    return run(["ansible-lint", "--profile", "production", "--offline", "--strict", "--nocolor", *sys.argv[1:]],
               cwd=sources(), ANSIBLE_COLLECTIONS_PATH=places)


if __name__ == "__main__":
    sys.exit(main())
