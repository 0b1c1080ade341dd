# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Helm for tests of roles: on PATH, in the lab's cache, or by a build from its Go module.

`python -m ansible_collections.composable.infra.lab.binaries.helm FOLDER` puts a link to Helm into
FOLDER.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries import gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.errors import LabError

# the last series that every kubernetes.core from 6.0 on supports
VERSION = "3.20.2"
_MODULE = "helm.sh/helm/v3"
RECIPE = gobuild.Recipe(
    _MODULE,
    VERSION,
    "1.25.0",
    ((f"{_MODULE}/cmd/helm", "helm"),),
    f"-s -w -X {_MODULE}/internal/version.version=v{VERSION}",
    "two to four minutes on two cores",
)
_VERSION = re.compile(r"v(\d+)\.(\d+)\.\d+")
Builder = Callable[[str, gobuild.Recipe, Path, str, Callable[[str], None]], dict[str, Path]]


def find_helm(
    cache: BinaryCache | None = None,
    progress: Callable[[str], None] = lambda line: None,
    builder: Builder = gobuild.build_recipe,
) -> Path:
    """Return the path of a Helm for the roles. Build it if there is none. Raise LabError."""
    cache = cache or BinaryCache()
    found = on_path() or cache.find("helm", VERSION)
    if found:
        return found
    with cache.lock("helm"):
        return cache.find("helm", VERSION) or build(cache, progress, builder)


def on_path() -> Path | None:
    """Return Helm 3 on PATH, or None. Other major versions do not count."""
    name = shutil.which("helm")
    return (
        Path(name) if name and (version_of(Path(name)) or (0, 0))[0] == int(VERSION.split(".", maxsplit=1)[0]) else None
    )


def version_of(binary: Path) -> tuple[int, int] | None:
    """Return the major and minor version that the binary prints, or None."""
    try:
        done = subprocess.run([binary, "version", "--short"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    return (int(match[1]), int(match[2])) if match else None


def build(cache: BinaryCache, progress: Callable[[str], None], builder: Builder) -> Path:
    """Build Helm from its Go module and add it to the cache."""
    go = gobuild.find_go()
    if go is None:
        raise LabError(f"helm {VERSION} is neither on PATH nor in {cache.root}, and there is no go command to build it")
    progress(f"building helm {VERSION} from its Go module ({RECIPE.typically}, once)")
    with cache.scratch() as folder:
        return cache.install("helm", VERSION, builder(go, RECIPE, folder / "helm", "", progress)["helm"])


def main(arguments: Sequence[str]) -> int:
    """Put a link named `helm` into the folder that the command line names."""
    link = Path(arguments[0]) / "helm"
    try:
        target = find_helm(progress=lambda line: print(line, file=sys.stderr, flush=True))
    except LabError as error:
        print(f"helm: {error}", file=sys.stderr)
        return 1
    if target.resolve() != link.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
