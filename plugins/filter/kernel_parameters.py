# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merges kernel parameters into a command line."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kernel_parameters
short_description: A kernel command line with what is missing, and nothing overwritten
version_added: 1.0.0
description:
  - Options of C(pci=) are merged one by one; any other parameter is added only when its name is not there.
author:
  - composable.infra contributors (@composable-infra)
positional: wanted
options:
  _input:
    description: A command line.
    type: str
    required: true
  wanted:
    description: Parameters.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Merge
  ansible.builtin.debug:
    msg: "{{ 'quiet pci=nomsi' | composable.infra.kernel_parameters(['pci=realloc=on']) }}"
"""

RETURN = r"""
_value:
  description: C(line), what was C(added), and what was C(kept) though something else was wanted.
  type: dict
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host.parameters import merge


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"kernel_parameters": merge}
