# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plugin refuses."""

from __future__ import annotations


class Refused(Exception):
    """A claim cannot be prepared now; the message, one sentence, becomes an Event of its pod, and the kubelet asks
    again."""
