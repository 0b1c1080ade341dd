# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes everything of a release in dist/ and publishes nothing: `make release-dry-run`.

Change log and archive are made in a copy of the sources, so the checkout does not change. For a
tag, the workflow runs the same command and then publishes the files of dist/
(.github/workflows/release.yml).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from .address import current, is_placeholder
from .docsite import build as site
from .gates.workspace import CACHE, ROOT, run, sources
from .published import copied

BUILDERS = ("podman", "buildah")
IMAGE = "composable-infra-controllers"


class NoRelease(Exception):
    """A release cannot be made. The message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all parts were made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="", help="version of the tag, which must be that of galaxy.yml")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder for the parts, which is emptied first")
    parser.add_argument("--without-docs", action="store_true", help="leave out the pages, which take the longest time")
    options = parser.parse_args(arguments)
    try:
        make(options.version, options.into, docs=not options.without_docs)
    except NoRelease as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def make(version: str, into: Path, *, docs: bool = True) -> None:
    """Make release notes, archive, image and pages. Raise NoRelease."""
    version = agreed(version)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    copy = change_log(version)
    notes = notes_of(version, (copy / "CHANGELOG.md").read_text(encoding="utf-8"))
    (into / "release-notes.md").write_text(notes, encoding="utf-8")
    did("archive", run(["ansible-galaxy", "collection", "build", "--output-path", str(into)], cwd=copy))
    image(version, print)
    if docs:
        did("docs", site.build(into / "docs"))
    print(f"release {version}: {', '.join(sorted(path.name for path in into.iterdir()))}. Nothing was published.")


def agreed(version: str) -> str:
    """Return the version of galaxy.yml.

    Raise NoRelease if the tag has another version, or if the address is a placeholder.
    """
    own = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    if version not in ("", own):
        raise NoRelease(f"VERSION: {version!r} is not the version of galaxy.yml, {own}. Change one of them")
    if version and is_placeholder(current()):
        raise NoRelease(f"repository in galaxy.yml: {current()} is a placeholder. Run make address URL=https://…")
    return own


def change_log(version: str) -> Path:
    """Return a copy of the sources with the change log fragments under ``version``."""
    copy = copied(sources(), CACHE / "release")
    if released(version, copy / "changelogs" / "changelog.yaml"):
        return copy
    did("change log", run(["antsibull-changelog", "release", "--version", version], cwd=copy))
    return copy


def released(version: str, path: Path) -> bool:
    """Return whether the change log already has this version."""
    known = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    return version in ((known or {}).get("releases") or {})


def notes_of(version: str, text: str) -> str:
    """Return the part of CHANGELOG.md about one version. Raise NoRelease if there is none."""
    number = version.replace(".", r"\\?\.")
    found = re.search(rf"^## v?{number}$\n(.*?)(?=^<a id=\"v|^## |\Z)", text, re.M | re.S)
    if not found or not found[1].strip():
        raise NoRelease(f"CHANGELOG.md has no text about version {version}")
    return found[1].strip() + "\n"


def image(version: str, tell: Callable[[str], object]) -> None:
    """Build the image of the controllers, or report that there is no builder. Raise NoRelease."""
    builder = next((name for name in BUILDERS if shutil.which(name)), None)
    if builder is None:
        tell(f"release: the image is left out, because neither {' nor '.join(BUILDERS)} is on PATH")
        return
    done = subprocess.run([builder, "build", "--tag", f"{IMAGE}:{version}", "."], cwd=ROOT, check=False)
    did("image", done.returncode)


def did(part: str, status: int) -> None:
    """Raise NoRelease if a tool failed. The tool has printed the reason."""
    if status:
        raise NoRelease(f"{part}: the tool failed with status {status}")


if __name__ == "__main__":
    sys.exit(main())
