# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that watches needs few bytes for each further device.

It keeps the value of the ComposableResource, which has the texts of its annotations, and the entries of its indexes. It
needs 2,300 bytes, of which 1,100 are annotations.

Bytes are counted as Python allocates them, so that the machine has no part in it. Threads of earlier tests may allocate
meanwhile, so the smallest of three growths counts.
"""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
import typing as t
import uuid
from itertools import pairwise

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import BaseStore
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.bench.large import objects

# Devices that are there before and after: between them no store makes a new dictionary (packed.py), and what is
# remembered of parsed annotations is full.
FROM, TO, MORE = 1100, 1700, 200
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NODE = objects.name_of(0)


def resources() -> t.Iterator[str]:
    """ComposableResources of eight devices on each node, each with UUIDs of its own, as they are sent."""
    text = json.dumps(objects.resource(0, 0))
    for number in range(TO):
        for known in set(UUID.findall(text)):
            text = text.replace(known, str(uuid.uuid5(uuid.UUID(known), "next")))
        yield text.replace(NODE, objects.name_of(number // objects.GPUS))


def fill(store: BaseStore, sent: list[str]) -> int:
    """These are decoded and come; bytes that are allocated then."""
    for text in sent:
        store.upsert(json.loads(text))
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_a_device_more_takes_few_bytes() -> None:
    state, sent = ClusterState(Settings.from_dict({"device_info": [objects.ROW]})), list(resources())
    tracemalloc.start()
    try:
        filled = [fill(state.resources, sent[:FROM])]
        filled += [fill(state.resources, sent[begin:begin + MORE]) for begin in range(FROM, TO, MORE)]
    finally:
        tracemalloc.stop()
    assert len(state.resources) == TO
    assert min(after - before for before, after in pairwise(filled)) / MORE < 2530
