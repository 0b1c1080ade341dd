# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check execution and decision environment with ansible-builder: requirements, and image contexts.

No image is built, because that needs a container engine and a network. All files of the image are
put together.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from .build import build
from .workspace import BIN, CACHE, COLLECTIONS, environment, sources

DEFINITIONS = ("execution-environment.yml", "decision-environment.yml")
WORK = CACHE / "execution-environment"
# ansible-core installs it, so ansible-builder leaves it out
LEFT_OUT = {"PyYAML"}


def main() -> int:
    """Return 0 if both commands of ansible-builder pass and print what they must."""
    folder = sources()
    archive = build(WORK / "archive")
    if archive is None:
        return 1
    faults = introspect_faults(folder)
    for definition in DEFINITIONS:
        faults += create_faults(folder, archive, definition)
    print("\n".join(faults) or f"ansible-builder: {' and '.join(DEFINITIONS)}: no faults")
    return 1 if faults else 0


def introspect_faults(folder: Path) -> list[str]:
    """Return the problems of the collection's declared requirements."""
    status, said = builder("introspect", str(COLLECTIONS))
    if status:
        return [said]
    return [f"ansible-builder introspect does not name {need}, which {name} asks for"
            for name in ("requirements.txt", "bindep.txt") for need in needs(folder / name)
            if need not in said and need not in LEFT_OUT]


def create_faults(folder: Path, archive: Path, definition: str) -> list[str]:
    """Return the problems of the context of the image that the file defines."""
    place, context = WORK / "source", WORK / "context"
    for old in (place, context):
        shutil.rmtree(old, ignore_errors=True)
    (place / "dist").mkdir(parents=True)
    shutil.copy(folder / definition, place)
    shutil.copy(archive, place / "dist")
    status, said = builder("create", "--file", str(place / definition), "--context", str(context))
    return [said] if status else context_faults(context, definition)


def context_faults(context: Path, definition: str) -> list[str]:
    """Return the collections that the context needs as files but does not have.

    A context without them builds no image.
    """
    listing = yaml.safe_load((context / "_build" / "requirements.yml").read_text(encoding="utf-8"))
    wanted = [entry["name"] for entry in listing["collections"] if entry.get("type") == "file"]
    absent = [name for name in wanted if not (context / "_build" / name).is_file()]
    none = [] if wanted else [f"{definition}: this collection is not among its collections"]
    return none + [f"{definition}: {name} is required, but not in the context" for name in absent]


def builder(command: str, *arguments: str) -> tuple[int, str]:
    """Return exit status and output of a command of ansible-builder."""
    done = subprocess.run([str(BIN / "ansible-builder"), command, *arguments], env=environment({}),
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def needs(path: Path) -> list[str]:
    """Return the names of the packages in a requirements or bindep file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.replace(">", " ").split()[0] for line in lines if line.strip() and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
