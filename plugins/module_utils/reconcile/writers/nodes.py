# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write labels of Nodes."""

from __future__ import annotations

from ...kube.api_resources import NODES
from ...planning.actions import LabelNode
from .object_writer import ObjectWriter


class NodeWriter(ObjectWriter):
    """Writes labels of Nodes."""

    def label(self, action: LabelNode) -> None:
        """Set and remove node labels."""
        patch = {"metadata": {"labels": dict(action.labels)}}
        self.state.nodes.upsert(self.client.merge_patch(NODES, action.node, patch))
        self.outlet.changes += 1
