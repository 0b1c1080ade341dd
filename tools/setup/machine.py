# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check for Java and Go, which set-up cannot install, and report what is missing."""

from __future__ import annotations

import os
import re
import subprocess

JAVA, GO = 17, (1, 26)


class Missing(Exception):
    """The machine lacks a program that set-up cannot install. The message names it and how to get
    it."""


def java_version() -> int | None:
    """Return the major version of ansible-rulebook's Java, or None."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    found = re.search(r'version "(?:1\.)?(\d+)', output_of([java, "-version"]))
    return int(found.group(1)) if found else None


def go_version() -> tuple[int, ...]:
    """Return the version of the Go tool chain on PATH, or an empty tuple."""
    found = re.search(r"go(\d+)\.(\d+)", output_of(["go", "version"]))
    return tuple(int(part) for part in found.groups()) if found else ()


def output_of(command: list[str]) -> str:
    """Return standard output and error of a command, or an empty string if it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def java_trouble() -> str | None:
    """Return a sentence if ansible-rulebook could not start here, else None."""
    found = java_version()
    if found is not None and found >= JAVA:
        return None
    have = f"Java {found} is too old" if found else "Java is missing"
    return (f"{have}: ansible-rulebook needs Java {JAVA} or newer (on Debian and Ubuntu: "
            f"apt install openjdk-{JAVA}-jre-headless)")


def go_trouble() -> str | None:
    """Return a sentence if the lab could not build Kubernetes from source here, else None."""
    found = go_version()
    if found >= GO:
        return None
    have = f"Go {dotted(found)} is too old" if found else "Go is missing"
    return (f"{have}: the lab cannot build its Kubernetes binaries with less than Go {dotted(GO)} "
            "and has to find or download them")


def dotted(version: tuple[int, ...]) -> str:
    """Return (3, 11) as `3.11`."""
    return ".".join(str(part) for part in version)
