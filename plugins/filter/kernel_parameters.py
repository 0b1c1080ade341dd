# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters put into a command line or /etc/default/grub, and taken out again; documented in the .yml files."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host import parameters


class FilterModule:
    """What Ansible asks a filter plugin for."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """The filters by their names."""
        return {
            "kernel_parameters": parameters.merge,
            "kernel_parameters_removed": parameters.unmerge,
            "grub_default": parameters.merge_grub,
            "grub_default_removed": parameters.unmerge_grub,
        }
