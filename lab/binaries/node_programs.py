# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the programs of real nodes: those of the release, and the lab's own, built from source."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries import gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.binaries.finder import acceptable, find_binaries, version_of
from ansible_collections.composable.infra.lab.binaries.releases import NODE_COMPONENTS, Release
from ansible_collections.composable.infra.lab.errors import LabError

SOURCES = Path(__file__).parents[1] / "real_nodes" / "programs"
WORKLOAD = "workload"
WITHOUT_SECCOMP = "runc-without-seccomp"
_OWN = {WORKLOAD: SOURCES / "workload", WITHOUT_SECCOMP: SOURCES / "runc_without_seccomp"}


def find_node_programs(
    release: Release,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    cache: BinaryCache | None = None,
) -> dict[str, Path]:
    """Return the path of every program of a real node, by name. Raise LabError for unavailable
    programs."""
    cache = cache or BinaryCache()
    found = find_binaries(release, folder, progress, cache, NODE_COMPONENTS)
    return {**found, **{name: own_program(name, cache) for name in _OWN}}


def own_program(name: str, cache: BinaryCache) -> Path:
    """Return one of the lab's own programs. Build it if the current source is not built yet."""
    source = _OWN[name]
    version = hashlib.sha256((source / "main.go").read_bytes()).hexdigest()[:12]
    go = gobuild.find_go()
    with cache.lock(name):
        found = cache.find(name, version)
        if found:
            return found
        if go is None:
            raise LabError(f"{name} must be built from {source}, and there is no go command")
        with cache.scratch() as folder:
            return cache.install(name, version, gobuild.build_source(go, source, name, folder))


def runc_trouble(release: Release, cache: BinaryCache | None = None) -> str | None:
    """Return why runc is not available, or None."""
    found = shutil.which("runc")
    if found and acceptable(release, "runc", version_of(Path(found))):
        return None
    if (cache or BinaryCache()).find("runc", release.runc):
        return None
    lacking = [name for name, there in (("go", gobuild.find_go()), ("gcc", shutil.which("gcc"))) if not there]
    if not lacking:
        return None
    return f"there is no runc, and no {' and no '.join(lacking)} to build it"


def filters_system_calls(runc: Path) -> bool:
    """Return whether `runc` was built with libseccomp. Without it, runc refuses requests of the
    kubelet."""
    done = subprocess.run([runc, "--version"], capture_output=True, text=True, timeout=20, check=False)
    return "libseccomp" in done.stdout
