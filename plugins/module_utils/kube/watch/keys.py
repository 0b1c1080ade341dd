# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of an object among those of its kind, and the order of its versions."""

from __future__ import annotations

import sys

from ...model.value import Value
from ..api_resources import Object

Key = tuple[str, str]


def key_of(obj: Object | Value) -> Key:
    """Return (namespace, name). The namespace of a cluster-scoped object is ""."""
    if isinstance(obj, Value):
        return obj.namespace, obj.name
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def kept_key(key: Key) -> Key:
    """Return the same key for an object that is kept. The text of a namespace is in memory once."""
    return sys.intern(key[0]), key[1]


def version_of(obj: Object | Value) -> int:
    """Return the resourceVersion as a number, -1 if absent or not a number (it then always counts
    as newer).
    """
    return version_number(obj.version if isinstance(obj, Value) else obj["metadata"].get("resourceVersion"))


def version_number(text: object) -> int:
    """Return a resourceVersion as a number, which Kubernetes promises to be comparable (KEP-5504),
    else -1.
    """
    return int(text) if isinstance(text, str) and text.isdigit() else -1
