# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes that have the same names are as dicts to everybody who reads them, in less than half of the bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.label_selector import (
    selects,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import node_labels
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_labels import LabelNames

FEATURES = {f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(50)}


def labels_of(number: int) -> dict[str, str]:
    return {"kubernetes.io/hostname": f"worker-{number}", **FEATURES}


@pytest.mark.parametrize("labels", [{}, {"a": "b"}, {"a": ""}, labels_of(1)])
def test_they_are_as_a_dict(labels: dict[str, str]) -> None:
    made = LabelNames().labels(labels)
    assert made == labels
    assert labels == made
    assert {**made} == labels
    assert list(made.items()) == list(labels.items())
    assert len(made) == len(labels)
    assert made.get("not there") is None
    assert "not there" not in made
    assert all(name in made and made[name] == value for name, value in labels.items())
    with pytest.raises(KeyError):
        made["not there"]
    assert repr(made) == repr(labels)


def test_selectors_read_them() -> None:
    made = LabelNames().labels({"zone": "a", "gpu": "yes"})
    assert selects({"matchLabels": {"zone": "a"}}, made)
    assert selects({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, made)
    assert not selects({"matchExpressions": [{"key": "other", "operator": "Exists"}]}, made)


def test_nodes_of_other_names_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_labels, "_MOST", 2)
    names = LabelNames()
    found = [{f"label-{n}": "a", "b": str(n)} for n in range(10)]
    assert [names.labels(each) for each in found] == found
    assert len(names._known) <= 2


def taken(names: LabelNames | None) -> int:
    tracemalloc.start()
    kept = [names.labels(labels_of(n)) if names else labels_of(n) for n in range(200)]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == 200
    return size


def test_they_take_less_than_half_of_a_dict() -> None:
    assert taken(LabelNames()) < 0.5 * taken(None)
