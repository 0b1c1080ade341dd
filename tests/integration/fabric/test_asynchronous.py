# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CM and NEC over real sockets: accepted now, done later, and what is left when something is cut off in between."""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    NODE_1,
    OTHER,
    attached,
    await_state,
)

VARIANTS: dict[str, tuple[str, dict[str, t.Any]]] = {
    "cm counts all": ("cm", {"device_count": "all"}),
    "cm counts what is complete": ("cm", {"device_count": "complete"}),
    "nec with adapters": ("nec", {"generation": "adapters"}),
    "nec with cpus": ("nec", {"generation": "cpus"}),
}
ATTACH = 0.3


class Bench:
    """An emulator of one manager and its clients."""

    def __init__(self, manager: str, emulator: Emulator) -> None:
        self.manager, self.emulator = manager, emulator
        self.clients: list[FabricManager] = []

    def client(self, **options: t.Any) -> FabricManager:
        """A new one, as a new process would have."""
        given = self.emulator.fabric_config(self.manager, attach_timeout=20.0, **options)
        self.clients.append(connect(FabricConfig.from_dict(given)))
        return self.clients[-1]

    def asked(self) -> int:
        """How many requests could have had an effect."""
        return sum(entry["method"] == "POST" and entry["purpose"] != "login" for entry in self.emulator.log())

    def attachments(self) -> Counter[str]:
        """How often each device was attached, from the first moment on."""
        return Counter(e["device"] for e in self.emulator.effects() if e["effect"].startswith("attached"))


@pytest.fixture(scope="module", params=VARIANTS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    manager, settings = VARIANTS[request.param]
    spec = simple_spec(
        ["node-0", "node-1"], {MODEL: 4, OTHER: 1}, managers=[manager], settings={manager: settings}
    )
    with Emulator.run(spec, tmp_path_factory.mktemp(manager)) as emulator:
        yield Bench(manager, emulator)


@pytest.fixture
def bench(shared: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The emulator as it was at first; one that a test has killed is started again."""
    monkeypatch.setattr(polling, "NOTICE_SECONDS", 1.0)
    shared.emulator.reset(log=True)
    shared.emulator.set_timing(attach=ATTACH, detach=0.1)
    yield shared
    while shared.clients:
        shared.clients.pop().close()


def test_a_device_goes_to_the_machine_and_back(bench: Bench) -> None:
    fabric = bench.client()
    assert {m.name: m.fabric for m in fabric.machines()} == {"node-0": 1, "node-1": 1}
    told: list[tuple[str, ...]] = []
    (device,) = fabric.attach(NODE_0, MODEL, started=told.append).devices
    assert (device.model, device.machine, device.state, device.health) == (MODEL, NODE_0, "attached", "OK")
    assert attached(bench.emulator) == {device.uid: NODE_0}
    assert [d.uid for d in fabric.machine(NODE_0).devices] == [device.uid]
    assert (fabric.free(NODE_0, MODEL), fabric.free(NODE_1, OTHER)) == (3, 1)
    assert fabric.snapshot([MODEL, OTHER]).free == {(MODEL, 1): 3, (OTHER, 1): 1}
    assert fabric.detach(NODE_0, device.uid, started=told.append).done
    assert fabric.detach(NODE_0, device.uid).done
    assert attached(bench.emulator) == {}
    assert len(told) == 2


def test_several_at_once_share_operations_of_the_fabric(bench: Bench) -> None:
    fabric = bench.client()
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda n: fabric.attach((NODE_0, NODE_1)[n % 2], MODEL), range(4)))
    assert len({task.devices[0].uid for task in tasks}) == 4
    assert sorted(attached(bench.emulator).values()) == sorted([NODE_0, NODE_1] * 2)
    assert set(bench.attachments().values()) == {1}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda task: fabric.detach(str(task.devices[0].machine), task.devices[0].uid), tasks))
    assert attached(bench.emulator) == {}


def test_more_than_there_are_is_exhausted_and_what_there_was_is_attached(bench: Bench) -> None:
    with pytest.raises(Refused) as caught:
        bench.client().attach(NODE_0, MODEL, 6)
    assert caught.value.exhausted
    assert {d.uid for d in caught.value.devices} == set(attached(bench.emulator))
    assert len(caught.value.devices) == 4


def test_a_reply_lost_after_the_effect_is_adopted(bench: Bench) -> None:
    bench.emulator.set_faults({"kind": "lost_reply", "purpose": "attach", "nth": [1]})
    (device,) = bench.client().attach(NODE_0, MODEL).devices
    assert attached(bench.emulator) == {device.uid: NODE_0}
    assert bench.asked() == 1


def test_a_request_that_never_arrived_is_uncertain_and_not_repeated(bench: Bench) -> None:
    bench.emulator.set_faults({"kind": "lost_request", "purpose": "attach", "nth": [1]})
    with pytest.raises(Uncertain):
        bench.client().attach(NODE_0, MODEL)
    assert attached(bench.emulator) == {}
    assert bench.attachments() == {}


def test_a_doubled_request_attaches_once(bench: Bench) -> None:
    bench.emulator.set_faults({"kind": "doubled", "purpose": "attach"})
    (device,) = bench.client().attach(NODE_0, MODEL).devices
    assert attached(bench.emulator) == {device.uid: NODE_0}


class Crash(BaseException):
    """What a process that is killed does not survive."""


def accepted(bench: Bench, count: int = 1) -> tuple[str, ...]:
    """The handles of an attach whose process ended when it was accepted."""
    told: list[tuple[str, ...]] = []

    def started(handles: tuple[str, ...]) -> None:
        told.append(handles)
        raise Crash

    with pytest.raises(Crash):
        bench.client().attach(NODE_0, MODEL, count, started=started)
    return told[0]


def test_it_is_told_as_accepted_while_the_fabric_is_still_at_work(bench: Bench) -> None:
    bench.emulator.set_timing(attach=60.0)
    accepted(bench)
    assert (attached(bench.emulator), bench.attachments()) == ({}, {})


def test_a_process_that_ends_between_acceptance_and_completion_is_continued(bench: Bench) -> None:
    bench.emulator.set_timing(attach=1.0)
    handles = accepted(bench, 2)
    task = bench.client().resume(handles)
    assert {d.uid for d in task.devices} == set(attached(bench.emulator))
    assert len(task.devices) == 2
    assert bench.asked() == 1


def test_the_manager_and_we_both_end_between_acceptance_and_completion(bench: Bench) -> None:
    bench.emulator.set_timing(attach=1.5)
    handles = accepted(bench)
    bench.emulator.kill()
    with pytest.raises(Unavailable):
        bench.client().resume(handles)
    bench.emulator.restart()
    (device,) = bench.client().resume(handles).devices
    assert attached(bench.emulator) == {device.uid: NODE_0}
    assert set(bench.attachments().values()) == {1}


def test_a_manager_that_restarts_while_we_wait_is_waited_for(bench: Bench) -> None:
    bench.emulator.set_timing(attach=3.0)
    fabric = bench.client()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(fabric.attach, NODE_0, MODEL)
        await_state(bench.emulator, "attaching")
        bench.emulator.kill()
        bench.emulator.restart()
        (device,) = asking.result(timeout=20).devices
    assert attached(bench.emulator) == {device.uid: NODE_0}
    assert bench.asked() == 1


def test_an_operation_that_nobody_knows_is_missing(bench: Bench) -> None:
    handles = accepted(bench)
    await_state(bench.emulator, "attached")
    (device,) = bench.client().resume(handles).devices
    bench.client().detach(NODE_0, device.uid)
    if bench.manager == "cm":
        with pytest.raises(Missing, match="shows nothing of it"):
            bench.client().resume(handles)
    with pytest.raises(Missing, match="no handle"):
        bench.client().resume(("something else",))


def test_a_device_that_fails_does_not_take_the_others_with_it(bench: Bench) -> None:
    bench.emulator.set_faults({"kind": "operation_failed", "purpose": "attach", "devices": 1, "nth": [1]})
    fabric = bench.client()
    with pytest.raises(FabricError) as caught:
        fabric.attach(NODE_0, MODEL, 3)
    assert isinstance(caught.value, (Refused, Busy))
    assert len(caught.value.devices) == 2
    assert {d.uid for d in caught.value.devices} == set(attached(bench.emulator))
    for error in caught.value.errors:
        if error.device:
            assert fabric.detach(NODE_0, error.device.uid).done
    assert fabric.attach(NODE_0, MODEL).done
    assert len(attached(bench.emulator)) == 3


def test_a_device_that_comes_up_critical_is_told_for_return(bench: Bench) -> None:
    bench.emulator.set_faults({"kind": "health", "purpose": "attach", "health": "Critical"})
    fabric = bench.client()
    with pytest.raises(Refused, match="Critical") as caught:
        fabric.attach(NODE_0, MODEL)
    assert caught.value.device
    assert attached(bench.emulator) == {caught.value.device.uid: NODE_0}
    fabric.detach(NODE_0, caught.value.device.uid)
    assert attached(bench.emulator) == {}


def test_a_device_that_cannot_leave_is_refused_and_leaves_at_the_next_try(bench: Bench) -> None:
    fabric = bench.client()
    (device,) = fabric.attach(NODE_0, MODEL).devices
    bench.emulator.set_faults({"kind": "operation_failed", "purpose": "detach", "nth": [1]})
    with pytest.raises(Refused, match=f"cannot detach device {device.uid}"):
        fabric.detach(NODE_0, device.uid)
    assert attached(bench.emulator) == {device.uid: NODE_0}
    assert fabric.detach(NODE_0, device.uid).done


def test_an_unknown_machine_and_an_unknown_model_are_told_apart(bench: Bench) -> None:
    fabric = bench.client()
    unknown = "00000000-0000-0000-0000-00000000dead"
    for work in (lambda: fabric.machine(unknown), lambda: fabric.attach(unknown, MODEL)):
        with pytest.raises(Missing, match=unknown):
            work()
    with pytest.raises(Refused, match="no-such-model"):
        fabric.attach(NODE_0, "no-such-model")
    assert bench.asked() == 0


def test_two_clients_share_the_manager_and_nothing_is_attached_twice(bench: Bench) -> None:
    clients = [bench.client(), bench.client()]
    # CM has no compare-and-swap: there, one machine is for one client at a time.
    nodes = (NODE_0, NODE_1, NODE_0, NODE_1) if bench.manager == "cm" else (NODE_0, NODE_0, NODE_1, NODE_1)
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda n: clients[n % 2].attach(nodes[n], MODEL), range(4)))
    uids = [task.devices[0].uid for task in tasks]
    assert set(bench.attachments().values()) == {1}
    assert len(attached(bench.emulator)) == 4
    assert set(uids) == set(attached(bench.emulator))


def test_200_attaches_take_a_few_operations(tmp_path: Path) -> None:
    for manager, most in (("cm", 8), ("nec", 8)):
        nodes = [f"node-{number}" for number in range(4)]
        spec = simple_spec(nodes, {MODEL: 200}, attach=0.2, managers=[manager])
        with Emulator.run(spec, tmp_path / manager) as emulator:
            bench = Bench(manager, emulator)
            fabric = bench.client()
            machines = [machine.uid for machine in fabric.machines()]
            began = time.monotonic()
            with ThreadPoolExecutor(200) as pool:
                tasks = list(pool.map(lambda n, f=fabric, m=machines: f.attach(m[n % 4], MODEL), range(200)))
            print(f"{manager}: 200 devices in {time.monotonic() - began:.1f} s by {bench.asked()} requests")
            assert len({task.devices[0].uid for task in tasks}) == 200
            assert Counter(attached(emulator).values()) == dict.fromkeys(machines, 50)
            assert bench.asked() <= most + 8
            fabric.close()
