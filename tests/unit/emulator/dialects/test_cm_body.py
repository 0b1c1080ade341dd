# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated CM accepts what the client sends and names the field of everything else."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.emulator.dialects.cm.body import INCREASE, REMOVE, Resize, resize
from ansible_collections.composable.infra.emulator.dialects.shared.fsas.errors import MALFORMED, FsasError
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Size
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.cm.wire import (
    Entry,
    Spec,
    increase_body,
    remove_body,
)

SPEC = Spec("s", "gpu", "A", Size(None, None), 1, (Entry(Device("d", "A", serial="GPU-d"), "ADD_COMPLETE", "", "00"),))


def test_what_the_client_sends_is_understood() -> None:
    assert resize(increase_body(SPEC, 2)) == Resize("s", 3)
    assert resize(remove_body(SPEC, ["d"])) == Resize("s", 0, ("GPU-d",))


GOOD = {"spec_uuid": "s", "device_count": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "body"), ({}, "body"), ({"other": {}}, "body"), ({INCREASE: GOOD, REMOVE: GOOD}, "body"),
        ({INCREASE: []}, INCREASE), ({INCREASE: {"spec_uuid": "s"}}, INCREASE), ({REMOVE: GOOD}, REMOVE),
        ({INCREASE: {**GOOD, "devices": ["d"]}}, INCREASE),
        ({INCREASE: {**GOOD, "spec_uuid": ""}}, f"{INCREASE}.spec_uuid"),
        ({INCREASE: {**GOOD, "device_count": "1"}}, f"{INCREASE}.device_count"),
        ({INCREASE: {**GOOD, "device_count": True}}, f"{INCREASE}.device_count"),
        ({INCREASE: {**GOOD, "device_count": -1}}, f"{INCREASE}.device_count"),
        ({REMOVE: {**GOOD, "devices": []}}, f"{REMOVE}.devices"),
        ({REMOVE: {**GOOD, "devices": ["d", "d"]}}, f"{REMOVE}.devices"),
        ({REMOVE: {**GOOD, "devices": [1]}}, f"{REMOVE}.devices"),
    ],
)
def test_anything_else_is_refused_by_its_field(body: t.Any, field: str) -> None:
    with pytest.raises(FsasError) as caught:
        resize(body)
    assert (caught.value.status, caught.value.code) == (400, MALFORMED)
    assert json.loads(caught.value.message)["field"] == field
