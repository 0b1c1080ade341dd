# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_verify: the cluster read where the task runs, and judged here."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.modules import stack_verify as module
from ansible_collections.composable.infra.plugins.plugin_utils.stack.judgement import Judgement
from ansible_collections.composable.infra.plugins.plugin_utils.stack.verify import verify


class ActionModule(Judgement):
    """See the module of the same name."""

    judge = staticmethod(verify)
    options = module.SPEC["argument_spec"]
