# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the lab's binaries from the Go modules of releases, for machines without access to
downloads.

Kubernetes requires its staging modules at v0.0.0 and replaces them by folders. A consumer must name
their published versions instead, so derive the replace lines from the release's own go.mod.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries import build_progress
from ansible_collections.composable.infra.lab.binaries.releases import (
    CNI_COMPONENTS,
    CONTAINERD_COMPONENTS,
    KUBERNETES_COMPONENTS,
    NODE_COMPONENTS,
    Release,
)
from ansible_collections.composable.infra.lab.errors import LabError

_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/\S+)\s+=>\s+\./staging/", re.MULTILINE)
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one go.mod builds one or more binaries, as (main package, name of the binary).

    With `cgo`, the build needs a C compiler and the machine's C libraries. `parts` are modules of
    the same release that its go.mod replaces by its own folders.
    """

    module: str
    version: str
    go: str
    mains: tuple[tuple[str, str], ...]
    ldflags: str = "-s -w"
    typically: str = ""
    tags: tuple[str, ...] = ()
    cgo: bool = False
    parts: tuple[str, ...] = ()


def recipe(release: Release, component: str) -> Recipe:
    """Return the recipe for `component`. The three Kubernetes binaries of the control plane share a
    recipe."""
    if component in NODE_COMPONENTS:
        return node_recipe(release, component)
    if component == "etcd":
        mains: tuple[tuple[str, str], ...] = (("go.etcd.io/etcd/server/v3", "etcd"),)
        return Recipe(mains[0][0], release.etcd, "1.24.0", mains, typically="half a minute")
    if component == "kwok":
        mains = (("sigs.k8s.io/kwok/cmd/kwok", "kwok"),)
        flags = f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={release.kwok}"
        return Recipe("sigs.k8s.io/kwok", release.kwok, "1.26.0", mains, flags, "one to two minutes")
    mains = tuple((f"k8s.io/kubernetes/cmd/{name}", name) for name in KUBERNETES_COMPONENTS)
    return Recipe(
        "k8s.io/kubernetes",
        release.kubernetes,
        release.go,
        mains,
        kubernetes_ldflags(release),
        "five to ten minutes on two cores",
    )


def node_recipe(release: Release, component: str) -> Recipe:
    """Return the recipe for `component` of a real node."""
    if component == "kubelet":
        mains: tuple[tuple[str, str], ...] = (("k8s.io/kubernetes/cmd/kubelet", "kubelet"),)
        flags = kubernetes_ldflags(release)
        return Recipe("k8s.io/kubernetes", release.kubernetes, release.go, mains, flags, "one to three minutes")
    if component == "runc":
        module = "github.com/opencontainers/runc"
        flags = f"-s -w -X main.version={release.runc}"
        tags = ("netgo", "osusergo", *(("seccomp",) if has_libseccomp() else ()))
        return Recipe(module, release.runc, "1.25.0", ((module, "runc"),), flags, "ten seconds", tags, cgo=True)
    if component in CNI_COMPONENTS:
        module = "github.com/containernetworking/plugins"
        folders = {"loopback": "main/loopback", "ptp": "main/ptp", "host-local": "ipam/host-local"}
        mains = tuple((f"{module}/plugins/{folder}", name) for name, folder in folders.items())
        flags = f"-s -w -X {module}/pkg/utils/buildversion.BuildVersion=v{release.cni}"
        return Recipe(module, release.cni, "1.24.2", mains, flags, "ten seconds")
    module = "github.com/containerd/containerd/v2"
    mains = tuple((f"{module}/cmd/{name}", name) for name in CONTAINERD_COMPONENTS)
    flags = f"-s -w -X {module}/version.Version=v{release.containerd}"
    tags = ("no_btrfs", "no_devmapper", "no_zfs", "no_tracing", "osusergo", "netgo")
    return Recipe(module, release.containerd, "1.26.8", mains, flags, "one minute", tags)


def has_libseccomp() -> bool:
    """Return whether programs can be built with libseccomp here."""
    if shutil.which("pkg-config") is None:
        return False
    return subprocess.run(["pkg-config", "--exists", "libseccomp"], check=False).returncode == 0


def kubernetes_ldflags(release: Release) -> str:
    """Return linker flags that set the version of the binaries."""
    major, minor = release.series.split(".")
    values = {
        "gitVersion": f"v{release.kubernetes}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    flags = [f"-X {package}.{key}={value}" for package in _VERSION_PACKAGES for key, value in values.items()]
    return " ".join(["-s -w", *flags])


def staging_modules(go_mod: str) -> list[str]:
    """Return the sorted modules that a Kubernetes go.mod replaces by its own staging folders."""
    return sorted(set(_STAGING.findall(go_mod)))


def consumer_go_mod(what: Recipe, replaces: Iterable[tuple[str, str]]) -> str:
    """Return a go.mod that requires only `what.module`. `replaces` has (module, version without
    "v")."""
    lines = ["module example.invalid/lab", "", f"go {what.go}", "", f"require {what.module} v{what.version}"]
    parts = [(module, what.version) for module in what.parts]
    pinned = [f"\t{module} => {module} v{version}" for module, version in (*replaces, *parts)]
    return "\n".join([*lines, *(["", "replace (", *pinned, ")"] if pinned else []), ""])


def find_go() -> str | None:
    """Return the path of the go command, or None."""
    usual = Path("/usr/local/go/bin/go")
    return shutil.which("go") or (str(usual) if usual.is_file() else None)


def build(
    go: str, release: Release, component: str, folder: Path, tell: build_progress.Tell = build_progress.silent
) -> dict[str, Path]:
    """Build `component` and its companions in `folder`. Return paths by binary name. Raise
    LabError."""
    return build_recipe(go, recipe(release, component), folder, release.staging, tell)


def build_recipe(
    go: str, what: Recipe, folder: Path, staging: str = "", tell: build_progress.Tell = build_progress.silent
) -> dict[str, Path]:
    """Build the binaries of a recipe in `folder`. Return their paths by name. Raise LabError.

    `staging` is the version of the staging modules. `tell` receives lines of progress.
    """
    source, target = folder / "source", folder / "out"
    source.mkdir(parents=True)
    target.mkdir()
    replaces = [(module, staging) for module in _staging_of(go, what, source)]
    (source / "go.mod").write_text(consumer_go_mod(what, replaces), encoding="utf-8")
    progress = build_progress.BuildProgress(f"{', '.join(name for _package, name in what.mains)} {what.version}", tell)
    progress.packages = _to_compile(go, what, source, progress)
    for package, name in what.mains:
        command = [go, "build", "-v", *_flags(what), "-o", str(target / name), package]
        build_progress.run(command, source, _environment(cgo=what.cgo), progress)
    return {name: target / name for _package, name in what.mains}


def _flags(what: Recipe) -> list[str]:
    return ["-mod=mod", "-trimpath", "-ldflags", what.ldflags, f"-tags={','.join(what.tags)}"]


def _to_compile(go: str, what: Recipe, source: Path, progress: build_progress.BuildProgress) -> frozenset[str]:
    """Return the import paths of packages that are not in Go's cache. This fetches the modules
    first."""
    command = [go, "list", *_flags(what), "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]
    listed = build_progress.run([*command, *(package for package, _name in what.mains)], source,
                                _environment(cgo=what.cgo), progress)
    return frozenset(line for line in listed.splitlines() if line)


def _staging_of(go: str, what: Recipe, folder: Path) -> list[str]:
    if what.module != "k8s.io/kubernetes":
        return []
    (folder / "go.mod").write_text("module example.invalid/lab\n", encoding="utf-8")
    answer = json.loads(_run([go, "mod", "download", "-json", f"{what.module}@v{what.version}"], folder))
    modules = staging_modules(Path(answer["GoMod"]).read_text(encoding="utf-8"))
    if not modules:
        raise LabError(f"the go.mod of {what.module} v{what.version} replaces no staging modules")
    return modules


def build_source(go: str, source: Path, name: str, folder: Path) -> Path:
    """Build the static program in the folder `source`, with the standard library only, as
    `folder`/`name`."""
    module = folder / "source"
    shutil.copytree(source, module)
    (module / "go.mod").write_text("module example.invalid/lab\n\ngo 1.24.0\n", encoding="utf-8")
    _run([go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / name), "."], module)
    return folder / name


def _run(command: Sequence[str], folder: Path) -> str:
    quiet = build_progress.BuildProgress("go", build_progress.silent)
    return build_progress.run(command, folder, _environment(cgo=False), quiet)


def _environment(*, cgo: bool) -> dict[str, str]:
    return {"CGO_ENABLED": str(int(cgo)), "GO111MODULE": "on", "GOWORK": "off"}
