# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was freed goes back to the kernel where the C library can, and nothing happens where it cannot."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.freed_memory import (
    give_back,
    share_arena,
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
    assert share_arena() is False


# Blocks that the C library gives to threads of their own: with arenas of theirs malloc_info(3) shows some.
ARENAS = """
import ctypes, sys, threading
from {module} import share_arena
assert sys.argv[1] != "shared" or share_arena()
library, here = ctypes.CDLL(None), threading.Barrier(4)
def use():
    library.malloc(100_000)
    here.wait()
for _each in range(3):
    threading.Thread(target=use).start()
here.wait()
library.fdopen.restype = ctypes.c_void_p
library.malloc_info(0, ctypes.c_void_p(library.fdopen(1, b"w")))
library.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
@pytest.mark.parametrize("how", ["shared", "as they are"])
def test_threads_share_one_arena(how: str) -> None:
    code = ARENAS.format(module=share_arena.__module__)
    env = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    done = subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True, env=env)
    assert (done.stdout.count("<heap nr=") == 1) == (how == "shared")


def test_what_was_read_is_left_out_of_collections() -> None:
    try:
        spare_collections()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
