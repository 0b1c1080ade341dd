# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of the driver."""

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_packages
short_description: Packages of a driver branch for a host
version_added: 0.1.0
description:
  - Fails for a system or a branch that the version matrix does not have.
author:
  - composable.infra contributors (@composable-infra)
positional: branch, driver
options:
  _input:
    description: The host, as P(composable.infra.host_facts#filter) describes it.
    type: dict
    required: true
  branch:
    description: Driver branch.
    type: raw
    required: true
  driver:
    description: Section C(driver) of the version matrix.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the packages
  ansible.builtin.debug:
    msg: "{{ host | composable.infra.driver_packages(580, lookup('composable.infra.matrix', 'driver')) }}"
"""

RETURN = r"""
_value:
  description: Names of packages.
  type: list
"""

import typing as t
from collections.abc import Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.plugin_utils.host import packages


def driver_packages(host: dict[str, t.Any], branch: t.Any, driver: dict[str, t.Any]) -> list[str]:
    """Return the packages. Raise AnsibleFilterError."""
    try:
        return packages.driver_packages(host, branch, driver)
    except packages.Unsupported as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"driver_packages": driver_packages}
