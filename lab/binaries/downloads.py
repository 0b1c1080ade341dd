# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch official release binaries and check them against the checksums that their projects publish.

Kubernetes publishes a .sha256 per binary, and etcd a SHA256SUMS per release. kwok publishes none,
so use the digest that GitHub records for the release asset.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries.releases import CNI_COMPONENTS, CONTAINERD_COMPONENTS
from ansible_collections.composable.infra.lab.errors import LabError

CONNECT_SECONDS = 4.0
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class NoInternet(Exception):
    """The release host cannot be reached, so another source is needed."""


@dataclass(frozen=True, slots=True)
class Download:
    """URL of a component's release and of its checksum, and the archive member that is the
    binary."""

    url: str
    checksum_url: str
    file_name: str
    member: str | None = None


def architecture() -> str:
    """Return the name of this machine's architecture in release file names."""
    machine = platform.machine().lower()
    if machine not in _MACHINES:
        raise LabError(f"no release binaries for the architecture {machine!r}: allowed are amd64 and arm64")
    return _MACHINES[machine]


def location(component: str, version: str, arch: str) -> Download:
    """Return the official location of `component` at `version` (without "v")."""
    if component == "etcd":
        base = f"https://github.com/etcd-io/etcd/releases/download/v{version}"
        folder = f"etcd-v{version}-linux-{arch}"
        return Download(f"{base}/{folder}.tar.gz", f"{base}/SHA256SUMS", f"{folder}.tar.gz", f"{folder}/etcd")
    if component == "kwok":
        name = f"kwok-linux-{arch}"
        repository = "kubernetes-sigs/kwok/releases"
        return Download(
            f"https://github.com/{repository}/download/v{version}/{name}",
            f"https://api.github.com/repos/{repository}/tags/v{version}",
            name,
        )
    if component in (*CONTAINERD_COMPONENTS, *CNI_COMPONENTS, "runc"):
        return _node_location(component, version, arch)
    url = f"https://dl.k8s.io/release/v{version}/bin/linux/{arch}/{component}"
    return Download(url, f"{url}.sha256", component)


def _node_location(component: str, version: str, arch: str) -> Download:
    if component == "runc":
        base = f"https://github.com/opencontainers/runc/releases/download/v{version}"
        return Download(f"{base}/runc.{arch}", f"{base}/runc.sha256sum", f"runc.{arch}")
    if component in CNI_COMPONENTS:
        name = f"cni-plugins-linux-{arch}-v{version}.tgz"
        url = f"https://github.com/containernetworking/plugins/releases/download/v{version}/{name}"
        return Download(url, f"{url}.sha256", name, f"./{component}")
    name = f"containerd-{version}-linux-{arch}.tar.gz"
    url = f"https://github.com/containerd/containerd/releases/download/v{version}/{name}"
    return Download(url, f"{url}.sha256sum", name, f"bin/{component}")


def published_checksum(text: str, file_name: str) -> str:
    """Return the SHA-256 of `file_name` from a bare checksum, a SHA256SUMS list or a GitHub release
    document."""
    if text.lstrip().startswith("{"):
        digests = {asset["name"]: asset.get("digest") or "" for asset in json.loads(text).get("assets", [])}
        found = digests.get(file_name, "").removeprefix("sha256:")
    else:
        rows = [line.split() for line in text.splitlines() if line.strip()]
        found = next((row[0] for row in rows if len(row) == 1 or row[-1].lstrip("*") == file_name), "")
    if len(found) != 64:
        raise LabError(f"no SHA-256 checksum is published for {file_name}")
    return found.lower()


def fetch(component: str, version: str, folder: Path, timeout: float = CONNECT_SECONDS) -> Path:
    """Download `component` into `folder`, check it, and return the binary's path.

    Raise NoInternet if the host cannot be reached within `timeout` seconds or has no such release.
    Raise LabError if the checksum differs.
    """
    where = location(component, version, architecture())
    text = _within(timeout, lambda: _get(where.checksum_url, timeout)).decode()
    expected = published_checksum(text, where.file_name)
    target = folder / where.file_name
    if _save(where.url, target) != expected:
        raise LabError(f"{where.url} does not have its published SHA-256 checksum {expected}")
    return target if where.member is None else _unpack(target, where.member, folder)


def _within(seconds: float, call: Callable[[], bytes]) -> bytes:
    """Run `call` in a thread, because a name look-up ignores socket timeouts."""
    result: list[bytes] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(call())
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if result:
        return result[0]
    raise NoInternet(str(failure[0]) if failure else f"no answer within {seconds:g} s")


def _get(url: str, timeout: float) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout) as reply:
        return bytes(reply.read())


def _save(url: str, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=30) as reply, target.open("wb") as handle:
            while chunk := reply.read(1 << 20):
                digest.update(chunk)
                handle.write(chunk)
    except OSError as error:
        raise NoInternet(f"{url}: {error}") from error
    return digest.hexdigest()


def _unpack(archive: Path, member: str, folder: Path) -> Path:
    target = folder / Path(member).name
    with tarfile.open(archive) as packed:
        source = packed.extractfile(member)
        if source is None:
            raise LabError(f"{archive.name} holds no file {member}")
        with source, target.open("wb") as handle:
            while chunk := source.read(1 << 20):
                handle.write(chunk)
    return target
