# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims hold devices of a driver."""

from __future__ import annotations

DOCUMENTATION = r"""
name: claims_of
short_description: Claims that hold devices of a driver, as namespace/name
version_added: 1.0.0
description:
  - Picks from what M(composable.infra.stack_info) returned as C(stack.claims).
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
    description: Pools to look at, which are named as their nodes. Not set means all.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Say which
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


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"claims_of": claims_of}
