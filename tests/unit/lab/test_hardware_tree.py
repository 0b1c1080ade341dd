# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's folder after devices came, went, were removed by hand and looked for again."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice, parse_state
from ansible_collections.composable.infra.lab.hardware.inotify import Inotify
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions, hardware_command
from ansible_collections.composable.infra.lab.hardware.tree import NodeTree


def device(name: str, model: str = "H100") -> PluggedDevice:
    return PluggedDevice(f"uid-{name}", f"GPU-{name}", model, {"memory": "94Gi"})


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    return NodeTree(tmp_path / "node-0")


def uuids(tree: NodeTree) -> list[str]:
    return [found.uuid for found in tree.found()]


def test_plugged_device_shows_in_sys_proc_and_dev(tree: NodeTree) -> None:
    assert tree.sync([device("a")], discover=True)
    (folder,) = tree.devices.iterdir()
    information = (tree.root / "proc/driver/nvidia/gpus" / folder.name / "information").read_text()
    assert folder.name == "0000:10:00.0"
    assert (folder / "vendor").read_text() == "0x10de\n"
    assert (folder / "class").read_text() == "0x030200\n"
    assert (folder / "uuid").read_text() == "GPU-a\n"
    assert (folder / "driver").resolve() == (tree.pci / "drivers" / "nvidia").resolve()
    assert "GPU UUID: \t GPU-a\n" in information
    assert "Bus Location: \t 0000:10:00.0\n" in information
    assert (tree.root / "dev" / "nvidia0").exists()


def test_unplugged_device_leaves_no_trace(tree: NodeTree) -> None:
    tree.sync([device("a"), device("b")], discover=True)
    assert tree.sync([device("b")], discover=True)
    assert uuids(tree) == ["GPU-b"]
    assert [path.name for path in (tree.root / "dev").iterdir()] == ["nvidia1"]
    assert len(list((tree.root / "proc/driver/nvidia/gpus").iterdir())) == 1


@pytest.mark.parametrize("rescanned", [False, True])
def test_device_appears_when_it_was_plugged_in_or_when_it_was_looked_for(tree: NodeTree, rescanned: bool) -> None:
    before = time.time()
    tree.sync([PluggedDevice("u", "GPU-u", "A100", since=12.5)], discover=True, rescanned=rescanned)
    (found,) = tree.found()
    assert found.appeared >= before if rescanned else found.appeared == 12.5


def test_minor_and_address_are_reused_but_never_shared(tree: NodeTree) -> None:
    tree.sync([device("a"), device("b")], discover=True)
    tree.sync([device("b"), device("c")], discover=True)
    found = {entry.uuid: (entry.minor, entry.address) for entry in tree.found()}
    assert found == {"GPU-b": (1, "0000:11:00.0"), "GPU-c": (0, "0000:10:00.0")}


def test_nothing_changes_when_nothing_changed(tree: NodeTree) -> None:
    tree.sync([device("a")], discover=True)
    before = tree.found()
    assert not tree.sync([device("a")], discover=True)
    assert tree.found() == before


def test_without_discovery_a_device_stays_hidden_but_goes_at_once(tree: NodeTree) -> None:
    assert not tree.sync([device("a")], discover=False)
    assert uuids(tree) == []
    assert tree.sync([device("a")], discover=True)
    assert tree.sync([], discover=False)
    assert uuids(tree) == []


def test_removed_device_comes_back_only_by_rescan(tree: NodeTree) -> None:
    tree.sync([device("a")], discover=True)
    assert tree.remove("0000:10:00.0")
    assert not tree.sync([device("a")], discover=True)
    tree.rescan()
    assert tree.sync([device("a")], discover=True)
    assert uuids(tree) == ["GPU-a"]


def test_removed_device_comes_back_after_it_was_attached_anew(tree: NodeTree) -> None:
    tree.sync([device("a")], discover=True)
    tree.remove("0000:10:00.0")
    tree.sync([], discover=True)
    assert tree.sync([device("a")], discover=True)


def test_open_device_is_not_removed(tree: NodeTree) -> None:
    tree.sync([device("a"), device("b")], discover=True)
    handle = tree.root / "proc" / "4711" / "fd" / "3"
    handle.parent.mkdir(parents=True)
    os.symlink("/dev/nvidia1", handle)
    assert (tree.is_open(0), tree.is_open(1)) == (False, True)
    assert not tree.remove("0000:11:00.0")
    assert tree.remove("0000:10:00.0")
    handle.unlink()
    assert tree.remove("0000:11:00.0")


def test_absent_device_is_not_removed(tree: NodeTree) -> None:
    assert not tree.remove("0000:99:00.0")


def test_a_new_tree_on_an_old_folder_knows_what_is_there(tree: NodeTree) -> None:
    tree.sync([device("a"), device("b")], discover=True)
    tree.remove("0000:10:00.0")
    again = NodeTree(tree.root)
    assert (tree.fresh, again.fresh) == (True, False)
    assert again.found() == tree.found()
    assert not again.sync([device("a"), device("b")], discover=True)


def test_state_counts_only_devices_that_are_plugged_in() -> None:
    states = ["free", "attaching", "attached", "detaching"]
    entries = [
        {"uid": f"u{number}", "serial": f"GPU-{number}", "model": "H100", "machine": "m" if number else None,
         "state": state}
        for number, state in enumerate(states)
    ]  # fmt: skip
    state = parse_state({"generation": 9, "models": {"H100": {"memory": "80Gi"}}, "devices": entries})
    assert state.generation == 9
    assert [found.uid for found in state.machines["m"]] == ["u2", "u3"]
    assert state.machines["m"][0].properties == {"memory": "80Gi"}


def test_other_kinds_of_device_are_not_gpus_of_the_node() -> None:
    entry = {"uid": "u", "serial": "s", "model": "M", "machine": "m", "state": "attached", "kind": "cxlmemory"}
    assert parse_state({"generation": 1, "devices": [entry]}).machines == {}


def test_pci_ids_are_those_of_the_model(tree: NodeTree) -> None:
    tree.sync([PluggedDevice("u", "GPU-u", "A100", {"vendor_id": "10de", "device_id": "20f1"})], discover=True)
    (folder,) = tree.devices.iterdir()
    assert (folder / "device").read_text() == "0x20f1\n"
    assert "PCI_ID=10DE:20F1\n" in (folder / "uevent").read_text()


def test_writes_to_files_are_reported(tmp_path: Path) -> None:
    notify, seen = Inotify(), queue.SimpleQueue[Path]()
    notify.watch(tmp_path)
    notify.watch(tmp_path / "absent")

    def follow() -> None:
        for path in notify.written():
            seen.put(path)

    threading.Thread(target=follow, daemon=True).start()
    (tmp_path / "rescan").write_text("1")
    assert seen.get(timeout=10) == tmp_path / "rescan"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rescan": "often"}, "use one of auto, manual"),
        ({"announce_delay": -1.0}, "announce_delay=-1"),
        ({"emulator_url": "http://x"}, "must begin with https://"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, values: dict[str, object], message: str) -> None:
    usual: dict[str, object] = {"emulator_url": "https://x", "announce_delay": 0.0, "rescan": "auto", **values}
    options = HardwareOptions(
        tmp_path, "https://s", str(usual["emulator_url"]), None, ("node-0",),
        float(str(usual["announce_delay"])), str(usual["rescan"]),
    )  # fmt: skip
    with pytest.raises(LabError, match=message):
        hardware_command(options)


def test_options_reach_the_simulator_unchanged(tmp_path: Path) -> None:
    options = HardwareOptions(tmp_path, "https://s", "https://e", Path("/ca"), ("node-0", "node-1"), 0.25, "manual")
    options.ready.touch()
    command = hardware_command(options)
    assert HardwareOptions.from_file(Path(command.arguments[-1])) == options
    assert not options.ready.exists()
    assert command.arguments[1:3] == ("-m", "ansible_collections.composable.infra.lab.hardware")
