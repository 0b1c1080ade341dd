# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CXL memory is sanitized before it leaves the node, once it is proven idle, and never while somebody uses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import sanitize
from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.release import release, take_back
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.tests.unit.node.fake_node import QUICK, A, Card, FakeNode, Notes, steps
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import process

DISABLE, ENABLE = "cxl disable-memdev mem0", "cxl enable-memdev mem0"
BEGIN, ERASE = f"devices/{A}/mem0/security/sanitize 1", f"devices/{A}/mem0/security/erase 1"
REMOVE = f"devices/{A}/remove 1"
DOWN = ["Touched", "Idle", "SanitizeStarted", "Sanitized", "Drained", "RemovedFromBus"]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    return FakeNode(tmp_path, monkeypatch)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def free() -> str:
    return ""


def failure(node: FakeNode, notes: Notes, device: Evidence, claims: str = "") -> NodeTrouble:
    """The trouble of a release that does not come to its end."""
    with pytest.raises(NodeTrouble) as caught:
        release(node.host, device, QUICK, notes, lambda: claims)
    assert notes.last.trouble
    assert (notes.last.trouble.reason, notes.last.trouble.message) == (caught.value.reason, caught.value.message)
    assert REMOVE not in node.did
    return caught.value


def test_memory_is_sanitized_after_the_proof_and_before_the_removal(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    asked: list[int] = []

    def claims() -> str:
        asked.append(len(node.did))
        return ""

    found = release(node.host, memory, QUICK, notes, claims)
    assert node.did == [DISABLE, ENABLE, BEGIN, DISABLE, REMOVE]
    assert asked == [1], "the claims are asked before anything is destroyed"
    assert (found.phase, steps(found)) == ("Removed", DOWN)


def test_kernel_that_offers_an_erasure_only(node: FakeNode, notes: Notes) -> None:
    found = release(node.host, node.memory(A, "erase"), QUICK, notes, free)
    assert ERASE in node.did
    assert steps(found) == DOWN


def test_memory_that_cannot_be_sanitized_leaves_without_the_step(node: FakeNode, notes: Notes) -> None:
    found = release(node.host, node.memory(A), QUICK, notes, free)
    assert (found.phase, steps(found)) == ("Removed", ["Touched", "Idle", "Drained", "RemovedFromBus"])


@pytest.mark.parametrize("security", [(), ("sanitize",)])
def test_memory_whose_file_is_open_is_not_idle(node: FakeNode, notes: Notes, security: tuple[str, ...]) -> None:
    memory = node.memory(A, *security)
    process(node.root, 42, "trainer", "/dev/cxl/mem0")
    trouble = failure(node, notes, memory)
    assert (trouble.reason, notes.last.phase) == ("OpenOnNode", "Ready")
    assert "trainer" in trouble.message
    assert BEGIN not in node.did
    assert not node.drained


def test_memory_of_a_claim_is_not_sanitized(node: FakeNode, notes: Notes) -> None:
    assert failure(node, notes, node.memory(A, "sanitize"), "the claim a/b has it").reason == "ClaimInUse"
    assert BEGIN not in node.did
    assert (notes.last.phase, node.drained) == ("Ready", set())


def test_memory_that_decodes_addresses_is_refused_by_the_tool(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    node.committed.add(A)
    assert failure(node, notes, memory).reason == "OpenOnNode"
    assert BEGIN not in node.did


def test_region_that_came_before_the_sanitizing_is_refused_by_the_kernel(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    node.before = lambda what: node.committed.add(A) if what == ENABLE else None
    trouble = failure(node, notes, memory)
    assert (trouble.reason, notes.last.phase, steps(notes.last)) == ("OpenOnNode", "Ready", ["Touched"])
    assert "Device or resource busy" in trouble.message
    assert not node.drained


def test_sanitizing_that_takes_long_goes_on_and_is_not_begun_again(node: FakeNode, notes: Notes) -> None:
    memory, node.sanitize_lasts = node.memory(A, "sanitize"), True
    trouble = failure(node, notes, memory)
    assert (trouble.reason, notes.last.phase) == ("Sanitizing", "Releasing")
    assert steps(notes.last) == ["Touched", "Idle", "SanitizeStarted"]
    assert node.drained == {"mem0"}, "nobody new can use it meanwhile"
    again = Evidence.parse(notes.last.to_json())
    assert again
    assert failure(node, notes, again).reason == "Sanitizing"
    node.security(A, "disabled")
    found = release(node.host, notes.last, QUICK, notes, free)
    assert (found.phase, steps(found), found.trouble) == ("Removed", DOWN, None)
    assert node.did.count(BEGIN) == 1


def test_release_that_was_taken_back_forgets_what_was_sanitized(node: FakeNode, notes: Notes) -> None:
    memory, node.sanitize_lasts = node.memory(A, "sanitize"), True
    failure(node, notes, memory)
    back = take_back(node.host, notes.last, QUICK, notes)
    assert (back.phase, steps(back), node.drained) == ("Ready", ["Touched"], set())
    node.security(A, "disabled")
    node.sanitize_lasts = False
    assert steps(release(node.host, back, QUICK, notes, free)) == DOWN
    assert node.did.count(BEGIN) == 2


def test_sanitizing_that_somebody_else_began_is_waited_for_and_repeated(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    node.security(A, "sanitize")
    assert failure(node, notes, memory).reason == "Sanitizing"
    assert BEGIN not in node.did
    node.security(A, "disabled")
    assert steps(release(node.host, notes.last, QUICK, notes, free)) == DOWN
    assert node.did.count(BEGIN) == 1


def test_locked_memory_stays_and_the_reason_is_reported(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    node.security(A, "locked")
    trouble = failure(node, notes, memory)
    assert (trouble.reason, notes.last.phase) == ("CommandFailed", "Ready")
    assert "Invalid argument" in trouble.message


def test_state_that_cannot_be_read_proves_nothing(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    (node.entry(A) / "mem0/security/state").unlink()
    assert failure(node, notes, memory).reason == "NotProven"
    with pytest.raises(NotProven, match="security/state cannot be read"):
        sanitize.is_under_way(node.root, A)


def test_forced_release_goes_on_though_the_memory_is_not_sanitized(node: FakeNode, notes: Notes) -> None:
    memory = node.memory(A, "sanitize")
    node.security(A, "locked")
    found = release(node.host, memory, replace(QUICK, force=True), notes, free)
    assert (found.phase, "Sanitized" in steps(found)) == ("Removed", False)


@pytest.mark.parametrize(("security", "reason"), [((), "NotSanitizable"), (("sanitize",), ""), (("erase",), "")])
def test_memory_that_cannot_be_sanitized_is_reported_when_it_comes(
    node: FakeNode, notes: Notes, security: tuple[str, ...], reason: str
) -> None:
    node.memory(A, *security)
    found = bring_up(node.host, Wanted("cdi-m", "0x1a2b"), QUICK, notes)
    assert (found.phase, found.trouble.reason if found.trouble else "") == ("Ready", reason)


def test_nothing_is_offered_for_other_devices(node: FakeNode) -> None:
    node.come(Card(A, "GPU-a"))
    assert sanitize.offered(Host(node.root).root, A) == ""
