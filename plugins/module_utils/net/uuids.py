# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store UUIDs in a text as 17 bytes instead of 36. A large cluster has hundreds of thousands."""

from __future__ import annotations

import binascii
import re
import typing as t

_UUID: t.Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# The mark is in no UTF-8 text.
_MARKED: t.Final = re.compile(rb"\xff(.{16})", re.DOTALL)


def shortened(text: bytes) -> bytes:
    """Replace each lower-case UUID in a UTF-8 text by a mark and its 16 bytes."""
    return _UUID.sub(_short, text)


def lengthened(text: bytes) -> bytes:
    """Return the original of a shortened text."""
    return _MARKED.sub(_long, text)


def _short(uuid: re.Match[bytes]) -> bytes:
    return b"\xff" + binascii.unhexlify(uuid[0].replace(b"-", b""))


def _long(marked: re.Match[bytes]) -> bytes:
    digits = binascii.hexlify(marked[1])
    return b"-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
