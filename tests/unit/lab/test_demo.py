# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo refuses, and when things happened in its table."""

from __future__ import annotations

import argparse
import re
from typing import Any

import pytest

from ansible_collections.composable.infra.lab.demo.__main__ import check
from ansible_collections.composable.infra.lab.demo.autoscale import body, told
from ansible_collections.composable.infra.lab.demo.device_lines import DeviceLines
from ansible_collections.composable.infra.lab.demo.report import table
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes, last_of, limits, name_of
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence


def options(**changes: str) -> argparse.Namespace:
    return argparse.Namespace(**{"nodes": "real", "front_door": "controller", "kubernetes": "1.36", "mode": "gated",
                                 **changes})


@pytest.mark.parametrize(("changes", "words"), [
    ({"front_door": "rulebook"}, "--door rulebook is not usable with --nodes real"),
    ({"front_door": "playbook"}, "--door playbook is not usable with --nodes real"),
    ({"kubernetes": "1.35"}, "--kubernetes 1.35 is not usable with --nodes real"),
])
def test_real_nodes_are_for_the_controller(changes: dict[str, str], words: str) -> None:
    with pytest.raises(LabError, match=words):
        check(options(**changes))
    check(options(**changes, nodes="simulated"))
    check(options())


def test_device_that_comes_again_is_told_of_its_first_time_since_the_claim() -> None:
    moments = [[5.0, 12.0, 30.0], [11.0, 40.0]]
    assert last_of(moments, 10.0) == 12.0
    assert last_of(moments, 35.0) == 40.0
    assert last_of(moments, 50.0) is None


@pytest.mark.parametrize(("changes", "words"), [
    ({"front_door": "rulebook"}, "--door rulebook is not usable with --mode {mode}: it must be controller"),
    ({"nodes": "real"}, "--nodes real is not usable with --mode {mode}: it must be simulated"),
    ({"kubernetes": "1.35"}, "--kubernetes 1.35 is not usable with --mode {mode}"),
])
@pytest.mark.parametrize("mode", ["autoscale", "kueue"])
def test_some_modes_are_for_the_controller_on_simulated_nodes(mode: str, changes: dict[str, str], words: str) -> None:
    given = {"nodes": "simulated", **changes}
    with pytest.raises(LabError, match=words.format(mode=mode)):
        check(options(mode=mode, **given))
    check(options(mode=mode, nodes="simulated"))


def test_the_providers_decisions_are_told_and_nothing_else_of_its_log() -> None:
    lines = [
        "2026-01-01T00:00:00.000Z INFO    listening on http://127.0.0.1:1, answering Cluster Autoscaler on port 2",
        "2026-01-01T00:00:01.000Z INFO    AttachDecided pod default/train: node node-0: has room",
        "2026-01-01T00:00:02.000Z WARNING NodeGroupDeleteNodes refused: node node-0: stays",
        "AttachDecided without a time is part of something else"]
    assert list(told("\n".join(lines))) == [
        ("2026-01-01T00:00:01.000Z", "AttachDecided pod default/train: node node-0: has room"),
        ("2026-01-01T00:00:02.000Z", "NodeGroupDeleteNodes refused: node node-0: stays")]


def test_a_pod_that_asks_by_an_extended_resource_is_known_by_its_own_name() -> None:
    pod = body("train", 2)
    assert limits(pod) == ["nvidia.com/gpu"]
    assert limits({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}}) == []
    meta = {"name": "train-extended-resources-x1", "ownerReferences": [{"kind": "Pod", "name": "train"}]}
    assert name_of({"metadata": meta}) == "train-extended-resources-x1", "a claim of a template is known by its name"
    special = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    assert name_of({"metadata": {**meta, **special}}) == "train"


def cells(text: str) -> dict[str, list[str]]:
    """The rows of a table by their words, without the sign of who was waited for."""
    found = (re.split(r" {2,}", line.strip()) for line in text.partition("Seconds since")[0].splitlines())
    return {first[2:] if first[1:2] == " " else first: rest for first, *rest in found}


GATED = ClaimTimes("train", created=10.0, held=10.0, opened=14.0, asked=10.5, attached=12.5, on_bus=12.6, bound=12.7,
                   touched=12.8, plugin_restarted=13.0, visible=13.5, reallocated=14.25, running=14.5, node="node-0")
DIRECT = ClaimTimes("infer", created=20.0, allocated=20.5, asked=20.6, attached=22.6, condition=23.0, ready=True,
                    bound_at=25.0, visible=40.0, running=25.5, node="node-1")
IDLE = ClaimTimes("again", created=30.0, reallocated=30.05, running=30.25, node="node-1")


def test_the_table_has_a_column_for_each_pod_and_the_words_of_the_picture() -> None:
    text = table([GATED, DIRECT, IDLE])
    assert cells(text) == {
        "seconds": ["train", "infer", "again"],
        "node": ["node-0", "node-1", "node-1"],
        "way": ["gated", "direct", "idle device"],
        "device of the pool allocated": ["-", "0.50", "-"],
        "attach requested": ["0.50", "0.60", "-"],
        "attached by the fabric": ["2.50", "2.60", "-"],
        "on the bus, driver, in the slice": ["3.50", "-", "-"],
        "gate removed, or condition written": ["4.00", "3.00", "-"],
        "bound, or reallocated": ["4.25", "5.00", "0.05"],
        "pod started": ["4.50", "5.50", "0.25"]}
    assert max(map(len, text.splitlines())) <= 80
    signs = {line[:1] for line in text.partition("Seconds since")[0].splitlines()[3:]}
    assert signs <= set("#=+.")


def test_the_steps_of_a_node_are_for_who_asks_for_them() -> None:
    rows = cells(table([GATED], verbose=True))
    assert [rows[name] for name in ("on the bus", "driver bound", "touched", "DRA plugin restarted")] == [
        ["2.60"], ["2.70"], ["2.80"], ["3.00"]]
    assert "touched" not in cells(table([GATED]))


def test_the_table_has_the_call_where_there_was_one() -> None:
    asked = ClaimTimes("train", created=100.0, called=101.5, reallocated=104.0, running=105.0)
    other = ClaimTimes("infer", created=100.0, allocated=100.5, running=105.0)
    rows = cells(table([asked]))
    assert (rows["way"], rows["node chosen by the provider"]) == (["autoscaler"], ["1.50"])
    assert rows["bound, or reallocated"] == ["4.00"]
    assert "node chosen by the provider" not in cells(table([other]))


def attached(name: str, claim: str = "") -> dict[str, Any]:
    """A ComposableResource on node-0."""
    notes = {"composable.infra/claim": f"default/{claim} uid-1"} if claim else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"target_node": "node-0"}}


UUID = "GPU-31c21fc3-21cf-5f86-adc5-a5023d013f8d"


def test_a_device_is_one_line_with_the_pod_that_it_is_for() -> None:
    lines, coming = DeviceLines(), Evidence("Preparing", "d1", uuid=UUID).with_step("OnBus", 1.0)
    assert [*lines.of(attached("gpu-a", "train"), coming)] == []
    ready = coming.with_phase("Ready")
    told = [*lines.of(attached("gpu-a", "train"), ready), *lines.of(attached("gpu-a", "train"), ready)]
    assert told == [("train", "GPU-31c21fc3 on node-0: ready")]
    assert [*lines.of(attached("gpu-b"), ready)] == [("node-0", "GPU-31c21fc3 on node-0: ready")]


def test_a_step_that_a_node_writes_twice_is_one_line() -> None:
    lines = DeviceLines(verbose=True)
    twice = [Evidence("Preparing", "d1", uuid=UUID).with_step("OnBus", moment) for moment in (1.0, 1.2)]
    told = [line for found in twice for line in lines.of(attached("gpu-a", "train"), found)]
    assert told == [("train", "GPU-31c21fc3 on node-0: on the bus")]
