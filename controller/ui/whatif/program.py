# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The child process that answers one question.

It reads a capture from its input, and uses no cluster or network.

It sets its limits before it reads anything, so that it ends even if its controller is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
import resource
import sys
import typing as t
from collections.abc import Iterable, Sequence
from pathlib import Path

from ansible_collections.composable.infra.controller.ui.whatif import figures
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.comparison import Comparison
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay import simulation
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import (
    by_namespace,
    longest,
)

NO_NODES = "There is nothing to replay: no node has a machine that the CDI Manager shows."
NOTHING_TO_REPLAY = ("There is nothing to replay: the cluster has no claim, and no new pods are set. "
                     "Set the new pods per hour.")
TOO_LARGE = "The cluster is too large for the memory that the controller may use for a question. Capture it with the " \
            "module fabric_capture, and use the module fabric_whatif."
NICE = 5


def limit(seconds: int, memory: int) -> None:
    """Limit the processor time (s) and the memory (bytes) of this process.

    If memory is short, the kernel ends this process before others.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def read(lines: Iterable[str]) -> tuple[Json, Capture]:
    """Read question and capture from lines. Raises BadCapture.

    The first line has the question and the capture without objects. Each further line has one
    object, sorted by kind.
    """
    given = iter(lines)
    head = json.loads(next(given))
    objects: dict[str, Sequence[Json]] = dict.fromkeys(head["capture"]["objects"], ())
    for kind, of_kind in itertools.groupby(map(json.loads, given), operator.itemgetter(0)):
        objects[kind] = tuple(raw for _kind, raw in of_kind)
    return head["question"], capture_file.of_document({**head["capture"], "objects": objects}, "the page's capture")


def answered(lines: Iterable[str]) -> Json:
    """Return the answer to the question in the lines.

    Raises BadCapture, BadChange and BadSetting.
    """
    question, found = read(lines)
    if not found.of("nodes") or not found.fabric.machines:
        return {"error": NO_NODES}
    return told(found, question)


def told(before: Capture, question: Json) -> Json:
    """Return rows of tables with words, before and after. Raises BadChange and BadSetting."""
    after = changed(before, question["changes"])
    compared = Comparison(answer(before), answer(after))
    plan = {"taken": before.taken, "plan": list(compared.sums())[1:], "claims": list(compared.rows())[1:]}
    if question["simulate"]:
        return {**plan, **_replayed(before, after, question["simulate"])}
    empty = not compared.before.claims and not compared.after.claims
    return {**plan, **({"note": NOTHING_TO_REPLAY} if empty else {})}


def _replayed(before: Capture, after: Capture, given: Json) -> Json:
    asked = simulation.read_question(given)
    one, other = simulation.simulated(before, asked), simulation.simulated(after, asked)
    return {"figures": figures.rows(one.spreads, other.spreads), "hours": asked.hours, "seeds": len(asked.seeds),
            "durations": dict(other.durations),
            "namespaces": [[each["namespace"], each["wait_p95"], each["waiting"]]
                           for each in by_namespace(other.records)],
            "longest": [[each["pod"], each["waited"], each["runs"]] for each in longest(other.records[0])]}


def main(argv: t.Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Write the answer to standard output, a JSON object, with ``error`` if there is no answer."""
    limit(int(argv[0]), int(argv[1]))
    try:
        found = answered(sys.stdin)
    except MemoryError:
        found = {"error": TOO_LARGE}
    except (BadConfig, BadSetting) as error:
        found = {"error": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
