# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_defragment within Ansible's own process where that is needed."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.bodies import fabric_defragment as body
from ansible_collections.composable.infra.plugins.plugin_utils.engine_inprocess import EngineInProcess


class ActionModule(EngineInProcess):
    """See the module of the same name."""

    spec = body.SPEC
    work = body.work
