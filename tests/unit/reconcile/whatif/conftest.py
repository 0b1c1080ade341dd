# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the what-if tests: a cluster with held pods, and captures of it."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import Answer, answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture, take
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]
TakeCapture = Callable[..., Capture]
Ask = Callable[..., Answer]


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch, config: EngineConfig) -> TakeCapture:
    """Captures what a bench has, through a file's text; the second argument: another configuration."""

    def capture(bench: Bench, other: EngineConfig | None = None) -> Capture:
        monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda _config: bench.fabric)
        text = json.dumps(capture_file.as_document(take(bench.api.client, other or config)))
        return capture_file.of_document(json.loads(text), "capture.json")

    return capture


def at_work(bench: Bench, name: str = "train", node: str = "node-0") -> None:
    """A pod that runs on a node with one attached device."""
    uid = f"d-{name}"
    bench.fabric.attached[uid] = device(uid, machine=node.replace("node", "machine"))
    pod = gated_pods.pod(name)
    pod["spec"] = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"} | {"nodeName": node}
    pod["status"] = {"phase": "Running"}
    shown = objects.local_slice(f"GPU-{uid}", node=node)
    shown["spec"]["devices"][0]["attributes"]["productName"] = {"string": f"NVIDIA {A100}"}
    claim = {**objects.claim(name, objects.local_result(pool=node), node=node), "spec": gated_pods.claim(name)["spec"]}
    bench.put(objects.resource(f"gpu-{name}", device=uid, serial=f"GPU-{uid}", asked=300.0, state="Online", node=node,
                               request=f"request-{node}"),
              objects.request(f"request-{node}", node=node), shown, claim, pod)


@pytest.fixture
def two(held: Bench) -> Bench:
    """A second node, and a pod at work on the first."""
    held.fabric.others, held.fabric.free_count = ("machine-1",), 0
    held.put(gated_pods.node("node-1", "machine-1"))
    at_work(held)
    return held


@pytest.fixture
def ask(held: Bench, captured: TakeCapture) -> Ask:
    """What the planners say of the bench with held pods after changes."""

    def asked(*changes: Json) -> Answer:
        return answer(changed(captured(held), changes))

    return asked
