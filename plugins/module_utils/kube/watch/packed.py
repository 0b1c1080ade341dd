# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects in few bytes. Objects of one kind are similar, so each is stored as its difference from a
few others.

A decoded object costs ten to fifty times as much. A separate coder for each kind would need every
new field. Deflate with a dictionary (RFC 1950) finds by itself what objects have in common.
"""

from __future__ import annotations

import json
import threading
import typing as t
import zlib

from .parts import Trimmed

_WINDOW: t.Final = 1 << 14
# Dictionaries are made after 1, 8, 64 … packed objects, so that the first ones need not be typical.
_FACTOR: t.Final = 8
_MOST: t.Final = 255
_encode: t.Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode: t.Final = json.JSONDecoder().raw_decode
# Level of zlib, and the memory of a coder, which is copied for each object. Level 6 and memory 8
# take a third longer, and make objects a fourteenth smaller.
_LEVEL, _MEMORY, _WINDOW_BITS = 3, 5, 14


class Packer:
    """Packs objects of one kind, and learns from those that had least in common with earlier ones.
    Thread-safe.

    The first byte is the number of the dictionary with which an object was packed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dictionaries: list[bytes] = []
        self._decoders: list[t.Any] = []
        self._samples = b""
        self._count, self._next = 0, 1
        self._lengths = [0, 0]
        self._take(b"")

    def pack(self, obj: Trimmed) -> bytes:
        """Return the object as bytes. Raise ValueError or TypeError if it is not JSON."""
        text = _encode(obj).encode("ascii")
        obj.length = len(text)
        with self._lock:
            number, coder = len(self._dictionaries) - 1, self._coder.copy()
            packed: bytes = bytes((number,)) + coder.compress(text) + coder.flush()
            self._learn(text, packed)
        return packed

    def unpack(self, packed: bytes) -> Trimmed:
        """Return the object."""
        text = self._decoders[packed[0]].copy().decompress(packed[1:])
        obj = Trimmed(_decode(text.decode())[0])
        obj.length = len(text)
        return obj

    def _learn(self, text: bytes, packed: bytes) -> None:
        """Collect samples for the next dictionary: objects that pack worse than the mean, the
        newest last.
        """
        self._count += 1
        self._lengths = [self._lengths[0] + len(text), self._lengths[1] + len(packed)]
        if len(packed) * self._lengths[0] >= len(text) * self._lengths[1]:
            self._samples = (self._samples + text)[-_WINDOW // 2:]
        if self._count >= self._next and len(self._dictionaries) < _MOST:
            self._take((self._dictionaries[-1] + self._samples)[-_WINDOW:])
            self._next, self._samples, self._lengths = self._next * _FACTOR, b"", [0, 0]

    def _take(self, dictionary: bytes) -> None:
        """Use this dictionary from now on. States of zlib are made once and copied, since making
        them costs most.
        """
        self._coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -_WINDOW_BITS, _MEMORY, zlib.Z_DEFAULT_STRATEGY,
                                       dictionary)
        self._decoders.append(zlib.decompressobj(-_WINDOW_BITS, dictionary))
        self._dictionaries.append(dictionary)
