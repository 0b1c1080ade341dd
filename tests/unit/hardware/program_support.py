# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_program.py` and others share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.hardware import node

needs_no_gpu = pytest.mark.skipif(not node.no_gpu(Path("/")), reason="this machine has an NVIDIA GPU")
