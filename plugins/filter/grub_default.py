# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merges kernel parameters into /etc/default/grub."""

from __future__ import annotations

DOCUMENTATION = r"""
name: grub_default
short_description: The text of /etc/default/grub with what is missing, and nothing overwritten
version_added: 1.0.0
description:
  - A parameter goes where its name is, a new one to C(GRUB_CMDLINE_LINUX).
author:
  - composable.infra contributors (@composable-infra)
positional: wanted
options:
  _input:
    description: Text of the file.
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
    msg: "{{ text | composable.infra.grub_default(['pci=realloc=on']) }}"
"""

RETURN = r"""
_value:
  description: C(text), what was C(added), and what was C(kept) though something else was wanted.
  type: dict
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host.parameters import merge_grub


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"grub_default": merge_grub}
