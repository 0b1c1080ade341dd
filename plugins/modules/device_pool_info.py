#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the pools of a fabric's free devices."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_pool_info
short_description: What the ResourceSlices of a fabric's free devices show
version_added: 0.1.0
description:
  - ResourceSlices show the free devices of a fabric to the scheduler, in one pool for each model
    and fabric. This module returns the existing and the expected pools, their devices, and the
    devices that claims have.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  pools:
    description: Names of pools, such as V(nvidia-a100-40g-fabric1). By default all pools are returned.
    type: list
    elements: str
    default: []
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.device_pool
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: Which devices may the scheduler allocate?
  composable.infra.device_pool_info:
    config_path: /etc/composable-infra/config.yml
  register: shown

- name: Show how many are left of each pool
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.devices | difference(item.promised) | length }}"
  loop: "{{ shown.pools }}"
"""

RETURN = r"""
pools:
  description: The pools, sorted by model and fabric.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
      returned: always
      sample: nvidia-a100-40g-fabric1
    model:
      description: Model as the CDI Manager names it.
      type: str
      returned: always
      sample: A100 40G
    fabric:
      description: Number of the fabric.
      type: int
      returned: always
      sample: 1
    devices:
      description: Names of the devices that the pool shows.
      type: list
      elements: str
      returned: always
      sample: [nvidia-a100-40g-0, nvidia-a100-40g-1]
    promised:
      description: Names of the devices that claims have.
      type: list
      elements: str
      returned: always
      sample: [nvidia-a100-40g-0]
    published:
      description: Whether the pool has ResourceSlices.
      type: bool
      returned: always
      sample: true
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.device_pool_info import main

if __name__ == "__main__":
    main()
