# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An idle device that the scheduler would not give to a claim is no supply: no handover for ever."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, COMPOSABILITY_REQUESTS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.memory import Handovers
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, T4
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}


def shown(**more: t.Any) -> dict[str, t.Any]:
    """The node's slice with one idle device."""
    item = objects.local_slice("GPU-d1")
    item["spec"]["devices"][0].update(more)
    return item


def claim(number: int = 0, **exactly: t.Any) -> dict[str, t.Any]:
    """A claim that the scheduler has given a pool device; ``number``: it was allocated anew so many times."""
    raw = objects.claim("train", objects.pool_result(f"a100-{number}"))
    raw["spec"]["devices"]["requests"][0]["exactly"].update(exactly)
    return raw


@pytest.fixture
def idle(bench: Bench) -> Bench:
    """A device is attached and idle."""
    return with_idle(bench)


@pytest.fixture
def handless() -> Iterator[Bench]:
    """The same where nobody restarts the vendor's plugin, so that it keeps the taints of its health check."""
    made = Bench(hands="none")
    made.build()
    made.put(objects.node())
    made.look()
    yield with_idle(made)
    made.close()


def with_idle(bench: Bench) -> Bench:
    bench.fabric.attached["d1"] = device("d1")
    bench.put(objects.request(size=1), objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900,
                                                        state="Online"))
    return bench


def serve(bench: Bench, raw: dict[str, t.Any]) -> str:
    """What the claim is told in one turn, empty for nothing."""
    bench.put(raw)
    bench.look()
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    found = bench.api.one(CLAIMS, "train", "default")["status"].get("devices") or []
    return str(found[0]["conditions"][0]["type"]) if found else ""


def selector(text: str) -> list[dict[str, t.Any]]:
    return [{"cel": {"expression": text}}]


WRONG = f'device.attributes["{DRIVER}"].uuid == "GPU-other"'
RIGHT = f'device.attributes["{DRIVER}"].uuid == "GPU-d1"'
TOLERATES = [{"key": "gpu.nvidia.com/xid", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(("bench_name", "more", "exactly", "why"), [
    ("handless", {"taints": [XID]}, {}, "GPU-d1 has the taint gpu.nvidia.com/xid:NoSchedule"),
    ("idle", {}, {"selectors": selector(WRONG)}, f"GPU-d1 does not satisfy {WRONG!r}"),
], ids=["tainted", "other selector"])
def test_claim_that_cannot_have_the_idle_device_gets_another(
    request: pytest.FixtureRequest, bench_name: str, more: dict[str, t.Any], exactly: dict[str, t.Any], why: str
) -> None:
    idle: Bench = request.getfixturevalue(bench_name)
    idle.put(shown(**more))
    assert serve(idle, claim(**exactly)) == ""
    assert len(idle.fabric.attaches) == 1
    found, = node_snapshot(idle.state, "node-0").claims
    assert found.unfit_why == why
    idle.reconcile(NodeRecordsKey("node-0"))
    assert idle.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"] == 2
    for number in range(3):
        serve(idle, claim(number, **exactly))
    assert len(idle.fabric.attaches) == 1, "one more, and no more than that"


def test_claim_beside_a_sick_device_goes_to_another_node(idle: Bench) -> None:
    """The plugin is restarted to show one more device, and would forget the taint."""
    idle.put(shown(taints=[XID]))
    assert serve(idle, claim()) == "FabricDeviceFailed"
    assert idle.fabric.attaches == []
    message = idle.api.one(CLAIMS, "train", "default")["status"]["devices"][0]["conditions"][0]["message"]
    assert "device gpu-0 has the taint gpu.nvidia.com/xid=79:NoSchedule" in message


@pytest.mark.parametrize(("more", "exactly"), [
    ({}, {}),
    ({"taints": [XID]}, {"tolerations": TOLERATES}),
    ({"taints": [{**XID, "effect": "None"}]}, {}),
    ({}, {"selectors": selector(RIGHT)}),
    ({}, {"selectors": selector("device.whatIsThis()")}),
], ids=["as it is", "tolerated", "informative taint", "selector", "selector that nobody here can read"])
def test_claim_that_may_have_the_idle_device_is_told_to_move_on(
    idle: Bench, more: dict[str, t.Any], exactly: dict[str, t.Any]
) -> None:
    idle.put(shown(**more))
    assert serve(idle, claim(**exactly)) == "FabricDeviceReschedule"
    assert idle.fabric.attaches == []


def test_device_that_is_not_taken_counts_as_supply_no_more(idle: Bench) -> None:
    """For reasons that nobody here can judge the scheduler comes back for a pool device."""
    idle.put(shown())
    told = []
    for number in range(Handovers.MOST_OF_ONE + 1):
        idle.state.holds.end("gpu-a")
        told.append(serve(idle, claim(number)))
    assert told == ["FabricDeviceReschedule"] * Handovers.MOST_OF_ONE + [""]
    assert len(idle.fabric.attaches) == 1


def test_claim_that_takes_nothing_is_given_up_with_the_reason(idle: Bench) -> None:
    """Not for what it left on another node, nor for what is gone."""
    idle.put(shown())
    names = [f"gpu-{n}" for n in range(Handovers.MOST_DEVICES)]
    idle.state.handovers.note("uid-train", names * Handovers.MOST_OF_ONE, time.time())
    assert serve(idle, claim()) == "FabricDeviceReschedule"
    idle.state.holds.end("gpu-a")
    idle.put(*(objects.resource(name, device=name, serial=f"GPU-{name}", asked=900, state="Online") for name in names))
    assert serve(idle, claim(1)) == "FabricDeviceFailed"
    message = idle.api.one(CLAIMS, "train", "default")["status"]["devices"][0]["conditions"][0]["message"]
    assert message.startswith(f"the scheduler took none of {len(names)} devices that were offered to it")
    assert idle.fabric.attaches == []
    idle.state.forget(names[0])
    assert serve(idle, claim(2)) != "FabricDeviceFailed"


def test_old_handovers_are_forgotten() -> None:
    made = Handovers()
    made.note("a", ["r"] * 6, 0.0)
    assert made.vain("a")
    made.note("b", ["r"], 601.0)
    assert made.vain("a") == {}


def test_node_that_may_hold_no_more_says_what_does_not_fit(idle: Bench) -> None:
    node = objects.node()
    node["metadata"]["labels"] = {"cohdi.io/a100-size-max": "1"}
    idle.put(node, shown(taints=[XID]))
    assert serve(idle, claim()) == "FabricDeviceFailed"
    assert idle.fabric.attaches == []


def test_device_for_one_claim_of_a_pod_is_no_misfit_of_its_other_claim(idle: Bench) -> None:
    """The other one is for another model, and no device of the first is for it."""
    product = 'device.attributes["{}"].productName == "NVIDIA {}"'
    item = shown()
    item["spec"]["devices"][0]["attributes"]["productName"] = {"string": f"NVIDIA {A100}"}
    first = claim(selectors=selector(product.format(DRIVER, A100)))
    second = objects.claim("second", objects.pool_result("t4-0", "t4-fabric1"), pods=["train"])
    second["spec"]["devices"]["requests"][0]["exactly"].update(selectors=selector(product.format(DRIVER, T4)))
    idle.put(item, second)
    assert serve(idle, first) == ""
    assert idle.fabric.attaches == [("machine-0", T4)]
