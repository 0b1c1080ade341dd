# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common documentation of the modules that judge a GPU stack."""

from __future__ import annotations


class ModuleDocFragment:
    """The hosts that are judged too, and how such a module works."""

    DOCUMENTATION = r"""
options:
  hosts:
    description: Facts about the nodes' hosts, as the role C(node_prepare) sets it in
      C(node_prepare_host).
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: Can run in check mode, because it only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, it only reads.
    support: none
  action:
    description: The cluster is read where the task runs, and judged where C(ansible-playbook) runs.
    support: full
  async:
    description: Does not run in the background.
    support: none
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
"""
