# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node takes pods again only when it is Ready after its reboot.

The modules that speak to the cluster are stand-ins, and so is the reboot itself: this machine cannot be rebooted.
"""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import yaml

from ansible_collections.composable.infra.lab.demo.front_doors import collections_root
from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# Writes its arguments down; as k8s_info it answers with the next of the prepared nodes.
MODULE = """#!/usr/bin/python
import json
from ansible.module_utils.basic import AnsibleModule
options = dict(name=dict(), state=dict(), kubeconfig=dict(), context=dict(), delete_options=dict(type="dict"),
               api_version=dict(), kind=dict(), did=dict())
module = AnsibleModule(options)
with open({log!r}, "a") as log:
    log.write(json.dumps(module.params) + "\\n")
found = []
if module.params["kind"] == "Node":
    answers = json.load(open({answers!r}))
    found = [answers[0]]
    json.dump(answers[1:] or answers, open({answers!r}, "w"))
module.exit_json(changed=False, resources=found, api_found=True)
"""


def node(boot: str, ready: str) -> Json:
    """A node as far as the role looks at it."""
    return {"metadata": {"name": "node-0"},
            "status": {"nodeInfo": {"bootID": boot}, "conditions": [{"type": "MemoryPressure", "status": "False"},
                                                                    {"type": "Ready", "status": ready}]}}


def rebooted(folder: Path, answers: list[Json], **variables: t.Any) -> list[Json]:
    """What the role asked of the cluster and of the host, in order."""
    log, prepared = folder / "log", folder / "answers"
    prepared.write_text(json.dumps(answers), encoding="utf-8")
    modules = folder / "ansible_collections" / "kubernetes" / "core" / "plugins" / "modules"
    modules.mkdir(parents=True)
    for name in ("k8s_drain", "k8s_info"):
        (modules / f"{name}.py").write_text(MODULE.format(log=str(log), answers=str(prepared)), encoding="utf-8")
    tasks = yaml.safe_load((ROOT / "roles/node_prepare/tasks/reboot_one.yml").read_text(encoding="utf-8"))
    (reboot,) = [task for task in tasks if "ansible.builtin.reboot" in task]
    del reboot["ansible.builtin.reboot"]
    reboot["kubernetes.core.k8s_info"] = {"did": "reboot"}
    (folder / "reboot_one.yml").write_text(yaml.safe_dump(tasks), encoding="utf-8")
    role = ROOT / "roles" / "node_prepare"
    given: Json = {"node_prepare_one": "localhost", "node_prepare_host": {"name": "node-0"},
                   "node_prepare_ready_delay": 0.01, **variables}
    book = [{"name": "Reboot", "hosts": "localhost", "connection": "local", "gather_facts": False,
             "vars_files": [str(role / "defaults/main.yml")],
             "tasks": [{"ansible.builtin.include_tasks": str(folder / "reboot_one.yml")}]}]
    paths = os.pathsep.join([str(folder), str(collections_root())])
    well(play(folder, book, given, ANSIBLE_COLLECTIONS_PATH=paths))
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def told(calls: list[Json]) -> list[str]:
    return [call["state"] or call["did"] or "look" for call in calls]


def test_what_the_kubelet_said_before_does_not_count(tmp_path: Path) -> None:
    calls = rebooted(tmp_path, [node("old", "True"), node("old", "True"), node("old", "Unknown"), node("new", "False"),
                                node("new", "True")])
    assert told(calls) == ["drain", "look", "reboot", "look", "look", "look", "look", "uncordon"]
    assert {call["name"] for call in calls if not call["did"]} == {"node-0"}
    assert calls[0]["delete_options"]["delete_emptydir_data"] is False


def test_data_of_pods_goes_only_where_the_user_says_so(tmp_path: Path) -> None:
    calls = rebooted(tmp_path, [node("old", "True"), node("new", "True")], node_prepare_drain_emptydir=True)
    assert calls[0]["delete_options"]["delete_emptydir_data"] is True


def test_a_host_outside_of_the_cluster_is_only_rebooted(tmp_path: Path) -> None:
    assert told(rebooted(tmp_path, [], node_prepare_drain=False)) == ["reboot"]
