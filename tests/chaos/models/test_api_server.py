# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server in memory refuses what a real one refuses, tested by the engine's client."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    NotFound,
    Unreachable,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.chaos.models import transport
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer
from ansible_collections.composable.infra.tests.chaos.models.transport import Network
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]


@pytest.fixture
def network(simulation: Simulation) -> Network:
    """Return the network to an empty server."""
    return Network(simulation, ApiServer(lambda: 1_800_000_000.0 + simulation.now))


@pytest.fixture
def client(network: Network) -> Client:
    """Return the real client on it."""
    return network.client(network.simulation.outside)


def resource(name: str = "gpu-a", **more: t.Any) -> Json:
    """Return a ComposableResource as it is sent."""
    raw = objects.resource(name)
    return {"metadata": {"name": name, "finalizers": raw["metadata"]["finalizers"]}, "spec": raw["spec"], **more}


def test_names_are_given_once_and_uids_never_twice(client: Client) -> None:
    first = client.create(COMPOSABLE_RESOURCES, resource())
    with pytest.raises(AlreadyExists):
        client.create(COMPOSABLE_RESOURCES, resource())
    client.delete(COMPOSABLE_RESOURCES, "gpu-a")
    client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"metadata": {"finalizers": None}})
    assert client.create(COMPOSABLE_RESOURCES, resource())["metadata"]["uid"] != first["metadata"]["uid"]


def test_preconditions_hold(client: Client) -> None:
    first = client.create(COMPOSABLE_RESOURCES, resource())
    changed = client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"metadata": {"annotations": {"a": "b"}}})
    assert int(changed["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        client.replace(COMPOSABLE_RESOURCES, "gpu-a", first)
    with pytest.raises(Conflict):
        client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"metadata": {"uid": "other", "annotations": {"a": "c"}}})
    with pytest.raises(Conflict):
        client.delete(COMPOSABLE_RESOURCES, "gpu-a", precondition_uid="other")


def test_status_is_written_by_its_subresource_only(client: Client) -> None:
    made = client.create(COMPOSABLE_RESOURCES, resource(status={"state": "Online"}))
    assert "status" not in made
    client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"status": {"state": "Online"}})
    assert not client.get(COMPOSABLE_RESOURCES, "gpu-a").get("status")
    body = {"spec": {"model": "other"}, "status": {"state": "Online"}}
    found = client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", body, subresource="status")
    assert found["status"] == {"state": "Online"}
    assert found["spec"]["model"] != "other"


def test_finalizers_keep_what_is_deleted(client: Client) -> None:
    client.create(COMPOSABLE_RESOURCES, resource())
    client.delete(COMPOSABLE_RESOURCES, "gpu-a")
    assert client.get(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["deletionTimestamp"]
    client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        client.get(COMPOSABLE_RESOURCES, "gpu-a")


def test_change_that_changes_nothing_makes_no_version(client: Client) -> None:
    client.create(COMPOSABLE_RESOURCES, resource())
    patch = {"metadata": {"annotations": {"a": "b"}}}
    versions = {client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", patch)["metadata"]["resourceVersion"]
                for _unused in range(2)}
    assert len(versions) == 1


def test_gate_is_removed_and_no_other(client: Client) -> None:
    gates = [{"name": "other"}, {"name": pods.GATE}]
    made = client.create(PODS, {"metadata": {"name": "p", "namespace": "n"}, "spec": {"schedulingGates": gates}})
    found = client.strategic_patch(PODS, "p", pods.removal(made["metadata"]["uid"]), namespace="n")
    assert found["spec"]["schedulingGates"] == [{"name": "other"}]


def test_states_of_devices_go_with_the_allocation(client: Client) -> None:
    claim = objects.claim("train", objects.pool_result())
    client.create(CLAIMS, claim, "default")
    body = {"status": {"devices": [objects.told(objects.pool_result(), objects.RESCHEDULE)]}}
    told = client.apply(CLAIMS, "train", body, "default", "status", field_manager="m")
    assert told["status"]["devices"]
    left = client.merge_patch(CLAIMS, "train", {"status": {"allocation": None}}, "default", "status")
    assert "devices" not in left["status"]


def test_dry_run_stores_nothing(client: Client) -> None:
    client.create(SLICES, {"metadata": {"generateName": "s-"}, "spec": {}}, dry_run=True)
    assert client.list(SLICES).items == []


@pytest.mark.parametrize(("fate", "happened"), [(transport.LOST, False), (transport.REPLY_LOST, True)])
def test_lost_requests_and_lost_replies(network: Network, client: Client, fate: str, happened: bool) -> None:
    network.fate = lambda process, call: fate
    with pytest.raises(Unreachable) as caught:
        client.create(COMPOSABLE_RESOURCES, resource())
    assert caught.value.sent == happened
    assert bool(network.server.of("composableresources")) == happened


def test_watch_that_is_too_old_is_refused(network: Network, client: Client) -> None:
    version = client.list(PODS).resource_version
    client.create(PODS, {"metadata": {"name": "p", "namespace": "n"}, "spec": {}})
    network.server.forget_history()
    with pytest.raises(Gone):
        client.watch(PODS, version).open()


def test_reflector_misses_nothing_whatever_becomes_of_its_watch(network: Network, client: Client) -> None:
    store, simulation = Store({}), network.simulation
    reflector = Reflector(client, PODS, store, lambda kind, new, old: None)
    reflector.start()
    troubles: list[Callable[[], object]] = [network.server.drop_watches, network.server.forget_history, lambda: None]
    for number, trouble in enumerate(troubles * 3):
        client.create(PODS, {"metadata": {"name": f"p-{number}", "namespace": "n"}, "spec": {}})
        trouble()
        network.server.remove("pods", f"p-{number}", "n")
        client.create(PODS, {"metadata": {"name": f"q-{number}", "namespace": "n"}, "spec": {}})
    simulation.sleep(20.0)
    assert sorted(pod["metadata"]["name"] for pod in store.list()) == [f"q-{number}" for number in range(9)]
    assert reflector.relists > 1
    reflector.stop()


def test_reflector_has_what_there_is_after_a_restore(network: Network, client: Client) -> None:
    store, simulation = Store({}), network.simulation
    reflector = Reflector(client, PODS, store, lambda kind, new, old: None)
    reflector.start()
    client.create(PODS, {"metadata": {"name": "kept", "namespace": "n"}, "spec": {}})
    simulation.sleep(5.0)
    made = [client.create(PODS, {"metadata": {"name": f"lost-{number}", "namespace": "n"}, "spec": {}})
            for number in range(3)]
    simulation.sleep(1.0)
    network.server.rewind(3.0)
    again = client.create(PODS, {"metadata": {"name": "made-again", "namespace": "n"}, "spec": {}})
    assert again["metadata"]["resourceVersion"] == made[0]["metadata"]["resourceVersion"]
    simulation.sleep(20.0)
    assert sorted(pod["metadata"]["name"] for pod in store.list()) == ["kept", "made-again"]
    reflector.stop()
