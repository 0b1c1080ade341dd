# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_report_filters.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.filter.fabric_devices import FilterModule as Devices
from ansible_collections.composable.infra.plugins.filter.fabric_report import FilterModule as Report

fabric_devices = Devices().filters()["fabric_devices"]
fabric_report = Report().filters()["fabric_report"]
