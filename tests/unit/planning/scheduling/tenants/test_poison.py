# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One tenant's pod that cannot be read, or that takes long to read, is its own trouble: the others get their nodes."""

from __future__ import annotations

import time
from unittest import mock

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.cel.parser import (
    UnsupportedExpression,
    compile_expression,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.feasibility import FeasibilityCheck
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.queue import QueuedPod
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    exactly,
    gated,
    node,
    nodes_by_pod,
    plan,
    release,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.tenants.poison_support import (
    LONG,
    POISON,
)

NAME = f'device.attributes["{DRIVER}"].productName'


@pytest.mark.parametrize("expression", POISON.values(), ids=list(POISON))
def test_selector_of_one_pod_stops_no_other(expression: str) -> None:
    began = time.process_time()
    found = plan(node("n"), gated("good"), gated("evil", exactly(A100, 1, expression)), free=4)
    assert nodes_by_pod(found).get("good") == "n"
    assert "evil" not in nodes_by_pod(found)
    assert len(release(found, "evil").reason) < 20000
    assert time.process_time() - began < 5.0


def test_selectors_of_a_pod_are_bounded_together() -> None:
    many = [f'{NAME} != "{number}"' for number in range(32)]
    requests = [exactly(A100, 1, *(f'{each} && "{number}" != "x"' for each in many)) for number in range(4)]
    found = plan(node("n"), gated("good"), gated("evil", *requests), free=9)
    assert "its claims have more than 64 selectors" in release(found, "evil").reason
    patterns = [f'{NAME}.matches("^NVIDIA {number}")' for number in range(17)]
    found = plan(node("n"), gated("p", exactly(A100, 1, *patterns)), free=9)
    assert release(found, "p").reason == "its claims use matches more than 16 times"


@pytest.mark.parametrize(("text", "pattern", "answer"), [
    ("NVIDIA A100 80GB PCIe", "^NVIDIA A100.*80GB.*$", True), ("NVIDIA A100", "A100|H100", True),
    ("NVIDIA L4", "^NVIDIA (A100|H100) ?", False), (LONG, "a*a*a*b", None), (LONG, "(a|aa)" * 20, None)])
def test_pattern_is_searched_for_where_that_ends_soon(text: str, pattern: str, answer: bool | None) -> None:
    holds = compile_expression(f'"{text}".matches("{pattern}")')
    assert holds(mock.Mock()) is answer


@pytest.mark.parametrize("expression", ["1" * 19 + " == 1", "true" + " && true" * 256])
def test_expression_is_refused_that_is_too_long_to_evaluate(expression: str) -> None:
    with pytest.raises(UnsupportedExpression):
        compile_expression(expression)


def test_error_while_a_pod_is_placed_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FeasibilityCheck.best

    def best(self: FeasibilityCheck, pod: QueuedPod) -> object:
        if pod.gated.ref.name == "evil-2":
            raise RecursionError("maximum recursion depth exceeded")
        return real(self, pod)

    monkeypatch.setattr(FeasibilityCheck, "best", best)
    evil = [gated(f"evil-{number}", age=9 - number, group=("default/g", 2)) for number in (1, 2)]
    found = plan(node("n"), *evil, gated("good", age=1), free=2)
    assert nodes_by_pod(found) == {"good": "n"}
    assert {r.pod.name for r in found.releases} == {"evil-1", "evil-2"}
    assert "could not be planned: RecursionError" in release(found, "evil-1").reason


def test_what_a_failed_group_had_taken_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FeasibilityCheck.best

    def best(self: FeasibilityCheck, pod: QueuedPod) -> object:
        if pod.gated.ref.name == "evil-2":
            raise KeyError("x")
        return real(self, pod)

    monkeypatch.setattr(FeasibilityCheck, "best", best)
    evil = [gated(f"evil-{number}", age=9 - number, group=("default/g", 2)) for number in (1, 2)]
    assert nodes_by_pod(plan(node("n"), *evil, gated("good", age=1), free=1)) == {"good": "n"}


def test_pod_that_cannot_be_read_is_let_go() -> None:
    evil = gated("evil")
    evil.raw["spec"]["tolerations"] = [7]
    found = plan(node("n"), evil, gated("good"), free=2)
    assert nodes_by_pod(found) == {"good": "n"}
    assert "could not be planned: AttributeError" in release(found, "evil").reason
