# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role's Deployment of the controllers sets, so that the lab and the bench run them alike."""

from __future__ import annotations

AS_DEPLOYED = {"MALLOC_ARENA_MAX": "1"}
"""Environment of the controllers, as far as it changes what they take."""
