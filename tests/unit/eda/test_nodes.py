# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source for orders of nodes: what counts, when it speaks, and how many orders there are."""

from __future__ import annotations

import asyncio
import json
import re
import types
import typing as t

import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims, nodes
from ansible_collections.composable.infra.plugins.module_utils import event_source
from ansible_collections.composable.infra.plugins.module_utils.kube import api_resources
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import VARIABLES
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.unit.eda.documentation import options as documented_options
from ansible_collections.composable.infra.tests.unit.eda.nodes_support import (
    GPU,
    Json,
    device_class,
    node,
    pod,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

SCHEMA: Json = json.loads((ROOT / "extensions/eda/schemas/nodes.json").read_text(encoding="utf-8"))
TIMES = {"unschedulable_after": 60.0, "unneeded_after": 300.0, "retry": 1800.0, "interval": 60.0}


class Bench:
    """A watcher on a clock that the test moves, in a cluster with one DeviceClass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.woken, self.classes, self.group = 1000.0, 0, Store({}), Store({})
        monkeypatch.setattr(f"{nodes.__name__}.time.monotonic", lambda: self.now)
        self.classes.upsert(device_class("gpu.nvidia.com", GPU))
        self.watcher = nodes.Watcher(TIMES, self._wake, nodes._waits, lambda raw: nodes._asks(raw, self.classes),
                                     lambda raw: nodes._why_not(raw, self.group, self.classes, 50))

    def _wake(self) -> None:
        self.woken += 1

    def sees(self, *found: Json, kind: str = "MODIFIED") -> None:
        """The watches tell of pods and nodes."""
        for raw in found:
            is_pod = "namespace" in raw["metadata"]
            (self.watcher.pod_changed if is_pod else self.watcher.node_changed)(kind, raw, None)

    def after(self, seconds: float) -> list[str]:
        """Names in the event that is due after that time; none when none is."""
        self.now += seconds
        event = self.watcher.event(reason, self.now) if (reason := self.watcher.due(self.now)) else {}
        if event:
            jsonschema.validate({**event, "meta": {"uuid": "u"}}, SCHEMA)
        return [each["name"] for told in event.values() for key, found in told.items() if key != "more"
                for each in found]

    def until(self, seconds: int) -> dict[str, list[int]]:
        """When each name was in an event, in seconds from now, if the source is asked every second."""
        found: dict[str, list[int]] = {}
        for second in range(1, seconds + 1):
            for name in self.after(1):
                found.setdefault(name, []).append(second)
        return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Nothing waits yet."""
    return Bench(monkeypatch)


class TestPods:
    def test_pod_is_told_once_it_has_waited(self, bench: Bench) -> None:
        bench.sees(pod("train"))
        assert bench.watcher.next_time() == bench.now + 60
        assert bench.after(59.9) == []
        assert bench.after(0.1) == ["train"]

    def test_pod_that_an_attach_serves_meanwhile_is_not_told(self, bench: Bench) -> None:
        bench.sees(pod("train"))
        bench.after(5)
        bench.sees(pod("train"), kind="DELETED")  # it is bound, and so leaves what is watched
        assert bench.after(1000) == []
        assert bench.watcher.next_time() == float("inf")

    def test_time_begins_anew_for_a_pod_that_waits_again(self, bench: Bench) -> None:
        bench.sees(pod("train"))
        bench.after(50)
        bench.sees(pod("train", nominatedNodeName="node-0"))
        bench.sees(pod("train"))
        assert bench.after(59) == []
        assert bench.after(1) == ["train"]

    @pytest.mark.parametrize("raw", [
        pod("train", count=0), pod("train", nominatedNodeName="node-0"), pod("train", phase="Failed"),
        pod("train", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        pod("train", conditions=[]),
        {**pod("train"), "spec": {**pod("train")["spec"], "schedulingGates": [{"name": "x"}]}},
    ], ids=["no device", "nominated", "failed", "gated", "not tried yet", "gate of another"])
    def test_other_pods_do_not_count(self, bench: Bench, raw: Json) -> None:
        bench.sees(raw)
        assert bench.after(3600) == []

    def test_pod_with_a_claim_counts(self, bench: Bench) -> None:
        raw = pod("train", count=0)
        raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        bench.sees(raw)
        assert bench.after(60) == ["train"]

    def test_resource_counts_once_a_class_serves_it(self, bench: Bench) -> None:
        bench.classes.remove({**device_class("gpu.nvidia.com", GPU), "metadata": {"name": "gpu.nvidia.com",
                                                                                  "resourceVersion": "2"}})
        bench.sees(pod("train"))
        assert bench.after(60) == []
        again = device_class("gpu.nvidia.com", GPU)
        again["metadata"]["resourceVersion"] = "3"
        bench.classes.upsert(again)
        bench.watcher.classes_changed("ADDED", again, None)
        assert bench.after(60) == ["train"]

    def test_pods_that_become_due_together_are_one_order(self, bench: Bench) -> None:
        bench.sees(pod("b"))
        bench.after(30)
        bench.sees(pod("a"))
        assert bench.until(1000) == {"b": [30], "a": [90]}, "one a minute"
        for number in range(40):
            bench.sees(pod(f"c-{number}"))
            bench.after(1)
        assert {times[0] for times in bench.until(200).values()} == {20, 80}

    def test_pod_that_nothing_serves_delays_no_other(self, bench: Bench) -> None:
        bench.sees(pod("never"))
        assert bench.after(60) == ["never"]
        bench.after(60)
        bench.sees(pod("train"))
        assert bench.until(100)["train"] == [60]

    def test_each_pod_is_told_again_by_its_own_clock_and_not_for_ever(self, bench: Bench) -> None:
        bench.sees(pod("a"))
        bench.after(100)
        bench.sees(pod("b"))
        assert bench.until(4 * 3600) == {"a": [1800, 3600], "b": [60, 1860, 3660]}
        bench.sees(pod("a"), kind="DELETED")
        bench.sees(pod("a"))
        assert bench.after(60) == ["a"], "it waits again, which is another matter"

    def test_pods_that_come_and_go_order_no_more_than_the_limit(self, bench: Bench) -> None:
        events = 0
        for number in range(1800 // 60):
            bench.sees(pod(f"p-{number}"))
            events += bool(bench.after(60))
            bench.sees(pod(f"p-{number}"), kind="DELETED")
        assert events == nodes.COUNTS["max_orders"]
        bench.sees(pod("train"))
        assert bench.after(60) == ["train"], "the first order is longer ago than retry"

    @pytest.mark.parametrize(("raw", "said"), [
        (pod("huge", count=51),
         "the pod requests 51 devices of DeviceClass gpu.nvidia.com, and a node can have 50 at most"),
        (pod("huge") | {"spec": {**pod("huge")["spec"], "nodeSelector": {"zone": "b"}}}, "node affinity"),
        (pod("huge") | {"spec": {"containers": [{"name": "w", "resources": {"requests": {GPU: "1", "cpu": "9"}}}]}},
         "Insufficient cpu")], ids=["devices", "selector", "room"])
    def test_pod_that_no_new_node_can_serve_orders_none(self, bench: Bench, raw: Json, said: str,
                                                        caplog: pytest.LogCaptureFixture) -> None:
        idle = node("node-0", "node.kubernetes.io/not-ready")
        status = {"allocatable": {"cpu": "8", "pods": "110"}}
        bench.group.upsert({**idle, "metadata": {**idle["metadata"], "resourceVersion": "1"}, "status": status})
        bench.sees(raw, pod("train"))
        assert bench.until(4000) == {"train": [60, 1860, 3660]}
        assert said in caplog.text

    def test_pod_orders_a_node_where_the_group_has_none_to_judge_by(self, bench: Bench) -> None:
        bench.sees(pod("train") | {"spec": {**pod("train")["spec"], "nodeSelector": {"zone": "b"}}})
        assert bench.after(60) == ["train"]

    def test_an_event_lists_a_hundred_and_the_next_one_the_others(self, bench: Bench) -> None:
        bench.sees(*(pod(f"p-{number:03}") for number in range(130)))
        bench.now += 60
        event = bench.watcher.event("unschedulable", bench.now)["unschedulable"]
        assert (len(event["waiting"]), event["more"]) == (100, 30)
        jsonschema.validate({"unschedulable": event}, SCHEMA)
        assert bench.after(59) == []
        assert len(bench.after(1)) == 30


class TestNodes:
    def test_node_is_told_once_it_was_unneeded_for_long_enough(self, bench: Bench) -> None:
        bench.sees(node("node-0", nodes.CANDIDATE))
        assert bench.after(299) == []
        assert bench.after(1) == ["node-0"]

    @pytest.mark.parametrize("raw", [node("node-0"), node("node-0", "other"),
                                     node("node-0", nodes.CANDIDATE, nodes.DELETED)])
    def test_needed_node_and_one_that_is_deleted_already_do_not_count(self, bench: Bench, raw: Json) -> None:
        bench.sees(raw)
        assert bench.after(3600) == []

    def test_node_that_is_needed_again_is_not_told(self, bench: Bench) -> None:
        bench.sees(node("node-0", nodes.CANDIDATE))
        bench.after(200)
        bench.sees(node("node-0"))
        assert bench.after(3600) == []

    def test_the_longest_unneeded_is_first_and_the_next_follows_when_it_is_gone(self, bench: Bench) -> None:
        bench.sees(node("node-0", nodes.CANDIDATE, since="1700000200"), node("node-1", nodes.CANDIDATE))
        assert bench.after(300) == ["node-1", "node-0"]
        assert bench.after(600) == []
        bench.sees(node("node-1", nodes.CANDIDATE), kind="DELETED")
        assert bench.after(0) == ["node-0"]

    def test_node_that_no_job_removes_is_tried_last_and_not_for_ever(self, bench: Bench) -> None:
        bench.sees(node("stuck", nodes.CANDIDATE), node("idle", nodes.CANDIDATE, since="1700000200"))
        firsts = [found[0] for _hour in range(40) if (found := bench.after(900))]
        assert firsts == ["stuck", "idle"] * 3

    @pytest.mark.parametrize("value", ["", "soon", "\u0663", "-1"])
    def test_time_that_cannot_be_read_is_none(self, bench: Bench, value: str) -> None:
        bench.sees(node("node-0", nodes.CANDIDATE, since=value))
        bench.now += 300
        assert bench.watcher.event("node_unneeded", bench.now) == {
            "node_unneeded": {"nodes": [{"uid": "uid-node-0", "name": "node-0", "since": 0}]}}


def test_nothing_is_told_when_the_last_one_left_in_between(bench: Bench) -> None:
    bench.sees(pod("train"))
    bench.now += 60
    assert bench.watcher.due(bench.now) == "unschedulable"
    bench.sees(pod("train"), kind="DELETED")
    assert bench.watcher.event("unschedulable", bench.now) == {}
    bench.sees(pod("next"))
    assert bench.after(60) == ["next"], "no order is under way"


def test_every_change_wakes_the_event_loop(bench: Bench) -> None:
    bench.sees(pod("train"), node("node-0", nodes.CANDIDATE))
    bench.watcher.classes_changed("MODIFIED", device_class("x", "y"), None)
    assert bench.woken == 3


@pytest.mark.parametrize("event", [
    {}, {"unschedulable": {"waiting": []}}, {"node_unneeded": {"nodes": [{"name": "n", "uid": "u"}]}},
    {"unschedulable": {"waiting": [{"uid": "u", "namespace": "n", "name": "n"}]},
     "node_unneeded": {"nodes": [{"uid": "u", "name": "n", "since": 0}]}}])
def test_other_events_do_not_fit_the_schema(event: Json) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(event, SCHEMA)


class Watch:
    """A watch that tells of one object when it starts."""

    made: t.ClassVar[list[Watch]] = []
    cluster: t.ClassVar[Json] = {}

    def __init__(self, _client: object, resource: api_resources.ApiResource, store: Store,
                 on_change: t.Callable[..., None], label_selector: str | None = None,
                 field_selector: str | None = None) -> None:
        self.resource, self.store, self.on_change = resource, store, on_change
        self.selectors, self.stopped = (label_selector, field_selector), False
        self.synced = types.SimpleNamespace(wait=lambda timeout: True)
        self.made.append(self)

    def start(self) -> None:
        """Tell it, as it is kept."""
        if raw := self.cluster.get(self.resource.plural):
            self.store.upsert(raw)
            self.on_change("ADDED", self.store.list()[0], None)

    def stop(self) -> None:
        """End."""
        self.stopped = True


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> list[Watch]:
    """The source's watches, of a cluster with a pod that waits and a node that is not needed."""
    fakes: Json = {f"{nodes._KUBE}.client.verbs": types.SimpleNamespace(Client=lambda _connection, pool: "client"),
                   f"{nodes._KUBE}.watch.reflector": types.SimpleNamespace(Reflector=Watch)}
    real = nodes._load
    monkeypatch.setattr(nodes, "_load", lambda name: fakes.get(name) or real(name))
    monkeypatch.setattr(event_source, "connection", lambda args, environ: "connection")
    monkeypatch.setattr(Watch, "made", [])
    train, idle = pod("train"), node("node-0", nodes.CANDIDATE)
    for raw in (train, idle):
        raw["metadata"]["resourceVersion"] = "1"
    monkeypatch.setattr(Watch, "cluster", {"pods": train, "nodes": idle,
                                           "deviceclasses": device_class("gpu.nvidia.com", GPU)})
    return Watch.made


def play(count: int, **args: t.Any) -> list[Json]:
    """The first events of the source's main."""
    async def run() -> list[Json]:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        task = asyncio.create_task(nodes.main(queue, args))
        found = [await asyncio.wait_for(queue.get(), 10) for _unused in range(count)]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return found

    return asyncio.run(run())


def test_main_tells_of_both_and_watches_only_what_it_needs(watches: list[Watch]) -> None:
    events = play(2, unschedulable_after="0", unneeded_after="0", node_selector="pool=gpu")
    assert [list(event) for event in events] == [["unschedulable"], ["node_unneeded"]]
    assert {each.resource.plural: each.selectors for each in watches} == {
        "deviceclasses": (None, None), "pods": (None, "spec.nodeName="), "nodes": ("pool=gpu", None)}
    assert all(each.stopped for each in watches)


def test_main_watches_all_nodes_without_a_selector(watches: list[Watch]) -> None:
    play(1, unschedulable_after=0, node_selector="")
    assert watches[-1].selectors == (None, None)


@pytest.mark.parametrize(("args", "said"), [
    ({"retry": "soon"}, "retry: 'soon' is not usable: must be a number of seconds"),
    ({"unneeded_after": -1}, "unneeded_after: -1 is not usable: must be from 0 to 86400 seconds"),
    ({"max_orders": "0"}, "max_orders: '0' is not usable: must be a whole number from 1 to 10000"),
    ({"settle": 1}, "settle: unknown option, known are ")])
def test_bad_option_is_named_before_anything_starts(watches: list[Watch], args: Json, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        asyncio.run(nodes.main(asyncio.Queue(), args))
    assert watches == []


def test_documentation_has_the_same_connection_as_the_source_of_claims() -> None:
    own, other = (documented_options(source) for source in (nodes, claims))
    for name in (*VARIABLES, "kubeconfig", "context"):
        assert own[name] == other[name]
    assert {name: option["default"] for name, option in own.items() if option["type"] == "float"} == nodes.DEFAULTS
    assert {name: option["default"] for name, option in own.items() if option["type"] == "int"} == nodes.COUNTS
    assert "unschedulable" in yaml.safe_load(nodes.EXAMPLES)[0]["rules"][0]["condition"]
