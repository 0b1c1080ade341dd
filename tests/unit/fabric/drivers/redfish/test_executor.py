# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carrying out changes without sockets: what is asked, what a lost reply or a refusal leads to, who gets what."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition import (
    executor as mover_module,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition.executor import (
    CompositionExecutor,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition.preconditions import (
    Change,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.build import service_model
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.reader import Reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.tasks import Operation
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    Changed,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
    Withdrawn,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    BLOCKS,
    FABRIC,
    ROOT,
    SYSTEMS,
    UUIDS,
    FakeService,
    Json,
    Reaction,
    block,
    collection,
    composable,
    connection,
    etag,
    group,
    grouped,
    refs,
    switched,
    system,
    zone,
)

M0, M1 = UUIDS["m0"], UUIDS["m1"]
DONE = JsonResponse(204, {}, None)
MONITOR = f"{ROOT}/TaskService/TaskMonitors/1"
HANDLE = Operation(MONITOR, M0, "a").handle()
EVERYONE = {"1": ["i0", "i1", "t0", "t1"]}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LOOKS", Backoff(0.0))
    monkeypatch.setattr(mover_module, "BACKOFF", Backoff(0.0))
    monkeypatch.setattr(mover_module, "NOTICE_SECONDS", 0.05)


class Bench:
    """A service in memory and a executor on it."""

    def __init__(self, documents: Json, react: Reaction, attach_timeout: float = 2) -> None:
        self.fake = FakeService(documents, react)
        service = Service(self.fake.as_session())
        self.shown = service_model(Reader(service).tree())
        self.fake.calls.clear()
        options = {"manager": "sunfish", "endpoint": "http://x.example", "attach_timeout": attach_timeout}
        config = FabricConfig.from_dict(options)
        self.executor = CompositionExecutor(self.fake.as_session(), service, config)
        self.handles: list[str] = []

    def move(self, uid: str, machine: str = M0, *, attach: bool = True) -> str | None:
        change = Change(self.shown, self.shown.hosts[machine], self.shown.units[uid], attach)
        return self.executor.move(change, self.handles.extend)

    def bodies(self) -> list[t.Any]:
        return [call.body for call in self.fake.calls if call.method != "GET"]


def compose(fake: FakeService, uid: str, machine: str | None) -> JsonResponse:
    """What the service does to a block."""
    state = "Composed" if machine else "Unused"
    fake.documents[f"{BLOCKS}/{uid}"] = block(uid, state, on=[machine] if machine else [])
    return DONE


def adds(fake: FakeService, call: Request) -> JsonResponse:
    """A service that checks the block's ETag and does what it is asked."""
    uid = call.body["ResourceBlock"]["@odata.id"].rpartition("/")[2]
    if call.body.get("ResourceBlockETag") != etag(fake.documents[f"{BLOCKS}/{uid}"]):
        raise Changed("the block has another ETag")
    return compose(fake, uid, call.path.split("/")[4] if "Add" in call.path else None)


def in_turn(*steps: Callable[[FakeService, Request], JsonResponse] | FabricError) -> Reaction:
    """Each request meets the next step; the last one stays."""
    left = list(steps)

    def react(fake: FakeService, call: Request) -> JsonResponse:
        step = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(step, FabricError):
            raise step
        return step(fake, call)

    return react


def then(effect: Reaction, error: FabricError) -> Reaction:
    """The effect, and then no reply."""

    def react(fake: FakeService, call: Request) -> JsonResponse:
        effect(fake, call)
        raise error

    return react


def test_a_block_is_added_with_its_etag() -> None:
    bench = Bench(composable([block("a")]), adds)
    assert bench.move("a") is None
    call = bench.fake.asked("POST")[0]
    assert call.path == f"{SYSTEMS}/m0/Actions/ComputerSystem.AddResourceBlock"
    assert call.body == {"ResourceBlock": {"@odata.id": f"{BLOCKS}/a"}, "ResourceBlockETag": etag(block("a"))}
    assert call.effect
    assert bench.handles == []


def test_a_block_is_removed_with_its_etag() -> None:
    there = block("a", "Composed", on=["m0"])
    bench = Bench(composable([there]), adds)
    bench.move("a", attach=False)
    call = bench.fake.asked("POST")[0]
    assert call.path == f"{SYSTEMS}/m0/Actions/ComputerSystem.RemoveResourceBlock"
    assert call.body["ResourceBlockETag"] == etag(there)


def test_what_has_left_already_is_not_asked_for() -> None:
    bench = Bench(composable([block("b", "Composed", on=["m0"])]), adds)
    compose(bench.fake, "b", None)
    bench.move("b", attach=False)
    assert bench.bodies() == []


def test_what_another_client_has_attached_is_not_ours() -> None:
    bench = Bench(composable([block("a")]), adds)
    compose(bench.fake, "a", "m0")
    with pytest.raises(Changed, match="another client has just attached it"):
        bench.move("a")
    assert bench.bodies() == []


def test_what_another_client_attaches_at_the_last_moment_is_not_ours() -> None:
    def theirs(fake: FakeService, call: Request) -> JsonResponse:
        compose(fake, "a", "m0")
        raise Changed("428")

    bench = Bench(composable([block("a")]), theirs)
    with pytest.raises(Changed, match="another client has just attached it"):
        bench.move("a")


def test_a_unit_that_was_taken_meanwhile_is_not_asked_for() -> None:
    bench = Bench(composable([block("a")]), adds)
    compose(bench.fake, "a", "m1")
    with pytest.raises(Changed, match="another machine has it"):
        bench.move("a")
    assert bench.bodies() == []


def test_a_unit_that_is_taken_at_the_last_moment() -> None:
    def theirs(fake: FakeService, call: Request) -> JsonResponse:
        compose(fake, "a", "m1")
        raise Changed("428")

    bench = Bench(composable([block("a")]), theirs)
    with pytest.raises(Changed, match="another machine has it"):
        bench.move("a")
    assert len(bench.bodies()) == 1


@pytest.mark.parametrize("attach", [True, False])
def test_what_is_seen_to_be_done_is_not_read_again(attach: bool) -> None:
    """Nobody waits for that look, and it would hold up the next change of the same list."""
    documents = switched(None, {"0": ["i0"] if attach else ["i0", "t0"], "1": ["i1"]}, ["t0"])
    bench = Bench(documents, patches)
    bench.move("1/t0", attach=attach)
    for thread in threading.enumerate():
        if thread.name == "fabric-batch":
            thread.join(10)
    reads = [call.path for call in bench.fake.asked("GET")]
    assert reads.count(f"{FABRIC}/Zones") == 2  # before the request, and after it


def test_a_conflict_without_a_rival_brings_all_etags() -> None:
    bench = Bench(composable([block("a")]), in_turn(Changed("428"), adds))
    bench.move("a")
    first, second = bench.bodies()
    assert "ComputerSystemETag" not in first
    assert second["ComputerSystemETag"] == etag(bench.fake.documents[f"{SYSTEMS}/m0"])


def test_conflicts_without_end_are_told() -> None:
    bench = Bench(composable([block("a")]), in_turn(Changed("428")))
    with pytest.raises(Changed, match="428"):
        bench.move("a")
    assert len(bench.bodies()) == mover_module.TRIES


def test_a_lost_reply_is_resolved_by_looking() -> None:
    bench = Bench(composable([block("a")]), then(adds, Uncertain("no reply")))
    bench.move("a")
    assert len(bench.bodies()) == 1


def test_a_lost_request_is_sent_again_with_the_same_etag() -> None:
    bench = Bench(composable([block("a")]), in_turn(Uncertain("no reply"), adds))
    bench.move("a")
    first, second = bench.bodies()
    assert first == second


def test_a_lost_reply_stays_uncertain_while_nobody_can_look() -> None:
    def vanish(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[f"{SYSTEMS}/m0"] = Unavailable("not now")
        raise Uncertain("no reply")

    bench = Bench(composable([block("a")]), vanish)
    with pytest.raises(Uncertain, match="no reply"):
        bench.move("a")


@pytest.mark.parametrize("error", [Refused("no"), Unavailable("away"), Unauthorized("who?"), Withdrawn("taken back")])
def test_after_a_lost_reply_a_failed_repeat_does_not_say_that_nothing_was_done(error: FabricError) -> None:
    bench = Bench(composable([block("a")]), in_turn(Uncertain("no reply"), error))
    with pytest.raises(Uncertain, match="no reply"):
        bench.move("a")


def test_after_a_lost_reply_what_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[f"{BLOCKS}/a"] = block("a", "Composing")
        raise Uncertain("no reply")

    bench = Bench(composable([block("a")]), begin)
    seen = bench.fake.get

    def later(path: str) -> JsonResponse:
        answer = seen(path)
        if path == f"{BLOCKS}/a" and answer.body["CompositionStatus"]["CompositionState"] == "Composing":
            compose(bench.fake, "a", "m0")
        return answer

    monkeypatch.setattr(bench.fake, "get", later)
    bench.move("a")
    assert len(bench.bodies()) == 1


@pytest.mark.parametrize("error", [Refused("no"), Busy("later"), Missing("what?")])
def test_a_refusal_is_told_as_it_is(error: FabricError) -> None:
    bench = Bench(composable([block("a")]), in_turn(error))
    with pytest.raises(type(error), match=str(error).replace("?", ".")):
        bench.move("a")
    assert len(bench.bodies()) == 1


def test_a_refusal_because_somebody_was_quicker_is_a_change() -> None:
    def react(fake: FakeService, call: Request) -> JsonResponse:
        compose(fake, "a", "m1")
        raise Refused("it is in use")

    with pytest.raises(Changed):
        Bench(composable([block("a")]), react).move("a")


def test_done_that_is_never_seen_is_uncertain() -> None:
    bench = Bench(composable([block("a")]), lambda fake, call: DONE)
    with pytest.raises(Uncertain, match="does not show it"):
        bench.move("a")


def test_no_way_is_refused_by_name() -> None:
    bench = Bench(composable([block("a")], [system("m0", ["m0"], actions=False)]), adds)
    with pytest.raises(Refused, match=f"cannot attach gpu a to machine {M0}"):
        bench.move("a")


def test_a_task_is_followed_and_told() -> None:
    def accept(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[MONITOR] = {"done": True}
        adds(fake, call)
        return JsonResponse(202, {"location": f"https://other.example{MONITOR}"}, None)

    bench = Bench(composable([block("a")]), accept)
    assert bench.move("a") == HANDLE
    assert bench.handles == [HANDLE]
    assert MONITOR in [call.path for call in bench.fake.calls]


def test_a_task_that_hangs_is_asked_for_once_and_has_one_deadline() -> None:
    def accept(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[MONITOR] = {"@odata.type": "#Task.v1_7_0.Task", "TaskState": "Running"}
        return JsonResponse(202, {"location": MONITOR}, None)

    bench = Bench(composable([block("a")]), accept, attach_timeout=0.05)
    with pytest.raises(Uncertain, match="still at work"):
        bench.move("a")
    assert len(bench.bodies()) == 1


def test_what_is_never_seen_has_one_deadline() -> None:
    bench = Bench(composable([block("a")]), lambda fake, call: DONE, attach_timeout=0.01)
    with pytest.raises(Uncertain, match="does not show it"):
        bench.move("a")
    assert len(bench.bodies()) == 1


def test_a_task_that_the_service_forgot_is_judged_by_what_is_seen() -> None:
    def accept(fake: FakeService, call: Request) -> JsonResponse:
        adds(fake, call)
        return JsonResponse(202, {"location": MONITOR}, None)

    assert Bench(composable([block("a")]), accept).move("a") == HANDLE


def test_connections_are_made_and_deleted() -> None:
    def react(fake: FakeService, call: Request) -> JsonResponse:
        if call.method == "POST":
            fake.documents[f"{FABRIC}/Connections"] = collection(f"{FABRIC}/Connections", ["c"])
            fake.documents[f"{FABRIC}/Connections/c"] = connection("c", ["i0"], ["t0"])
        else:
            fake.documents[f"{FABRIC}/Connections"] = collection(f"{FABRIC}/Connections", [])
        return DONE

    bench = Bench(switched([], EVERYONE, ["t0", "t1"]), react)
    bench.move("1/t0")
    call = bench.fake.asked("POST")[0]
    assert call.path == f"{FABRIC}/Connections"
    assert call.body["Links"] == {"InitiatorEndpoints": refs([f"{FABRIC}/Endpoints/i0"]),
                                  "TargetEndpoints": refs([f"{FABRIC}/Endpoints/t0"])}
    assert not {"ConnectionType", "MemoryChunkInfo"} & set(call.body)
    again = Bench(bench.fake.documents, react)
    again.move("1/t0", attach=False)
    deleted = again.fake.asked("DELETE")[0]
    assert deleted.path == f"{FABRIC}/Connections/c"
    assert deleted.headers == {"If-Match": etag(connection("c", ["i0"], ["t0"]))}


def test_a_second_connection_is_never_risked() -> None:
    bench = Bench(switched([], EVERYONE, ["t0"]), in_turn(Uncertain("no reply")))
    with pytest.raises(Uncertain):
        bench.move("1/t0")
    assert len(bench.bodies()) == 1


def test_of_two_connections_at_once_the_later_is_given_back() -> None:
    def react(fake: FakeService, call: Request) -> JsonResponse:
        names = {"POST": ["a", "b"], "DELETE": ["a"]}[call.method]
        fake.documents[f"{FABRIC}/Connections"] = collection(f"{FABRIC}/Connections", names)
        fake.documents[f"{FABRIC}/Connections/a"] = connection("a", ["i1"], ["t0"])
        fake.documents[f"{FABRIC}/Connections/b"] = connection("b", ["i0"], ["t0"])
        return DONE

    bench = Bench(switched([], EVERYONE, ["t0"]), react)
    with pytest.raises(Changed):
        bench.move("1/t0")
    assert [call.path for call in bench.fake.asked("DELETE")] == [f"{FABRIC}/Connections/b"]


@pytest.mark.parametrize("known", [True, False])
def test_a_target_that_endpoint_groups_may_give_to_another_machine_is_not_connected(known: bool) -> None:
    documents = switched([], EVERYONE, ["t0"])
    bench = Bench(documents, in_turn(Refused("never")))
    late = switched([grouped("c", "hosts", "gpus")], EVERYONE, ["t0"])
    documents |= {**late, **(group("hosts", ["i1"]) | group("gpus", ["t0"]) if known else {})}
    with pytest.raises(Changed):
        bench.move("1/t0")
    assert bench.bodies() == []


def test_a_connection_of_several_targets_is_not_deleted() -> None:
    bench = Bench(switched([connection("c", ["i0"], ["t0", "t1"])], EVERYONE, ["t0", "t1"]), in_turn(Refused("never")))
    with pytest.raises(Refused, match="other devices"):
        bench.move("1/t0", attach=False)
    assert bench.bodies() == []


def test_a_connection_of_several_machines_is_not_deleted() -> None:
    bench = Bench(switched([connection("c", ["i0", "i1"], ["t0"])], EVERYONE, ["t0"]), in_turn(Refused("never")))
    with pytest.raises(Refused, match="other machines"):
        bench.move("1/t0", attach=False)
    assert bench.bodies() == []


def patches(fake: FakeService, call: Request) -> JsonResponse:
    """A service that replaces a zone's list when the ETag is right."""
    if call.headers.get("If-Match") != etag(fake.documents[call.path]):
        raise Changed("412")
    members = [link["@odata.id"].rpartition("/")[2] for link in call.body["Links"]["Endpoints"]]
    fake.documents[call.path] = zone(call.path.rpartition("/")[2], members)
    return DONE


def test_a_zone_is_replaced_under_its_etag() -> None:
    zones = {"0": ["i0", "t1"], "1": ["i1"]}
    bench = Bench(switched(None, zones, ["t0", "t1"]), patches)
    bench.move("1/t0")
    assert bench.bodies()[0] == {"Links": {"Endpoints": refs(f"{FABRIC}/Endpoints/{n}" for n in ("i0", "t1", "t0"))}}
    bench.shown = service_model(Reader(Service(bench.fake.as_session())).tree())
    bench.move("1/t1", attach=False)
    assert bench.bodies()[1] == {"Links": {"Endpoints": refs(f"{FABRIC}/Endpoints/{n}" for n in ("i0", "t0"))}}


def test_a_zone_that_changed_meanwhile_is_read_again() -> None:
    def other(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[f"{FABRIC}/Zones/0"] = zone("0", ["i0", "t1"])
        return patches(fake, call)

    bench = Bench(switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0", "t1"]), in_turn(other, patches))
    bench.move("1/t0")
    assert len(bench.bodies()) == 2
    assert bench.fake.documents[f"{FABRIC}/Zones/0"] == zone("0", ["i0", "t1", "t0"])


@pytest.mark.parametrize("attach", [True, False])
def test_a_zone_without_an_etag_is_not_replaced(attach: bool) -> None:
    """Without If-Match the list would take out what another client has just put in."""
    bench = Bench(switched(None, {"0": ["i0", "t1"], "1": ["i1"]}, ["t0", "t1"]), in_turn(Refused("never")))
    bench.fake.etags = False
    with pytest.raises(Refused, match=f"{FABRIC}/Zones/0 has no ETag.*Nothing was requested"):
        bench.move("1/t0" if attach else "1/t1", attach=attach)
    assert bench.bodies() == []


def with_actions(zones: dict[str, list[str]]) -> Json:
    """A service whose zones take and give single endpoints (Zone 1.5)."""
    documents = switched(None, zones, ["t0", "t1"])
    for name in zones:
        target = f"{FABRIC}/Zones/{name}/Actions/Zone."
        documents[f"{FABRIC}/Zones/{name}"]["Actions"] = {
            f"#Zone.{verb}Endpoint": {"target": f"{target}{verb}Endpoint"} for verb in ("Add", "Remove")}
    return documents


def single(fake: FakeService, call: Request) -> JsonResponse:
    """What such a service does."""
    found = fake.documents[call.path.partition("/Actions/")[0]]
    links = found["Links"]["Endpoints"]
    link = call.body["Endpoint"]
    found["Links"]["Endpoints"] = [*links, link] if "Add" in call.path else [each for each in links if each != link]
    return DONE


@pytest.mark.parametrize("etags", [True, False])
def test_a_zone_that_takes_single_endpoints_is_not_replaced(etags: bool) -> None:
    def other(fake: FakeService, call: Request) -> JsonResponse:
        links = fake.documents[f"{FABRIC}/Zones/0"]["Links"]["Endpoints"]
        links += refs([f"{FABRIC}/Endpoints/t1"])  # by another client, meanwhile
        return single(fake, call)

    bench = Bench(with_actions({"0": ["i0"], "1": ["i1"]}), in_turn(other, single))
    bench.fake.etags = etags
    bench.move("1/t0")
    bench.shown = service_model(Reader(Service(bench.fake.as_session())).tree())
    bench.move("1/t0", attach=False)
    target = {"@odata.id": f"{FABRIC}/Endpoints/t0"}
    tag = {"EndpointETag": etag(bench.fake.documents[f"{FABRIC}/Endpoints/t0"])} if etags else {}
    assert bench.bodies() == [{"Endpoint": target, **tag}, {"Endpoint": target, **tag}]
    assert [call.path.rpartition("/")[2] for call in bench.fake.asked("POST")] == [
        "Zone.AddEndpoint", "Zone.RemoveEndpoint"]
    assert bench.fake.documents[f"{FABRIC}/Zones/0"]["Links"] == zone("0", ["i0", "t1"])["Links"]


def test_a_zone_that_takes_single_endpoints_is_not_asked_twice_after_a_lost_reply() -> None:
    bench = Bench(with_actions({"0": ["i0"], "1": ["i1"]}), in_turn(Uncertain("no reply")))
    with pytest.raises(Uncertain, match="no reply"):
        bench.move("1/t0")
    assert len(bench.bodies()) == 1


def test_a_target_in_two_zones_stays_in_the_first() -> None:
    def both(fake: FakeService, call: Request) -> JsonResponse:
        fake.documents[f"{FABRIC}/Zones/0"] = zone("0", ["i0", "t0"])
        return patches(fake, call)

    bench = Bench(switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0"]), in_turn(both, patches))
    with pytest.raises(Changed):
        bench.move("1/t0", M1)
    assert bench.fake.documents[f"{FABRIC}/Zones/1"] == zone("1", ["i1"])


Place = Callable[[Json, str, str], None]


def by_connection(documents: Json, host: str, ident: str) -> None:
    """A client gives t0 to a machine, by a connection with this Id."""
    where = f"{FABRIC}/Connections"
    documents[where] = collection(where, [*(m["@odata.id"].rpartition("/")[2] for m in documents[where]["Members"]),
                                          ident])
    documents[f"{where}/{ident}"] = connection(ident, [f"i{host[1:]}"], ["t0"])


def by_zone(documents: Json, host: str, ident: str) -> None:
    """The same by the machine's zone."""
    documents[f"{FABRIC}/Zones/{host[1:]}"] = zone(host[1:], [f"i{host[1:]}", "t0"])


def by_block(documents: Json, host: str, ident: str) -> None:
    """The same by a block that two systems may have, though it says that it cannot be shared."""
    there = [link["@odata.id"] for link in documents[f"{BLOCKS}/a"]["Links"]["ComputerSystems"]]
    documents[f"{BLOCKS}/a"] = block("a", "Composed", on=[*(uri.rpartition("/")[2] for uri in there), host])


def undone(documents: Json, call: Request) -> None:
    """What the service does when a client gives t0, or block a, back."""
    if call.method == "DELETE":
        where = f"{FABRIC}/Connections"
        documents[where]["Members"] = [m for m in documents[where]["Members"] if m["@odata.id"] != call.path]
    elif call.method == "PATCH":
        documents[call.path] = zone(call.path[-1], [f"i{call.path[-1]}"])
    else:
        documents[f"{BLOCKS}/a"] = block("a", "Composed", on=["m1"])


def of_two_clients(way: str) -> tuple[Json, str, Place]:
    """A service that lets two machines have one unit: its documents, the unit, and how a machine gets it."""
    if way == "connections":
        return switched([], EVERYONE, ["t0"]), "1/t0", by_connection
    if way == "zones":
        return switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0"]), "1/t0", by_zone
    return composing([block("a")], []) if way == "compose" else composable([block("a")]), "a", by_block


WAYS = ("connections", "zones", "blocks", "compose")
GIVES_BACK = {"connections": "DELETE", "zones": "PATCH", "blocks": "POST", "compose": "POST"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lost", [False, True])
def test_a_client_that_sees_its_unit_on_another_machine_gives_it_back(way: str, lost: bool) -> None:
    """Also when its own name sorts first: the other client may have looked before, and looks no more."""
    documents, uid, place = of_two_clients(way)
    requests: list[Request] = []

    def react(fake: FakeService, call: Request) -> JsonResponse:
        requests.append(call)
        if len(requests) > 1:
            undone(fake.documents, call)
            return DONE
        place(fake.documents, "m1", "9")  # the other client's, on the way before ours
        place(fake.documents, "m0", "10")
        if lost:
            raise Uncertain("no reply")
        return DONE

    with pytest.raises(Changed, match="another machine has it"):
        Bench(documents, react).move(uid)
    assert [call.method for call in requests[1:]] == [GIVES_BACK[way]]


def test_a_zone_of_a_machine_that_this_account_does_not_see_is_anothers() -> None:
    """Each cluster may have an account of its own, which sees its own machines alone."""
    documents = switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0"])
    documents[SYSTEMS] = collection(SYSTEMS, ["m0"])

    def react(fake: FakeService, call: Request) -> JsonResponse:
        if len(fake.asked("PATCH")) == 1:
            by_zone(fake.documents, "m1", "")
        return patches(fake, call)

    bench = Bench(documents, react)
    with pytest.raises(Changed, match="another machine has it"):
        bench.move("1/t0")
    assert bench.fake.documents[f"{FABRIC}/Zones/0"] == zone("0", ["i0"])
    shown = service_model(Reader(Service(bench.fake.as_session())).tree())
    assert (shown.units["1/t0"].state(), shown.units["1/t0"].held) == ("attached", True)


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_was_first_keeps_its_unit(way: str) -> None:
    documents, uid, place = of_two_clients(way)

    def react(fake: FakeService, call: Request) -> JsonResponse:
        place(fake.documents, "m0", "10")
        return DONE

    bench = Bench(documents, react)
    bench.move(uid)
    assert len(bench.bodies()) == 1


@pytest.mark.parametrize("error", [Unavailable("away"), Refused("no"), Busy("later")])
def test_a_unit_on_two_machines_that_cannot_be_given_back_is_uncertain(error: FabricError) -> None:
    """Not "nothing was done", which would make it somebody else's device on this machine for ever."""
    documents, uid, place = of_two_clients("connections")

    def both(fake: FakeService, call: Request) -> JsonResponse:
        place(fake.documents, "m1", "9")
        place(fake.documents, "m0", "10")
        return DONE

    with pytest.raises(Uncertain, match="another machine has it too, and it could not be given back"):
        Bench(documents, in_turn(both, error)).move(uid)


def test_a_connection_that_another_machine_joins_is_uncertain() -> None:
    documents = switched([], EVERYONE, ["t0"])

    def joined(fake: FakeService, call: Request) -> JsonResponse:
        by_connection(fake.documents, "m0", "c")
        fake.documents[f"{FABRIC}/Connections/c"] = connection("c", ["i0", "i1"], ["t0"])
        return DONE

    with pytest.raises(Uncertain, match="gives 1/t0 to other machines too"):
        Bench(documents, joined).move("1/t0")


def test_a_block_that_may_be_shared_is_kept_by_two_machines() -> None:
    def shares(fake: FakeService, call: Request) -> JsonResponse:
        both = block("a", "ComposedAndAvailable", on=["m1", "m0"])
        both["CompositionStatus"]["SharingCapable"] = True
        fake.documents[f"{BLOCKS}/a"] = both
        return DONE

    bench = Bench(composable([block("a")]), shares)
    bench.move("a")
    assert len(bench.bodies()) == 1


def test_compose_sends_the_whole_wanted_list() -> None:
    def react(fake: FakeService, call: Request) -> JsonResponse:
        return compose(fake, "b", "m0")

    documents = composable([block("a", "Composed", on=["m0"]), block("b")],
                           [system("m0", ["m0", "a"], actions=False), system("m1", ["m1"], actions=False)])
    target = f"{ROOT}/CompositionService/Actions/CompositionService.Compose"
    documents[f"{ROOT}/CompositionService"]["Actions"] = {"#CompositionService.Compose": {"target": target}}
    bench = Bench(documents, react)
    bench.move("b")
    call = bench.fake.asked("POST")[0]
    assert (call.path, call.body["RequestFormat"], call.body["RequestType"]) == (target, "Manifest", "Apply")
    stanza = call.body["Manifest"]["Stanzas"][0]
    assert stanza["StanzaType"] == "ComposeSystem"
    assert stanza["Request"]["@odata.id"] == f"{SYSTEMS}/m0"
    assert stanza["Request"]["Links"]["ResourceBlocks"] == refs(f"{BLOCKS}/{name}" for name in ("m0", "a", "b"))


def composing(blocks: list[Json], m0_lists: list[str]) -> Json:
    """A service with the Compose action only, where m0 lists these blocks."""
    documents = composable(blocks, [system("m0", m0_lists, actions=False), system("m1", ["m1"], actions=False)])
    target = f"{ROOT}/CompositionService/Actions/CompositionService.Compose"
    documents[f"{ROOT}/CompositionService"]["Actions"] = {"#CompositionService.Compose": {"target": target}}
    return documents


def manifests(fake: FakeService, call: Request) -> JsonResponse:
    """A service that gives m0 what the manifest names and nothing else."""
    request = call.body["Manifest"]["Stanzas"][0]["Request"]
    wanted = {entry["@odata.id"] for entry in request["Links"]["ResourceBlocks"]}
    for path in [path for path in fake.documents if path.startswith(f"{BLOCKS}/") and not path.endswith(("m0", "m1"))]:
        compose(fake, path.rpartition("/")[2], "m0" if path in wanted else None)
    return DONE


def on_m0(bench: Bench) -> list[str]:
    found = bench.fake.documents.items()
    return [path.rpartition("/")[2] for path, body in found if path.startswith(f"{BLOCKS}/")
            and body.get("Links", {}).get("ComputerSystems")]


@pytest.mark.parametrize("listed", [[], ["m0", "a"], ["m0", "a", "b"]])
@pytest.mark.parametrize(("uid", "attach", "left"), [("c", True, ["a", "b", "c"]), ("a", False, ["b"])])
def test_a_manifest_keeps_what_either_side_shows(listed: list[str], uid: str, attach: bool, left: list[str]) -> None:
    there = [block("a", "Composed", on=["m0"]), block("b", "Composed", on=["m0"]), block("c")]
    bench = Bench(composing(there, listed), manifests)
    bench.move(uid, attach=attach)
    assert on_m0(bench) == left
    assert bench.bodies()[0]["Manifest"]["Stanzas"][0]["Request"]["@odata.etag"] == etag(
        bench.fake.documents[f"{SYSTEMS}/m0"])


def test_a_manifest_is_made_from_what_is_there_now() -> None:
    bench = Bench(composing([block("a"), block("b")], []), manifests)
    compose(bench.fake, "a", "m0")  # by another client, after the map was read
    bench.move("b")
    assert on_m0(bench) == ["a", "b"]


def _without(path: str, key: str | None = None) -> Callable[[Json], None]:
    def cut(documents: Json) -> None:
        if key is None:
            documents.pop(path)
        else:
            documents[path]["Links"].pop(key)

    return cut


@pytest.mark.parametrize(
    "cut", [_without(f"{SYSTEMS}/m0"), _without(f"{SYSTEMS}/m0", "ResourceBlocks"), _without(BLOCKS)],
    ids=["system", "its_list", "blocks"],
)
@pytest.mark.parametrize("attach", [True, False])
def test_no_manifest_is_sent_without_the_system_and_its_list(cut: Callable[[Json], None], attach: bool) -> None:
    bench = Bench(composing([block("a", "Composed", on=["m0"]), block("b")], ["m0", "a"]), in_turn(Refused("never")))
    cut(bench.fake.documents)
    with pytest.raises(Unavailable, match="Nothing was requested"):
        bench.move("b" if attach else "a", attach=attach)
    assert bench.bodies() == []
