#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CDI Manager shows."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_info
short_description: Machines, devices and free devices of a composable fabric
version_added: 1.0.0
description:
  - Reads from a CDI Manager which machines it knows, which devices are attached to them, and how many are free.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: UUID of one machine to return; all machines by default.
    type: str
  models:
    description: Models whose free devices are counted, as the CDI Manager names them.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Can run in check mode; the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
"""

EXAMPLES = r"""
- name: See what is free
  composable.infra.fabric_info:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    ca_path: /etc/composable-infra/ca.pem
    models: [A100 40G]
  register: fabric
"""

RETURN = r"""
machines:
  description: Machines with their attached devices.
  returned: success
  type: list
  elements: dict
  sample:
    - uid: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      fabric: 1
      devices:
        - uid: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
          model: A100 40G
          kind: gpu
          fabric: 1
          machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
          state: attached
          health: OK
          serial: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
          name: GPU-0
free:
  description: Free devices per model and fabric, for the models asked for.
  returned: success
  type: list
  elements: dict
  sample:
    - model: A100 40G
      fabric: 1
      free: 3
problems:
  description: What could not be read, per model and fabric; the rest is complete.
  returned: success
  type: dict
  sample: {}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import frontdoor


def work(module: AnsibleModule) -> dict[str, object]:
    """Read and shape."""
    fabric = frontdoor.fabric(module.params)
    if module.params["machine"]:
        return {"machines": [frontdoor.machine_result(fabric.machine(module.params["machine"]))], "free": [],
                "problems": {}}
    snapshot = fabric.snapshot(module.params["models"])
    machines = sorted(snapshot.machines.values(), key=lambda m: (m.name, m.uid))
    free = [{"model": model, "fabric": number, "free": n} for (model, number), n in sorted(snapshot.free.items())]
    return {"machines": [frontdoor.machine_result(m) for m in machines], "free": free,
            "problems": dict(snapshot.problems)}


def main() -> None:
    """Module entry."""
    module = AnsibleModule(
        argument_spec={
            **frontdoor.FABRIC_OPTIONS,
            "machine": {"type": "str"},
            "models": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True)
    frontdoor.run(module, work)


if __name__ == "__main__":
    main()
