# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims served by the controller."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.e2e.support.flow import STAGE, FlowTests

FRONT_DOOR = "controller"

__all__ = ["FRONT_DOOR", "STAGE", "TestController"]


class TestController(FlowTests):
    """The scenarios of all front doors."""
