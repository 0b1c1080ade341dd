# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device on its way off the bus, on a made-up node: what is proven, in which order, and what is taken back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import bus, left_behind
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import NotEnded, Output
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.release import release, take_back
from ansible_collections.composable.infra.tests.unit.node.fake_node import QUICK, A, B, Card, FakeNode, Notes, steps
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import (
    ASK,
    DRAIN,
    OFF,
    ON,
    REMOVE,
    UNDRAIN,
    UP,
    WRITE,
    free,
    number,
    process,
)

FORCED = replace(QUICK, force=True)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node with two GPUs, so that neither is the last."""
    made = FakeNode(tmp_path, monkeypatch)
    made.ready(B, "GPU-b")
    return made


@pytest.fixture
def gpu_a(node: FakeNode) -> Evidence:
    return node.ready(A, "GPU-a")


@pytest.fixture
def notes() -> Notes:
    return Notes()


def failure(node: FakeNode, notes: Notes, device: Evidence, options: Options = QUICK, claims: str = "") -> str:
    """Reason of the trouble; what was noted last says the same."""
    with pytest.raises(NodeTrouble) as caught:
        release(node.host, device, options, notes, lambda: claims)
    trouble = notes.last.trouble
    assert trouble
    assert (trouble.reason, trouble.message) == (caught.value.reason, caught.value.message)
    return caught.value.reason


def is_back(node: FakeNode, notes: Notes) -> bool:
    """Whether the device is on the bus and usable, and the evidence says so."""
    return (node.entry(A) / "driver").is_symlink() and not node.drained and notes.last.phase == "Ready" and steps(
        notes.last) == UP


def test_order_of_a_release(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    asked: list[list[str]] = []

    def claims() -> str:
        asked.append(list(node.did))
        return ""

    found = release(node.host, gpu_a, QUICK, notes, claims)
    assert node.did == [OFF, DRAIN, ASK, REMOVE]
    assert asked == [[OFF, DRAIN, ASK]]
    assert (found.phase, found.trouble, found.address) == ("Removed", None, A)
    assert steps(found) == [*UP, "Idle", "Drained", "RemovedFromBus"]
    assert [e.phase for e in notes.all] == ["Releasing"] * 3 + ["Removed"]
    assert not node.entry(A).exists()
    assert not (node.root / "dev/nvidia0").exists()
    assert node.entry(B).exists()


def test_device_that_is_gone_already(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.remove(A)
    found = release(node.host, gpu_a, QUICK, notes, free)
    assert (found.phase, steps(found)) == ("Removed", [*UP, "RemovedFromBus"])
    assert node.did == []
    assert release(node.host, found, QUICK, notes, free) == found


def test_device_that_never_came(node: FakeNode, notes: Notes) -> None:
    found = release(node.host, Evidence("Preparing", "cdi-1", uuid="GPU-z"), QUICK, notes, free)
    assert (found.phase, steps(found)) == ("Removed", [])


def test_device_that_nobody_can_tell_from_others_stays(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    unknown = Evidence("Preparing", "cdi-1", uuid="GPU-z")
    assert failure(node, notes, unknown) == "NotProven"
    assert A in str(notes.last.trouble)
    assert release(node.host, unknown, QUICK, notes, free, known=[A]).phase == "Removed"


def test_address_of_another_device_is_not_taken(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    found = release(node.host, replace(gpu_a, uuid="GPU-old"), QUICK, notes, free)
    assert (found.phase, node.did) == ("Removed", [])
    assert node.entry(A).exists()


def test_device_at_the_address_of_a_lost_one_is_found_by_its_uuid(
        node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    """The evidence of another ComposableResource still names the slot."""
    node.hold(0)
    with pytest.raises(NodeTrouble, match=r"pid 42 \(python\)"):
        release(node.host, gpu_a, QUICK, notes, free, known=[A, "GPU-lost"])
    assert is_back(node, notes)
    node.let_go()
    assert release(node.host, gpu_a, QUICK, notes, free, known=[A, "GPU-lost"]).phase == "Removed"
    assert not node.entry(A).exists()


def test_uuid_that_another_device_has_as_well_proves_nothing(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    with pytest.raises(NodeTrouble, match="GPU-a is also the UUID of another device"):
        release(node.host, gpu_a, QUICK, notes, free, known=["GPU-a"])
    assert (notes.last.phase, notes.last.trouble and notes.last.trouble.reason) == ("Ready", "NotProven")
    assert node.did == []


@pytest.mark.parametrize("uuid", ["GPU-z", ""])
def test_address_that_another_device_has_as_well_proves_nothing(node: FakeNode, notes: Notes, uuid: str) -> None:
    node.come(Card(A, "GPU-a"))
    before = Evidence("Preparing", "cdi-1", uuid=uuid, address=A)
    with pytest.raises(NodeTrouble, match=f"{A} is also the address of another device"):
        release(node.host, before, QUICK, notes, free, known=[A])
    assert (node.did, node.entry(A).exists()) == ([], True)


def test_device_of_another_at_the_address_is_told_by_its_uuid(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    before = Evidence("Preparing", "cdi-1", address=A)
    assert release(node.host, before, QUICK, notes, free, known=["GPU-a", "GPU-b", A]).phase == "Removed"
    assert (node.did, node.entry(A).exists()) == ([], True)


def test_bus_that_cannot_be_read_proves_nothing(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    assert failure(node, notes, gpu_a) == "NotProven"


def test_device_that_is_open_stays(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.hold(0)
    assert failure(node, notes, gpu_a) == "OpenOnNode"
    assert "pid 42 (python)" in str(notes.last.trouble)
    assert node.did == [OFF]
    assert is_back(node, notes)


def test_persistence_mode_is_put_back_only_where_it_was_on(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.persistent.add(A)
    node.hold(0)
    failure(node, notes, gpu_a)
    assert (node.did, node.persistent) == ([OFF, ON], {A})


@pytest.mark.parametrize("moment", [DRAIN, ASK])
def test_device_that_is_opened_meanwhile_stays(node: FakeNode, notes: Notes, gpu_a: Evidence, moment: str) -> None:
    node.before = lambda what: node.hold(0) if what == moment else None
    assert failure(node, notes, gpu_a) == "OpenOnNode"
    assert node.did == [OFF, DRAIN, ASK, UNDRAIN]
    assert is_back(node, notes)


def test_device_that_is_opened_at_the_last_moment_is_refused(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.before = lambda what: node.hold(0) if what == REMOVE else None
    assert failure(node, notes, gpu_a) == "OpenOnNode"
    assert node.did == [OFF, DRAIN, ASK, REMOVE, UNDRAIN]
    assert is_back(node, notes)


def test_claim_that_turns_up_takes_all_back(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    assert failure(node, notes, gpu_a, claims="claim a/b uses it") == "ClaimInUse"
    assert node.did == [OFF, DRAIN, ASK, UNDRAIN]
    assert is_back(node, notes)


def test_what_cannot_be_taken_back_is_told(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.answers[UNDRAIN] = Output(1, "", "cannot undrain")
    failure(node, notes, gpu_a, claims="claim a/b uses it")
    assert str(notes.last.trouble).count(f"claim a/b uses it. Taking it back failed: {UNDRAIN} ended with 1") == 1


def test_device_that_does_not_drain_stays(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.answers[ASK] = Output(0, f"The current drain state of GPU 0000{A} is: not draining.", "")
    assert failure(node, notes, gpu_a) == "CommandFailed"
    assert is_back(node, notes)
    node.answers = {DRAIN: Output(4, "", "Insufficient Permissions")}
    assert failure(node, notes, gpu_a) == "CommandFailed"


def test_where_the_tool_cannot_drain_the_kernel_removes(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.answers[DRAIN] = Output(3, "", "Failed to set drain state: Not Supported")
    found = release(node.host, gpu_a, QUICK, notes, free)
    assert (found.phase, steps(found)) == ("Removed", [*UP, "Idle", "RemovedFromBus"])
    assert node.did == [OFF, DRAIN, WRITE]


def test_where_the_tool_cannot_remove_the_kernel_does(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.answers[REMOVE] = Output(3, "", "Failed to remove: Not Supported")
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"
    assert node.did[-2:] == [REMOVE, WRITE]


def test_modules_go_before_the_last_device(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.remove(B)
    (node.root / "sys/module/nvidia_drm").mkdir()
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"
    assert node.did == [OFF, DRAIN, ASK, "modprobe -r nvidia_drm", "modprobe -r nvidia_uvm", WRITE]


def test_module_in_use_keeps_the_last_device(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.remove(B)
    (node.root / "sys/module/nvidia_drm").mkdir()
    node.answers["modprobe -r nvidia_uvm"] = Output(1, "", "modprobe: FATAL: Module nvidia_uvm is in use.")
    assert failure(node, notes, gpu_a) == "OpenOnNode"
    assert node.did[-2:] == ["modprobe nvidia_drm", UNDRAIN]
    assert is_back(node, notes)


def test_kernel_that_may_hold_it_proves_nothing(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    folder = node.root / "sys/module/nvidia_drm/parameters"
    folder.mkdir(parents=True)
    (folder / "modeset").write_text("Y\n", encoding="ascii")
    assert failure(node, notes, gpu_a) == "NotProven"
    (folder / "modeset").write_text("N\n", encoding="ascii")
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"


def test_processes_that_are_hidden_prove_nothing(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    shutil.rmtree(node.root / "proc/1")
    assert failure(node, notes, gpu_a) == "NotProven"
    assert is_back(node, notes)


def test_service_that_holds_it_is_stopped_meanwhile(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.hold(0, 77, "nv-hostengine")
    node.active["nvidia-dcgm"] = 77
    release(node.host, gpu_a, QUICK, notes, free)
    assert node.did == [OFF, "systemctl is-active --quiet nvidia-dcgm", "systemctl stop nvidia-dcgm", DRAIN, ASK,
                        REMOVE, "systemctl start nvidia-dcgm"]


def test_service_is_started_again_when_all_is_taken_back(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.hold(0, 77, "nv-hostengine")
    node.active["nvidia-dcgm"] = 77
    assert failure(node, notes, gpu_a, claims="used") == "ClaimInUse"
    assert node.did[-2:] == [UNDRAIN, "systemctl start nvidia-dcgm"]


def test_process_of_a_pod_is_not_stopped(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.hold(0, 77, "nv-hostengine")
    assert failure(node, notes, gpu_a) == "OpenOnNode"
    assert node.did == [OFF, "systemctl is-active --quiet nvidia-dcgm"]


def test_removal_that_hangs_is_told_and_left_behind(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.remove(B)
    node.before = lambda what: node.hold(0) if what == WRITE else None
    assert failure(node, notes, gpu_a) == "RemovalHung"
    assert (notes.last.phase, steps(notes.last)) == ("Releasing", [*UP, "Idle", "Drained"])
    message = str(notes.last.trouble)
    assert "Attempting to remove device 0000:10:00.0 with non-zero usage count!" in message
    assert "reboot the node" in message
    assert UNDRAIN not in node.did


def test_tool_that_hangs_is_a_removal_that_hangs(node: FakeNode, notes: Notes, gpu_a: Evidence,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(what: str) -> None:
        if what == REMOVE:
            raise NotEnded("CommandFailed", f"{what} has not ended within 1 s")

    node.before = hangs
    assert failure(node, notes, gpu_a) == "RemovalHung"
    assert UNDRAIN not in node.did


@pytest.fixture
def running() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a real process with these words, which ends when it is killed."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", "print(flush=True); input()", *words],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        assert begun[-1].stdout
        begun[-1].stdout.readline()  # before that, /proc does not have its words yet
        return begun[-1]

    yield start
    for one in begun:
        one.kill()
        one.communicate()


@pytest.mark.parametrize("work", [f"sys/bus/pci/devices/{A}/remove", REMOVE], ids=["kernel", "tool"])
def test_second_removal_is_not_begun_beside_one_that_hangs(
        node: FakeNode, notes: Notes, gpu_a: Evidence, running: Callable[..., subprocess.Popen[bytes]],
        work: str) -> None:
    """An earlier run has written down which process it began."""
    writer = running()
    left_behind.note(node.root, work, writer.pid)
    leaving = gpu_a.with_phase("Releasing").with_step("Idle", 1.0)
    assert failure(node, notes, leaving) == "RemovalHung"
    assert node.did == []
    assert f"process {writer.pid}" in str(notes.last.trouble)
    writer.kill()
    writer.wait()
    assert release(node.host, notes.last, QUICK, notes, free).phase == "Removed"


def test_process_with_the_words_of_a_removal_is_none(
        node: FakeNode, notes: Notes, gpu_a: Evidence, running: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Any pod can start a process with these arguments."""
    running(str(bus.removal_file(node.root, A)), "1")
    running("nvidia-smi", "drain", "-p", A, "-r")
    running(*node.host.command(["nvidia-smi", "drain", "-p", A, "-r"])[0])
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"


def test_process_that_got_the_number_of_a_removal_is_none(
        node: FakeNode, notes: Notes, gpu_a: Evidence, running: Callable[..., subprocess.Popen[bytes]]) -> None:
    left_behind.note(node.root, REMOVE, running().pid)
    (file,) = (node.root / left_behind.FOLDER).iterdir()
    pid, started = file.read_text().split()
    file.write_text(f"{pid} {int(started) - 1}")
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"


@pytest.mark.parametrize("moment", ["", DRAIN], ids=["from the beginning", "during the drain"])
def test_name_cut_in_the_midst_of_a_character_is_no_obstacle(
        node: FakeNode, notes: Notes, gpu_a: Evidence, moment: str) -> None:
    """The kernel cuts the name of a process after 15 bytes."""
    node.persistent.add(A)

    def come(what: str) -> None:
        if what == moment:
            (process(node.root, 42, "x", "/dev/nvidia0") / "comm").write_bytes("обучение-модели".encode()[:15] + b"\n")

    node.before = come
    come("")
    with pytest.raises(NodeTrouble, match=r"open on the node by pid 42 \(обучени\ufffd\)"):
        release(node.host, gpu_a, QUICK, notes, free)
    assert is_back(node, notes)
    assert A in node.persistent


@pytest.mark.parametrize("error", [ValueError("odd"), OSError(28, "No space left on device"), KeyboardInterrupt()],
                         ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("moment", [ASK, REMOVE])
def test_whatever_goes_wrong_is_taken_back(
        node: FakeNode, notes: Notes, gpu_a: Evidence, moment: str, error: BaseException) -> None:
    node.persistent.add(A)

    def fail(what: str) -> None:
        if what == moment:
            raise error

    node.before = fail
    with pytest.raises(type(error)):
        release(node.host, gpu_a, QUICK, notes, free)
    assert is_back(node, notes)
    assert A in node.persistent
    assert notes.last.trouble
    assert (notes.last.trouble.reason, type(error).__name__ in notes.last.trouble.message) == ("CommandFailed", True)


def test_drain_that_does_not_end_may_have_taken_effect(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    def hang(what: str) -> None:
        if what == DRAIN:
            node.drained.add(A)
            raise NotEnded("CommandFailed", "drain has not ended within 0.3 s")

    node.before = hang
    assert failure(node, notes, gpu_a) == "CommandFailed"
    assert is_back(node, notes)


def test_step_back_that_breaks_off_keeps_no_other_from_being_taken_back(
        node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.persistent.add(A)

    def fail(what: str) -> None:
        if what == UNDRAIN:
            raise ValueError("odd")

    node.before = fail
    assert failure(node, notes, gpu_a, claims="claim a/b uses it") == "ClaimInUse"
    assert "claim a/b uses it. Taking it back failed: ValueError: odd" in str(notes.last.trouble)
    assert A in node.persistent


def test_removal_that_runs_when_something_goes_wrong_is_left_alone(
        node: FakeNode, notes: Notes, gpu_a: Evidence, running: Callable[..., subprocess.Popen[bytes]]) -> None:
    def fail(what: str) -> None:
        if what == REMOVE:
            left_behind.note(node.root, REMOVE, running().pid)
            raise ValueError("odd")

    node.before = fail
    with pytest.raises(ValueError, match="odd"):
        release(node.host, gpu_a, QUICK, notes, free)
    assert UNDRAIN not in node.did
    assert notes.last.phase == "Releasing"


def test_device_that_disappears_meanwhile_is_gone(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    def pulled(what: str) -> None:
        if what == DRAIN:
            node.remove(A)

    node.before, node.answers[ASK] = pulled, Output(6, "", "No devices were found")
    found = release(node.host, gpu_a, QUICK, notes, free)
    assert (found.phase, found.trouble) == ("Removed", None)


def test_device_that_no_longer_answers_is_removed_by_the_kernel(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    (node.entry(A) / "config").write_bytes(b"\xff" * 64)
    assert release(node.host, gpu_a, QUICK, notes, free).phase == "Removed"
    assert node.did == [WRITE]


def test_device_without_its_driver_is_removed_by_the_kernel(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    before = Evidence("Preparing", "cdi-1", uuid="GPU-a", address=A).with_step("OnBus", 1.0)
    found = release(node.host, before, QUICK, notes, free)
    assert (found.phase, node.did) == ("Removed", [WRITE])


def test_force_removes_what_cannot_be_proven_idle(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    shutil.rmtree(node.root / "proc/1")
    node.answers = {OFF: Output(9, "", "no"), DRAIN: Output(9, "", "no"), REMOVE: Output(9, "", "no")}
    found = release(node.host, gpu_a, FORCED, notes, lambda: "claim a/b uses it")
    assert (found.phase, steps(found)) == ("Removed", [*UP, "RemovedFromBus"])
    assert node.did == [OFF, DRAIN, REMOVE, WRITE]


def test_force_may_hang_in_the_kernel(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.hold(0)
    assert failure(node, notes, gpu_a, FORCED) == "RemovalHung"
    assert node.did[-2:] == [REMOVE, WRITE]


def test_other_vendors_device_leaves_its_driver(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "", {"vendor": "0x1da3"}, "0x120000"), "vfio-pci")
    (node.entry(A) / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    number(node.root / "sys/class/vfio/17", "240:17")
    before = Evidence("Ready", "cdi-1", address=A).with_step("Touched", 1.0)
    process(node.root, 42, "qemu", "/dev/vfio/17")
    assert failure(node, notes, before) == "OpenOnNode"
    node.let_go()
    found = release(node.host, before, QUICK, notes, free)
    assert (found.phase, node.did) == ("Removed", [f"drivers/vfio-pci/unbind {A}", WRITE])


def test_claim_gives_another_vendors_device_its_driver_back(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "", {"vendor": "0x1da3"}, "0x120000"), "vfio-pci")
    (node.entry(A) / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    number(node.root / "sys/class/vfio/17", "240:17")

    def refuse(what: str) -> None:
        if what == WRITE:
            raise bus.NotDone("refused")

    node.before = refuse
    assert failure(node, notes, Evidence("Ready", "cdi-1", address=A)) == "CommandFailed"
    assert (node.entry(A) / "driver").is_symlink()


def test_cxl_memory_is_free_when_it_can_be_disabled(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "", {"vendor": "0x1c2c"}, "0x050210"), "cxl_pci")
    before = Evidence("Ready", "cdi-1", address=A).with_step("Touched", 1.0)
    assert failure(node, notes, before) == "NotProven"
    number(node.entry(A) / "mem0", "252:0")
    node.answers["cxl enable-memdev mem0"] = Output(0, "", "")
    node.answers["cxl disable-memdev mem0"] = Output(1, "", "cxl memdev: mem0 is part of an active region")
    assert failure(node, notes, before) == "OpenOnNode"
    node.answers["cxl disable-memdev mem0"] = Output(0, "disabled 1 mem", "")
    found = release(node.host, before, QUICK, notes, free)
    assert (found.phase, steps(found)) == ("Removed", ["Touched", "Idle", "Drained", "RemovedFromBus"])


def test_release_that_was_cut_off_goes_on(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.drained.add(A)
    cut_off = gpu_a.with_phase("Releasing").with_step("Idle", 1.0)
    assert release(node.host, cut_off, QUICK, notes, free).phase == "Removed"


def test_release_that_was_cut_off_is_taken_back_as_well(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.drained.add(A)
    node.hold(0)
    assert failure(node, notes, gpu_a.with_phase("Releasing").with_step("Idle", 1.0)) == "OpenOnNode"
    assert is_back(node, notes)


def test_release_that_is_no_longer_asked_for(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.drained.add(A)
    cut_off = gpu_a.with_phase("Releasing").with_step("Idle", 1.0).with_trouble("OpenOnNode", "x", 1.0)
    assert take_back(node.host, cut_off, QUICK, notes) == gpu_a
    assert is_back(node, notes)


def test_take_back_of_a_device_that_has_left(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.remove(A)
    assert take_back(node.host, gpu_a.with_phase("Releasing"), QUICK, notes).phase == "Removed"


def test_take_back_that_fails_is_told(node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    node.answers[UNDRAIN] = Output(1, "", "cannot undrain")
    with pytest.raises(NodeTrouble, match="cannot undrain"):
        take_back(node.host, gpu_a.with_phase("Releasing"), QUICK, notes)
    assert notes.last.trouble
    assert notes.last.phase == "Releasing"
