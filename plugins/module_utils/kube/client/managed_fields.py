# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of the API server without ``metadata.managedFields``: often half of an object, and nobody here reads it.

Making Python objects of it is what costs, so it is cut out of the text. The cut is made only where the text proves
where the list ends; elsewhere the field is decoded like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# A quote without a backslash before it, a name, a colon: in JSON that is a key, never a part of a value.
_KEY = b'"managedFields":[{'
_MARK = b'"fieldsType":"FieldsV1"'


def loads(text: bytes) -> Any:
    """The value. Raises ValueError."""
    return json.loads(without_managed_fields(text).decode())


def loads_lines(lines: list[bytes]) -> Iterable[Any]:
    """The value of each line, all decoded in one go where all are good. Raises ValueError at the first bad one."""
    stripped = [without_managed_fields(line) for line in lines]
    try:
        values = json.loads((b"[%s]" % b",".join(stripped)).decode())
    except ValueError:
        return map(json.loads, stripped)
    return values if len(values) == len(stripped) else map(json.loads, stripped)


def without_managed_fields(text: bytes) -> bytes:
    """The same JSON without the lists of managed fields that can be told apart surely."""
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
    """Where the list that begins after ``at`` ends, 0 when that is not certain."""
    end = text.find(b"}]", at) + 2
    if end < 2 or text.find(_MARK, at, end) < 0:
        return 0
    # One bracket opened in all, and no string open at its end: the closing one belongs to it.
    escaped = text.count(b'\\"', at, end)
    open_string = (text.count(b'"', at, end) - escaped) % 2
    certain = text.count(b"[", at, end) == 1 and text.count(b"\\", at, end) == escaped
    return end if certain and not open_string else 0


def _with_comma(text: bytes, at: int, end: int) -> tuple[int, int]:
    if text[end : end + 1] == b",":
        return at, end + 1
    return (at - 1 if text[at - 1 : at] == b"," else at), end
