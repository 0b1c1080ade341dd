# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a composable fabric as an inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric
short_description: Machines of a composable fabric as hosts
version_added: 1.0.0
description:
  - Asks a CDI Manager for its machines and makes a host of each, with its attached devices, its fabric, its health and
    what could still be attached to it.
  - The name of the file must end in C(fabric.yml) or C(fabric.yaml).
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
      - Models whose free devices are counted, as the CDI Manager names them.
      - When empty, all models are counted by a CDI Manager that lists free devices, and none by one that only counts.
    type: list
    elements: str
    default: []
  bmc_addresses:
    description: Addresses of the machines' management controllers, by uid or name. CDI Managers do not tell them.
    type: dict
    default: {}
  device_fields:
    description:
      - What C(composable_devices) says of each device, of the fields that M(composable.infra.fabric_info) returns. By
        default C(uid), C(model), C(kind), C(state), C(health), and C(serial) and C(size) where there are.
      - With tens of thousands of devices fewer fields save time and memory in whatever reads the inventory.
    type: list
    elements: str
    choices: [uid, model, kind, fabric, machine, state, health, serial, name, size]
  hostnames:
    description: What hosts are called. A name that several machines have is followed by the uid.
    type: str
    choices: [name, uid]
    default: name
notes:
  - "Groups that are always there: C(fabric_<number>) or C(no_fabric), C(has_devices) or C(without_devices),
    C(model_<model>) of machines that have a device of the model, C(free_<model>) of machines that could get one,
    and C(unhealthy). Names are in lower case, with C(_) for what Ansible does not take."
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

from ansible_collections.composable.infra.plugins.module_utils import door
from ansible_collections.composable.infra.plugins.module_utils.fabric import listing
from ansible_collections.composable.infra.plugins.plugin_utils.fabric_hosts import Wanted, machine_hosts
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import Host, HostsPlugin, options


class InventoryModule(HostsPlugin):
    """See DOCUMENTATION."""

    NAME = "composable.infra.fabric"
    ENDINGS = ("fabric.yml", "fabric.yaml")

    def hosts(self) -> list[Host]:
        """One host per machine."""
        with closing(door.fabric(options(self, door.FABRIC_OPTIONS))) as fabric:
            machines, free, problems = listing.look(fabric, tuple(self.option("models")))
        for place, problem in problems.items():
            self.display.warning(f"{self.NAME}: free devices of {place} are not known: {problem}")
        fields = self.option("device_fields")
        return machine_hosts(machines, free, Wanted(self.option("bmc_addresses"),
                                                    self.option("hostnames") == "uid",
                                                    None if fields is None else tuple(fields)))
