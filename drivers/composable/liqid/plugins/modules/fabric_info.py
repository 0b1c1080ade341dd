# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_info for tasks on another host: this imports the driver, so Ansible packs it with the module."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_info import main

from ..module_utils.fabric_manager import liqid as liqid

if __name__ == "__main__":
    main()
