# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on several labs at a time: one process for each lab, with its share of the seeds.

A run mostly waits, so one lab leaves most of a processor idle.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import typing as t
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from ansible_collections.composable.infra.tests.chaos.on_lab.logs import keep_logs
from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome, on_lab
from ansible_collections.composable.infra.tests.chaos.runs import scenario

Work: t.TypeAlias = Callable[[Sequence[int], "Path | None"], Iterator[LabOutcome]]


class LabEnded(RuntimeError):
    """The process of a lab ended before its share was done."""


def of_seeds(seeds: Sequence[int], keep: Path | None) -> Iterator[LabOutcome]:
    """Yield the outcome of each seed on one lab. Copy the logs of failed runs into the folder
    ``keep``.
    """
    logging.getLogger("ansible_collections.composable.infra").setLevel(logging.CRITICAL)
    for outcome, stage in on_lab(scenario(seed) for seed in seeds):
        if outcome.violations and keep:
            keep_logs(stage, outcome.seed, keep)
        yield outcome


def side_by_side(seeds: Sequence[int], labs: int, keep: Path | None = None,
                 work: Work = of_seeds) -> Generator[LabOutcome, None, None]:
    """Yield the outcomes as the labs finish them.

    Closing the iterator interrupts the processes and waits until each has stopped its lab. Raise
    LabEnded.
    """
    processes: dict[Connection, SpawnProcess] = {}
    try:
        for share in filter(None, (seeds[number::labs] for number in range(labs))):
            reader, process = _start(share, keep, work)
            processes[reader] = process
        while processes:
            for reader in t.cast("list[Connection]", wait(list(processes))):
                try:
                    yield reader.recv()
                except EOFError:
                    _ended(processes.pop(reader))
    finally:
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(t.cast(int, process.pid), signal.SIGINT)
        for process in processes.values():
            process.join()


def _start(share: Sequence[int], keep: Path | None, work: Work) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(work, share, keep, writer))
    process.start()
    writer.close()  # so that the end of the process ends the pipe
    return reader, process


def _tell(work: Work, share: Sequence[int], keep: Path | None, writer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that SIGINT is ignored
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(t.cast("t.Any", work(share, keep))) as outcomes:
        for outcome in outcomes:
            writer.send(outcome)


def _ended(process: SpawnProcess) -> None:
    process.join()
    if process.exitcode:
        raise LabEnded(f"the process of a lab ended with exit status {process.exitcode}; what it said stands above")
