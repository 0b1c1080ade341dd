# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_preflight: the cluster read where the task runs, and judged here."""

from __future__ import annotations

import shutil
import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.modules import stack_preflight as module
from ansible_collections.composable.infra.plugins.plugin_utils.stack.judgement import Judgement
from ansible_collections.composable.infra.plugins.plugin_utils.stack.preflight import preflight


def with_helm(cluster: Mapping[str, t.Any], plan: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Judge with where the control node has the command helm, by which kubernetes.core installs charts."""
    return preflight(cluster, {**plan, "helm": shutil.which(str(plan.get("helm_binary") or "helm")) or ""})


class ActionModule(Judgement):
    """See the module of the same name."""

    judge = staticmethod(with_helm)
    options = module.SPEC["argument_spec"]
