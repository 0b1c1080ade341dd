#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CDI Manager supports, proven by asking it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_conformance
short_description: Examine what a CDI Manager supports
version_added: 0.1.0
description:
  - Runs a list of checks on a CDI Manager and reports the results. The rest of this collection relies on what they
    check. The collection's own tests run the same checks on its emulated managers.
  - Without O(machine) and O(model) the module only reads. With both it attaches devices of that model to that machine,
    one or a few at a time, and detaches all of them again. Use a machine and devices that nobody else uses.
  - A check that fails does not fail the task. RV(failed_checks) names it.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: Uid of a machine that devices may be attached to. Nothing else may attach to it during the task.
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
    description: Model of which all free devices may be attached, to check how the CDI Manager refuses one more.
    type: str
  sick_model:
    description: Model whose free devices are all unhealthy, to check that none of them stays attached.
    type: str
  foreign_machine:
    description: Uid of a machine of another tenant, to check that it cannot be reached.
    type: str
  names:
    description: Names of machines that must be shown unchanged, for example names in other scripts.
    type: list
    elements: str
    default: []
  devices:
    description: Smallest number of devices, including free ones, that must be listed, to check that no page is missing.
    type: int
    default: 0
  patience:
    description: Seconds for which a request is repeated while the CDI Manager cannot be reached or is busy.
    type: float
    default: 60.0
attributes:
  check_mode:
    description: Can run in check mode. It only reads then.
    support: full
  diff_mode:
    description: There is nothing to compare, since everything that is attached is detached again.
    support: none
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - When an attach gets no reply, the module waits O(attach_timeout) seconds before it requests the attach again. Set it
    to the longest time that the fabric needs, so that a lost reply takes no longer than that.
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
  description: All checks with their outcomes.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
    title:
      description: Title of the check.
      type: str
    means:
      description: What the check demands.
      type: str
    changes:
      description: Whether the check attaches or detaches a device.
      type: bool
    outcome:
      description: V(passed), V(failed), V(unsupported) or V(skipped).
      type: str
    words:
      description: How the CDI Manager does it, or why the check did not pass.
      type: str
    seconds:
      description: How long the check took.
      type: float
  sample:
    - name: a_device_is_attached_and_detached
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
  description: The report as Markdown.
  returned: success
  type: str
  sample: "# Conformance of fm at https://fabric-manager.example.com"
junit:
  description: The report as JUnit XML.
  returned: success
  type: str
  sample: <?xml version="1.0" encoding="utf-8"?>
"""

from ansible_collections.composable.infra.plugins.module_utils import module_base
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import checks, report
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import entry_of

SPEC = {
    "argument_spec": {
        **module_base.FABRIC_OPTIONS,
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


def work(given: module_base.TaskContext) -> dict[str, object]:
    """Ask, and give the answers in three forms."""
    params = given.params
    for name, least in (("at_most", 1), ("devices", 0), ("patience", 0)):
        if params[name] < least:
            raise BadConfiguration(name, params[name], f"it must be {least} or more")
    config = FabricConfig.from_dict({k: params[k] for k in module_base.FABRIC_OPTIONS if params.get(k) is not None})
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


def _subject(given: module_base.TaskContext, config: FabricConfig) -> Subject:
    params = given.params
    return Subject(
        fabric=connect(config), connect=lambda: connect(config), machine=params["machine"], model=params["model"],
        changes=not given.check_mode, at_most=params["at_most"], memory=params["memory_model"],
        scarce=params["scarce_model"], sick=params["sick_model"], foreign=params["foreign_machine"],
        tenants="tenant" in entry_of(config.manager).requires, names=tuple(params["names"]),
        devices=params["devices"], attach_deadline=config.attach_timeout, patience=params["patience"],
    )


def _told(result: checks.Result) -> dict[str, object]:
    check = result.check
    return {"name": check.name, "title": check.title, "means": check.means, "changes": check.changes,
            "outcome": result.outcome, "words": result.words, "seconds": round(result.seconds, 3)}


def main() -> None:
    """Module entry."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
