# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the core controllers of Cluster API from their Go module, and find their CRDs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries import gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.errors import LabError

VERSION = "1.14.2"
NAME = "cluster-api-manager"
MODULE = "sigs.k8s.io/cluster-api"
RECIPE = gobuild.Recipe(
    MODULE,
    VERSION,
    "1.26.0",
    ((f"{MODULE}/core", NAME),),
    f"-s -w -X {MODULE}/version.gitVersion=v{VERSION}",
    "three to ten minutes on two cores",
    parts=(f"{MODULE}/api",),
)


def find_manager(progress: Callable[[str], None] = lambda line: None) -> Path:
    """Return the manager of Cluster API from the lab's cache. Build it if missing. Raise
    LabError."""
    cache = BinaryCache()
    with cache.lock("cluster-api", progress):
        return cache.find(NAME, VERSION) or _build(cache, progress)


def _build(cache: BinaryCache, progress: Callable[[str], None]) -> Path:
    progress(f"{NAME} {VERSION}: building from its Go module ({RECIPE.typically}, once)")
    with cache.scratch() as folder:
        built = gobuild.build_recipe(_go(), RECIPE, folder / "build", tell=progress)
        return cache.install(NAME, VERSION, built[NAME])


def _go() -> str:
    found = gobuild.find_go()
    if found is None:
        raise LabError(f"{NAME} {VERSION} is not in the lab's cache, and there is no go command to build it")
    return found


def find_crds() -> list[Path]:
    """Return the CRD files of the same release. Raise LabError if the module cannot be
    downloaded."""
    done = subprocess.run([_go(), "mod", "download", "-json", f"{MODULE}@v{VERSION}"],
                          capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in answer:
        raise LabError(f"{MODULE} v{VERSION} cannot be had: {answer.get('Error') or done.stderr.strip()}")
    return sorted(Path(answer["Dir"], "core", "config", "crd", "bases").glob("*.yaml"))
