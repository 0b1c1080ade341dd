# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what an object is found among those of its kind, and which of two of its versions is newer."""

from __future__ import annotations

import sys

from ..api_resources import Object

Key = tuple[str, str]


def key_of(obj: Object) -> Key:
    """(namespace, name); the namespace of a cluster-scoped object is ""."""
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def kept_key(key: Key) -> Key:
    """The same key for as long as an object is kept: the text of a namespace is in memory once."""
    return sys.intern(key[0]), key[1]


def version_of(obj: Object) -> int:
    """The resourceVersion as a number, -1 when it is absent or not one (it then always counts as newer)."""
    return version_number(obj["metadata"].get("resourceVersion"))


def version_number(text: object) -> int:
    """Kubernetes promises comparable resourceVersions (KEP-5504); anything else cannot be ordered: -1."""
    return int(text) if isinstance(text, str) and text.isdigit() else -1
