# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider of nodes that takes long holds up no call of Cluster Autoscaler, and nothing is ordered twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers import table
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import READS, Call

SOON = 5.0


class SlowMachines(Machines):
    """Grows and shrinks when it is let, and says when it was asked."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__(testbed)
        self.asked, self.let = threading.Event(), threading.Event()

    def provider(self) -> NodeProvider:
        """As a service that takes its time."""
        quick = super().provider()

        def grow(count: int) -> None:
            self._wait()
            quick.grow(count)

        def shrink(node: str) -> None:
            self._wait()
            quick.shrink(node)

        return NodeProvider(quick.coming, grow, shrink)

    def _wait(self) -> None:
        self.asked.set()
        assert self.let.wait(SOON)


@pytest.fixture
def slow(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowMachines]:
    """The group of real nodes may grow to five, slowly."""
    made = SlowMachines(testbed)
    monkeypatch.setitem(table.PROVIDERS, "static", lambda *_unused: made.provider())
    yield made
    made.let.set()


def under_way(testbed: Testbed, slow: SlowMachines) -> threading.Thread:
    """The provider is being asked, in a thread of its own."""
    thread = threading.Thread(target=testbed.step, daemon=True)
    thread.start()
    assert slow.asked.wait(SOON)
    return thread


def answered(call: threading.Thread) -> bool:
    """Whether a call ends, without anything else going on."""
    call.start()
    call.join(SOON)
    return not call.is_alive()


def test_order_that_takes_long_holds_up_no_call(testbed: Testbed, slow: SlowMachines) -> None:
    regroup(testbed)
    testbed.pod("plain", 0, cpu="8")
    for name in ("first", "second"):
        testbed.pod(name, 0, cpu="8")
    testbed.schedule()
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    thread = under_way(testbed, slow)
    sizes: list[int] = []
    calls = threading.Thread(target=lambda: sizes.append(testbed.provider.target_size("vertical")), daemon=True)
    assert answered(calls), "NodeGroupTargetSize is answered meanwhile"
    again = threading.Thread(target=lambda: testbed.provider.increase("vertical", 1), daemon=True)
    assert answered(again), "and so is NodeGroupIncreaseSize"
    slow.let.set()
    thread.join(SOON)
    assert sizes == [1]
    testbed.step()
    assert slow.ordered == 1, "what is being ordered is not ordered again"


def test_removal_that_takes_long_holds_up_no_call(testbed: Testbed, slow: SlowMachines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    testbed.provider.delete("nodes", [("node-0", "")])
    thread = under_way(testbed, slow)
    again = threading.Thread(target=lambda: testbed.provider.delete("nodes", [("node-1", "")]), daemon=True)
    assert answered(again)
    slow.let.set()
    thread.join(SOON)
    assert testbed.provider.target_size("nodes") == 0


def test_slow_api_server_holds_up_no_reader(testbed: Testbed) -> None:
    """Cluster Autoscaler's reads and the metrics are answered while the decision is being written."""
    asked, let, sizes = threading.Event(), threading.Event(), list[object]()
    testbed.pod("train")
    testbed.sync()

    def wait(call: Call) -> None:
        if call.plural == "composabilityrequests" and call.verb not in READS:
            asked.set()
            assert let.wait(2 * SOON)

    testbed.api.before = wait
    begun = threading.Thread(target=lambda: testbed.provider.increase("vertical", 1), daemon=True)
    begun.start()
    assert asked.wait(SOON)
    reads = threading.Thread(target=lambda: sizes.extend([
        testbed.provider.target_size("vertical"), testbed.provider.failed("vertical"), testbed.provider.groups(),
        testbed.provider._observed()]), daemon=True)
    done = answered(reads)
    let.set()
    begun.join(2 * SOON)
    assert done
    assert (sizes[0], testbed.provider.target_size("vertical")) == (0, 1)


def test_look_that_began_before_an_order_does_not_undo_it(testbed: Testbed, machines: Machines) -> None:
    """What the provider said before it was asked for more is old."""
    regroup(testbed)
    orders = testbed.provider.orders
    real = orders._providers["nodes"]

    def coming() -> int:
        before = real.coming()
        orders.decide("nodes", 1)
        orders.carry_out()
        return before

    orders._providers = {"nodes": NodeProvider(coming, real.grow, real.shrink)}
    orders.look()
    assert machines.ordered == 1
    assert orders.ahead("nodes") == 1


def test_group_whose_order_failed_grows_no_further_before_it_was_looked_at(
        testbed: Testbed, machines: Machines) -> None:
    """A part of it may have been carried out."""
    regroup(testbed)
    machines.error = "the connection was lost"
    orders = testbed.provider.orders
    order = orders.decide("nodes", 2)
    orders.carry_out()
    assert order.why == "the connection was lost"
    assert orders.ahead("nodes") is None
    assert testbed.provider.options() == ()
    orders.look()
    assert orders.ahead("nodes") == 0


def test_order_that_nobody_waits_for_any_more_is_not_begun(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed)
    for name in ("first", "second", "third"):
        testbed.pod(name, 0, cpu="8")
    testbed.schedule()
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.provider.increase("vertical", 1)
    testbed.provider.decrease("vertical", -1)
    assert testbed.provider.orders.ahead("nodes") == 1, "the second call waits for it, too"
    testbed.provider.decrease("vertical", -1)
    assert testbed.provider.orders.ahead("nodes") == 0
    testbed.step()
    assert machines.ordered == 0


def test_provider_that_does_not_answer_adds_no_nodes_for_now(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed)

    def silent() -> int:
        raise ProviderError("no answer")

    testbed.provider.orders._providers = {"nodes": NodeProvider(silent, machines.provider().grow, lambda _node: None)}
    testbed.provider.orders.look()
    assert testbed.provider.options() == ()
