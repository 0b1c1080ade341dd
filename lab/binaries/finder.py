# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the binaries of control plane and real nodes, or get them, so that `lab up` needs no
preparation.

The order is: a folder that the user names, PATH, the cache, official releases, a build from Go
modules.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries import downloads, gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.binaries.releases import (
    COMPONENTS,
    KUBERNETES_COMPONENTS,
    Release,
)
from ansible_collections.composable.infra.lab.errors import LabError

FOLDER_VARIABLE = "LAB_BINARIES"
Progress = Callable[[str], None]
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")
# Do not use containerd and CNI plugins from PATH. The node's configuration is for their exact
# version.
_FROM_PATH = (*COMPONENTS, "kubelet", "runc")
_OLDEST_RUNC = (1, 1)


def find_binaries(
    release: Release,
    folder: Path | None = None,
    progress: Progress = lambda line: None,
    cache: BinaryCache | None = None,
    components: Sequence[str] = COMPONENTS,
) -> dict[str, Path]:
    """Return the path of each component of `release`. Fetch missing ones. Raise LabError for
    unavailable ones."""
    named = folder or (Path(os.environ[FOLDER_VARIABLE]) if os.environ.get(FOLDER_VARIABLE) else None)
    found = {**from_path(release, components), **(from_folder(release, named, components) if named else {})}
    missing = [component for component in components if component not in found]
    return {**found, **_Supply(release, cache or BinaryCache(), progress).get(missing)}


def from_folder(release: Release, folder: Path, components: Sequence[str] = COMPONENTS) -> dict[str, Path]:
    """Return the binaries in the folder that the user named. Raise LabError if it has another
    release."""
    if not folder.is_dir():
        raise LabError(f"the folder for lab binaries {folder} does not exist")
    found = {component: folder / component for component in components if (folder / component).is_file()}
    for component, path in found.items():
        version = version_of(path)
        if not acceptable(release, component, version):
            raise LabError(
                f"{path} is version {version or 'unknown'}, but Kubernetes {release.kubernetes} "
                f"needs {component} {release.version_of(component)}"
            )
    return found


def from_path(release: Release, components: Sequence[str] = COMPONENTS) -> dict[str, Path]:
    """Return the binaries on PATH that fit `release`.

    The Kubernetes binaries of the control plane are used only if all have the same version.
    """
    paths = {component: shutil.which(component) for component in components if component in _FROM_PATH}
    versions = {component: version_of(Path(path)) for component, path in paths.items() if path}
    fitting = {name for name, version in versions.items() if acceptable(release, name, version)}
    if len({versions.get(name) for name in KUBERNETES_COMPONENTS}) > 1:
        fitting -= set(KUBERNETES_COMPONENTS)
    return {name: Path(paths[name] or "") for name in fitting}


def version_of(binary: Path) -> str | None:
    """Return the version that `binary --version` prints, without "v", or None."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout or done.stderr)
    return match[1] if match else None


def acceptable(release: Release, component: str, version: str | None) -> bool:
    """Return whether `component` at `version` works with `release`.

    Kubernetes needs the same minor version. Others may be later.
    """
    if version is None:
        return False
    have, want = _minor(version), _minor(release.version_of(component))
    if component in (*KUBERNETES_COMPONENTS, "kubelet"):
        return have == want
    return have[0] == want[0] and have >= (_OLDEST_RUNC if component == "runc" else want)


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@dataclass(slots=True)
class _Supply:
    release: Release
    cache: BinaryCache
    progress: Progress
    reasons: dict[str, str] = field(default_factory=dict)
    offline: str | None = None

    def get(self, components: list[str]) -> Mapping[str, Path]:
        """Return `components` from the cache. Fill the cache first if needed."""
        if any(self._cached(component) is None for component in components):
            with self.cache.lock(tell=self.progress) as waited:
                if waited:
                    self.progress("another lab has just filled the cache of binaries")
                self._fill([component for component in components if self._cached(component) is None])
        return {component: self._cached(component) or Path() for component in components}

    def _cached(self, component: str) -> Path | None:
        return self.cache.find(component, self.release.version_of(component))

    def _fill(self, components: list[str]) -> None:
        for component in components:
            if self._cached(component) is None and not self._download(component) and not self._build(component):
                raise LabError(self._explain(component))

    def _download(self, component: str) -> bool:
        if self.offline is not None:
            return False
        version = self.release.version_of(component)
        self.progress(f"{component} {version}: looking for the official release")
        try:
            with self.cache.scratch() as folder:
                self.cache.install(component, version, downloads.fetch(component, version, folder))
        except downloads.NoInternet as error:
            self.offline = str(error)
            return False
        self.progress(f"{component} {version}: downloaded, checksum verified")
        return True

    def _build(self, component: str) -> bool:
        go = gobuild.find_go()
        if go is None:
            return False
        what = gobuild.recipe(self.release, component)
        names = ", ".join(name for _package, name in what.mains)
        self.progress(f"{names} {what.version}: building from Go modules (first time only, typically {what.typically})")
        began = time.monotonic()
        try:
            with self.cache.scratch() as folder:
                for name, path in gobuild.build(go, self.release, component, folder, self.progress).items():
                    self.cache.install(name, self.release.version_of(name), path)
        except LabError as error:
            self.reasons[component] = str(error)
            return False
        self.progress(f"{names} {what.version}: built in {time.monotonic() - began:.0f} s")
        return True

    def _explain(self, component: str) -> str:
        version = self.release.version_of(component)
        build = self.reasons.get(component, "there is no Go on this machine to build it from its modules")
        return (
            f"{component} {version} is missing: it is neither on PATH nor in {self.cache.root}, the official "
            f"release cannot be downloaded ({self.offline}), and {build}. Install Go {self.release.go} or "
            f"later, connect to the internet, or put the binaries into a folder and name it in "
            f"{FOLDER_VARIABLE}."
        )
