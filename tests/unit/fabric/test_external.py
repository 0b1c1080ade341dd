# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers of other collections: found by name, held to the interface, and refused in one sentence otherwise."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import sys
import textwrap
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric import api, external
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry

COLLECTIONS = itertools.count()
HEAD = """
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import register
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry


class Driver:
    def __init__(self, config):
        self.config = config
"""
METHODS = ("machines", "machine", "free", "snapshot", "devices", "attach", "detach", "resume", "close")
WHOLE = HEAD + "    capabilities = None\n" + "".join(
    f"\n    def {name}(self, *given, **named):\n        return {name!r}\n" for name in METHODS)
REGISTERED = WHOLE + """
OPTIONS = {"rack": DriverOption(required=True), "lanes": DriverOption(type="int", default=8, choices=(4, 8, 16)),
           "gain": DriverOption(type="float"), "quiet": DriverOption(type="bool", default=False)}
register("NAME", ManagerEntry(auth=("none", "basic"), schemes=("http", "https"), takes=("cluster",), options=OPTIONS),
         Driver, interface=1)
"""
Write = Callable[[str], str]
# What a driver of interface 1 offers, and what it must give to make what it returns. Drivers of other collections rely
# on it: raise INTERFACE with a change that makes such a driver fail.
PROOFS = "started: 'Started | None' = None, proof: 'Proof | None' = None"
OFFERED = {
    "machines": "(self) -> 'tuple[Machine, ...]'",
    "machine": "(self, uid: 'str') -> 'Machine'",
    "free": "(self, machine_uid: 'str', model: 'str') -> 'int'",
    "snapshot": "(self, models: 'Iterable[str]') -> 'FabricSnapshot'",
    "devices": "(self) -> 'tuple[Device, ...]'",
    "attach": "(self, machine_uid: 'str', model: 'str', count: 'int' = 1, token: 'str | None' = None, "
              f"kind: 'str' = 'gpu', {PROOFS}) -> 'Task'",
    "detach": f"(self, machine_uid: 'str', device_uid: 'str', {PROOFS}) -> 'Task'",
    "resume": "(self, handles: 'tuple[str, ...]') -> 'Task'",
    "close": "(self) -> 'None'",
}
NEEDED = {api.Device: ["uid", "model"], api.Machine: ["uid", "name", "fabric"], api.Task: ["done"],
          api.FabricSnapshot: ["machines", "free", "taken"], api.Capabilities: ["asynchronous", "batch"],
          ManagerEntry: ["auth"], DriverOption: []}


def test_the_interface_is_the_one_that_drivers_are_written_for() -> None:
    methods = {name: str(inspect.signature(made)) for name, made in vars(FabricManager).items()
               if not name.startswith("_") and inspect.isfunction(made)}
    assert methods == OFFERED
    for kind, names in NEEDED.items():
        required = [each.name for each in dataclasses.fields(kind)
                    if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING]
        assert required == names, kind
    assert external.INTERFACE == 1


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Install a collection with the source of a driver, in which NAME stands for its name. Return the name."""

    def written(source: str) -> str:
        collection = f"case{next(COLLECTIONS)}"
        folder = tmp_path / "ansible_collections" / "external" / collection / external.FOLDER
        folder.mkdir(parents=True)
        name = f"external.{collection}.box"
        (folder / "box.py").write_text(textwrap.dedent(source).replace("NAME", name), encoding="utf-8")
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
        return name

    return written


def given(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"manager": name, "endpoint": "http://box.example", "driver_options": {"rack": "r1"}, **more}


def refusal(options: dict[str, t.Any]) -> str:
    with pytest.raises(BadConfiguration) as caught:
        connect(FabricConfig.from_dict(options))
    return str(caught.value)


def test_a_driver_is_found_by_its_name_and_gets_its_configuration(write: Write) -> None:
    name = write(REGISTERED)
    login = {"auth": "basic", "endpoint": "https://box.example", "username": "u", "password": "p"}
    config = FabricConfig.from_dict(given(name, **login))
    made: t.Any = connect(config)
    assert made.machines() == "machines"
    assert made.config is config
    assert config.driver_options == {"rack": "r1", "lanes": 8, "gain": None, "quiet": False}


def test_a_configuration_that_is_read_again_keeps_the_options(write: Write, tmp_path: Path) -> None:
    config = FabricConfig.from_dict(given(write(REGISTERED), credentials_dir=str(tmp_path)))
    assert config.refreshed().driver_options == config.driver_options


@pytest.mark.parametrize(("options", "said"), [
    ({}, "driver_options.rack is not set. It is required"),
    ({"rack": 7}, "driver_options.rack: 7 is not allowed. It must be a text"),
    ({"rack": "r1", "lanes": 5}, "driver_options.lanes: 5 is not allowed. Allowed are 4, 8, 16"),
    ({"rack": "r1", "lanes": True}, "driver_options.lanes: True is not allowed. It must be a whole number"),
    ({"rack": "r1", "gain": "loud"}, "driver_options.gain: 'loud' is not allowed. It must be a number"),
    ({"rack": "r1", "quiet": 1}, "driver_options.quiet: 1 is not allowed. It must be true or false"),
    ({"rack": "r1", "rak": 1}, "driver_options.rak: 1 is not allowed. Allowed are gain, lanes, quiet, rack"),
    (["rack"], "driver_options: ['rack'] is not allowed. It must be a mapping"),
])
def test_a_wrong_option_of_the_driver_is_named(write: Write, options: object, said: str) -> None:
    assert refusal(given(write(REGISTERED), driver_options=options)) == said


@pytest.mark.parametrize(("more", "said"), [
    ({"auth": "session"}, "auth: 'session' is not allowed. Allowed are none, basic for manager NAME"),
    ({"tenant": "t"}, "tenant: 't' is not allowed. Manager NAME with auth none does not use it. Leave it out"),
    ({"endpoint": "ftp://box"}, "endpoint: 'ftp://box' is not allowed. It must be an http or https URL"),
])
def test_options_of_the_connection_are_checked_as_its_entry_says(write: Write, more: dict[str, t.Any], said: str
                                                                 ) -> None:
    name = write(REGISTERED)
    assert refusal(given(name, **more)).startswith(said.replace("NAME", name))


def test_options_of_a_driver_are_refused_for_our_own_managers() -> None:
    assert refusal({"manager": "nec", "endpoint": "http://nec", "driver_options": {"rack": "r1"}}).startswith(
        "driver_options: {'rack': 'r1'} is not allowed. Manager nec with auth none does not use it")


@pytest.mark.parametrize(("source", "said"), [
    ("", "plugins/module_utils/fabric_manager/box.py of the collection COLLECTION does not register this name"),
    ("import no_such_package.part", "plugins/module_utils/fabric_manager/box.py of the collection COLLECTION needs the "
                                    "Python module no_such_package, which is not found where this runs"),
    ("1 / 0", "plugins/module_utils/fabric_manager/box.py of the collection COLLECTION cannot be loaded: "
              "ZeroDivisionError: division by zero"),
    (REGISTERED.replace("interface=1", "interface=2"),
     "its driver is for interface 2, and this version of composable.infra has interface 1: install compatible "
     "versions"),
    (REGISTERED.replace("def resume", "def resumed").replace("def close", "def closed"),
     "its driver Driver lacks resume, close"),
    (REGISTERED.replace('"basic"', '"ldap"'), "plugins/module_utils/fabric_manager/box.py of the collection COLLECTION "
     "cannot be loaded: ValueError: auth: 'ldap' is not allowed. Allowed are password_grant, session, basic, none"),
])
def test_a_driver_that_cannot_be_used_is_refused_in_one_sentence(write: Write, source: str, said: str) -> None:
    name = write(source)
    said = said.replace("COLLECTION", external.collection_of(name))
    assert refusal(given(name)) == f"manager: {name!r} is not allowed. {said[0].upper()}{said[1:]}"


@pytest.mark.parametrize(("name", "said"), [
    ("nobody.at_all.box",
     "the collection nobody.at_all is not found on this machine. Install it beside composable.infra"),
    ("composable.absent.box",
     "the collection composable.absent is not found on this machine. Install it beside composable.infra"),
    ("composable.infra.box",
     "there is no plugins/module_utils/fabric_manager/box.py of the collection composable.infra"),
    ("two.parts", f"allowed are {external.ALLOWED}"), ("Acme.toy.box", f"allowed are {external.ALLOWED}"),
    (7, f"allowed are {external.ALLOWED}"),
])
def test_a_driver_that_is_not_there_is_named(name: object, said: str) -> None:
    said = said[0].upper() + said[1:]
    assert refusal({"manager": name, "endpoint": "http://box"}) == f"manager: {name!r} is not allowed. {said}"


@pytest.mark.parametrize(("name", "entry", "said"), [
    ("box", ManagerEntry(auth=("none",)), "name: 'box' is not allowed. It must be namespace.collection.name"),
    ("a.b.c", ManagerEntry(auth=()), "auth: () is not allowed. Name one or more of"),
    ("a.b.c", ManagerEntry(auth=("none",), requires=("password",)), "requires: 'password' is not allowed. Allowed"),
    ("a.b.c", ManagerEntry(auth=("none",), takes=("rack",)), "takes: 'rack' is not allowed. Allowed are tenant, "),
    ("a.b.c", ManagerEntry(auth=("none",), options={"rack": DriverOption(type="list")}),
     "options: type: 'list' is not allowed. Allowed are str, int, float, bool"),
])
def test_what_cannot_be_registered_is_refused(name: str, entry: ManagerEntry, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        external.register(name, entry, t.cast(Callable[[t.Any], FabricManager], None), interface=external.INTERFACE)
    assert str(caught.value).startswith(said)
    assert name not in external._DRIVERS
