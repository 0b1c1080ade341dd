# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage is that of the emulator's log and of an independent watch of the claims, while controllers are killed.

Each claim has a namespace of its own while it exists, so that each is compared. There are fewer namespaces than rows of
an hour in the sums (``MOST_ROWS``), so an hour uses each of them several times. With USAGE_SECONDS=3600 it runs for an
hour. SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import time
import typing as t
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import NAME
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.launch import begin
from ansible_collections.composable.infra.tests.e2e.support.played import play, well
from ansible_collections.composable.infra.tests.e2e.support.support import asked, returned, wait_for

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"devices": {A100: 4}, "hold": 2.0, "handover": "gated", "extra": {
    "usage_label": "job", "usage_rates": {A100: 2}, "usage_currency": "EUR"}}
NAMESPACE = "composable-infra"
SECONDS = float(os.environ.get("USAGE_SECONDS", "60"))
NAMESPACES_USED = 100
Json = dict[str, t.Any]


class Watched:
    """Since and until when the claim of each namespace has a device of a node, by an own watch. ``before``: the times
    of each earlier claim. Times are seconds since the epoch.
    """

    def __init__(self, stage: Stage) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.before: dict[str, list[float]] = {}
        self._watch = Reflector(stage.client, CLAIMS, Store({}), self._changed)
        self._watch.start()
        assert self._watch.synced.wait(10)

    def _changed(self, kind: str, claim: Json, _old: Json | None) -> None:
        name = claim["metadata"]["namespace"]
        if kind != "DELETED" and claims.results(claim) and not claims.binding_results(claim):
            self.began.setdefault(name, time.time())
        elif name in self.began:
            self.ended.setdefault(name, time.time())

    def holding(self) -> list[str]:
        """Claims that have a device now."""
        return sorted(self.began.keys() - self.ended.keys())

    def again(self, name: str) -> None:
        """A namespace gets another claim."""
        if name in self.ended:
            self.before.setdefault(name, []).append(self.ended.pop(name) - self.began.pop(name))

    def claims(self) -> dict[str, int]:
        """How many claims each namespace had."""
        return {name: 1 + len(self.before.get(name, ())) for name in self.began}

    def seconds(self) -> dict[str, float]:
        """How long the claims of each namespace had their devices."""
        return {name: self.ended[name] - began + sum(self.before.get(name, ())) for name, began in self.began.items()}

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()


@pytest.fixture
def watched(stage: Stage) -> Iterator[Watched]:
    """It watches from the beginning of the test."""
    made = Watched(stage)
    yield made
    made.stop()


def start(stage: Stage, name: str) -> None:
    """A namespace with a claim, and a pod with a label of its own."""
    with suppress(AlreadyExists):
        stage.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    wait_for("the namespace has an account", lambda: stage.client.raw("GET", accounts)["items"])
    request = {"name": "gpu", "exactly": {"deviceClassName": stage.driver}}
    stage.client.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                                 "metadata": {"name": name, "namespace": name},
                                 "spec": {"devices": {"requests": [request]}}})
    body = pod_body(name, None)
    body["metadata"] |= {"namespace": name, "labels": {"job": name}}
    body["spec"]["schedulingGates"] = [{"name": pods.GATE}]
    stage.client.create(PODS, body)


def end(stage: Stage, watched: Watched, name: str) -> None:
    """The pod is gone, and the claim has no device any more."""
    stage.client.delete(PODS, name, namespace=name)
    wait_for(f"{name} has no device", lambda: name in watched.ended)
    stage.client.delete(CLAIMS, name, namespace=name)


def attached_seconds(stage: Stage) -> tuple[float, int]:
    """Seconds of all devices on machines by the emulator's log, and how often one was attached."""
    since: dict[str, float] = {}
    total, count = 0.0, 0
    for effect in stage.emulator.effects():
        if "detached" in effect["effect"]:
            total += effect["time"] - since.pop(effect["device"])
        elif "attached" in effect["effect"]:
            since[effect["device"]] = effect["time"]
            count += 1
    assert not since, "every device has left"
    return total, count


def usage(controller: front_doors.Process, by: str) -> Json:
    """What the controller answers."""
    status, text = asked(controller, f"/ui/usage?by={by}")
    assert status == 200, text
    found: Json = json.loads(text)
    return found


class Controllers:
    """A controller that leads, and one that stands by. Both count."""

    def __init__(self, stage: Stage, open_process: OpenProcess) -> None:
        self._stage, self._open, self._number = stage, open_process, 0
        self.leader = self._start()
        wait_for("it has begun to count", lambda: stage.client.get(CONFIG_MAPS, NAME, NAMESPACE).get("data"))
        self.standby = self._start()

    def _start(self) -> front_doors.Process:
        self._number += 1
        made = self._open(begin, self._stage, f"controller-{self._number}", "--ui", "read-only")
        made.wait_for("listening on")
        wait_for("it counts", lambda: usage(made, "namespace")["since"])
        return made

    def kill_leader(self) -> None:
        """The other one leads, and a new one stands by."""
        self.leader.kill()
        self.leader = self.standby

    def replace(self) -> None:
        """A new one stands by. The other one leads."""
        self.leader.wait_for("leading as")
        self.standby = self._start()

    def kill_all(self) -> None:
        """No process is left."""
        self.leader.kill()
        self.standby.kill()

    def start_again(self) -> None:
        """One leads and one stands by."""
        self.leader = self._start()
        self.standby = self._start()


def next_name(number: int, holding: list[str]) -> str:
    """Return the next namespace without a claim."""
    names = (f"job-{(number + further) % NAMESPACES_USED}" for further in range(NAMESPACES_USED))
    return next(name for name in names if name not in holding)


def differences(watched: Watched, found: Json) -> dict[str, float]:
    """By how many seconds the claims of each namespace are counted too long."""
    counted = {row["namespace"]: row["gpu_hours"] * 3600 for row in found["rows"]}
    return {name: counted.get(name, 0.0) - seconds for name, seconds in watched.seconds().items()}


def test_each_claim_is_counted_to_the_second_while_leaders_are_killed(
        stage: Stage, watched: Watched, open_process: OpenProcess, tmp_path: Path,
        record_property: t.Callable[[str, object], None]) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed}")
    dice, number, kills = random.Random(seed), 0, 0
    controllers = Controllers(stage, open_process)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline or kills < 3:
        holding = watched.holding()
        if len(holding) < 4 and dice.random() < 0.6:
            name, number = next_name(number, holding), number + 1
            watched.again(name)
            start(stage, name)
            wait_for(f"{name} has a device", partial(watched.began.__contains__, name))
        elif holding and dice.random() < 0.5:
            end(stage, watched, dice.choice(holding))
        elif holding:
            controllers.kill_leader()
            kills += 1
            for name in holding[:dice.randrange(3)]:
                end(stage, watched, name)
            controllers.replace()
    for name in watched.holding():
        end(stage, watched, name)
    wait_for("all devices are free", lambda: returned(stage))

    found = usage(controllers.leader, "namespace")
    wrong = differences(watched, found)
    record_property("worst_seconds", round(max(map(abs, wrong.values())), 3))
    print(f"{sum(watched.claims().values())} claims in {len(wrong)} namespaces, {kills} kills, "
          f"{sum(watched.seconds().values()):.0f} s, worst difference {max(map(abs, wrong.values())):.3f} s, "
          f"sum of differences {sum(map(abs, wrong.values())):.3f} s")
    counts = watched.claims()
    record_property("claims", sum(counts.values()))
    assert {name: seconds for name, seconds in wrong.items() if abs(seconds) >= counts[name]} == {}
    assert found["uncertain_hours"] * 3600 < kills
    labels = {row["label"]: row["gpu_hours"] for row in usage(controllers.leader, "label")["rows"]}
    assert labels == {"": 0.0, **{row["namespace"]: row["gpu_hours"] for row in found["rows"] if row["gpu_hours"]}}
    total, attaches = attached_seconds(stage)
    (row,) = found["totals"]
    assert abs((row["gpu_hours"] + row["idle_gpu_hours"]) * 3600 - total) < attaches
    assert row["attaches"] == attaches
    assert row["cost"] == pytest.approx(2 * (row["gpu_hours"] + row["idle_gpu_hours"]), abs=1e-4)

    given = {"composable_config_path": str(stage.config_path), "composable_kubeconfig": str(stage.kubeconfig),
             "composable_usage_path": "usage.csv", "composable_usage_by": ["namespace"]}
    well(play(tmp_path, "composable.infra.usage", given, "--check"))
    assert not (tmp_path / "usage.csv").exists()
    well(play(tmp_path, "composable.infra.usage", given))
    lines = (tmp_path / "usage.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(found["rows"])


def test_claims_that_end_while_no_process_runs_are_as_wrong_as_is_said(
        stage: Stage, watched: Watched, open_process: OpenProcess) -> None:
    controllers = Controllers(stage, open_process)
    names = [f"alone-{number}" for number in range(3)]
    before = usage(controllers.leader, "namespace")["uncertain_hours"]
    for name in names:
        start(stage, name)
        wait_for(f"{name} has a device", partial(watched.began.__contains__, name))
    controllers.kill_all()
    for name in names[:2]:
        end(stage, watched, name)
    controllers.start_again()
    end(stage, watched, names[2])
    wait_for("all devices are free", lambda: returned(stage))
    found = usage(controllers.leader, "namespace")
    wrong = {name: seconds for name, seconds in differences(watched, found).items() if name in names}
    uncertain = (found["uncertain_hours"] - before) * 3600
    print(f"{wrong}, uncertain {uncertain:.1f} s")
    assert sum(map(abs, wrong.values())) <= uncertain + 3.0
    assert abs(wrong[names[2]]) < 1.0
