#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CDI Manager supports, proven by asking it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_conformance
short_description: Examine what a CDI Manager supports
version_added: 1.0.0
description:
  - Asks a CDI Manager a list of questions, each of which the rest of this collection relies on, and reports the
    answers. The collection's own tests ask the same questions of its emulated managers.
  - Without O(machine) and O(model) it only reads. With both it attaches devices of that model to that machine, one or
    a few at a time, and gives all of them back; use a machine and devices that nobody else works with.
  - A check that fails does not fail the task; look at RV(failed_checks).
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: Uid of a machine that devices may be attached to. Nothing else may be attached to it meanwhile.
    type: str
  model:
    description: Model of the devices that may be attached, as the CDI Manager names it.
    type: str
  at_most:
    description: How many devices may be attached at once.
    type: int
    default: 2
  memory_model:
    description: Model of a memory device that may be attached too.
    type: str
  scarce_model:
    description: Model of which all free devices may be attached, to see what the CDI Manager says then.
    type: str
  sick_model:
    description: Model whose free devices are all unhealthy, to see that none of them is kept.
    type: str
  foreign_machine:
    description: Uid of a machine of another tenant, to see that it is out of reach.
    type: str
  names:
    description: Names of machines that have to be shown as they are, for example with letters of other scripts.
    type: list
    elements: str
    default: []
  devices:
    description: How many devices, free ones included, there are at least, to see that no page is left out.
    type: int
    default: 0
  patience:
    description: Seconds for which a call is tried again while the CDI Manager is away or busy.
    type: float
    default: 60.0
attributes:
  check_mode:
    description: Can run in check mode; it only reads then.
    support: full
  diff_mode:
    description: There is nothing to compare, as everything that is attached is given back.
    support: none
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - O(attach_timeout) is how long an attach without an answer is waited for before it is asked for anew. Set it to what
    the fabric needs at most, so that a lost answer costs no more than that.
seealso:
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: See what a CDI Manager supports, reading only
  composable.infra.fabric_conformance:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    ca_path: /etc/composable-infra/ca.pem
  register: conformance

- name: Attach and detach too, on a machine that is set aside for it
  composable.infra.fabric_conformance:
    manager: redfish
    endpoint: https://composer.example.com
    username: composer
    password: "{{ composer_password }}"
    machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
    model: A100 40G
  register: conformance
"""

RETURN = r"""
results:
  description: Every check with its outcome.
  returned: success
  type: list
  elements: dict
  sample:
    - name: a_device_comes_and_goes
      title: a device comes and goes
      means: Attached it is on the machine and not free; detached it is free again.
      changes: true
      outcome: passed
      words: ""
      seconds: 4.21
failed_checks:
  description: Titles of the checks that failed.
  returned: success
  type: list
  elements: str
  sample: []
summary:
  description: How many checks had which outcome.
  returned: success
  type: str
  sample: 24 passed, 0 failed, 1 unsupported, 1 skipped
markdown:
  description: The report for people.
  returned: success
  type: str
  sample: "# Conformance of fm at https://fabric-manager.example.com"
junit:
  description: The report as JUnit XML.
  returned: success
  type: str
  sample: <?xml version="1.0" encoding="utf-8"?>
"""

from ansible_collections.composable.infra.plugins.module_utils import door
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import checks, report
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.fabric.managers import MANAGERS, connect

SPEC = {
    "argument_spec": {
        **door.FABRIC_OPTIONS,
        "machine": {"type": "str"},
        "model": {"type": "str"},
        "at_most": {"type": "int", "default": 2},
        "memory_model": {"type": "str"},
        "scarce_model": {"type": "str"},
        "sick_model": {"type": "str"},
        "foreign_machine": {"type": "str"},
        "names": {"type": "list", "elements": "str", "default": []},
        "devices": {"type": "int", "default": 0},
        "patience": {"type": "float", "default": 60.0},
    },
    "required_together": [("machine", "model")],
    "supports_check_mode": True,
}


def work(given: door.Door) -> dict[str, object]:
    """Ask, and give the answers in three forms."""
    params = given.params
    for name, least in (("at_most", 1), ("devices", 0), ("patience", 0)):
        if params[name] < least:
            raise BadConfiguration(name, params[name], f"it must be {least} or more")
    config = FabricConfig.from_dict({k: params[k] for k in door.FABRIC_OPTIONS if params.get(k) is not None})
    subject = _subject(given, config)
    try:
        checks.reachable(subject)
        results = checks.run(subject)
    finally:
        subject.fabric.close()
    return {
        "changed": False, "summary": report.summary(results), "results": [_told(r) for r in results],
        "failed_checks": [r.check.title for r in results if r.outcome == checks.FAILED],
        "markdown": report.markdown(config.manager, config.endpoint, results),
        "junit": report.junit(config.manager, results),
    }


def _subject(given: door.Door, config: FabricConfig) -> Subject:
    params = given.params
    return Subject(
        fabric=connect(config), connect=lambda: connect(config), machine=params["machine"], model=params["model"],
        changes=not given.check_mode, at_most=params["at_most"], memory=params["memory_model"],
        scarce=params["scarce_model"], sick=params["sick_model"], foreign=params["foreign_machine"],
        tenants="tenant" in MANAGERS[config.manager].requires, names=tuple(params["names"]),
        devices=params["devices"], settle=config.attach_timeout, patience=params["patience"],
    )


def _told(result: checks.Result) -> dict[str, object]:
    check = result.check
    return {"name": check.name, "title": check.title, "means": check.means, "changes": check.changes,
            "outcome": result.outcome, "words": result.words, "seconds": round(result.seconds, 3)}


def main() -> None:
    """Module entry."""
    door.main(SPEC, work)


if __name__ == "__main__":
    main()
