# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Official downloads: where they are, which checksum counts, and that a silent host does not hold anybody up."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import downloads
from ansible_collections.composable.infra.lab.errors import LabError

BARE = "a" * 64
SUMS = f"{'b' * 64}  etcd-v3.6.8-linux-arm64.tar.gz\n{'c' * 64}  etcd-v3.6.8-linux-amd64.tar.gz\n"
RELEASE_DOCUMENT = '{"assets": [{"name": "kwok-linux-amd64", "digest": "sha256:%s"}, {"name": "old"}]}' % ("D" * 64)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (BARE + "\n", "kube-apiserver", BARE),
        (SUMS, "etcd-v3.6.8-linux-amd64.tar.gz", "c" * 64),
        (RELEASE_DOCUMENT, "kwok-linux-amd64", "d" * 64),
    ],
)
def test_published_checksums(text: str, name: str, expected: str) -> None:
    assert downloads.published_checksum(text, name) == expected


@pytest.mark.parametrize(("text", "name"), [(SUMS, "other"), (RELEASE_DOCUMENT, "old"), ("<html>", "x"), ("", "x")])
def test_absent_checksum_is_an_error(text: str, name: str) -> None:
    with pytest.raises(LabError, match=f"checksum is published for {name}"):
        downloads.published_checksum(text, name)


def test_official_locations() -> None:
    apiserver = downloads.location("kube-apiserver", "1.36.3", "amd64")
    etcd = downloads.location("etcd", "3.6.8", "arm64")
    assert apiserver.url == "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-apiserver"
    assert apiserver.checksum_url == apiserver.url + ".sha256"
    assert etcd.url.endswith("/v3.6.8/etcd-v3.6.8-linux-arm64.tar.gz")
    assert etcd.member == "etcd-v3.6.8-linux-arm64/etcd"


def test_official_locations_of_a_nodes_programs() -> None:
    shim = downloads.location("containerd-shim-runc-v2", "2.3.7", "amd64")
    plugin, runc = (downloads.location(name, "1.9.1", "arm64") for name in ("host-local", "runc"))
    assert shim.url.endswith("/containerd/releases/download/v2.3.7/containerd-2.3.7-linux-amd64.tar.gz")
    assert (shim.checksum_url, shim.member) == (shim.url + ".sha256sum", "bin/containerd-shim-runc-v2")
    assert plugin.url.endswith("/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz")
    assert (plugin.checksum_url, plugin.member) == (plugin.url + ".sha256", "./host-local")
    assert runc.url.endswith("/opencontainers/runc/releases/download/v1.9.1/runc.arm64")
    assert runc.member is None


def archive_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        info = tarfile.TarInfo(f"etcd-v3.6.8-linux-{downloads.architecture()}/etcd")
        info.size = len(content)
        packed.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def serve(monkeypatch: pytest.MonkeyPatch, archive: bytes, checksum: str) -> None:
    name = downloads.location("etcd", "3.6.8", downloads.architecture()).file_name

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        return io.BytesIO(f"{checksum}  {name}\n".encode() if url.endswith("SHA256SUMS") else archive)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


def test_fetch_verifies_and_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(b"binary")
    serve(monkeypatch, archive, hashlib.sha256(archive).hexdigest())
    assert downloads.fetch("etcd", "3.6.8", tmp_path).read_bytes() == b"binary"


def test_fetch_refuses_what_was_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, archive_of(b"other"), "0" * 64)
    with pytest.raises(LabError, match="published SHA-256"):
        downloads.fetch("etcd", "3.6.8", tmp_path)


def test_fetch_gives_up_on_a_host_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(downloads, "_get", lambda url, timeout: str(released.wait(30)).encode())
    try:
        with pytest.raises(downloads.NoInternet, match="no answer"):
            downloads.fetch("etcd", "3.6.8", tmp_path, timeout=0.05)
    finally:
        released.set()
