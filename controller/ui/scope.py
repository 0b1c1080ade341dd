# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit what a client sees to everything, or to one namespace.

A client that is allowed a namespace sees its claims and the sums of the fabrics. It gets no
sentences, because a sentence may contain other tenants' pods, nodes, or replies of the CDI Manager.
Instead of the wait reason of a claim, it sees the claim's place in the queue.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

PROCESS, FABRIC, BOX, SWITCH, NODE, MACHINE, CLAIM = "process", "fabric", "box", "switch", "node", "machine", "claim"
# The fields of each kind of row that a namespace may see. It sees no other kind of row.
FIELDS: t.Final = {
    PROCESS: frozenset({"version", "handover", "hold", "ready", "leads", "docs", "read", "old_after"}),
    FABRIC: frozenset({"fabric", "machines", "models"}),
    CLAIM: frozenset({"namespace", "name", "uid", "state", "wants", "since", "created", "node", "pods", "devices",
                      "position", "of"}),
}


def claim_key(namespace: str, name: str) -> str:
    """Return the key of a claim's row."""
    return f"{CLAIM}/{namespace}/{name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows and fields that a client may see. ``namespace``: None for everything."""

    namespace: str | None = None

    def shows(self, key: str) -> bool:
        """Return whether the row with this key is shown."""
        if self.namespace is None:
            return True
        return key == PROCESS or key.startswith((f"{FABRIC}/", f"{CLAIM}/{self.namespace}/"))

    def shown(self, key: str, row: Json) -> Json:
        """Return a row with the fields that are shown."""
        if self.namespace is None:
            return row
        shown = FIELDS[key.partition("/")[0]]
        return {name: value for name, value in row.items() if name in shown}
