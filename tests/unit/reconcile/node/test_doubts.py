# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of CoHDI and journals that cannot be read: no second device, and nobody else's device."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device


def foreign(name: str = "gpu-a", **more: t.Any) -> dict[str, t.Any]:
    """A ComposableResource that CoHDI's operator was attaching when ours took over."""
    raw = objects.resource(name, state="Attaching", **more)
    del raw["metadata"]["labels"][cohdi.TARGET_NODE]
    return raw


def reconcile(bench: Bench) -> None:
    bench.look()
    bench.reconcile(NodeKey("node-0"))
    bench.reconcile(NodeRecordsKey("node-0"))
    bench.idle()


@pytest.fixture
def wanted(bench: Bench) -> Bench:
    """A claim waits for one device."""
    bench.put(objects.request(size=1), objects.claim("train", objects.pool_result()))
    return bench


def test_device_that_cohdi_has_attached_is_taken_over(wanted: Bench) -> None:
    wanted.fabric.attached["theirs"] = device("theirs")
    wanted.put(foreign())
    reconcile(wanted)
    assert wanted.fabric.attaches == []
    assert wanted.status()["cdi_device_id"] == "theirs"


def test_device_that_cohdi_asked_for_may_still_come(wanted: Bench) -> None:
    wanted.put(foreign())
    reconcile(wanted)
    assert wanted.fabric.attaches == []
    wanted.fabric.attached["theirs"] = device("theirs")
    reconcile(wanted)
    assert (wanted.fabric.attaches, wanted.status()["cdi_device_id"]) == ([], "theirs")


def test_it_is_asked_anew_when_nothing_can_come_any_more(wanted: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted.put(foreign())
    reconcile(wanted)
    since = wanted.state.doubts.of("gpu-a")
    assert since
    wanted.state.doubts.end("gpu-a")
    wanted.state.doubts.note("gpu-a", since - 181)
    reconcile(wanted)
    assert len(wanted.fabric.attaches) == 1
    assert wanted.status()["cdi_device_id"] == "d1"


def test_which_of_two_devices_is_cohdis_is_not_guessed(wanted: Bench) -> None:
    wanted.fabric.attached.update(x=device("x"), y=device("y"))
    wanted.put(foreign())
    reconcile(wanted)
    assert wanted.fabric.attaches == []
    assert "cdi_device_id" not in wanted.status()
    assert "It is unknown which of x, y on machine machine-0 belongs to this object" in wanted.status()["error"]


def test_two_that_cohdi_was_attaching_get_one_each(wanted: Bench) -> None:
    wanted.fabric.attached.update(x=device("x"), y=device("y"))
    wanted.put(objects.request(size=2), foreign(), foreign("gpu-b"))
    reconcile(wanted)
    assert {wanted.status(name)["cdi_device_id"] for name in ("gpu-a", "gpu-b")} == {"x", "y"}


@pytest.mark.parametrize("text", ["{", "[]", '{"machine": "machine-0"}', '{"asked": "yesterday"}', "null"])
def test_journal_that_cannot_be_read_means_that_nobody_knows(wanted: Bench, text: str) -> None:
    raw = objects.resource("gpu-a", state="Attaching")
    raw["metadata"]["annotations"][cohdi.ATTACH] = text
    wanted.fabric.attached["somebody's"] = device("somebody's")
    wanted.put(raw)
    reconcile(wanted)
    reconcile(wanted)
    assert wanted.fabric.attaches == []
    assert len(wanted.api.of(COMPOSABLE_RESOURCES)) == 1
    assert "cdi_device_id" not in wanted.status()
    assert wanted.status()["error"].startswith(
        "no device is requested: its annotation composable.infra/attach cannot be")


def test_object_whose_journal_cannot_be_read_may_be_deleted(wanted: Bench) -> None:
    raw = objects.resource("gpu-a", state="Attaching", deleted=True)
    raw["metadata"]["annotations"][cohdi.ATTACH] = "{"
    wanted.fabric.attached["somebody's"] = device("somebody's")
    wanted.put(objects.request(size=0), raw)
    reconcile(wanted)
    assert wanted.fabric.detaches == []
    assert wanted.fabric.attached.keys() >= {"somebody's"}
    assert not [r for r in wanted.api.of(COMPOSABLE_RESOURCES) if r["metadata"]["name"] == "gpu-a"]


def test_object_of_cohdis_upstream_syncer_gets_no_device_and_its_own_is_nobodys(wanted: Bench) -> None:
    raw = objects.resource("gpu-sync", state="", request="")
    raw["metadata"]["labels"] = {cohdi.RECLAIMED: "static", "cohdi.io/ready-to-detach-device-id": "GPU-static"}
    wanted.fabric.attached["static"] = device("static")
    wanted.put(raw, objects.resource("gpu-a", asked=5))
    reconcile(wanted)
    assert wanted.fabric.attaches == []
    assert "cdi_device_id" not in wanted.status(), "not adopted by another either"
    said = "to detach device static, which was attached without a ComposableResource"
    assert said in wanted.status("gpu-sync")["error"]
    reconcile(wanted)
    assert wanted.fabric.detaches == []


def test_after_a_refusal_it_is_known_that_nothing_was_asked(wanted: Bench) -> None:
    wanted.put(foreign())
    wanted.writer.resources.forget_intent("gpu-a")
    resource, = node_snapshot(wanted.state, "node-0").resources
    assert (resource.doubt, resource.asked) == ("", 0.0)
