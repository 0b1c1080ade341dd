# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A technician puts another board into the slot of a device."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import swap_board

NEW = "GPU-new-board"


def test_new_board_in_the_slot_of_an_idle_device_returns_to_the_pool() -> None:
    with telling(hold=20.0) as story:
        # A device is idle on a node. A technician swaps the board in its slot. The CDI Manager
        # still uses the same name for the slot.
        story.start("train")
        slot = story.device()
        story.end("train")
        swap_board(story, slot, NEW)

        # The slot returns to the pool after the hold time. The next pod gets a device as usual.
        story.wait("the slot is free", story.all_returned)
        assert story.asked("detached") == [slot]
        story.start("next")
        assert story.errors() == []


def test_new_board_is_given_to_nobody_while_a_claim_has_the_old_one() -> None:
    with telling() as story:
        # The board is swapped although a pod uses it. The pod has lost the old board, which no
        # software can repair.
        node = story.start("train")
        slot = story.device()
        swap_board(story, slot, NEW)

        # The slot stays with the claim that has it, and the ComposableResource reports that.
        story.wait("the claim is named", story.errors)
        assert story.errors() == ["not detached: claim train-first uses it"]
        assert story.asked("detached") == []

        # Another pod gets another slot.
        story.start("second")
        (other,) = set(story.devices()) - {slot}

        # The administrator deletes the pod. The slot returns, and the other pod keeps its device.
        story.end("train")
        story.wait("the slot is free", lambda: slot not in story.devices())
        assert list(story.devices()) == [other]
        assert story.runs("second")
        assert node in {each.name for each in story.world.nodes}
