# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device as FM shows it, and as CM shows it in ``detail``."""

from __future__ import annotations

import typing as t

from ....pool.pool import PooledDevice

_OP_STATUS: t.Final = {"OK": "00", "Warning": "10", "Critical": "20"}
_IN_USE: t.Final = 4


def resource(device: PooledDevice) -> dict[str, t.Any]:
    """Return a composable device."""
    op_status = _OP_STATUS.get(device.health, "")
    return described(device.spec.uid, device.spec.name, device.kind, op_status, device.spec.serial, device.spec.model)


def described(uid: str, name: str, kind: str, op_status: str, serial: str, model: str) -> dict[str, t.Any]:
    """Return a part of a machine, composable or built in."""
    return {
        "res_uuid": uid, "res_name": name, "res_type": kind, "res_status": _IN_USE, "res_op_status": op_status,
        "res_serial_num": serial,
        "res_spec": {"condition": [{"column": "model", "operator": "eq", "value": model}]},
    }
