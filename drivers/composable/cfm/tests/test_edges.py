# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where cfm-service differs from what one expects: ports, 206 and 409, parts that are not online, sizes."""

from __future__ import annotations

import contextlib
import json
import ssl
import typing as t
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager, Size
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)

NAME = "composable.cfm.cfm"
NODE, OTHER, THIRD, LONELY = (machine_uuid(f"node-{n}") for n in range(4))
BLADE = "/cfm/v1/appliances/cma-1/blades/blade-1"
MODELS = [{"name": "4GiB", "kind": "memory", "size": 4096}, {"name": "8GiB", "kind": "memory", "size": 8192}]
ONE: dict[str, t.Any] = {
    "timing": {"attach": 0, "detach": 0}, "managers": [NAME], "settings": {NAME: {"blocks": 16}}, "models": MODELS,
    "fabrics": [{"id": 1, "devices": [{"model": "4GiB", "count": 15}, {"model": "8GiB", "count": 7},
                                      {"model": "4GiB", "machine": "node-1"}]}],
    "machines": [{"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1}],
}
# node-1 and blade-2 are not online, node-3 has no cable, and the firmware does not tell the states of all blocks.
AWAY: dict[str, t.Any] = {
    **ONE, "settings": {NAME: {"blocks": 4, "statuses": False, "offline": ["node-1", "blade-2"]}},
    "fabrics": [{"id": 1, "devices": [{"model": "4GiB", "count": 3}, {"model": "4GiB", "machine": "node-1"}]},
                {"id": 2, "devices": [{"model": "4GiB", "count": 4}]}],
    "machines": [*ONE["machines"], {"name": "node-2", "fabric": 2}, {"name": "node-3"}],
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Run the emulator with everything online."""
    with Emulator.run(ONE, tmp_path_factory.mktemp("one")) as found:
        yield found


@pytest.fixture
def emulator(running: Emulator) -> Emulator:
    """Return the emulator as at first."""
    running.reset(log=True)
    return running


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabricManager]:
    """Return a client of cfm-service while a host and a blade are not online."""
    with Emulator.run(AWAY, tmp_path_factory.mktemp("away")) as found, client(found) as fabric:
        yield fabric


@contextlib.contextmanager
def client(emulator: Emulator, **options: t.Any) -> Iterator[FabricManager]:
    """Connect to the emulator."""
    config = emulator.fabric_config(driver_options=options) if options else emulator.fabric_config()
    with contextlib.closing(connect(FabricConfig.from_dict(config))) as fabric:
        yield fabric


def ask(emulator: Emulator, method: str, path: str, body: t.Any = None) -> tuple[int, t.Any]:
    """Send a request as another client of cfm-service. Return status and body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(emulator.url + path, data=data, method=method)
    context = ssl.create_default_context(cafile=emulator.ca_path)
    try:
        with urllib.request.urlopen(request, context=context) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if error.headers.get_content_type() == "application/json" else text.decode()


def compose(emulator: Emulator, port: str = "", size: int = 4096) -> str:
    """Compose a region as another client. Return its id."""
    status, body = ask(emulator, "POST", f"{BLADE}/memory", {"Port": port, "memorySizeMiB": size, "QoS": 4})
    assert status == 201
    return str(body["id"])


def taking(emulator: Emulator, taken: list[str]) -> t.Callable[[], None]:
    """Return what composes a region on the driver's port, once, right before the driver does."""
    def take() -> None:
        if not taken:
            taken.append(compose(emulator, "port0"))
    return take


@pytest.mark.parametrize(("method", "path", "body", "status", "said"), [
    ("GET", "/cfm/v1/nothing", None, 404, "404 page not found\n"),
    ("PUT", "/cfm/v1/hosts", {}, 405, ""),
    ("GET", "/cfm/v1/hosts/absent", None, 404, "Host Id Does Not Exist"),
    ("GET", f"{BLADE}/memory/absent", None, 404, "Memory Id Does Not Exist"),
    ("DELETE", f"{BLADE}/memory/absent", None, 409, "Blade Get Memory By Id Failure"),
    ("PATCH", f"{BLADE}/memory/absent", {"Port": "port0", "Operation": "unassign"}, 409, "Unassign Memory Failed"),
    ("POST", f"{BLADE}/memory", {"memorySizeMiB": 1 << 20, "QoS": 4}, 409, "Blade Get Memory Resource Blocks Failure"),
    ("POST", f"{BLADE}/memory", {"memorySizeMiB": 4096}, 422, "required field 'QoS' is zero value."),
    ("POST", f"{BLADE}/memory", {"size": 4096}, 400, 'json: unknown field "size"'),
])
def test_the_emulator_refuses_as_the_source_does(
    emulator: Emulator, method: str, path: str, body: t.Any, status: int, said: str,
) -> None:
    """Status and words are those of pkg/common/status.go, of the router, and of the generated server."""
    found, words = ask(emulator, method, path, body)
    assert found == status
    assert (words["status"]["message"] if isinstance(words, dict) else words) == said


def test_an_empty_list_is_null(emulator: Emulator) -> None:
    """The driver reads it as an empty list."""
    _status, blade = ask(emulator, "GET", f"{BLADE}/memory")
    (region,) = blade["members"]
    assert ask(emulator, "DELETE", region["uri"])[0] == 200
    assert ask(emulator, "GET", f"{BLADE}/memory") == (200, {"memberCount": 0, "members": None})
    with client(emulator) as fabric:
        assert fabric.devices() == ()


@pytest.mark.parametrize(("model", "kind", "said"), [
    ("A100", "memory", "model: 'A100' is not allowed. Name the size of a memory region, such as 64GiB"),
    ("4096MiB", "memory", "model: '4096MiB' is not allowed. Write 4GiB"),
    ("4GiB", "gpu", "kind: 'gpu' is not allowed. cfm-service attaches memory"),
    ("3GiB", "memory", f"cannot attach a 3GiB to host {NODE}: with qos 4, sizes are multiples of 4096 MiB on blade "
                       "cma-1/blade-1"),
])
def test_bad_input_is_one_sentence(emulator: Emulator, model: str, kind: str, said: str) -> None:
    """It names the option, its value, and what is allowed."""
    with client(emulator) as fabric, pytest.raises(Refused) as refused:
        fabric.attach(NODE, model, kind=kind)
    assert (str(refused.value), refused.value.exhausted) == (said, False)


def test_a_bad_option_is_one_sentence(emulator: Emulator) -> None:
    """It names the option, its value, and what is allowed."""
    with pytest.raises(BadConfiguration, match=r"driver_options\.qos: 3 is not allowed. Allowed are 1, 2, 4, 8"):
        FabricConfig.from_dict(emulator.fabric_config(driver_options={"qos": 3}))


def test_a_bad_model_is_a_problem_of_the_snapshot(emulator: Emulator) -> None:
    """The other models are counted."""
    with client(emulator) as fabric:
        seen = fabric.snapshot(["A100", "4GiB"])
    assert seen.free == {("4GiB", 1): 15}
    assert list(seen.problems) == ["A100/1"]


def test_ports_limit_a_host(emulator: Emulator) -> None:
    """The snapshot shows the limit. An attach of more names what came."""
    with client(emulator) as fabric:
        with pytest.raises(Refused, match="it has no free port on a blade") as refused:
            fabric.attach(NODE, "4GiB", 5, kind="memory")
        assert (len(refused.value.devices), refused.value.exhausted) == (4, False)
        seen = fabric.snapshot(["4GiB", "8GiB"])
    assert seen.sizes == {NODE: {"4GiB": Size(None, 4), "8GiB": Size(None, 0)},
                          OTHER: {"4GiB": Size(None, 4), "8GiB": Size(None, 3)}}
    assert seen.free == {("4GiB", 1): 11, ("8GiB", 1): 5}


@pytest.mark.parametrize(("qos", "model", "free"), [(4, "4GiB", 15), (2, "2GiB", 30), (1, "16GiB", 0), (8, "4GiB", 15)])
def test_qos_is_the_number_of_channels(emulator: Emulator, qos: int, model: str, free: int) -> None:
    """16 blocks of each of 4 channels are there, and one of each is used."""
    with client(emulator, qos=qos) as fabric:
        assert fabric.free(NODE, model) == free


def test_a_port_that_another_client_took_is_busy(emulator: Emulator) -> None:
    """The region is composed and not assigned, which is 206. The driver frees it."""
    taken: list[str] = []
    with client(emulator) as fabric:
        with pytest.raises(Busy, match="another client took port port0 of blade cma-1/blade-1"):
            fabric.attach(NODE, "4GiB", kind="memory", proof=taking(emulator, taken))
        assert [device.name for device in fabric.machine(NODE).devices] == taken
        assert fabric.free(NODE, "4GiB") == 14


def test_a_region_that_cannot_be_taken_back_is_named(emulator: Emulator) -> None:
    """The operator can free it by hand."""
    taken: list[str] = []
    emulator.set_faults({"kind": "status", "purpose": "detach", "status": 409})
    with client(emulator) as fabric, pytest.raises(Uncertain, match="cma-1/blade-1/memorychunk2 was composed"):
        fabric.attach(NODE, "4GiB", kind="memory", proof=taking(emulator, taken))


def test_a_region_without_a_port_is_not_shown(emulator: Emulator) -> None:
    """It may belong to another client, so the driver leaves it alone."""
    ident = compose(emulator)
    with client(emulator) as fabric:
        assert ident not in [device.name for device in fabric.devices()]
        assert fabric.free(NODE, "4GiB") == 14


def test_a_detach_that_was_cut_off_is_finished(emulator: Emulator) -> None:
    """The region has no port any more, but still holds memory."""
    with client(emulator) as fabric:
        (device,) = fabric.attach(NODE, "4GiB", kind="memory").devices
        body = {"Port": "port0", "Operation": "unassign"}
        assert ask(emulator, "PATCH", f"{BLADE}/memory/{device.name}", body)[0] == 200
        assert fabric.machine(NODE).devices == ()
        assert fabric.detach(NODE, device.uid).done
        assert fabric.free(NODE, "4GiB") == 15


def test_a_region_is_not_taken_for_another(emulator: Emulator) -> None:
    """The service finds memorychunk10 when it searches memorychunk1. The driver names the port, so it refuses that."""
    first, *_others = [compose(emulator) for _number in range(9)]
    assert (first, compose(emulator, "port1")) == ("memorychunk1", "memorychunk10")
    assert ask(emulator, "PATCH", f"{BLADE}/memory/{first}", {"Port": "port0", "Operation": "assign"})[0] == 200
    with client(emulator) as fabric:
        with pytest.raises(Busy, match="connection mismatch"):
            fabric.detach(NODE, f"cma-1/blade-1/{first}")
        assert {device.name for device in fabric.machine(NODE).devices} == {first, "memorychunk10"}
        fabric.detach(NODE, "cma-1/blade-1/memorychunk10")
        fabric.detach(NODE, f"cma-1/blade-1/{first}")
        assert fabric.machine(NODE).devices == ()


def test_a_region_of_another_size_is_named(emulator: Emulator) -> None:
    """As after other memory modules: the service rounds up to whole blocks."""
    with client(emulator) as fabric:
        assert fabric.free(NODE, "4GiB") == 15
        blocks = t.cast(t.Any, fabric)._blocks
        blocks.update({path: replace(block, capacity=512) for path, block in blocks.items()})
        with pytest.raises(Refused, match=r"with 4096 MiB instead of 2048 MiB\. Return it") as refused:
            fabric.attach(NODE, "2GiB", kind="memory")
        assert refused.value.device is not None
        assert fabric.detach(NODE, refused.value.device.uid).done


def test_hosts_of_which_not_all_is_shown_are_left_out(away: FabricManager) -> None:
    """The snapshot says why. A host without a cable has no fabric."""
    seen = away.snapshot(["4GiB"])
    assert {uid: found.fabric for uid, found in seen.machines.items()} == {NODE: 1, LONELY: None}
    with pytest.raises(Refused, match="it has no free port on a blade"):
        away.attach(LONELY, "4GiB")
    assert f"host {OTHER} is not online" in seen.unconfirmed
    assert f"blade cma-1/blade-2 is not online, and host {THIRD} may have memory of it" in seen.unconfirmed
    assert seen.free == {("4GiB", 1): 3}, "read block by block"
    assert [(device.state, device.machine) for device in away.devices()] == [("unavailable", None)]


@pytest.mark.parametrize(("uid", "expected"), [(OTHER, Unavailable), (THIRD, Unavailable), ("absent", Missing)])
def test_such_a_host_is_not_read_as_empty(away: FabricManager, uid: str, expected: type[FabricError]) -> None:
    """A caller that took it for empty would attach the same memory again."""
    works: tuple[t.Callable[[str], object], ...] = (
        away.machine, lambda host: away.detach(host, "x"), lambda host: away.attach(host, "4GiB"))
    for work in works:
        with pytest.raises(FabricError) as failed:
            work(uid)
        assert type(failed.value) is expected
