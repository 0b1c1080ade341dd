# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_whatif_modules.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.unit.planning.builders import rows

CONFIG = {"device_info": rows(), "node_operations": "ssh", "fabric": {
    "endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
    "password": "not-told", "realm": "r", "client_id": "c", "client_secret": "not-told-either"}}
