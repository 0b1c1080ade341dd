# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_facts
short_description: Facts of a host for preflight and verify
version_added: 0.1.0
description:
  - Reads the texts of a few files of a host, so that nothing has to be installed on it.
author:
  - composable.infra contributors (@composable-infra)
positional: name
options:
  _input:
    description: Texts C(os_release), C(cmdline), C(modules), C(modeset), C(persistenced), C(gpus).
    type: dict
    required: true
  name:
    description: Name of the host and of its node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the facts
  ansible.builtin.debug:
    msg: "{{ ({'os_release': 'ID=sles'} | composable.infra.host_facts(inventory_hostname)).system }}"
"""

RETURN = r"""
_value:
  description: System, version, command line, and the programs that hold its GPUs.
  type: dict
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.host.describe import describe


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"host_facts": lambda texts, name: describe(name, texts)}
