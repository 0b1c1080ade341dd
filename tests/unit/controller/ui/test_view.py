# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows that the page shows are what the cluster state says, and only what changed is sent."""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.view import KEPT_CHANGES
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, Looked, elsewhere
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]


def snapshot(looked: Looked, scope: Scope = EVERYTHING) -> dict[str, Json]:
    """All rows, as a browser gets them."""
    rows: dict[str, Json] = json.loads(looked.view.snapshot(scope))["rows"]
    return rows


def the_device(looked: Looked, *raws: Json) -> Json:
    """The row of the only device of node-0, once these were seen."""
    looked.put(*raws)
    looked.view.refresh()
    (found,) = snapshot(looked)["node/node-0"]["devices"]
    return dict(found)


def test_a_node_and_its_fabric(looked: Looked) -> None:
    rows = snapshot(looked)
    assert rows["node/node-0"] == {"name": "node-0", "is_node": True, "machine": "machine-0", "fabric": 1}
    assert rows["fabric/1"]["models"][0] == {"model": A100, "free": 4, "in_pool": 0}
    assert rows["process"]["leads"] is True


def test_device_that_is_attached_to_nobody_s_claim_is_idle_until_its_hold_ends(looked: Looked) -> None:
    looked.bench.state.last_uses.note("gpu-a", 1000.0)
    found = the_device(looked, objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"))
    assert (found["state"], found["until"]) == ("idle", 1600.0)


@pytest.mark.parametrize(("raw", "state"), [
    (objects.resource("gpu-a", asked=2), "attaching"),
    (objects.resource("gpu-a", device="d1", state="Attaching"), "attaching"),
    (objects.resource("gpu-a", device="d1", state="Detaching"), "leaving"),
    (objects.resource("gpu-a", device="d1", state="Online", deleted=True), "leaving"),
    (objects.resource("gpu-a", device="d1", state="Online", RELEASE="2026-01-01T00:00:00Z"), "leaving"),
])
def test_state_of_a_device_that_no_claim_has(looked: Looked, raw: Json, state: str) -> None:
    assert the_device(looked, raw)["state"] == state


def test_device_in_use_names_claim_and_pod(looked: Looked) -> None:
    found = the_device(looked, objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"),
                       objects.local_slice("GPU-d1"), objects.claim("train", objects.local_result()))
    assert (found["state"], found["claim"], found["pods"]) == ("in-use", "default/train", ["train"])


def test_claim_that_keeps_the_pools_device_is_served_once_that_is_ready(looked: Looked) -> None:
    result = objects.pool_result()
    looked.put(objects.claim("train", result))
    looked.view.refresh()
    assert snapshot(looked)["claim/default/train"]["state"] == "preparing"
    looked.put(objects.claim("train", result, devices=[objects.told(result, objects.READY)]))
    looked.view.refresh()
    assert snapshot(looked)["claim/default/train"]["state"] == "served"


def test_device_that_is_kept_for_a_claim_is_reserved(looked: Looked) -> None:
    looked.put(objects.claim("train"))
    looked.bench.state.holds.keep("gpu-a", "uid-train")
    found = the_device(looked, objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"))
    assert (found["state"], found["claim"]) == ("reserved", "default/train")


def test_trouble_on_the_node_makes_a_device_faulty_and_a_warning_does_not(looked: Looked) -> None:
    lost = Evidence("Ready", "d1").with_trouble("LostOnBus", "it is gone from the bus", 1.0)
    raw = objects.resource("gpu-a", device="d1", state="Online", NODE=lost.to_json())
    assert the_device(looked, raw)["trouble"] == "it is gone from the bus"
    slow = Evidence("Ready", "d1").with_trouble("LinkDegraded", "x4 of x16", 1.0)
    raw = objects.resource("gpu-a", device="d1", state="Online", NODE=slow.to_json())
    raw["metadata"]["resourceVersion"] = "2"
    found = the_device(looked, raw)
    assert (found["state"], found["warning"]) == ("idle", "x4 of x16")


def test_device_that_no_object_knows_is_shown_as_unmanaged(looked: Looked) -> None:
    looked.bench.fabric.attached["d9"] = device("d9")
    looked.bench.look()
    looked.view.refresh()
    (found,) = snapshot(looked)["node/node-0"]["devices"]
    assert (found["name"], found["state"]) == ("d9", "unmanaged")
    (counted,) = [m for m in snapshot(looked)["fabric/1"]["models"] if m["model"] == A100]
    assert counted["states"] == {"unmanaged": 1}


def test_device_that_was_just_attached_is_not_shown_twice(looked: Looked) -> None:
    looked.bench.fabric.attached["d9"] = device("d9")
    looked.bench.look()
    found = the_device(looked, objects.resource("gpu-a", asked=2))
    assert (found["name"], found["state"]) == ("gpu-a", "attaching")


def counted(looked: Looked) -> tuple[int, dict[str, int]]:
    """(free, states) of the A100 of fabric 1."""
    looked.view.refresh()
    (found,) = [m for m in snapshot(looked)["fabric/1"]["models"] if m["model"] == A100]
    return found["free"], found.get("states", {})


def test_device_that_attaches_is_not_free_as_well(looked: Looked) -> None:
    """The last poll counts it as free; the CDI Manager is asked for it in a moment, then it attaches."""
    seen = looked.bench.state.snapshot
    assert seen
    looked.put(objects.resource("gpu-a"))
    assert counted(looked) == (3, {"attaching": 1})
    looked.put(objects.resource("gpu-a", asked=0))
    assert counted(looked) == (3, {"attaching": 1})
    looked.put(objects.resource("gpu-a", asked=0, device="d1", serial="GPU-d1", state="Online"))
    assert counted(looked) == (3, {"idle": 1})
    looked.bench.fabric.attached["d1"], looked.bench.fabric.free_count = device("d1"), 3
    looked.bench.state.snapshot = replace(
        looked.bench.fabric.snapshot([m.cdi_model_name for m in looked.bench.settings.models]), taken=seen.taken + 2.0)
    assert counted(looked) == (3, {"idle": 1})


def test_machine_that_is_no_node_has_a_row_of_its_own(looked: Looked) -> None:
    looked.bench.fabric.others = ("machine-9",)
    looked.bench.look()
    looked.view.refresh()
    assert "is_node" not in snapshot(looked)["machine/machine-9"]
    assert "machine/machine-0" not in snapshot(looked)


def test_claim_says_what_claim_info_says(looked: Looked) -> None:
    looked.put(objects.claim("train"))
    said = "1 x A100 40G on node node-0"
    looked.reasons["default/train"] = WaitReason("default/train", said, 5.0, {"node": "node-0"})
    looked.view.refresh()
    row = snapshot(looked)["claim/default/train"]
    assert (row["state"], row["waits_for"], row["since"], row["node"]) == (
        "waiting", said, 5.0, "node-0")
    looked.reasons.clear()
    change = looked.view.refresh()
    assert change is not None
    assert "waits_for" not in change.rows.get("claim/default/train", {})


def test_claims_for_other_devices_are_not_shown(looked: Looked) -> None:
    raw = objects.claim("camera")
    raw["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "camera.example.com"
    looked.put(raw)
    looked.view.refresh()
    assert "claim/default/camera" not in snapshot(looked)


def test_only_what_is_other_now_is_sent(looked: Looked) -> None:
    looked.bench.put(objects.node("node-1", "machine-1"))
    looked.put(objects.resource("gpu-a", device="d1", state="Online"))
    change = looked.view.refresh()
    assert change is not None
    assert sorted(change.rows) == ["fabric/1", "node/node-0"]
    looked.put(objects.resource("gpu-a", device="d1", state="Online"))
    assert looked.view.refresh() is None


def test_what_is_gone_is_said_to_be_gone(looked: Looked) -> None:
    raw = objects.claim("train", objects.local_result())
    looked.put(raw)
    looked.view.refresh()
    claim = looked.bench.state.claims.value("train", "default")
    looked.bench.state.claims.replace_all([])
    looked.view.object_changed("DELETED", CLAIMS, claim, None)
    change = looked.view.refresh()
    assert change is not None
    assert change.gone == ("claim/default/train",)
    assert "claim/default/train" not in snapshot(looked)


def test_page_that_was_away_gets_what_it_missed_or_is_told_to_begin_anew(looked: Looked) -> None:
    position = looked.view.position
    for number in range(3):
        looked.put(objects.claim(f"claim-{number}", objects.local_result()))
        looked.view.refresh()
    missed = looked.view.since(position)
    assert missed is not None
    assert [key for each in missed for key in each.rows] == [
        f"claim/default/claim-{number}" for number in range(3)]
    assert looked.view.since(looked.view.position) == []
    assert looked.view.since("another-1") is None
    assert looked.view.since("nonsense") is None
    for number in range(KEPT_CHANGES + 1):
        looked.process = type(looked.process)(str(number), "fm", "gated", 1.0, True, True)
        looked.view.refresh()
    assert looked.view.since(position) is None


def test_nothing_is_noted_or_kept_while_nobody_looks(looked: Looked) -> None:
    position = looked.view.position
    looked.view.close()
    looked.put(objects.claim("train", objects.local_result()))
    assert looked.view.refresh() is None
    assert snapshot(looked) == {}
    looked.view.open()
    assert "claim/default/train" in snapshot(looked)
    assert looked.view.since(position) is None


def test_one_object_that_cannot_be_read_takes_no_other_from_the_page(looked: Looked) -> None:
    bad = objects.resource("gpu-b", node="node-9")
    del bad["spec"]["model"]
    looked.put(bad)
    looked.put(objects.claim("train", objects.local_result()))
    looked.view.refresh()
    assert "claim/default/train" in snapshot(looked)
    assert "node/node-9" not in snapshot(looked)


def test_devices_of_a_node_are_looked_up_once_for_all_its_claims(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"gpu-{number}" for number in range(4)]
    looked.put(objects.local_slice(*(f"GPU-{name}" for name in names)),
               *(objects.resource(name, device=f"d-{name}", serial=f"GPU-{name}", state="Online") for name in names),
               *(objects.claim(f"claim-{n}", objects.local_result(f"gpu-{n}")) for n in range(4)))
    asked: list[str] = []
    real = looked.bench.state.users

    def users(node: str) -> dict[str, ResourceClaim]:
        asked.append(node)
        return real(node)

    monkeypatch.setattr(looked.bench.state, "users", users)
    monkeypatch.setattr(looked.bench.state, "user", lambda _resource: pytest.fail("each device by itself"))
    looked.view.close()
    looked.view.open()
    assert asked == ["node-0"]
    rows = json.loads(looked.view.snapshot(EVERYTHING))["rows"]
    assert [rows[f"claim/default/claim-{n}"]["devices"] for n in range(4)] == [[name] for name in names]


def test_row_of_5000_nodes_is_read_once_and_then_only_when_it_changes(looked: Looked) -> None:
    for number in range(1, 5000):
        looked.bench.state.nodes.upsert(objects.node(f"node-{number}", f"machine-{number}"))
    looked.view.close()
    looked.view.open()
    assert sum(key.startswith("node/") for key in snapshot(looked)) == 5000
    looked.put(objects.resource("gpu-a", device="d1", state="Online", node="node-4999"))
    change = looked.view.refresh()
    assert change is not None
    assert [key for key in change.rows if key.startswith("node/")] == ["node/node-4999"]
    assert len(change.text(EVERYTHING)) < 1000


def test_times_are_seconds_since_the_epoch(looked: Looked) -> None:
    looked.put(objects.claim("train", objects.local_result()))
    looked.view.refresh()
    assert time.time() - 400 < snapshot(looked)["claim/default/train"]["created"] < time.time()


def test_claims_of_the_same_name_in_two_namespaces_are_two_rows(looked: Looked) -> None:
    raw = objects.claim("train", objects.local_result())
    looked.put(raw, elsewhere(raw, "mine"))
    looked.view.refresh()
    assert {"claim/default/train", "claim/mine/train"} <= snapshot(looked).keys()
