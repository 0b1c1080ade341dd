# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place of an image on a registry mirror."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mirrored
short_description: The address of an image or repository on a mirror
version_added: 0.1.0
description:
  - Replaces the registry by the mirror and keeps the path. Without a mirror the address is returned unchanged.
author:
  - composable.infra contributors (@composable-infra)
positional: mirror
options:
  _input:
    description: An image or a repository.
    type: str
    required: true
  mirror:
    description: Address of the mirror, with a prefix if it has one.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the image of the driver's manager
  ansible.builtin.debug:
    msg: "{{ 'nvcr.io/nvidia/cloud-native' | composable.infra.mirrored('mirror.example:5000/gpu') }}"
"""

RETURN = r"""
_value:
  description: The address to use.
  type: str
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.stack.sources import mirrored


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"mirrored": mirrored}
