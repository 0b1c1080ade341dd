# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that are gone leave nothing behind in the engine: it runs for months, and uids never come twice."""

from __future__ import annotations

import copy
import gc
import types
import typing as t
from collections.abc import Iterable, Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.watch import store
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GATHER_SECONDS, RequestKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, kind_of

Json = dict[str, t.Any]
Live = tuple[ControllerManager, Bench]
GONE = "gone-with-a-name-of-its-own"
NOT_OURS = (types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, type)


@pytest.mark.parametrize("raw", [
    {**objects.local_slice("GPU-1"), "metadata": objects.meta(GONE)},
    objects.claim(GONE, objects.pool_result()),
    objects.resource(GONE, device="d1", serial="GPU-1"),
    objects.request(GONE),
    objects.pod(GONE),
], ids=lambda raw: raw["kind"])
def test_nothing_is_remembered_of_what_is_gone(quiet: Live, monkeypatch: pytest.MonkeyPatch, raw: Json) -> None:
    monkeypatch.setattr(store, "_TOMBSTONES", 0)
    monkeypatch.setitem(GATHER_SECONDS, RequestKey, 0.01)
    engine, bench = quiet
    bench.put(objects.resource("stays", serial="GPU-1"), raw)
    _work(engine, "ADDED", raw)
    assert GONE in _texts(engine, bench), "it was never known: the test would show nothing"
    bench.drop(raw)
    _work(engine, "DELETED", raw)
    assert GONE not in _texts(engine, bench)


def _work(engine: ControllerManager, kind: str, raw: Json) -> None:
    """The engine is told, plans, and works on what that called for."""
    kept = engine.state.stores[kind_of(raw)].trimmed(copy.deepcopy(raw))
    engine.dispatch.watched(kind, kind_of(raw), kept, None if kind == "ADDED" else kept)
    node_snapshot(engine.state, "node-0")
    while not engine.queue.idle():
        if key := engine.queue.get():
            engine.workers.reconcile(key)
            engine.queue.done(key)


def _texts(engine: ControllerManager, bench: Bench) -> str:
    """Every text that the engine reaches; left out are the stand-ins, and the news, which have a limit.

    Left out, too, is what a ComposabilityRequest that is there says of its claims, as many as its own limit allows: it
    goes with the next size.
    """
    seen = {id(each) for each in (bench.api, bench.fabric, engine.reporter.history)}
    requests = engine.state.requests.list()  # as long as they are held they are not decoded anew
    seen |= {id(cohdi.annotation(request, cohdi.CLAIMS)) for request in requests}
    seen |= {id(request.claims) for request in engine.state.requests.each_value()}
    return "\n".join(text for text in _reached([engine], seen) if isinstance(text, str))


def _reached(roots: Iterable[object], seen: set[int]) -> Iterator[object]:
    """All objects behind these, each once; ``seen``: ids of those that are left out."""
    waiting = list(roots)
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, NOT_OURS):
            continue
        seen.add(id(found))
        yield found
        waiting += gc.get_referents(found)
