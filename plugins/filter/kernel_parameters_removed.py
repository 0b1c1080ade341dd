# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes merged kernel parameters out again."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kernel_parameters_removed
short_description: A kernel command line without what was added to it
version_added: 1.0.0
description:
  - What somebody changed since it was added stays.
author:
  - composable.infra contributors (@composable-infra)
positional: added
options:
  _input:
    description: A command line.
    type: str
    required: true
  added:
    description: What P(composable.infra.kernel_parameters#filter) has added.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Take out
  ansible.builtin.debug:
    msg: "{{ 'quiet pci=nomsi,realloc=on' | composable.infra.kernel_parameters_removed(['pci=realloc=on']) }}"
"""

RETURN = r"""
_value:
  description: The command line.
  type: str
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host.parameters import unmerge


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"kernel_parameters_removed": unmerge}
