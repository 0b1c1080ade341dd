# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs roles and shipped playbooks as users do and returns what each task did; takes pictures of an API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.demo.front_doors import collections_root

Json = dict[str, t.Any]
FOREIGN = ("ANSIBLE_", "COMPOSABLE_", "K8S_AUTH_", "KUBECONFIG", "CONTROLLER_")
# what a control plane rewrites by itself
RESTLESS = {"events", "leases", "endpoints", "endpointslices", "flowschemas", "prioritylevelconfigurations"}

FAILED = "The play has failed"

# for modules on the local host; integration tests put a faster one in its place
INTERPRETER = sys.executable


@dataclass(frozen=True)
class Played:
    """The outcome of one run of ansible-playbook."""

    status: int
    document: Json
    output: str

    @property
    def tasks(self) -> list[tuple[str, Json]]:
        """Name and result of every task on every host, in order; those of a loop's items follow it."""
        return [(task["task"]["name"], each) for play in self.document["plays"] for task in play["tasks"]
                for result in task["hosts"].values() for each in (result, *result.get("results", ()))]

    @property
    def changed(self) -> list[str]:
        """Names of the tasks that changed something."""
        return [name for name, result in self.tasks if result.get("changed")]

    @property
    def failures(self) -> list[str]:
        """Messages of the tasks that failed."""
        return [str(result.get("msg", result)) for _name, result in self.tasks if result.get("failed")]

    def result(self, ending: str) -> Json:
        """The result of the task whose name ends so."""
        return next(result for name, result in self.tasks if name.endswith(ending))


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Ansible with this checkout's collections and nothing of the user's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return {**env, "ANSIBLE_COLLECTIONS_PATH": str(collections_root()), "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_NOCOLOR": "true", "ANSIBLE_PIPELINING": "true",
            "PYTHONPATH": str(collections_root()),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}", **more}


def play(folder: Path, book: str | list[Json], variables: Mapping[str, t.Any], *options: str, **env: str) -> Played:
    """Run a shipped playbook (by name) or plays with extra variables.

    With another callback in `env` than that of this project, only the output is returned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = folder / "variables.json"
    given.write_text(json.dumps({"ansible_python_interpreter": INTERPRETER, **variables}), encoding="utf-8")
    if not isinstance(book, str):
        (folder / "book.json").write_text(json.dumps(book), encoding="utf-8")
        book = str(folder / "book.json")
    done = subprocess.run([str(Path(sys.executable).parent / "ansible-playbook"), book, "-e", f"@{given}", *options],
                          cwd=folder, env=environment(folder, **env), capture_output=True, text=True, check=False,
                          timeout=900)
    start = -1 if "ANSIBLE_STDOUT_CALLBACK" in env else done.stdout.find("{\n")
    document = json.loads(done.stdout[start:]) if start >= 0 else {"plays": []}
    return Played(done.returncode, document, done.stdout + done.stderr)


@dataclass(frozen=True)
class Question:
    """Tasks that one host of a run gets, with variables of its own."""

    tasks: list[Json]
    variables: Json


def play_each(folder: Path, questions: Mapping[str, Question], **env: str) -> dict[str, Played]:
    """Run one play for each question, on a host of its own, by one ansible-playbook: its start is most of the cost.

    A play that fails does not keep the next one from its start. Return what each play did, by the question's key.
    """
    hosts = {key: f"host-{n}" for n, key in enumerate(questions)}
    end = {"name": FAILED, "ansible.builtin.debug": {}}
    book = [{"hosts": hosts[key], "connection": "local", "gather_facts": False, "vars": question.variables,
             "tasks": [{"block": question.tasks, "rescue": [end]}]} for key, question in questions.items()]
    done = well(play(folder, book, {}, "-i", ",".join((*hosts.values(), "")), **env))
    apart = dict(zip(questions, done.document["plays"], strict=True))
    return {key: Played(any(task["task"]["name"] == FAILED for task in one["tasks"]), {"plays": [one]}, done.output)
            for key, one in apart.items()}


def role(name: str, **variables: t.Any) -> list[Json]:
    """A play that applies one role to the local host."""
    return [{"name": f"Apply {name}", "hosts": "localhost", "connection": "local", "gather_facts": False,
             "roles": [{"role": f"composable.infra.{name}", "vars": variables}]}]


def well(played: Played) -> Played:
    """The same, provided that it succeeded."""
    assert played.status == 0, played.failures or played.output[-3000:]
    return played


def stored(lab: Lab) -> dict[str, str]:
    """resourceVersion by "resource namespace/name" of all objects, without those that a control plane rewrites."""
    found = {}
    for path, resource in listable(lab):
        for item in lab.api.get(f"{path}/{resource}")["items"]:
            meta = item["metadata"]
            name = f"{resource} {meta.get('namespace', '')}/{meta['name']}"
            found[name] = "" if resource == "nodes" else meta.get("resourceVersion", "")
    return found


def whole_nodes(lab: Lab) -> dict[str, Json]:
    """Nodes by name, but for what the API server counts and for the kubelets' heartbeats."""
    found = {item["metadata"]["name"]: item for item in lab.api.get("/api/v1/nodes")["items"]}
    for node in found.values():
        del node["metadata"]["resourceVersion"], node["metadata"]["managedFields"], node["status"]["conditions"]
    return found


def listable(lab: Lab) -> list[tuple[str, str]]:
    """Path of the group and version, and plural, of everything that the API server can list."""
    groups = [g["preferredVersion"]["groupVersion"] for g in lab.api.get("/apis")["groups"]]
    paths = ["/api/v1", *(f"/apis/{name}" for name in groups)]
    return [(path, resource["name"]) for path in paths for resource in lab.api.get(path)["resources"]
            if "list" in resource["verbs"] and resource["name"] not in RESTLESS]


def definition(plural: str, kind: str) -> Json:
    """A CustomResourceDefinition of the group monitoring.coreos.com whose schema takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                     "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}}]}}
