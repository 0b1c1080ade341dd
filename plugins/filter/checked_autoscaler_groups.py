# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the groups for Cluster Autoscaler before they are written into a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: checked_autoscaler_groups
short_description: Check the groups that Cluster Autoscaler is shown
version_added: 0.1.0
description:
  - Returns the configuration of the provider of Cluster Autoscaler unchanged when the provider could start with it.
    Otherwise it fails with one sentence that names the field, its value and what is allowed.
  - It does not check what a provider of nodes needs, such as the address of an AWX.
author:
  - composable.infra contributors (@composable-infra)
positional: config
options:
  _input:
    description: The groups and their providers.
    type: dict
    required: true
  config:
    description: The configuration of the controllers, which names the models of devices.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the groups only if they are usable
  ansible.builtin.debug:
    msg: "{{ my_groups | composable.infra.checked_autoscaler_groups(my_config) }}"
"""

RETURN = r"""
_value:
  description: The groups as they were given.
  type: dict
"""

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError

from ..module_utils.planning.settings import BadSetting
from ..module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ..module_utils.reconcile.config import BadConfig, settings_of


def checked_autoscaler_groups(groups: object, config: object) -> object:
    """Return the groups. Raise AnsibleFilterError if they or the models of ``config`` are wrong."""
    if not isinstance(config, Mapping):
        raise AnsibleFilterError(f"config: must be a mapping of settings, is {type(config).__name__}")
    try:
        AutoscalerConfig.from_dict(groups, settings_of(config), "groups")
    except (BadConfig, BadSetting) as error:
        raise AnsibleFilterError(str(error)) from None
    return groups


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[[object, object], object]]:
        """Return the filter by its name."""
        return {"checked_autoscaler_groups": checked_autoscaler_groups}
