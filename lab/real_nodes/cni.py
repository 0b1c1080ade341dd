# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod network of a real node: a veth pair for each pod, with routes but no address
translation."""

from __future__ import annotations

import json

from ansible_collections.composable.infra.lab.real_nodes.node import RealNode


def configuration(node: RealNode) -> str:
    """Return the conflist for the Container Network Interface."""
    pods = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/containerd/addresses",
            "ranges": [[{"subnet": node.pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    document = {"cniVersion": "1.0.0", "name": "lab", "plugins": [pods]}
    return json.dumps(document, indent=2) + "\n"
