# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_sizes.py` and others share."""

from __future__ import annotations

MIN_LABEL, MAX_LABEL = "cohdi.io/a100-size-min", "cohdi.io/a100-size-max"
