# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images made on this machine, each with one static program of the lab, so that no image is pulled.

COLLECTION is a stand-in for the image with Python and this collection, see `python_image.py`.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.binaries.downloads import architecture

PAUSE = "lab.composable.infra/pause:1"
WORKLOAD = "lab.composable.infra/workload:1"
COLLECTION = "lab.composable.infra/collection-stand-in:1"
ARCHIVE = "images.tar"
_PROGRAM = "/workload"
_TYPE = "application/vnd.oci.image"
# Like images of controllers. Pods that must not run as root do not set a user.
_USER = "65532"


@dataclass(frozen=True, slots=True)
class _Blob:
    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def descriptor(self, **annotations: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": f"sha256:{self.digest}",
            "size": len(self.content),
        }
        return {**found, "annotations": annotations} if annotations else found


def write_images(archive: Path, workload: Path) -> None:
    """Write all images as one archive in OCI's layout. `workload` is the lab's statically linked
    program."""
    layer = _Blob(f"{_TYPE}.layer.v1.tar", _layer(workload))
    blobs, manifests = [layer], []
    images = ((PAUSE, (_PROGRAM, "pause"), ""), (WORKLOAD, (_PROGRAM,), ""), (COLLECTION, (_PROGRAM,), _USER))
    for reference, entrypoint, user in images:
        config = _config(layer, entrypoint, user)
        manifest = _manifest(config, layer)
        blobs += [config, manifest]
        manifests.append(manifest.descriptor(**{"io.containerd.image.name": reference}))
    _write(archive, blobs, manifests)


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, _PROGRAM.lstrip("/"), program.read_bytes(), 0o755)
    return buffer.getvalue()


def _config(layer: _Blob, entrypoint: Sequence[str], user: str) -> _Blob:
    document = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/"], "User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}"]},
    }
    return _Blob(f"{_TYPE}.config.v1+json", json.dumps(document).encode())


def _manifest(config: _Blob, layer: _Blob) -> _Blob:
    media_type = f"{_TYPE}.manifest.v1+json"
    document = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    }
    return _Blob(media_type, json.dumps(document).encode())


def _write(archive: Path, blobs: Sequence[_Blob], manifests: Sequence[dict[str, Any]]) -> None:
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": list(manifests)}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in blobs:
            _add(tar, f"blobs/sha256/{blob.digest}", blob.content)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
