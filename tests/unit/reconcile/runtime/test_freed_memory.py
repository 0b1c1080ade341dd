# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was freed goes back to the kernel where the C library can, and nothing happens where it cannot."""

from __future__ import annotations

import ctypes
import gc
import os
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.freed_memory import (
    give_back,
    spare_collections,
)
from ansible_collections.composable.infra.tests.bench.process import rss


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_what_was_freed_goes_back() -> None:
    blocks = [bytearray(60_000) for _each in range(1000)]
    held = [blocks[i] for i in range(0, 1000, 50)]  # so that the heap cannot simply shrink
    del blocks
    full = rss(os.getpid())
    give_back()
    assert rss(os.getpid()) < full - 20
    assert len(held) == 20


@pytest.mark.parametrize("library", [object(), OSError("no C library")])
def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch, library: t.Any) -> None:
    def found(_name: None) -> t.Any:
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", found)
    assert give_back() is False


def test_what_was_read_is_left_out_of_collections() -> None:
    try:
        spare_collections()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
