# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run galaxy-importer on the built archive, as Galaxy and Automation Hub do after an upload.

It ends with status 0 even if it found problems, so its log decides. A warning or an error fails the
gate.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from .build import build
from .workspace import BIN, CACHE, environment

DONE = "Importer processing completed successfully"
# Automation Hub certifies from 1.0.0 on (docs/versions.md). Galaxy takes 0.x, too.
RELEASED = False
# separate gates check ansible-lint and the style of the Python sources
SETTINGS = {"GALAXY_IMPORTER_RUN_ANSIBLE_DOC": "True", "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "False",
            "GALAXY_IMPORTER_RUN_FLAKE8": "False", "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "True",
            "GALAXY_IMPORTER_REQUIRE_V1_OR_GREATER": str(RELEASED), "GALAXY_IMPORTER_CHECK_CHANGELOG": "True"}


def main() -> int:
    """Return 0 if the importer finished without a warning."""
    archive = build(CACHE / "importer")
    if archive is None:
        return 1
    done = subprocess.run([str(BIN / "python"), "-m", "galaxy_importer.main", str(archive)], cwd=archive.parent,
                          env=environment(SETTINGS), capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    faults = faults_in(log)
    print(log if faults or done.returncode else f"galaxy-importer: {os.path.basename(archive)}: no faults")
    return 1 if faults or done.returncode else 0


def faults_in(log: str) -> list[str]:
    """Return the lines of the importer's log with problems, and one more if it did not finish."""
    faults = [line for line in log.splitlines() if re.match(r"(WARNING|ERROR|CRITICAL|Traceback)", line)]
    return faults if DONE in log else [*faults, "it did not finish"]


if __name__ == "__main__":
    sys.exit(main())
