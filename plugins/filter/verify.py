# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a cluster after everything was installed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: verify
short_description: What must be true of a GPU stack, in order
version_added: 1.0.0
description:
  - Judges what M(composable.infra.stack_info) returned after the roles have run.
author:
  - composable.infra contributors (@composable-infra)
positional: plan
options:
  _input:
    description: What M(composable.infra.stack_info) returned as C(stack), with C(hosts) added.
    type: dict
    required: true
  plan:
    description: What the roles were to do, as the role C(verify) puts it together.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say it
  ansible.builtin.debug:
    msg: "{{ (found.stack | composable.infra.verify(plan)).report }}"
"""

RETURN = r"""
_value:
  description: Findings, a readable C(report), and the list C(stop) of what is wrong.
  type: dict
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.stack.verify import verify


class FilterModule:  # the name that Ansible looks for
    """The filter plugin."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Its filters by name."""
        return {"verify": verify}
