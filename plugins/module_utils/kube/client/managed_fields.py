# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode JSON of the API server without ``metadata.managedFields``, which is unused and often half
of an object.

Decoding it to Python objects is expensive, so it is cut out of the text. The cut is made only if
the text proves where the list ends. Otherwise the field is decoded like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# A quote without a backslash before it, a name and a colon are a key in JSON, never a part of a
# value.
_KEY = b'"managedFields":[{'
_MARK = b'"fieldsType":"FieldsV1"'


def loads(text: bytes) -> Any:
    """Return the decoded value. Raise ValueError."""
    return json.loads(without_managed_fields(text).decode())


def loads_lines(lines: list[bytes]) -> Iterable[Any]:
    """Return the value of each line. Decode all lines at once if all are valid.

    Raise ValueError at the first invalid line.
    """
    stripped = [without_managed_fields(line) for line in lines]
    try:
        values = json.loads((b"[%s]" % b",".join(stripped)).decode())
    except ValueError:
        return map(json.loads, stripped)
    return values if len(values) == len(stripped) else map(json.loads, stripped)


def without_managed_fields(text: bytes) -> bytes:
    """Return the same JSON without the lists of managed fields with a certain end."""
    at = text.find(_KEY)
    if at < 0:
        return text
    kept: list[bytes] = []
    start = 0
    while at >= 0:
        end = _end(text, at)
        if end:
            first, after = _with_comma(text, at, end)
            kept.append(text[start:first])
            start = after
        at = text.find(_KEY, end or at + len(_KEY))
    kept.append(text[start:])
    return b"".join(kept)


def _end(text: bytes, at: int) -> int:
    """Return the end of the list that begins after ``at``, 0 if it is not certain."""
    end = text.find(b"}]", at) + 2
    if end < 2 or text.find(_MARK, at, end) < 0:
        return 0
    # Only one bracket is opened, and no string is open at its end. The closing bracket belongs to
    # it.
    escaped = text.count(b'\\"', at, end)
    open_string = (text.count(b'"', at, end) - escaped) % 2
    certain = text.count(b"[", at, end) == 1 and text.count(b"\\", at, end) == escaped
    return end if certain and not open_string else 0


def _with_comma(text: bytes, at: int, end: int) -> tuple[int, int]:
    if text[end : end + 1] == b",":
        return at, end + 1
    return (at - 1 if text[at - 1 : at] == b"," else at), end
