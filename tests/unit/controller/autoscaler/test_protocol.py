# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Cluster Autoscaler does next after each answer, by a stand-in that does as it does, over real gRPC with TLS."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import grpc
import pytest

from ansible_collections.composable.infra.controller.autoscaler import provider
from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.server import Certificates, Server
from ansible_collections.composable.infra.controller.autoscaler.service import NO_LABEL, ProviderService
from ansible_collections.composable.infra.controller.autoscaler.wire import externalgrpc_pb2, node_pb2, rpc
from ansible_collections.composable.infra.controller.autoscaler.wire.rpc import SERVICE
from ansible_collections.composable.infra.lab.autoscaling.processes import Certificates as Issued
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, LoopEnded, said
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS, NODES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock, channel
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GPU, Testbed

Asking = Callable[..., AutoscalerStandIn]
INCREASE = "NodeGroupIncreaseSize"


def names(standin: AutoscalerStandIn) -> list[str]:
    """Reasons of its events, one for each run of equal ones."""
    found: list[str] = []
    for reason, _about, _message in standin.events:
        found += [reason] if found[-1:] != [reason] else []
    return found


def test_ok_target_raised_device_comes_target_back(testbed: Testbed, asking: Asking) -> None:
    """Row 1: packed on a node that is coming, no second call, then finished: no error, no backoff, no node."""
    standin = asking()
    testbed.pod("train")
    testbed.sync()
    standin.loop()
    assert testbed.provider.target_size("vertical") == 1, "raised when the call returns"
    for _unused in range(3):
        standin.loop()
    assert len(standin.asked(INCREASE)) == 1
    testbed.tick()
    assert testbed.bound("train")
    assert testbed.provider.target_size("vertical") == 0
    for _unused in range(3):
        standin.loop()
    assert names(standin) == ["TriggeredScaleUp", "ScaleUpFinished"]
    assert len(standin.asked(INCREASE)) == 1
    assert len(testbed.fabric.attaches) == 1
    assert len(testbed.api.of(NODES)) == 2


def test_a_target_that_is_not_raised_would_be_asked_for_each_loop(
        testbed: Testbed, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 2: what the raised target prevents; the stand-in is as harsh as the real one."""
    monkeypatch.setattr(testbed.provider.scale_ups, "target", lambda group: 0)
    standin = asking()
    testbed.pod("train")
    testbed.sync()
    for _unused in range(10):
        standin.loop()
    assert len(standin.asked(INCREASE)) == 10
    testbed.tick()
    assert len(testbed.fabric.attaches) == 1, "ten calls are one attach all the same"


def test_error_sends_the_group_into_backoff_with_our_reason(
        testbed: Testbed, asking: Asking, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 3. The devices have gone since Cluster Autoscaler asked for the template."""
    testbed.fabric.total = 0
    monkeypatch.setattr(testbed.cluster, "free_devices", lambda: 1)
    monkeypatch.setattr(provider, "existing_devices", lambda _state, wanted: {**wanted})
    standin = asking(backoff=30.0)
    testbed.pod("train")
    testbed.sync()
    for _unused in range(3):
        standin.loop()
    assert len(standin.asked(INCREASE)) == 1
    assert names(standin) == ["FailedToScaleUpGroup", "NotTriggerScaleUp"]
    words = standin.events[0][2]
    assert words.startswith("RESOURCE_EXHAUSTED: default/train: 1 x A100 40G: 0/2 nodes: 2 had only 0 x A100 40G")
    clock.now += 31
    standin.loop()
    assert len(standin.asked(INCREASE)) == 2, "asked again after the backoff"


def test_instance_that_could_not_be_created_is_told_and_deleted(testbed: Testbed, asking: Asking) -> None:
    """Row 4: ScaleUpFailed with our code and text, backoff, DeleteNodes for its id, and the target is back."""
    standin = asking()
    testbed.pod("train")
    testbed.sync()
    standin.loop()
    later(testbed, 61)
    testbed.step()
    standin.loop()
    reason, group, words = standin.events[-1]
    assert (reason, group) == ("ScaleUpFailed", "vertical")
    assert words.startswith("Timeout: the pods were not served within 60 s")
    (deleted,) = standin.asked("NodeGroupDeleteNodes")
    assert [node.providerID for node in deleted.nodes] == ["composable-infra://vertical/1-0"]
    assert testbed.provider.target_size("vertical") == 0
    standin.loop()
    assert names(standin)[-1] == "NotTriggerScaleUp", "in backoff"
    assert entries(testbed) == []


def test_target_that_stays_up_is_decreased_after_its_own_time(testbed: Testbed, asking: Asking, clock: Clock) -> None:
    """Row 5."""
    standin = asking(max_node_provision_time=20.0)
    testbed.pod("train")
    testbed.sync()
    standin.loop()
    clock.now += 21
    standin.loop()
    standin.loop()
    assert names(standin) == ["TriggeredScaleUp", "ScaleUpTimedOut", "NotTriggerScaleUp"]
    (decreased,) = standin.asked("NodeGroupDecreaseTargetSize")
    assert (decreased.id, decreased.delta) == ("vertical", -1)
    assert testbed.provider.target_size("vertical") == 0
    assert entries(testbed) == []


def later(testbed: Testbed, seconds: float) -> None:
    """The provider's calls are so much older."""
    for record in testbed.provider.scale_ups._open:
        record.began -= seconds


def entries(testbed: Testbed) -> list[str]:
    """What ComposabilityRequests say of waiting pods."""
    return [text for raw in testbed.api.of(COMPOSABILITY_REQUESTS)
            if (text := (raw["metadata"].get("annotations") or {}).get("composable.infra/scale-up"))]


def test_call_that_comes_again_joins_what_is_under_way(testbed: Testbed) -> None:
    """A call that took too long counts as failed there, and was carried out here."""
    testbed.pod("train")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.provider.increase("vertical", 1)
    assert testbed.provider.target_size("vertical") == 2
    testbed.tick()
    assert len(testbed.fabric.attaches) == 1
    assert testbed.provider.target_size("vertical") == 0


def test_several_pods_share_a_call_that_counts_maximum_nodes(testbed: Testbed, asking: Asking) -> None:
    standin = asking()
    for number in range(4):
        testbed.pod(f"p{number}")
    testbed.sync()
    standin.loop()
    (asked,) = standin.asked(INCREASE)
    assert asked.delta == 1, "four devices are one node of the largest kind"
    testbed.tick()
    assert all(testbed.bound(f"p{number}") for number in range(4))
    assert testbed.provider.target_size("vertical") == 0


def test_pods_of_several_calls_are_each_served_once(testbed: Testbed, asking: Asking) -> None:
    standin = asking()
    testbed.pod("first")
    testbed.sync()
    standin.loop()
    testbed.pod("second", 4)
    testbed.sync()
    standin.loop()
    assert len(standin.asked(INCREASE)) == 2
    assert testbed.provider.target_size("vertical") >= 1
    testbed.tick()
    assert testbed.bound("first")
    assert len(testbed.fabric.attaches) == 1, "four more are not there"


def test_restart_of_the_provider_goes_on_with_what_was_written_down(testbed: Testbed) -> None:
    testbed.pod("train")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    again = testbed.start()
    again.refresh()
    assert again.target_size("vertical") == 1
    testbed.tick()
    assert testbed.bound("train")
    assert again.target_size("vertical") == 0
    assert len(testbed.fabric.attaches) == 1


def test_loop_ends_while_the_cluster_is_not_read(
        testbed: Testbed, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed.cluster.engine, "ready", lambda: False)
    standin = asking()
    with pytest.raises(LoopEnded, match="UNAVAILABLE"):
        standin.loop()
    assert standin.asked("NodeGroups") == []


def test_template_is_the_largest_that_a_node_can_be(testbed: Testbed, asking: Asking) -> None:
    standin = asking()
    testbed.pod("train", 4, cpu="8")
    testbed.pod("too-large", 5)
    testbed.pod("elsewhere", nodeSelector={"zone": "b"})
    testbed.sync()
    standin.loop()
    (asked,) = standin.asked(INCREASE)
    assert asked.delta == 1
    testbed.tick()
    assert testbed.bound("train")
    assert not testbed.bound("too-large")


def test_template_is_a_node_as_kubernetes_writes_it(testbed: Testbed) -> None:
    service = ProviderService(testbed.provider, testbed.measurements).methods()
    request = externalgrpc_pb2.NodeGroupTemplateNodeInfoRequest(id="vertical")
    node = node_pb2.Node.FromString(service["NodeGroupTemplateNodeInfo"](request, t.cast(t.Any, None)).nodeBytes)
    assert node.metadata.name == "vertical-template"
    assert {name: each.string for name, each in node.status.allocatable.items()} == {
        "cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}
    assert [(each.type, each.status) for each in node.status.conditions] == [("Ready", "True")]


def test_vertical_group_never_owns_a_node_and_the_other_is_full(testbed: Testbed, asking: Asking) -> None:
    standin = asking()
    standin.loop()
    assert standin.members("vertical") == []
    assert len(standin.members("nodes")) == 2
    sizes = {name: (group.least, group.most, group.target) for name, group in standin.groups.items()}
    assert sizes == {"vertical": (0, 4, 0), "nodes": (0, 2, 2)}


def test_no_node_has_the_label_of_gpus(testbed: Testbed, asking: Asking) -> None:
    """Trap C: a node with the label and without a GPU would never be ready."""
    standin = asking()
    standin.loop()
    assert standin._label == NO_LABEL
    assert not any(NO_LABEL in node["metadata"]["labels"] for node in testbed.api.of(NODES))
    assert standin.unready == set()


@pytest.mark.parametrize("method", ["PricingNodePrice", "PricingPodPrice", "NodeGroupGetOptions"])
def test_what_is_left_out_is_unimplemented(testbed: Testbed, issued: Issued, method: str) -> None:
    """NodeGroupGetOptions above all: any real answer would set MaxNodeStartupTime to 0."""
    certificates = Certificates(str(issued.server.certificate), str(issued.server.key), str(issued.ca))
    server = Server("127.0.0.1:0", ProviderService(testbed.provider, testbed.measurements), certificates)
    server.start()
    with channel(issued, server.port, issued.client.certificate, issued.client.key) as opened:
        call = opened.unary_unary(f"/{SERVICE}/{method}")
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=5)
        assert said(raised.value).startswith("UNIMPLEMENTED")
    server.stop()


@pytest.mark.parametrize("who", ["a stranger", "nobody"])
def test_only_clients_of_the_authority_are_answered(testbed: Testbed, issued: Issued, who: str) -> None:
    certificates = Certificates(str(issued.server.certificate), str(issued.server.key), str(issued.ca))
    server = Server("127.0.0.1:0", ProviderService(testbed.provider, testbed.measurements), certificates)
    server.start()
    stranger = issued.strange_client
    opened = (channel(issued, server.port, stranger.certificate, stranger.key) if who == "a stranger" else
              grpc.secure_channel(f"localhost:{server.port}", grpc.ssl_channel_credentials(issued.ca.read_bytes())))
    with opened, pytest.raises(grpc.RpcError) as raised:
        rpc.call(opened, f"{SERVICE}/Refresh", externalgrpc_pb2.RefreshRequest(), 5)
    assert said(raised.value).startswith("UNAVAILABLE")
    server.stop()


def test_certificate_files_that_are_missing_are_named(issued: Issued) -> None:
    with pytest.raises(BadConfig, match="--client-ca-file: '/nowhere' cannot be read"):
        Certificates(str(issued.server.certificate), str(issued.server.key), "/nowhere")


@pytest.mark.parametrize(("group", "delta", "kind"), [
    ("vertical", 0, Kind.INVALID_ARGUMENT), ("nodes", 1, Kind.FAILED_PRECONDITION), ("other", 1, Kind.NOT_FOUND)])
def test_calls_that_make_no_sense_are_refused(testbed: Testbed, group: str, delta: int, kind: Kind) -> None:
    with pytest.raises(Refused) as raised:
        testbed.provider.increase(group, delta)
    assert raised.value.kind == kind
