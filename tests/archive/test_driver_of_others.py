# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules, inventory, controller and rulebook use a driver whose collection is installed beside ours from archives.

The example `examples/acme/toy` is that collection. Nothing of ours knows it. All of it is left to make test-all, since
the tests of that collection run in make test without archives (tests/conformance/test_example.py).
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import machine_uuid
from ansible_collections.composable.infra.tests.archive import installed
from ansible_collections.composable.infra.tests.archive.installed import User
from ansible_collections.composable.infra.tests.archive.settings import Prepared, World, toy_cluster, wait, write

pytestmark = pytest.mark.slow
Json = dict[str, t.Any]
MANAGER = "acme.toy.toy"
FABRIC: Json = {
    "managers": [MANAGER], "settings": {MANAGER: {"rack": "r1"}}, "timing": {"attach": 0, "detach": 0},
    "users": [{"username": "composer", "password": "s3cret-of-toy"}], "models": [{"name": "T-800"}],
    "fabrics": [{"id": 1, "devices": [{"model": "T-800", "count": 4}]}],
    "machines": [{"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1}],
}
EMULATOR = ("ansible-playbook composable.infra.emulator -e composable_emulator_dir=$PWD/state "
            "-e composable_emulator_port=0")
OF_ITS_OWN: Json = {"environment": {"ANYTHING": "x"}}


@pytest.fixture(scope="module", ids="-".join, params=[installed.QUICK, installed.REST[0]])
def user(toy_user_of: t.Callable[[str, str], User], request: pytest.FixtureRequest) -> User:
    """Return a user who has both collections, with the newest and the oldest ansible-core."""
    return toy_user_of(*request.param)


@pytest.fixture(scope="module")
def folder(user: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run the emulator of the driver from the archives. Its connection is in `connection.yml`."""
    found = tmp_path_factory.mktemp("work")
    (found / "fabric.yml").write_text(yaml.safe_dump(FABRIC), encoding="utf-8")
    user.run(f"{EMULATOR} -e composable_emulator_fabric=fabric.yml", found)
    try:
        yield found
    finally:
        user.run(f"{EMULATOR} -e composable_emulator_state=stopped", found)


def connection(folder: Path) -> Json:
    endpoint = (folder / "state" / "endpoint").read_text(encoding="utf-8").strip()
    return {"manager": MANAGER, "endpoint": endpoint, "ca_path": str(folder / "state" / "ca.pem"),
            "username": "composer", "password": "s3cret-of-toy", "driver_options": {"rack": "r1"}}


def task(user: User, folder: Path, module: str, args: Json, **keywords: t.Any) -> Json:
    """Run one task on localhost, and return its result. It may fail."""
    play: Json = {
        "hosts": "localhost", "gather_facts": False, "tasks": [
            {module: {**connection(folder), **args}, "register": "found", "ignore_errors": True, **keywords},
            {"ansible.builtin.copy": {"content": "{{ found | to_json }}", "dest": "{{ playbook_dir }}/found.json"}},
        ]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    output = user.run("ansible-playbook -vvv play.yml", folder)
    assert "s3cret-of-toy" not in output
    result: Json = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("keywords", [{}, OF_ITS_OWN], ids=["within Ansible", "in a process"])
def test_our_modules_use_the_driver(user: User, folder: Path, keywords: Json) -> None:
    args = {"machine": "node-0", "model": "T-800", "count": 2, "exact": True}
    attached = task(user, folder, "composable.infra.fabric_device", args, **keywords)
    assert (attached["changed"], attached["count"]) == (True, 2)
    found = task(user, folder, "composable.infra.fabric_info", {"models": ["T-800"]}, **keywords)
    assert found["free"] == [{"model": "T-800", "fabric": 1, "free": 2}]
    assert {machine["name"]: len(machine["devices"]) for machine in found["machines"]} == {"node-0": 2, "node-1": 0}
    gone = task(user, folder, "composable.infra.fabric_device", {**args, "count": 0}, **keywords)
    assert (gone["changed"], gone["count"]) == (True, 0)


def test_the_conformance_checks_take_it(user: User, folder: Path) -> None:
    found = task(user, folder, "composable.infra.fabric_conformance",
                 {"machine": machine_uuid("node-0"), "model": "T-800", "patience": 5.0, "attach_timeout": 2.0})
    assert found["failed_checks"] == []
    assert "0 failed" in found["summary"]


def test_a_module_that_its_collection_lacks_is_named(user: User, folder: Path) -> None:
    found = task(user, folder, "composable.infra.fabric_plan", {"layout": {"node-0": {"T-800": 1}}}, **OF_ITS_OWN)
    assert found["failed"]
    assert "needs the module acme.toy.fabric_plan, which is not installed" in found["msg"]


@pytest.mark.parametrize(("args", "said"), [
    ({"driver_options": {"rak": "r1"}}, "driver_options.rak: 'r1' is not allowed. Allowed are rack"),
    ({"manager": "acme.absent.toy"}, "manager: 'acme.absent.toy' is not allowed. The collection acme.absent is not "),
    ({"manager": "acme.toy.other"}, "manager: 'acme.toy.other' is not allowed. There is no plugins/module_utils/"),
    ({"auth": "session"}, f"auth: 'session' is not allowed. Allowed are basic for manager {MANAGER}"),
])
def test_bad_input_is_one_sentence(user: User, folder: Path, args: Json, said: str) -> None:
    found = task(user, folder, "composable.infra.fabric_info", args)
    assert found["failed"]
    assert found["msg"].startswith(said)


def test_the_inventory_uses_the_driver(user: User, folder: Path) -> None:
    source = {"plugin": "composable.infra.fabric", "models": ["T-800"], **connection(folder)}
    del source["driver_options"]
    (folder / "toy.fabric.yml").write_text(yaml.safe_dump(source), encoding="utf-8")
    rack = {"COMPOSABLE_DRIVER_OPTIONS": '{"rack": "r1"}'}
    graph = user.run("ansible-inventory -i toy.fabric.yml --graph", folder, **rack)
    assert "@fabric_1:" in graph
    assert "--node-1" in graph.split("@free_t_800:")[1]


@pytest.fixture
def place(world: World, tmp_path: Path) -> Iterator[Prepared]:
    """Return a folder with the configuration of a cluster whose CDI Manager has the driver."""
    folder = tmp_path / "work"
    folder.mkdir()
    found = Prepared(world, world.user_of(*installed.QUICK), installed.QUICK, folder)
    with found.ends:
        toy_cluster(found)
        assert yaml.safe_load((folder / "config.yml").read_text(encoding="utf-8"))["fabric"]["manager"] == MANAGER
        yield found


def served(place: Prepared, name: str) -> bool:
    """Whether the claim has its device."""
    said = place.user.run(f"kubectl get resourceclaim {name} -o json", place.folder, **place.variables)
    return bool(json.loads(said).get("status", {}).get("allocation"))


def test_a_playbook_serves_a_claim(place: Prepared) -> None:
    wait(place, "one", "default")
    place.user.run("ansible-playbook composable.infra.attach -e composable_config_path=config.yml", place.folder,
                   **place.variables)
    installed.until(lambda: served(place, "one"))


def test_the_controller_serves_a_claim(place: Prepared) -> None:
    wait(place, "two", "default")
    command = "python -m ansible_collections.composable.infra.controller --config config.yml"
    path = str(place.user.home / ".ansible/collections")
    place.user.run_until("attached to node", command, place.folder, PYTHONPATH=path, **place.variables)
    installed.until(lambda: served(place, "two"))


def test_the_rulebook_serves_a_claim(place: Prepared) -> None:
    wait(place, "three", "default")
    for name in ("inventory.yml", "vars.yml"):
        write(name, "docs/guides/event-driven.md", place.folder)
    command = "ansible-rulebook --rulebook composable.infra.claim_attach -i inventory.yml --vars vars.yml"
    place.user.run_until("PLAY RECAP", command, place.folder, JAVA_TOOL_OPTIONS="-Xrs", **place.variables)
    installed.until(lambda: served(place, "three"))
