# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_defragment: the proposal in check mode, its release, and what it refuses."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.autoscaling import (
    RETURN_IDLE,
    read_return_idle,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.modules import fabric_capture, fabric_defragment, fabric_whatif
from ansible_collections.composable.infra.tests.unit.modules.whatif_modules_support import (
    CONFIG,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, H100
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

RunModule = Callable[..., dict[str, t.Any]]
ASK = {"config": CONFIG, "claim": "default/train"}


def idle(bench: Bench, node: str, *names: str, model: str = A100) -> None:
    """Devices that are attached to a node, the first one idle for longest."""
    machine = node.replace("node", "machine")
    for number, name in enumerate(names):
        bench.fabric.attached[f"d-{name}"] = device(f"d-{name}", model, machine=machine)
        bench.put(objects.resource(name, device=f"d-{name}", serial=f"GPU-{name}", asked=300.0, state="Online",
                                   node=node, machine=machine, model=model, request=f"request-{node}",
                                   created=300 - 10 * number))
    shown = objects.local_slice(*(f"GPU-{name}" for name in names), node=node)
    for entry in shown["spec"]["devices"]:
        entry["attributes"]["productName"] = {"string": f"NVIDIA {model}"}
    bench.put(shown, objects.request(f"request-{node}", len(names), model, node))


def ready(name: str, **labels: str) -> dict[str, t.Any]:
    """A node that takes pods."""
    raw = gated_pods.node(name, name.replace("node", "machine"))
    raw["metadata"]["labels"] = {**(raw["metadata"].get("labels") or {}), **labels}
    return {**raw, "status": {**raw["status"], "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A pod waits for three devices; one is free, two are idle on one node and one on the other."""
    made = Bench()
    made.fabric.others, made.fabric.free_count = ("machine-1",), 1
    made.put(ready("node-0"), ready("node-1"),
             {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
             {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER), "spec": {
                 "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
    gated_pods.ask(made, count=4)
    idle(made, "node-0", "gpu-0", "gpu-1")
    idle(made, "node-1", "gpu-2", "gpu-3")
    monkeypatch.setattr(cluster_module, "cluster", lambda params: made.api.client)
    monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda _config: made.fabric)
    return made


def test_check_mode_proposes_and_writes_nothing(run_module: RunModule, bench: Bench) -> None:
    found = run_module(fabric_defragment, check=True, **ASK)
    proposal = found["proposal"]
    assert (found["changed"], proposal["fits"], proposal["target"]) == (True, True, "node-0")
    assert [(move["node"], move["devices"], move["request"]) for move in proposal["moves"]] == [
        ("node-1", ["gpu-2"], "request-node-1")]
    assert proposal["why"] == (
        f"1 of 4 x {A100} for node node-0 are idle on other nodes. After the move: node node-0 has room and 4 x {A100} "
        "(2 idle, 2 to be attached)")
    assert found["says"] == (
        f"move 1 x {A100} from node node-1, then 4 x {A100} on one node for claim default/train fits on node node-0")
    assert found["diff"] == {"before": {f"idle {A100} on node node-1": ["gpu-2"]},
                             "after": {f"idle {A100} on node node-1": []}}
    assert bench.api.writes() == []
    assert run_module(fabric_defragment, check=True, **ASK)["proposal"]["id"] == proposal["id"]


def test_a_capture_is_asked_the_same(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    """Also after a change: with one device more nothing has to move."""
    path = str(tmp_path / "capture.json")
    run_module(fabric_capture, config=CONFIG, path=path)
    proposed = run_module(fabric_defragment, check=True, **ASK)
    question = {"capture": path, "make_room": {"claim": "default/train"}}
    answer = run_module(fabric_whatif, **question)["room"]
    assert answer == {**proposed["proposal"], "says": proposed["says"]}
    more = run_module(fabric_whatif, changes=[{"change": "add_devices", "model": A100, "count": 1}], **question)["room"]
    assert (more["fits"], more["target"], more["moves"]) == (True, "node-0", [])
    refused = run_module(fabric_whatif, capture=path, make_room={"model": "B300"})
    assert refused["msg"].startswith("model: 'B300' is not usable: no such model")


def test_release_lets_the_named_devices_go_and_no_others(run_module: RunModule, bench: Bench) -> None:
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    found = run_module(fabric_defragment, proposal=proposal["id"], wait=False, **ASK)
    assert found["changed"]
    first, second = (bench.api.one(COMPOSABLE_RESOURCES, name) for name in ("gpu-2", "gpu-3"))
    assert (cohdi.annotation(first, "cohdi.io/delete-device"), cohdi.annotation(second, "cohdi.io/delete-device")) == (
        "true", "")
    (asked,) = bench.api.writes(COMPOSABILITY_REQUESTS)
    assert (asked.name, [*asked.body["metadata"]["annotations"]]) == ("request-node-1", [RETURN_IDLE])
    again = run_module(fabric_defragment, proposal=proposal["id"], wait=False, **ASK)
    assert (again["changed"], len(bench.api.writes())) == (False, 2)


def test_the_controllers_return_what_was_released_and_nothing_else(run_module: RunModule, bench: Bench) -> None:
    bench.build()
    bench.state.gated_pods_planned = True
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    run_module(fabric_defragment, proposal=proposal["id"], wait=False, **ASK)
    for kind in (COMPOSABLE_RESOURCES, COMPOSABILITY_REQUESTS):
        bench.put(*bench.api.of(kind))
    bench.run(4)
    gone = {raw["metadata"]["name"] for raw in bench.api.of(COMPOSABLE_RESOURCES)
            if raw["metadata"].get("deletionTimestamp")}
    left = {raw["metadata"]["name"] for raw in bench.api.of(COMPOSABLE_RESOURCES)} - gone
    assert {"gpu-0", "gpu-1", "gpu-3"} <= left
    assert "gpu-2" not in left
    bench.close()


def test_device_that_was_taken_since_is_not_released(run_module: RunModule, bench: Bench) -> None:
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    bench.put(objects.claim("quick", objects.local_result("gpu-0", "node-1"), node="node-1"))
    found = run_module(fabric_defragment, proposal=proposal["id"], **ASK)
    assert found["failed"]
    assert found["msg"].startswith(f"proposal: '{proposal['id']}' is not usable: devices have moved since")
    assert bench.api.writes() == []


def test_nothing_is_to_be_moved(run_module: RunModule, bench: Bench) -> None:
    bench.fabric.free_count = 2
    found = run_module(fabric_defragment, proposal="3f2a9c0b7d1e", **ASK)
    assert (found["changed"], found["proposal"]["fits"], found["proposal"]["moves"]) == (False, True, [])
    assert bench.api.writes() == []


def test_proposal_that_does_not_help_any_more_is_refused(run_module: RunModule, bench: Bench) -> None:
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    bench.fabric.free_count = 0
    bench.drop(bench.api.one(COMPOSABLE_RESOURCES, "gpu-3"))
    found = run_module(fabric_defragment, proposal=proposal["id"], **ASK)
    assert found["failed"]
    assert "the proposal no longer helps: no move makes room for 4 x" in found["msg"]
    assert bench.api.writes() == []


def test_claim_that_may_come(run_module: RunModule, bench: Bench) -> None:
    bench.fabric.others = ("machine-1", "machine-2")
    bench.put(ready("node-2", team="vision"))
    ask = {"config": CONFIG, "model": A100, "count": 2, "node_labels": {"team": "vision"}}
    older = run_module(fabric_defragment, check=True, **ask)
    assert not older["proposal"]["fits"], "who waits already would take what is moved"
    bench.drop(*bench.state.pods.list())
    found = run_module(fabric_defragment, check=True, **ask)
    assert found["proposal"]["target"] == "node-2"
    assert found["proposal"]["ask"] == {"model": A100, "count": 2, "claim": "", "node_labels": {"team": "vision"}}
    assert [len(move["devices"]) for move in found["proposal"]["moves"]] == [1]


def test_where_the_planners_would_not_place_it_nothing_is_proposed(run_module: RunModule, bench: Bench) -> None:
    """The node with the devices has no room for the pod."""
    pod = bench.state.pods.list()[0]
    large = {"name": "c", "resources": {"requests": {"cpu": "4000"}}}
    bench.put({**pod, "spec": {**pod["spec"], "containers": [large]}})
    found = run_module(fabric_defragment, check=True, **ASK)
    assert (found["changed"], found["proposal"]["fits"], found["proposal"]["moves"]) == (False, False, [])
    assert "2 Insufficient cpu" in found["proposal"]["why"]


def test_node_that_may_not_have_so_many_is_told(run_module: RunModule, bench: Bench) -> None:
    found = run_module(fabric_defragment, check=True, config={**CONFIG, "max_devices_per_node": 3}, model=A100, count=4)
    assert not found["proposal"]["fits"]
    assert f"2 may have only 3 x {A100}" in found["proposal"]["why"]


def test_model_that_cannot_be_there_too_leaves(run_module: RunModule, bench: Bench) -> None:
    """H100 goes with no other model, and is on the only node."""
    bench.fabric.others, bench.fabric.attached, bench.fabric.free_count = (), {}, 4
    bench.drop(*bench.state.resources.list(),
               *(raw for raw in bench.state.requests.list() if raw["metadata"]["name"].startswith("request-node-")),
               *(node.as_object() for node in bench.state.nodes.each_value() if node.name == "node-1"),
               *bench.state.slices.list())
    idle(bench, "node-0", "h-0", model=H100)
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    assert (proposal["fits"], proposal["target"]) == (True, "node-0")
    assert [(move["model"], move["devices"], move["reason"]) for move in proposal["moves"]] == [
        (H100, ["h-0"], f"{H100} cannot be on a node together with {A100}")]


def test_what_a_label_keeps_stays_and_is_told(run_module: RunModule, bench: Bench) -> None:
    keeps = {"cohdi.io/a100-size-min": "2"}
    bench.put(ready("node-0", **keeps), ready("node-1", **keeps))
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    assert (proposal["fits"], proposal["moves"]) == (False, [])
    assert "node node-1 keeps 2 idle: label cohdi.io/a100-size-min" in proposal["why"]


def test_a_closed_node_is_no_target(run_module: RunModule, bench: Bench) -> None:
    """node-0 would need fewer devices, but takes no pods; all of its idle devices have to come."""
    closed = ready("node-0")
    bench.put({**closed, "spec": {**closed["spec"], "unschedulable": True}})
    bench.fabric.free_count = 0
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    assert (proposal["target"], [(move["node"], len(move["devices"])) for move in proposal["moves"]]) == (
        "node-1", [("node-0", 2)])


def test_patience_ends(run_module: RunModule, bench: Bench) -> None:
    proposal = run_module(fabric_defragment, check=True, **ASK)["proposal"]
    found = run_module(fabric_defragment, proposal=proposal["id"], wait_timeout=0, **ASK)
    assert found["failed"]
    assert "these devices are still attached after 0 s: gpu-2" in found["msg"]
    assert read_return_idle(bench.api.one(COMPOSABILITY_REQUESTS, "request-node-1"))


@pytest.mark.parametrize(("options", "said"), [
    ({"claim": "default/no"}, "claim: 'default/no' is not usable: there is no such claim. Name it as namespace/name"),
    ({"model": "B300"}, "model: 'B300' is not usable: no such model. Known models are A100 40G, H100 80G, T4"),
    ({"model": A100, "count": 0}, "count: 0 is not usable: must be from 1 to 32, the limit of a claim"),
    ({"model": A100, "node_labels": {"gpu": True}}, "node_labels.gpu: True is not usable: must be a text. Quote it"),
    ({}, "one of the following is required: claim, model"),
    ({"claim": "a/b", "model": A100}, "parameters are mutually exclusive: claim|model"),
])
def test_bad_questions(run_module: RunModule, bench: Bench, options: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_defragment, check=True, config=CONFIG, **options)
    assert found["failed"]
    assert said in found["msg"]


def test_without_a_proposal_nothing_is_carried_out(run_module: RunModule, bench: Bench) -> None:
    found = run_module(fabric_defragment, **ASK)
    assert found["msg"] == "proposal: None is not usable: run in check mode to see the proposal, then set its id"
