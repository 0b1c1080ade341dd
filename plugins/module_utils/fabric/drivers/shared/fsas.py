# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common formats of Fsas's FM and CM: errors, and the health of a device."""

from __future__ import annotations

import json
import typing as t

from ...http.request import ErrorBody

_HEALTH: t.Final = {"0": "OK", "1": "Warning", "2": "Critical"}


def read_error(body: t.Any) -> ErrorBody | None:
    """Read ``{status, detail: {code, message, data}}``. Return None for another format.

    The message is a text or JSON text.
    """
    detail = body.get("detail") if isinstance(body, dict) else None
    if not isinstance(detail, dict) or not ("code" in detail or "message" in detail):
        return None
    code, message = detail.get("code"), detail.get("message")
    return ErrorBody(None if code is None else str(code), _plain(message) or "no message")


def _plain(message: t.Any) -> str:
    """Return a message as words.

    JSON text like ``{"field": "mach_uuid"}`` becomes ``field: mach_uuid``.
    """
    if isinstance(message, str):
        try:
            inner = json.loads(message)
        except ValueError:
            return message
        return _plain(inner) if isinstance(inner, (dict, list)) else message
    if isinstance(message, dict):
        return ", ".join(f"{key}: {_plain(value)}" for key, value in message.items())
    if isinstance(message, list):
        return ", ".join(_plain(value) for value in message)
    return "" if message is None else str(message)


def health(op_status: t.Any) -> str:
    """Return the health from the first character of ``res_op_status``.

    0 is OK, 1 is Warning, 2 is Critical, and anything else is Unknown.
    """
    return _HEALTH.get(str(op_status or "")[:1], "Unknown")
