# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent keeps on its node."""

from __future__ import annotations

import threading
from pathlib import Path

from ansible_collections.composable.infra.controller.agent.host_files import FOLDER, DevicesBefore, only_agent
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import until


def test_a_second_agent_waits_for_the_first_to_end(tmp_path: Path) -> None:
    began, stop = list[bool](), threading.Event()

    def second() -> None:
        with only_agent(tmp_path, stop) as alone:
            began.append(alone)

    with only_agent(tmp_path, threading.Event()) as alone:
        assert alone
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        assert began == []
    until("the second works", lambda: began == [True])
    thread.join(10.0)


def test_a_second_that_is_stopped_does_not_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with only_agent(tmp_path, threading.Event()), only_agent(tmp_path, stop) as alone:
        assert not alone


def test_what_was_there_before_is_taken_down_once(tmp_path: Path) -> None:
    bus = ["0000:10:00.0"]
    assert DevicesBefore(tmp_path, lambda: bus).addresses() == {"0000:10:00.0"}
    bus.append("0000:11:00.0")
    assert DevicesBefore(tmp_path, lambda: bus).addresses() == {"0000:10:00.0"}
    (tmp_path / FOLDER / "devices-before.json").write_text("half a wo", encoding="utf-8")
    assert DevicesBefore(tmp_path, lambda: bus).addresses() == set(bus)


def test_what_a_newer_agent_has_taken_down_is_left_and_replaced_by_caution(tmp_path: Path) -> None:
    """Who cannot read what was there before counts all that is there now."""
    bus = ["0000:10:00.0"]
    DevicesBefore(tmp_path, lambda: bus).addresses()
    file, newer = tmp_path / FOLDER / "devices-before.json", '{"version": 2, "devices": []}'
    file.write_text(newer, encoding="utf-8")
    bus.append("0000:11:00.0")
    assert DevicesBefore(tmp_path, lambda: bus).addresses() == {*bus}
    assert file.read_text(encoding="utf-8") == newer, "a newer agent finds its file again"
