# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who sees what: everything, or what concerns one namespace.

Who is let in for a namespace sees the claims there and the sums of the fabrics. Sentences are not sent to them, since a
sentence may name anything: other tenants' pods, nodes, what the CDI Manager has said. What a claim waits for is then
its place in the queue.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Json = dict[str, t.Any]
PROCESS, FABRIC, BOX, SWITCH, NODE, MACHINE, CLAIM = "process", "fabric", "box", "switch", "node", "machine", "claim"
# What a namespace is shown of each kind of row; of no other kind it is shown anything.
FIELDS: t.Final = {
    PROCESS: frozenset({"version", "handover", "hold", "ready", "leads", "docs", "read", "old_after"}),
    FABRIC: frozenset({"fabric", "machines", "models"}),
    CLAIM: frozenset({"namespace", "name", "uid", "state", "wants", "since", "created", "node", "pods", "devices",
                      "position", "of"}),
}


def claim_key(namespace: str, name: str) -> str:
    """Key of a claim's row."""
    return f"{CLAIM}/{namespace}/{name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """``namespace``: None for everything."""

    namespace: str | None = None

    def shows(self, key: str) -> bool:
        """Whether the row of this key is shown."""
        if self.namespace is None:
            return True
        return key == PROCESS or key.startswith((f"{FABRIC}/", f"{CLAIM}/{self.namespace}/"))

    def shown(self, key: str, row: Json) -> Json:
        """A row as it is shown."""
        if self.namespace is None:
            return row
        shown = FIELDS[key.partition("/")[0]]
        return {name: value for name, value in row.items() if name in shown}
