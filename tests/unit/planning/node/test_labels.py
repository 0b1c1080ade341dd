# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node labels: they open a node to pools, and close it while nothing more can be attached."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Action, LabelNode
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import label_problems
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import (
    plan_device_labels,
    plan_fabric_label,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import NodeSnapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    H100,
    T4,
    held,
    node,
    online,
    request,
    settings,
    used,
)

SETTINGS = settings()
ALL_OPEN = {"cohdi.io/a100": "true", "cohdi.io/h100": "true", "cohdi.io/t4": "true"}


def labels(actions: list[Action]) -> dict[str, str | None]:
    """What a list of at most one action changes."""
    found = [dict(a.labels) for a in actions if isinstance(a, LabelNode)]
    assert len(found) == len(actions) <= 1
    return found[0] if found else {}


def closed(view: NodeSnapshot) -> set[str]:
    """Models for which a node that was open to all becomes closed."""
    changed = labels(plan_device_labels(view, SETTINGS))
    assert set(changed.values()) <= {None}
    return set(changed)


def opened(*parts: t.Any, **more: t.Any) -> NodeSnapshot:
    """A node whose labels open it to every model."""
    return node(*parts, **{"labels": ALL_OPEN, **more})


def test_empty_node_is_opened_to_every_model() -> None:
    assert labels(plan_device_labels(node(), SETTINGS)) == ALL_OPEN


def test_open_node_is_left_alone() -> None:
    assert plan_device_labels(opened(), SETTINGS) == []


def test_only_what_differs_is_written() -> None:
    view = node(labels={"cohdi.io/a100": "true", "cohdi.io/t4": "false", "other": "x"})
    assert labels(plan_device_labels(view, SETTINGS)) == {"cohdi.io/h100": "true", "cohdi.io/t4": "true"}


def test_installed_model_closes_those_it_cannot_be_with() -> None:
    assert closed(opened(online("r", H100))) == {"cohdi.io/a100", "cohdi.io/t4"}
    assert closed(opened(online("r", A100))) == {"cohdi.io/h100"}
    assert closed(opened(request(1, T4))) == {"cohdi.io/h100"}


def test_request_of_size_zero_closes_nothing() -> None:
    assert closed(opened(request(0, H100))) == set()


def test_model_comes_back_when_the_other_has_left() -> None:
    view = node(labels={"cohdi.io/h100": "true"})
    assert labels(plan_device_labels(view, SETTINGS)) == {"cohdi.io/a100": "true", "cohdi.io/t4": "true"}


def test_blocked_model_is_closed() -> None:
    assert closed(opened(blocked={T4: "none left"})) == {"cohdi.io/t4"}


def test_node_without_a_machine_is_closed() -> None:
    assert closed(opened(machine=None)) == set(ALL_OPEN)


@pytest.mark.parametrize("count", [1, 2])
def test_full_node_is_closed(count: int) -> None:
    view = opened(used("a"), held("b"), online("c"), labels={**ALL_OPEN, "cohdi.io/a100-size-max": str(1 + count)})
    assert ("cohdi.io/a100" in closed(view)) is (count == 1)


def test_node_that_is_gone_is_not_labelled() -> None:
    assert plan_device_labels(node(exists=False), SETTINGS) == []
    assert plan_fabric_label(node(exists=False), SETTINGS) == []


def test_device_labels_use_the_configured_prefix() -> None:
    changed = labels(plan_device_labels(node(), settings(label_prefix="gpu.example")))
    assert set(changed) == {"gpu.example/a100", "gpu.example/h100", "gpu.example/t4"}


def test_fabric_label_is_set_changed_and_removed() -> None:
    assert labels(plan_fabric_label(node(), SETTINGS)) == {"cohdi.io/fabric": "1"}
    assert plan_fabric_label(node(labels={"cohdi.io/fabric": "1"}), SETTINGS) == []
    assert labels(plan_fabric_label(node(fabric=0, labels={"cohdi.io/fabric": "1"}), SETTINGS)) == {
        "cohdi.io/fabric": "0"}
    gone = node(fabric=None, machine=None, problem="no such machine", labels={"cohdi.io/fabric": "1"})
    (action,) = plan_fabric_label(gone, SETTINGS)
    assert (labels([action]), action.reason) == ({"cohdi.io/fabric": None}, "no such machine")


def test_limit_that_is_no_number_is_named() -> None:
    labels = {"cohdi.io/a100-size-max": "many", "cohdi.io/a100-size-min": "1", "cohdi.io/other-size-max": "x"}
    assert label_problems(node(labels=labels), SETTINGS) == [
        "label cohdi.io/a100-size-max of node node-0 is ignored: 'many' is not a whole number"]
