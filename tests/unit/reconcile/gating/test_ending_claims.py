# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which allocated claims have only pods that leave: told by the changes of pods, and as a look at all would tell."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import ending_claims
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]
NOW, END = 1_800_000_000.0, 1_800_000_060.0


def allocated(name: str = "train", *consumers: str) -> Json:
    return objects.claim(name, objects.local_result(), pods=consumers or (name,))


def leaving(name: str, end: float = NOW) -> Json:
    """A pod that was deleted, and whose grace period ends then."""
    pod = objects.pod(name)
    pod["metadata"]["deletionTimestamp"] = format_time(end)
    return pod


def names(bench: Bench) -> list[str]:
    return sorted(claim.name for claim in bench.state.ending_claims.until(NOW, END))


def test_claim_of_a_pod_that_runs(bench: Bench) -> None:
    bench.put(allocated(), objects.pod(phase="Running"))
    assert names(bench) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_claim_of_a_pod_that_has_ended(bench: Bench, phase: str) -> None:
    bench.put(allocated(), objects.pod(phase=phase))
    assert names(bench) == ["train"]


def test_claim_of_a_pod_that_is_gone_until_its_allocation_goes(bench: Bench) -> None:
    bench.put(allocated(), objects.pod(phase="Running"))
    assert names(bench) == []
    bench.state.pods.remove(bench.state.pods.list()[0])
    assert names(bench) == ["train"] == names(bench)
    bench.put(objects.claim())
    assert names(bench) == []


@pytest.mark.parametrize(("end", "found"), [
    (NOW, True), (END, True), (END + 1, False), (NOW - 10, True), (NOW - 11, False)],
    ids=["now", "in time", "later than it is waited for", "a little late", "it hangs"])
def test_grace_period_of_a_pod_that_leaves(bench: Bench, end: float, found: bool) -> None:
    bench.put(allocated(), leaving("train", end))
    assert names(bench) == ["train"] * found == names(bench)


def test_the_last_pod_of_a_shared_claim_counts(bench: Bench) -> None:
    bench.put(allocated("shared", "a", "b"))
    for name in "ab":
        bench.put({**objects.pod(name), "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}})
    assert names(bench) == []
    bench.put({**leaving("a"), "spec": bench.state.pods.list()[0]["spec"]})
    assert names(bench) == []
    bench.put({**leaving("b", NOW + 30), "spec": bench.state.pods.list()[0]["spec"]})
    assert names(bench) == ["shared"]
    assert bench.state.ending_claims.until(NOW, NOW + 20) == []


def test_claim_of_a_pod_group_does_not_end(bench: Bench) -> None:
    """Which pods of the group use it is not looked for, so it is not counted on."""
    bench.put(objects.claim("shared", objects.local_result(), reservedFor=[objects.POD_GROUP]))
    assert names(bench) == []


def test_claim_that_nobody_gave_devices(bench: Bench) -> None:
    bench.put(objects.claim(), leaving("train"))
    assert names(bench) == []


def everything(state: ClusterState) -> list[str]:
    """Each claim looked at, one by one."""
    there = {pod["metadata"]["uid"]: pod for pod in state.pods.list()}
    return sorted(claim["metadata"]["name"] for claim in state.claims.list() if claims.results(claim) and all(
        pods.ended(there[each["uid"]]) for each in claims.consumers(claim) if each["uid"] in there))


@pytest.mark.parametrize("seed", range(5))
def test_changes_of_pods_are_enough(bench: Bench, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, several = random.Random(seed), 0
    for number in range(6):
        bench.put(allocated(f"p{number}"), objects.pod(f"p{number}", phase="Running"))
    monkeypatch.setattr(ending_claims, "STEP", 1)
    ahead = bench.state.ending_claims.ahead()
    for _unused in range(60):
        if rng.random() < 0.5:
            next(ahead, None)
        name = f"p{rng.randrange(6)}"
        pod = bench.state.pods.value(name, "default")
        if pod is None or rng.random() < 0.3:
            bench.put(objects.pod(name, phase=rng.choice(("Running", "Succeeded"))))
        elif rng.random() < 0.4:
            bench.state.pods.remove(pod)
        elif rng.random() < 0.5:
            bench.put(leaving(name))
        else:
            bench.put(objects.claim(name) if pod.ended else allocated(name))
        if rng.random() < 0.7:
            assert names(bench) == everything(bench.state)
        several += len(names(bench)) > 1
    assert several, f"seed {seed}: several claims must end at a time"


def test_claims_that_were_judged_ahead_are_not_judged_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3 * ending_claims.STEP):
        bench.put(allocated(f"p{number}"), objects.pod(f"p{number}", phase="Running" if number else "Failed"))
    assert len([*bench.state.ending_claims.ahead()]) == 3
    judged = looked_up(bench, monkeypatch)
    assert (names(bench), judged) == (["p0"], ["p0"]), "only what ends is asked about again"


def test_nothing_piles_up_where_nobody_asks(bench: Bench) -> None:
    """A replica that waits to lead reads ahead for months, and plans nothing."""
    followed = bench.state.ending_claims
    for number in range(50):
        bench.put(allocated(f"p{number}"), objects.pod(f"p{number}", phase="Running"))
        bench.put(objects.pod(f"p{number}", phase="Succeeded"))
        assert len([*followed.ahead()]) == 1
        for store in (bench.state.pods, bench.state.claims):
            store.remove(store.list()[0])
        assert len([*followed.ahead()]) == 1
    assert (followed._follow().take(), followed._ending, followed._unjudged) == (set(), set(), [])


def test_what_changed_is_known_after_it_was_judged_ahead(bench: Bench) -> None:
    bench.put(allocated(), objects.pod(phase="Running"))
    [*bench.state.ending_claims.ahead()]
    bench.put(objects.pod(phase="Succeeded"))
    [*bench.state.ending_claims.ahead()]
    assert names(bench) == ["train"]


def looked_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the claims that are read from now on."""
    found: list[str] = []
    value = bench.state.claims.value

    def noted(name: str, namespace: str = "") -> ResourceClaim | None:
        found.append(name)
        return value(name, namespace)

    monkeypatch.setattr(bench.state.claims, "value", noted)
    return found
