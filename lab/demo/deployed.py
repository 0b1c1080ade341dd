# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment of the controllers in the role's Deployment. The lab and the bench run them with it, too."""

from __future__ import annotations

AS_DEPLOYED = {"MALLOC_ARENA_MAX": "1"}
"""Variables that change what the controllers take."""
