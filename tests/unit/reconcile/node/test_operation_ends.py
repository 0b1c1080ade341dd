# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flights: the end of them, adoption, and errors that nobody expects."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Unavailable,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Adopt, Attach, CreateResource
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.attach_operations import ASK_AGAIN
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

CREATE = CreateResource("node-0", "wanted", "gpu-new", "request", A100, "machine-0", ("foreign",))
ATTACH = Attach("node-0", "wanted", "gpu-a", A100, "machine-0", ("foreign",))


@pytest.fixture(autouse=True)
def device_of_somebody_else(bench: Bench) -> None:
    """What the intents below name as there already is there."""
    bench.fabric.attached["foreign"] = device("foreign")


def only(bench: Bench) -> dict[str, t.Any]:
    """The one ComposableResource that the API server has."""
    (found,) = bench.api.of(COMPOSABLE_RESOURCES)
    return found


def test_nothing_is_asked_after_the_stop(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.operations.stopping.set()
    bench.operations.attach(ATTACH)
    bench.idle()
    assert bench.fabric.attaches == []


def test_stop_ends_a_flight_that_waits_to_ask_again(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("not now")] * 10_000
    bench.operations.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    bench.operations.stop()
    bench.idle()
    assert cohdi.read_intent(only(bench))[1] > 0


def test_adopted_device_is_written_down(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", asked=5))
    bench.fabric.attached["d9"] = device("d9")
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "d9"))
    bench.idle()
    assert (bench.status()["cdi_device_id"], bench.status()["device_id"]) == ("d9", "GPU-d9")
    assert bench.told("Adopted") == ["device d9 was attached by an earlier request"]
    assert bench.finished == ["node-0"]


def test_device_that_left_meanwhile_is_not_adopted(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", asked=5))
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "d9"))
    assert "cdi_device_id" not in bench.status()


@pytest.mark.parametrize("shared", [False, True])
def test_adopted_device_that_another_machine_has_too_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """The request without a reply took effect late: another cluster had the device by then. The node is not told."""
    waited: list[float] = []
    monkeypatch.setattr(bench.operations.stopping, "wait", waited.append)
    bench.put(objects.resource("gpu-a", asked=5))
    bench.fabric.attached["d9"] = device("d9", shared=shared)
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "d9"))
    bench.idle()
    assert bench.fabric.detaches == ([("machine-0", "d9")] if shared else [])
    assert bench.status().get("cdi_device_id") == (None if shared else "d9")
    if shared:
        assert "the CDI Manager shows device d9 on another machine too" in bench.status()["error"]
        assert cohdi.read_intent(only(bench))[1] == 0.0
        assert waited == [ASK_AGAIN]


def test_device_that_cannot_be_given_back_is_tried_again_after_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next plan would find it at once, and ask the CDI Manager without a pause."""
    waited: list[float] = []
    monkeypatch.setattr(bench.operations.stopping, "wait", waited.append)
    bench.put(objects.resource("gpu-a", asked=5))
    bench.fabric.attached["d9"] = device("d9", shared=True)
    bench.fabric.detach_error = Unavailable("not now")
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "d9"))
    bench.idle()
    assert bench.told("Failed") == ["not now"]
    assert waited == [ASK_AGAIN]


def test_device_that_another_machine_has_too_and_that_may_be_somebody_elses_stays(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.operations.attach(ATTACH)
    bench.idle()
    bench.fabric.attached["foreign"] = device("foreign", shared=True)
    bench.operations.stopping.set()  # no pause before the next try
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "foreign"))
    bench.idle()
    assert bench.fabric.detaches == []


def test_unexpected_error_is_told(bench: Bench) -> None:
    bench.fabric.answers = [ValueError("surprise")]
    bench.operations.create(CREATE)
    bench.idle()
    assert any("surprise" in e["message"] for e in bench.reporter.history)
