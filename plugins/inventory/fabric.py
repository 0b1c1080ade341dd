# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory of the machines of a composable fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric
short_description: Machines of a composable fabric as hosts
version_added: 0.1.0
description:
  - Reads the machines of a CDI Manager and makes a host of each, with its attached devices, its fabric, its health and
    the number of devices that could still be attached to it.
  - The name of the inventory file must end in C(fabric.yml) or C(fabric.yaml).
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
  - composable.infra.environment
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Name of the plugin.
    type: str
    required: true
    choices: [composable.infra.fabric]
  models:
    description:
      - Models to count the free devices of, as the CDI Manager names them.
      - When empty, all models are counted if the CDI Manager lists free devices, and none if it can only count them.
    type: list
    elements: str
    default: []
  bmc_addresses:
    description: Addresses of the machines' management controllers, by uid or name. CDI Managers do not report them.
    type: dict
    default: {}
  device_fields:
    description:
      - Fields of each device in C(composable_devices), out of those that M(composable.infra.fabric_info) returns. By
        default C(uid), C(model), C(kind), C(state), C(health), and C(serial) and C(size) where the device has them.
      - With tens of thousands of devices, fewer fields save time and memory in programs that read the inventory.
    type: list
    elements: str
    choices: [uid, model, kind, fabric, machine, state, health, serial, name, size]
  hostnames:
    description: Source of the names of the hosts. When several machines have the same name, the uid
      is added to it.
    type: str
    choices: [name, uid]
    default: name
notes:
  - "Groups of machines: C(fabric_<number>) or C(no_fabric), C(has_devices) or C(without_devices), C(model_<model>) with
    a device of the model, C(free_<model>) to which one could be attached, and C(unhealthy). Names are in lower case,
    with C(_) in place of characters that Ansible does not allow."
  - "Variables: C(composable_machine) (uid), C(composable_name), C(composable_fabric), C(composable_health) (the worst
    of its devices), C(composable_devices), C(composable_free) (by model) and C(composable_bmc)."
seealso:
  - plugin: composable.infra.cluster
    plugin_type: inventory
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
# my.fabric.yml
plugin: composable.infra.fabric
endpoint: https://fabric-manager.example.com
tenant: 00000000-0000-4000-8000-000000000001
credentials_dir: /etc/composable-infra/credentials
ca_path: /etc/composable-infra/ca.pem
models: [A100 40G]
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: /var/tmp/composable-infra
cache_timeout: 30
compose:
  gpus: composable_devices | length
keyed_groups:
  - key: composable_health
    prefix: health
"""

from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import fabric_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import listing
from ansible_collections.composable.infra.plugins.plugin_utils.fabric_hosts import Wanted, machine_hosts
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import Host, HostsPlugin, options


class InventoryModule(HostsPlugin):
    """See DOCUMENTATION."""

    NAME = "composable.infra.fabric"
    ENDINGS = ("fabric.yml", "fabric.yaml")

    def hosts(self) -> list[Host]:
        """Return a host for each machine."""
        with closing(fabric_module.fabric(options(self, fabric_module.FABRIC_OPTIONS))) as fabric:
            machines, free, problems = listing.look(fabric, tuple(self.option("models")))
        for place, problem in problems.items():
            self.display.warning(f"{self.NAME}: the free devices of {place} are not known: {problem}")
        fields = self.option("device_fields")
        return machine_hosts(machines, free, Wanted(self.option("bmc_addresses"),
                                                    self.option("hostnames") == "uid",
                                                    None if fields is None else tuple(fields)))
