# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of a chart."""

from __future__ import annotations

DOCUMENTATION = r"""
name: chart_source
short_description: Options of kubernetes.core.helm for a chart
version_added: 0.1.0
description:
  - Returns chart reference, repository address and version, from a row of the version matrix and a mirror.
author:
  - composable.infra contributors (@composable-infra)
positional: mirror
options:
  _input:
    description: A row of C(charts) of the version matrix.
    type: dict
    required: true
  mirror:
    description: C(oci://…), the address of a chart repository, or a folder.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the source of NFD's chart
  ansible.builtin.debug:
    msg: "{{ lookup('composable.infra.matrix', 'charts.nfd') | composable.infra.chart_source('/srv/charts') }}"
"""

RETURN = r"""
_value:
  description: C(ref), C(repo_url) (empty for OCI and files) and C(version).
  type: dict
"""

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.plugin_utils.stack.sources import chart_source


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"chart_source": chart_source}
