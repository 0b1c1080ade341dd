# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply changes, by their names, to a capture."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from .capture import Capture
from .fabric_changes import read_add_devices, read_lose_devices
from .node_changes import read_drain_node, read_lose_node
from .options import BadChange, Change, Options
from .pod_changes import read_add_pods
from .settings_changes import read_settings

Read = Callable[[Options, Capture], Change]
CHANGES: t.Final[Mapping[str, Read]] = {
    "add_devices": read_add_devices, "lose_devices": read_lose_devices, "drain_node": read_drain_node,
    "lose_node": read_lose_node, "add_pods": read_add_pods, "settings": read_settings}


def changed(capture: Capture, given: Sequence[Mapping[str, t.Any]]) -> Capture:
    """Return a copy of the capture after the changes, applied in order.

    ``given`` has for each change its name as ``change``, and its fields. Raise BadChange, which
    names the change by its index.
    """
    for number, fields in enumerate(given):
        where = f"changes[{number}]"
        if not isinstance(fields, Mapping):
            raise BadChange(where, fields, "must be a mapping with change and its fields")
        options = Options(fields, where)
        capture = CHANGES[options.one_of("change", CHANGES)](options, capture).made(capture)
    return capture
