# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the Leases of the node agents are named and labeled."""

from __future__ import annotations

import typing as t

# The Lease of a node agent ends in the name of the node. All of them have these labels.
AGENT_LEASE: t.Final = "node-agent-"
AGENT_LABELS: t.Final = {"composable.infra/component": "node-agent"}
