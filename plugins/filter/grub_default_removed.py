# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes merged kernel parameters out of /etc/default/grub again."""

from __future__ import annotations

DOCUMENTATION = r"""
name: grub_default_removed
short_description: The text of /etc/default/grub without what was added to it
version_added: 1.0.0
description:
  - What somebody changed since it was added stays.
author:
  - composable.infra contributors (@composable-infra)
positional: added
options:
  _input:
    description: Text of the file.
    type: str
    required: true
  added:
    description: What P(composable.infra.grub_default#filter) has added.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Take out
  ansible.builtin.debug:
    msg: "{{ text | composable.infra.grub_default_removed(['pci=realloc=on']) }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host.parameters import unmerge_grub


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"grub_default_removed": unmerge_grub}
