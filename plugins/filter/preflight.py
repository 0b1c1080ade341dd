# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a cluster and a plan before and after anything is installed; documented in the .yml files."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.stack.preflight import preflight
from ansible_collections.composable.infra.plugins.plugin_utils.stack.verify import verify


class FilterModule:
    """What Ansible asks a filter plugin for."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """The filters by their names."""
        return {"preflight": preflight, "verify": verify}
