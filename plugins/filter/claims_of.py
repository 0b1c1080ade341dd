# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims that use devices of a driver."""

from __future__ import annotations

DOCUMENTATION = r"""
name: claims_of
short_description: Claims that hold devices of a driver, as namespace/name
version_added: 0.1.0
description:
  - Selects claims from C(stack.claims), as M(composable.infra.stack_info) returns it.
author:
  - composable.infra contributors (@composable-infra)
positional: driver, pools
options:
  _input:
    description: Claims with their devices.
    type: list
    elements: dict
    required: true
  driver:
    description: Name of the driver.
    type: str
    required: true
  pools:
    description: Names of pools. A node's pool has the name of the node. If not set, devices of all pools count.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the claims
  ansible.builtin.debug:
    msg: "{{ found.stack.claims | composable.infra.claims_of('gpu.nvidia.com') }}"
"""

RETURN = r"""
_value:
  description: Claims, as C(namespace/name).
  type: list
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.stack.facts import claims_of


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"claims_of": claims_of}
