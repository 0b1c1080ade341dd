# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of the module fabric_device, sampled where its requests are written: only files that
docs/contributors/code.md lists, and the log-in, which lasts for many requests."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path
from types import FrameType

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.bodies import fabric_device
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient
from ansible_collections.composable.infra.tests.integration.fabric.conftest import MODEL
from ansible_collections.composable.infra.tests.unit.house.walk import UTILS, listed

PLUGINS = Path(fabric_device.__file__).parents[2]
LOGIN = {f"{UTILS}fabric/http/auth.py", f"{UTILS}fabric/http/token.py"}


def files_of(frame: FrameType | None) -> set[str]:
    """Files of plugins on a stack."""
    found = set()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PLUGINS):
            found.add(f"plugins/{path.relative_to(PLUGINS).as_posix()}")
        frame = frame.f_back
    return found


def test_an_attach_passes_only_through_files_that_are_listed(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, request = list[set[str]](), HttpClient.request

    def sampling(self: HttpClient, *args: t.Any, **more: t.Any) -> t.Any:
        found.append(files_of(sys._getframe(1)))
        return request(self, *args, **more)

    monkeypatch.setattr(HttpClient, "request", sampling)
    args = {**emulator.fabric_config(), "machine": "node-0", "model": MODEL, "count": 1}
    with patch_module_args(args), pytest.raises(SystemExit):
        fabric_device.main()
    assert '"changed": true' in capsys.readouterr().out
    assert len(found) >= 3, "log-in, a look at the machine, the attach"
    assert sorted(set().union(*found) - set(listed("fabric_device")) - LOGIN) == []
