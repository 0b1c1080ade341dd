# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute on the first GPU that CUDA sees, until the standard input ends.

A program of its own, which imports the standard library alone: a container runs it, too. It calls the CUDA driver API,
so that a node needs NVIDIA's driver and no toolkit.
"""

from __future__ import annotations

import ctypes
import select
import sys
import typing as t

COMPUTES = "computes"
NO_LIBRARY, WRONG = 3, 1
THREADS, ROUNDS = 256, 1 << 20
_FACTOR, _SUM, _WORD = 1664525, 1013904223, 0xFFFFFFFF
# Each thread begins with its number and takes `rounds` steps of a linear congruential generator. ptxas of CUDA 12.9
# and 13.5 assembles it for sm_75 to sm_120.
PTX = f"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry compute(.param .u64 out, .param .u32 rounds) {{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4;
    ld.param.u32 %r1, [rounds];
again:
    mad.lo.u32 %r0, %r0, {_FACTOR}, {_SUM};
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra again;
    ld.param.u64 %rd0, [out];
    cvta.to.global.u64 %rd1, %rd0;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r0;
    ret;
}}
"""


class Failed(Exception):
    """The GPU did not compute, or computed something else."""


class Kernel:
    """The kernel on the first GPU. `library`: libcuda.so.1. Raises Failed when CUDA refuses a call."""

    def __init__(self, library: t.Any) -> None:
        self._library = library
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._function, self._out = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX.encode("ascii")))
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, ctypes.c_char_p(b"compute"))
        self._call("cuMemAlloc_v2", ctypes.byref(self._out), ctypes.c_size_t(4 * THREADS))
        self._right = expected(THREADS, ROUNDS)

    def run(self) -> None:
        """Let all threads compute once. Raises Failed, also when a result is wrong."""
        rounds, found = ctypes.c_uint(ROUNDS), (ctypes.c_uint32 * THREADS)()
        values = (ctypes.c_void_p * 2)(ctypes.addressof(self._out), ctypes.addressof(rounds))
        sizes = [ctypes.c_uint(size) for size in (1, 1, 1, THREADS, 1, 1, 0)]
        self._call("cuLaunchKernel", self._function, *sizes, None, values, None)
        self._call("cuCtxSynchronize")
        self._call("cuMemcpyDtoH_v2", found, self._out, ctypes.c_size_t(4 * THREADS))
        if list(found) != self._right:
            raise Failed("the GPU computed a wrong result")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise Failed(f"{name} of libcuda.so.1 returned {code}")


def expected(threads: int, rounds: int) -> list[int]:
    """Return what each of the threads computes in this number of steps: many steps are one, with another factor."""
    factor, added = 1, 0
    for _step in range(rounds):
        factor, added = factor * _FACTOR & _WORD, (added * _FACTOR + _SUM) & _WORD
    return [(factor * thread + added) & _WORD for thread in range(threads)]


def main() -> int:
    """Write COMPUTES when a first result was right. Return 0 at the end, NO_LIBRARY or WRONG after a sentence."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"libcuda.so.1 is not usable ({error}): install NVIDIA's driver with its CUDA library")
        return NO_LIBRARY
    try:
        kernel = Kernel(library)
        kernel.run()
        print(COMPUTES, flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            kernel.run()
    except Failed as error:
        print(error)
        return WRONG
    return 0


if __name__ == "__main__":
    sys.exit(main())
