# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_gate_ends.py` and others share."""

from __future__ import annotations

REFUSED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: no room"}]
