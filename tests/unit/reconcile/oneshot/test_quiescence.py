# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a module's engine is done, what is told on the way, and what must be true before it starts."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotServed, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import quiescence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.quiescence import (
    busy_with,
    pending_claims,
    run_until_quiet,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.preflight import check_cluster
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.event_reporter import EventReporter
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.quiescence_support import (
    Events,
)

Quiet = tuple[ControllerManager, Bench]
RESULT = objects.pool_result()


def leaving(done: Evidence | None = None) -> Json:
    """A device that its node was asked to let go; ``done``: what the node wrote."""
    return objects.resource("r", device="d1", state="Detaching", deleted=True, RELEASE="2026-01-01T00:00:00Z",
                            NODE=done.to_json() if done else "")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet means quiet at once."""
    monkeypatch.setattr(quiescence, "QUIET", 0.0)
    monkeypatch.setattr(quiescence, "QUIET_WITH_PENDING_PODS", 0.0)
    monkeypatch.setattr(quiescence, "TICK", 0.001)


def test_nothing_to_do_is_settled(quiet: Quiet) -> None:
    assert run_until_quiet(quiet[0], 10, threading.Event())


@pytest.mark.parametrize(("raws", "said"), [
    ([objects.claim("c", RESULT)], "1 claims wait for their devices or for the scheduler"),
    ([objects.claim("c", RESULT, devices=[objects.told(RESULT, objects.FAILED)])], "1 claims wait"),
    ([objects.claim("c", RESULT, pods=(), devices=[objects.told(RESULT, objects.RESCHEDULE)])], "1 claims wait"),
    ([objects.resource("r", state="Deleting", deleted=True)], "1 devices are leaving their node"),
    ([objects.claim("c")], ""), ([objects.claim("c", objects.local_result())], ""),
    ([objects.claim("c", RESULT, pods=())], ""),
    ([objects.claim("c", RESULT, devices=[objects.told(RESULT, objects.READY)])], ""),
    ([objects.resource("r", device="d1", state="Online")], ""),
    ([leaving()], "1 devices are leaving their node"),
    ([leaving(Evidence("Removed", "d1", release="2026-01-01T00:00:00Z"))], "1 devices are leaving their node"),
    ([leaving(Evidence("Ready", "d1").with_trouble("LinkDegraded", "x4", 1.0))], "1 devices are leaving their node"),
    ([leaving(Evidence("Ready", "d1").with_trouble("OpenOnNode", "open", 1.0))], ""),
], ids=["waits", "failed", "to move on", "leaves", "not allocated", "served", "nobody's", "ready", "idle",
        "asked of the node", "removed there", "asked of the node with a warning", "held there"])
def test_what_is_under_way(quiet: Quiet, raws: list[Json], said: str) -> None:
    quiet[1].put(*raws)
    assert busy_with(quiet[0]).startswith(said)
    assert bool(busy_with(quiet[0])) is bool(said)


def test_changes_operations_and_pods_are_under_way(quiet: Quiet) -> None:
    engine, bench = quiet
    engine.queue.add(NodeKey("node-0"))
    assert busy_with(engine) == "changes are being processed"
    key = engine.queue.get()
    assert key is not None
    engine.queue.done(key)
    engine.state.operations.begin("gpu-a")
    assert busy_with(engine) == "1 requests to the CDI Manager are in flight"
    engine.state.operations.end("gpu-a")
    bench.put(objects.pod())
    engine.rescheduler.nominate(PodRef("default", "train", "pod-train"), "node-0", "uid-train")
    assert busy_with(engine) == "1 pods are being rescheduled to their node"


def test_time_runs_out(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("c", RESULT))
    assert not run_until_quiet(quiet[0], 0.0, threading.Event())


def test_stop_ends_the_wait(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("c", RESULT))
    stop = threading.Event()
    stop.set()
    assert not run_until_quiet(quiet[0], 3600, stop)


def test_wait_goes_on_until_the_last_claim_is_served(quiet: Quiet) -> None:
    engine, bench = quiet
    bench.put(objects.claim("c", RESULT))
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(run_until_quiet(engine, 10, threading.Event())))
    thread.start()
    assert not seen
    bench.put(objects.claim("c", objects.local_result()))
    thread.join(10)
    assert seen == [True]


def test_pods_that_wait_for_the_scheduler(quiet: Quiet) -> None:
    engine, bench = quiet
    generated = objects.pod("other", resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "made"}])
    generated["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "any"}]
    bench.put(objects.pod("train"), objects.claim("train"), generated, objects.claim("made"), objects.pod("lonely"),
              objects.pod("served"), objects.claim("served", objects.local_result()))
    assert {k: p.name for k, p in pending_claims(engine).items()} == {
        ("default", "train"): "train", ("default", "made"): "other"}


@pytest.fixture
def events(bench: Bench) -> Events:
    """What a narrator on the bench tells."""
    made = Events()
    bench.reporter = EventReporter(bench.state, t.cast(Recorder, made), bench.settings)
    return made


def test_what_happens_is_told_to_the_claims_and_pods_that_wait_for_it(bench: Bench, events: Events) -> None:
    bench.put(objects.resource("gpu-a"), objects.claim("train", RESULT),
              objects.claim("elsewhere", objects.pool_result("a100-1"), node="node-1"),
              objects.claim("other", objects.pool_result("t4-0", "t4-fabric1")))
    bench.reporter.tell("gpu-a", "Attached", "there it is")
    assert ("ResourceClaim", "train", "Attached", "Normal") in events.seen
    assert ("Pod", "train", "Attached", "Normal") in events.seen
    assert not [e for e in events.seen if e[1] in ("elsewhere", "other")]


def test_warnings_are_on_the_resource_too(bench: Bench, events: Events) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.reporter.tell("gpu-a", "AttachFailed", "no", type_="Warning")
    assert ("ComposableResource", "gpu-a", "AttachFailed", "Warning") in events.seen


def test_without_a_recorder_only_the_history_is_kept(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"), objects.claim("train", RESULT))
    bench.reporter.tell("gpu-a", "Attached", "there it is")
    (entry,) = bench.reporter.history
    assert (entry["reason"], entry["about"], entry["message"], entry["type"]) == (
        "Attached", "gpu-a", "there it is", "Normal")


def test_trouble_is_told_when_it_begins_changes_and_ends(bench: Bench) -> None:
    for message in ("", "a", "a", "b", "", "", "a"):
        bench.reporter.once("fabric", message)
    assert [(e["reason"], e["message"]) for e in bench.reporter.history] == [
        ("Trouble", "a"), ("Trouble", "b"), ("Recovered", "the problem is over: b"), ("Trouble", "a")]


def test_troubles_of_different_things_are_told_apart(bench: Bench) -> None:
    bench.reporter.once("node/a", "x")
    bench.reporter.once("node/b", "x")
    assert bench.told("Trouble") == ["x", "x"]


def test_history_is_bounded(bench: Bench) -> None:
    for number in range(2100):
        bench.reporter.note("Reason", "about", str(number))
    assert len(bench.reporter.history) == 2000
    assert bench.reporter.history[-1]["message"] == "2099"


def served(api: FakeApi, resource: ApiResource, error: BaseException) -> None:
    """Have listing a kind fail."""
    api.paths[resource.path()] = error


def test_cluster_that_has_everything() -> None:
    api = FakeApi()
    check_cluster(api.client, ["publisher", "scaler", "operator"])
    assert len(api.calls) == len({c.plural for c in api.calls}) == 4


@pytest.mark.parametrize(("resource", "said"), [
    (COMPOSABILITY_REQUESTS, "composabilityrequests (cro.hpsys.ibm.ie.com/v1alpha1). Apply deploy/crds"),
    (CLAIMS, "resourceclaims (resource.k8s.io/v1). Kubernetes 1.34 or later is needed"),
])
def test_api_that_is_not_served(resource: ApiResource, said: str) -> None:
    api = FakeApi()
    served(api, resource, NotServed(404, "NotFound", "no"))
    with pytest.raises(BadConfig, match=r"^the API server does not serve ") as caught:
        check_cluster(api.client, ["operator"])
    assert str(caught.value).endswith(said)


def test_role_needs_only_its_own() -> None:
    api = FakeApi()
    served(api, COMPOSABILITY_REQUESTS, NotServed(404, "NotFound", "no"))
    check_cluster(api.client, ["publisher"])


def test_what_may_not_be_listed_is_named() -> None:
    api = FakeApi()
    served(api, CLAIMS, Forbidden(403, "Forbidden", "user x cannot list"))
    with pytest.raises(BadConfig, match=r"resourceclaims may not be listed: user x cannot list\. Apply deploy/rbac"):
        check_cluster(api.client, ["scaler"])


def test_server_that_is_away_is_an_error_for_a_module_and_waited_for_by_the_controller() -> None:
    api = FakeApi()
    served(api, CLAIMS, Unreachable("the API server does not answer"))
    with pytest.raises(Unreachable):
        check_cluster(api.client, ["scaler"])
    stop, said = threading.Event(), []

    def say(text: str) -> None:
        said.append(text)
        stop.set()

    check_cluster(api.client, ["scaler"], stop, say)
    assert said == ["waiting for the API server: the API server does not answer"]
