#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish the free devices of the fabric to the scheduler."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_pool
short_description: Publish or withdraw the ResourceSlices of a fabric's free devices
version_added: 0.1.0
description:
  - ResourceSlices show the free devices of a fabric to the scheduler, in one pool for each model and fabric. The
    controller and M(composable.infra.scale) keep the pools up to date. This module publishes them once, or withdraws
    them, for example before maintenance of the fabric. M(composable.infra.device_pool_info) reads them.
  - The module uses the same code as the controller, so it publishes the same pools.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  state:
    description:
      - V(published) makes the pools show the free devices of the fabric. While a controller or
        another run publishes the pools, nothing is written, and RV(led_by) names the publisher.
      - V(withdrawn) removes all devices without a claim. A pool without a device in a claim is
        removed as a whole. It fails while a controller publishes, because the controller would
        publish the pools again.
    type: str
    choices: [published, withdrawn]
    required: true
  pools:
    description: Names of pools, such as V(nvidia-a100-40g-fabric1). By default, all pools.
    type: list
    elements: str
    default: []
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Returns the pools as they would be after the real run, and writes nothing.
    support: full
  diff_mode:
    description: Returns the devices of each pool before and after.
    support: full
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
notes:
  - The devices of a pool can go to nodes that have the labels of its model and its fabric. This module does not write
    these labels. The controller and M(composable.infra.scale) do.
seealso:
  - module: composable.infra.device_pool_info
  - module: composable.infra.scale
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: Offer all free devices again
  composable.infra.device_pool:
    config_path: /etc/composable-infra/config.yml
    state: published

- name: Offer no device of fabric 1 during its maintenance
  composable.infra.device_pool:
    config_path: /etc/composable-infra/config.yml
    state: withdrawn
    pools: [nvidia-a100-40g-fabric1]
"""

RETURN = r"""
pools:
  description: The pools after the task.
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
led_by:
  description: Publisher instead of this run. Empty when there is none, or when there was nothing to
    write.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.device_pool import main

if __name__ == "__main__":
    main()
