# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that computes on a GPU, on a made-up CUDA whose functions have the types of cuda.h."""

from __future__ import annotations

import ctypes
import sys
import typing as t
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

import pytest

from ansible_collections.composable.infra.tests.hardware import compute, node

MEMORY = 0x7F00_0000_2000  # needs more than 32 bits, as addresses of a GPU do
# From 0 on, as Numerical Recipes prints them for this generator.
FIRST = [1013904223, 1196435762, 3519870697]


class Cuda:
    """A GPU that computes the kernel's steps. `fails`: the function that does not; `wrong`: it computes nothing."""

    def __init__(self, fails: str = "", wrong: bool = False) -> None:
        self.fails, self.wrong = fails, wrong
        self.source, self.words = b"", [0] * compute.THREADS

    def __getattr__(self, name: str) -> t.Any:
        known: dict[str, tuple[tuple[t.Any, ...], t.Callable[..., None]]] = {
            "cuInit": ((c_uint,), lambda flags: None),
            "cuDeviceGet": ((POINTER(c_int), c_int), lambda device, number: put(device, number)),
            "cuDevicePrimaryCtxRetain": ((POINTER(c_void_p), c_int), lambda context, device: put(context, 16)),
            "cuCtxSetCurrent": ((c_void_p,), lambda context: None),
            "cuModuleLoadData": ((POINTER(c_void_p), c_char_p), self._load),
            "cuModuleGetFunction": ((POINTER(c_void_p), c_void_p, c_char_p), lambda out, module, name: put(out, 48)),
            "cuMemAlloc_v2": ((POINTER(c_uint64), c_size_t), lambda out, size: put(out, MEMORY)),
            "cuLaunchKernel": ((c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p), self._launch),
            "cuCtxSynchronize": ((), lambda: None),
            "cuMemcpyDtoH_v2": ((c_void_p, c_uint64, c_size_t), self._copy)}
        types, body = known[name]

        def call(*arguments: t.Any) -> int:
            body(*arguments)
            return 700 if name == self.fails else 0

        return CFUNCTYPE(c_int, *types)(call)

    def _load(self, module: t.Any, source: bytes) -> None:
        self.source = source
        put(module, 32)

    def _launch(self, function: int, *arguments: t.Any) -> None:
        *sizes, _stream, values, _extra = arguments
        assert (function, sizes) == (48, [1, 1, 1, compute.THREADS, 1, 1, 0])
        assert c_uint64.from_address(values[0]).value == MEMORY
        rounds = c_uint.from_address(values[1]).value
        self.words = [0 if self.wrong else steps(thread, rounds) for thread in range(compute.THREADS)]

    def _copy(self, to: int, of: int, size: int) -> None:
        assert (of, size) == (MEMORY, 4 * compute.THREADS)
        ctypes.memmove(to, (c_uint32 * compute.THREADS)(*self.words), size)


def put(pointer: t.Any, value: int) -> None:
    """Write through a pointer."""
    pointer[0] = value


def steps(value: int, rounds: int) -> int:
    """The kernel's steps one by one."""
    for _step in range(rounds):
        value = (value * 1664525 + 1013904223) % 2**32
    return value


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "ROUNDS", 5)


def test_expected_results() -> None:
    assert [compute.expected(1, rounds) for rounds in (1, 2, 3)] == [[value] for value in FIRST]
    assert compute.expected(3, 7) == [steps(thread, 7) for thread in range(3)]


def test_right_result() -> None:
    cuda = Cuda()
    compute.Kernel(cuda).run()
    assert b".visible .entry compute(" in cuda.source


def test_wrong_result_and_a_call_that_fails() -> None:
    with pytest.raises(compute.Failed, match="wrong result"):
        compute.Kernel(Cuda(wrong=True)).run()
    with pytest.raises(compute.Failed, match="cuCtxSynchronize of libcuda"):
        compute.Kernel(Cuda(fails="cuCtxSynchronize")).run()


def test_program_without_cuda() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(node.NotUsable, match="install NVIDIA's driver"), node.computing(*node.on_host("GPU-0")):
            pass
    else:
        pytest.skip("this machine has libcuda.so.1")


def python(source: str) -> list[str]:
    """A command in the program's place."""
    return [sys.executable, "-c", source]


def test_block_begins_when_it_computes_and_the_program_ends_with_it() -> None:
    argv = python("print('a warning'); print('computes', flush=True); __import__('sys').stdin.read()")
    with node.computing(argv) as program:
        assert program.poll() is None
    assert program.returncode == 0


def test_program_that_fails_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="wrong result"), node.computing(python("print('a wrong result')")):
        pass
    with pytest.raises(AssertionError, match="a wrong result"), node.computing(
            python("print('computes', flush=True); __import__('sys').stdin.read(); exit('a wrong result')")):
        pass
