#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's free devices as the scheduler sees them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_pool
short_description: Show, publish or withdraw the ResourceSlices of a fabric's free devices
version_added: 1.0.0
description:
  - The free devices of a fabric are shown to the scheduler as ResourceSlices, one pool for each model and fabric. The
    controller and M(composable.infra.scale) keep the pools up to date. This module looks at them, publishes them once,
    or withdraws them, for example before work on the fabric.
  - Uses the planner and the writer of the engine, so a pool that is published here is the one that they would publish.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
options:
  state:
    description:
      - V(gathered) only reads.
      - V(published) makes the pools show what the fabric has free. While a controller or another run publishes, nothing
        is written and RV(led_by) says who does it.
      - V(withdrawn) takes away what no claim holds, and a pool of which no claim holds anything as a whole. It fails
        while a controller publishes, since that would bring the pools back.
    type: str
    choices: [gathered, published, withdrawn]
    default: gathered
  pools:
    description: Names of pools, such as V(nvidia-a100-40g-fabric1). All by default.
    type: list
    elements: str
    default: []
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Returns the pools as they would be, and writes nothing.
    support: full
  diff_mode:
    description: Returns the devices of each pool before and after.
    support: full
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
notes:
  - A pool is open to the nodes that carry the labels of its model and its fabric. Those labels are not written here but
    by the controller and by M(composable.infra.scale).
seealso:
  - module: composable.infra.scale
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: What may the scheduler promise?
  composable.infra.device_pool:
    config_path: /etc/composable-infra/config.yml
  register: shown

- name: Promise nothing of fabric 1 while it is worked on
  composable.infra.device_pool:
    config_path: /etc/composable-infra/config.yml
    state: withdrawn
    pools: [nvidia-a100-40g-fabric1]
"""

RETURN = r"""
pools:
  description: The pools afterwards.
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
      description: Those that claims hold.
      type: list
      elements: str
      returned: always
      sample: [nvidia-a100-40g-0]
    published:
      description: Whether there are ResourceSlices of it.
      type: bool
      returned: always
      sample: true
led_by:
  description: Who publishes instead of this run; empty when nobody does, or there was nothing to write.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import frontdoor
from ansible_collections.composable.infra.plugins.module_utils.reconcile import poolrun


def work(module: AnsibleModule) -> dict[str, object]:
    """Look, publish or withdraw."""
    params = module.params
    run = poolrun.PoolRun(frontdoor.cluster(params), frontdoor.config(module), params["ready_timeout"])
    if params["state"] == "gathered":
        return run.look(params["pools"]).as_result()
    make = run.published if params["state"] == "published" else run.withdrawn
    return make(params["pools"], module.check_mode).as_result()


def main() -> None:
    """Module entry."""
    module = frontdoor.EngineModule(
        argument_spec={
            **frontdoor.CONFIG_OPTIONS, **frontdoor.CLUSTER_OPTIONS,
            "state": {"type": "str", "choices": ["gathered", "published", "withdrawn"], "default": "gathered"},
            "pools": {"type": "list", "elements": "str", "default": []},
            "ready_timeout": {"type": "float", "default": 30.0},
        },
        supports_check_mode=True, **frontdoor.CONFIG_RULES)
    frontdoor.run(module, work)


if __name__ == "__main__":
    main()
