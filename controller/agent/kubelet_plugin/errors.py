# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error for claims that the plugin refuses."""

from __future__ import annotations


class Refused(Exception):
    """The claim cannot be prepared now. The message is one sentence.

    It becomes an Event of the claim's pod. The kubelet tries again.
    """
