# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage within Ansible's own process where that is possible."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.modules import usage as module
from ansible_collections.composable.infra.plugins.plugin_utils.inprocess import InProcess


class ActionModule(InProcess):
    """See the module of the same name."""

    spec = module.SPEC
    work = module.work
