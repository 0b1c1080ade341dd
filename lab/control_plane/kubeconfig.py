# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write kubeconfig files, one per user of the lab's API server, self-contained so that they can be
copied."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.composable.infra.lab.control_plane.certificates import Pair


def client_user(pair: Pair) -> dict[str, str]:
    """Return the `user` entry for a client certificate."""
    return {
        "client-certificate-data": _encoded(pair.certificate),
        "client-key-data": _encoded(pair.key),
    }


def token_user(token: str) -> dict[str, str]:
    """Return the `user` entry for a bearer token."""
    return {"token": token}


def write_kubeconfig(
    path: Path,
    server: str,
    ca: Path,
    name: str,
    user: Mapping[str, str],
    cluster: str = "lab",
    namespace: str = "default",
) -> Path:
    """Write a kubeconfig for one user (context `name@cluster`) that only its owner can read."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _encoded(ca)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [
            {
                "name": f"{name}@{cluster}",
                "context": {"cluster": cluster, "user": name, "namespace": namespace},
            }
        ],
        "current-context": f"{name}@{cluster}",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        yaml.safe_dump(document, handle, sort_keys=False)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
