# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's groups, names, states and options, and the emulated Director beside the driver."""

from __future__ import annotations

import base64
import http.client
import ssl
import typing as t
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError, Missing, Unauthorized

Client = Callable[..., FabricManager]
Other = Callable[..., t.Any]
NAME = "composable.liqid.liqid"


def test_machines_are_named_by_the_director(client: Client) -> None:
    assert [(each.uid, each.name, each.fabric) for each in client().machines()] == [
        ("node-0", "node-0", 1), ("node-1", "node-1", 1)]


def test_machines_that_share_a_name_are_no_machines(tmp_path: Path) -> None:
    twins = [{"name": "twin", "fabric": 1, "uuid": f"7e63fd31-0a5c-4d1b-9a52-c0de0000000{n}"} for n in (1, 2)]
    document = {
        "managers": [NAME], "models": [{"name": "A100"}], "machines": [{"name": "node-0", "fabric": 1}, *twins],
        "fabrics": [{"id": 1, "devices": [{"model": "A100", "count": 2}, {"model": "A100", "machine": "twin"}]}],
    }
    with Emulator.run(document, tmp_path) as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        assert [each.name for each in fabric.machines()] == ["node-0"]
        assert [each.name for each in fabric.devices()] == ["gpu1", "gpu2"]
        for work in (lambda: fabric.machine("twin"), lambda: fabric.attach("twin", "A100")):
            with pytest.raises(Missing, match=r"several machines of the group have this name\. Give each machine its"):
                work()
        fabric.close()


@pytest.mark.parametrize(("state", "health", "chosen"), [
    ("OK", "OK", True), ("Warning", "Warning", True), ("Critical", "Critical", False), ("Unknown", "Critical", False)])
def test_only_devices_that_seem_well_are_chosen(
    emulator: Emulator, client: Client, state: str, health: str, chosen: bool
) -> None:
    (found,) = (each for each in emulator.state()["devices"] if each["slot"] == 1)
    emulator.set_health(found["uid"], state)
    fabric = client()
    assert next(each.health for each in fabric.devices() if each.name == "gpu1") == health
    assert fabric.free("node-0", "A100") == (8 if chosen else 7)
    assert fabric.snapshot(["A100"]).free_in_boxes == {("A100", 1, "0-0-1"): 8 if chosen else 7}


def test_a_device_has_what_the_director_tells(client: Client) -> None:
    found = {each.name: each for each in client().devices()}
    assert (found["gpu1"].uid, found["gpu1"].model, found["gpu1"].box) == ("0x00000001", "A100", "0-0-1")
    assert (found["gpu1"].serial or "").startswith("GPU-")
    assert (found["mem12"].kind, found["mem12"].size, found["mem12"].serial) == ("memory", 65536, None)


@pytest.mark.parametrize(("options", "said"), [
    ({"driver_options": {}}, "driver_options.group is not set. It is required"),
    ({"driver_options": {"group": ""}}, "driver_options.group: '' is not allowed. It must be the name of a group"),
    ({"driver_options": {"group": "elsewhere"}},
     "driver_options.group: the Liqid Director has no group 'elsewhere'. Allowed are composable, others"),
    ({"driver_options": {"group": "composable", "cancel_edits_after": 3}},
     "driver_options.cancel_edits_after: 3.0 is not allowed. It must be a number of seconds below attach_timeout (2), "
     "or 0"),
    ({"driver_options": {"pool": "x"}},
     "driver_options.pool: 'x' is not allowed. Allowed are cancel_edits_after, group"),
    ({"auth": "session"}, f"auth: 'session' is not allowed. Allowed are basic, none for manager {NAME}"),
    ({"tenant": "7e63fd31-0a5c-4d1b-9a52-c0de00000001"},
     "tenant: '7e63fd31-0a5c-4d1b-9a52-c0de00000001' is not allowed. Manager composable.liqid.liqid with auth basic "
     "does not use it. Leave it out"),
])
def test_bad_input_is_one_sentence(client: Client, options: dict[str, t.Any], said: str) -> None:
    with pytest.raises(FabricError) as caught:
        client(**options).machines()
    assert caught.value.message == said


def test_a_wrong_password_is_refused(client: Client) -> None:
    with pytest.raises(Unauthorized, match="answered 401: the user or the password is wrong") as caught:
        client(password="not-this-one").machines()
    assert "not-this-one" not in caught.value.message


def test_an_unknown_kind_is_refused(client: Client) -> None:
    with pytest.raises(FabricError, match=r"kind 'storage' is not allowed\. Allowed are gpu, memory, fpga"):
        client().attach("node-0", "A100", kind="storage")


def test_the_director_tells_of_changes(emulator: Emulator, client: Client) -> None:
    """A hint to look, which the driver does not use."""
    where, login = urlsplit(emulator.url), emulator.credentials
    basic = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, context=ssl.create_default_context(cafile=emulator.ca_path), timeout=10)
    connection.request("GET", "/liqid/api/v2/sse/predevice", headers={"Authorization": f"Basic {basic}"})
    events = connection.getresponse()
    first = events.readline()
    assert (first[:5], events.readline()) == (b"data:", b"\n")
    client().attach("node-0", "A100")
    assert events.readline() > first
    connection.close()


@pytest.mark.parametrize(("path", "key", "said"), [
    ("fabric/edit", "mach_name", "the body must be the whole object of a machine"),
    ("fabric/reprogram", "", "Machine 0x0001 is not in edit mode"),
    ("fabric/edit/cancel", "", "Machine 0x0001 is not in edit mode"),
])
def test_the_emulated_director_is_strict(other: Other, path: str, key: str, said: str) -> None:
    machine = other("GET", "machine")["data"][0]
    assert other("POST", path, {name: value for name, value in machine.items() if name != key})["errors"][0][
        "message"] == said


def test_settings_are_checked(tmp_path: Path) -> None:
    document = {"managers": [NAME], "settings": {NAME: {"asynchronous": "yes"}}, "models": [], "fabrics": []}
    with pytest.raises(Exception, match="asynchronous: it must be true or false, not 'yes'"):
        Emulator.run(document, tmp_path)
