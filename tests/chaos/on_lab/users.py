# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions of users and administrators on the lab: the workload's steps with the real API server and
CDI Manager.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections import Counter
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.lab.demo.stage import A100 as LAB_A100
from ansible_collections.composable.infra.lab.demo.stage import H100 as LAB_H100
from ansible_collections.composable.infra.lab.demo.stage import Stage, pod_body
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.chaos.on_lab.history import History
from ansible_collections.composable.infra.tests.chaos.on_lab.judge import MARGIN, Users
from ansible_collections.composable.infra.tests.chaos.workload import NAMESPACES
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4

With = Mapping[str, t.Any]
MODELS: t.Final = {A100: LAB_A100, T4: LAB_H100}
DEVICES: t.Final = {LAB_A100: 6, LAB_H100: 4}
SECOND, PLACED_WITHIN = "-second", 5.0


class Workload:
    """Executes steps. Raise the error of the API server or the CDI Manager. A step can then be
    repeated.
    """

    def __init__(self, stage: Stage, history: History) -> None:
        self._stage, self._history = stage, history
        self.did = Users()
        self.wanted: dict[str, Counter[str]] = {}
        self.do: Mapping[str, Callable[[With], object]] = {
            "pod": self._pod, "delete": self._delete, "place": self._place,
            "cordon": lambda with_: self.cordon(int(with_["node"]), True),
            "uncordon": lambda with_: self.cordon(int(with_["node"]), False)}

    def _pod(self, with_: With) -> None:
        name = str(with_["name"])
        if name in self.did.deleted:
            return
        asked = [(name, MODELS[with_["model"]], int(with_["count"]))]
        if with_.get("second"):
            asked.append((name + SECOND, MODELS[with_["second"]], 1))
        for claim, model, count in asked:
            with contextlib.suppress(AlreadyExists):
                self._stage.claim(claim, model, count)
        with contextlib.suppress(AlreadyExists):
            self._stage.client.create(PODS, self._body(with_, [claim for claim, _model, _count in asked]))
        self.wanted[name] = sum((Counter({model: count}) for _claim, model, count in asked), Counter())

    def _body(self, with_: With, claims: list[str]) -> dict[str, t.Any]:
        body = pod_body(str(with_["name"]), None)
        body["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        body["spec"]["containers"][0]["resources"] = {"claims": [{"name": claim} for claim in claims]}
        if with_.get("zone"):
            body["spec"]["nodeSelector"] = {"zone": with_["zone"]}
        if not NAMESPACES[with_["namespace"]]:
            body["metadata"]["labels"] = {pods.OPT: "false"}
        return body

    def _delete(self, with_: With) -> None:
        self.delete(str(with_["name"]))

    def delete(self, name: str) -> None:
        """Delete a pod and its claims. From this moment its devices may be returned."""
        for told in (name, name + SECOND):
            self.did.deleted.setdefault(told, time.time())
        self.wanted.pop(name, None)
        for kind, told in ((PODS, name), (CLAIMS, name), (CLAIMS, name + SECOND)):
            with contextlib.suppress(NotFound):
                self._stage.client.delete(kind, told, namespace="default")

    def cordon(self, node: int, unschedulable: bool) -> None:
        """Cordon or uncordon a node."""
        self._stage.client.merge_patch(NODES, self._node(node), {"spec": {"unschedulable": unschedulable or None}})

    def label(self) -> None:
        """Put the nodes into zones."""
        for number, name in enumerate(self._stage.lab.nodes):
            labels = {"metadata": {"labels": {"zone": f"zone-{number % 2}"}}}
            self._stage.client.merge_patch(NODES, name, labels)

    def _place(self, with_: With) -> None:
        """Attach a device by hand. If the reply is lost, the owner of the next device there is
        unknown.
        """
        machine, model = machine_uuid(self._node(int(with_["node"]))), MODELS[with_["model"]]
        config = {**self._stage.config()["fabric"], "attach_timeout": PLACED_WITHIN}
        began, before = time.time(), self._on(machine, model)
        with contextlib.closing(connect(FabricConfig.from_dict(config))) as manager:
            try:
                came = {device.uid for device in manager.attach(machine, model).devices}
            except FabricError:
                came = set()
        for uid in came:
            self.did.placed[uid] = began
        if any(self._history.ambiguous(machine, model, at, MARGIN) for at in (began, time.time())):
            self.did.ambiguous |= came
        if not came:
            self._note_unanswered(machine, model, before, began)

    def _note_unanswered(self, machine: str, model: str, before: set[str], began: float) -> None:
        for uid in self._on(machine, model) - before:
            self.did.placed[uid] = began
            self.did.ambiguous.add(uid)

    def _on(self, machine: str, model: str) -> set[str]:
        return {d["uid"] for d in self._stage.emulator.state()["devices"]
                if d["machine"] == machine and d["model"] == model}

    def _node(self, number: int) -> str:
        nodes = self._stage.lab.nodes
        return nodes[number % len(nodes)]

    def give_up_what_does_not_fit(self) -> None:
        """Delete pods that wait for more devices than are left beside running pods and
        administrators' devices.
        """
        left = Counter(DEVICES)
        for device in self._stage.emulator.state()["devices"]:
            left[device["model"]] -= device["uid"] in self.did.placed
        running = {pod["metadata"]["name"] for pod in self._stage.client.list(PODS, namespace="default").items
                   if pods.phase(pod) == "Running"}
        for name, wanted in sorted(self.wanted.items(), key=lambda pair: pair[0] not in running):
            if name in running or wanted <= left:
                left.subtract(wanted)
            else:
                self.delete(name)

    def waiting(self) -> list[str]:
        """Return the pods that do not run."""
        return [pod["metadata"]["name"] for pod in self._stage.client.list(PODS, namespace="default").items
                if pods.phase(pod) != "Running"]
