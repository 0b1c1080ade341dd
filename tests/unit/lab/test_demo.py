# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo refuses, and when things happened in its table."""

from __future__ import annotations

import argparse

import pytest

from ansible_collections.composable.infra.lab.demo.__main__ import check
from ansible_collections.composable.infra.lab.demo.autoscale import body, told
from ansible_collections.composable.infra.lab.demo.report import table
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes, last_of, limits, name_of
from ansible_collections.composable.infra.lab.errors import LabError


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
    ({"front_door": "rulebook"}, "--door rulebook is not usable with --mode autoscale: it must be controller"),
    ({"nodes": "real"}, "--nodes real is not usable with --mode autoscale: it must be simulated"),
    ({"kubernetes": "1.35"}, "--kubernetes 1.35 is not usable with --mode autoscale"),
])
def test_autoscale_is_for_the_controller_on_simulated_nodes(changes: dict[str, str], words: str) -> None:
    given = {"nodes": "simulated", **changes}
    with pytest.raises(LabError, match=words):
        check(options(mode="autoscale", **given))
    check(options(mode="autoscale", nodes="simulated"))


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


def test_the_table_has_the_call_where_there_was_one() -> None:
    asked = ClaimTimes("train", created=100.0, called=101.5, reallocated=104.0, running=105.0)
    other = ClaimTimes("infer", created=100.0, allocated=100.5, running=105.0)
    head, _rule, row = table([asked]).splitlines()[:3]
    assert dict(zip(head.split()[:4], row.split()[:3], strict=False))["claim"] == "train"
    assert "called" in head.split()
    assert row.split()[1:4] == ["autoscaler", "1.50", "4.00"]
    assert "'called'" in table([asked])
    assert "called" not in table([other])
