# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A condition goes onto the allocation it was decided for, onto every device of it, and changes nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.conditions import (
    already_set,
    device_conditions,
)

Object = dict[str, Any]
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
NOW, EARLIER = "2026-05-06T07:08:09Z", "2026-01-02T03:04:05Z"


def result(device: str, **more: Any) -> Object:
    base = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "a100-fabric1", "device": device}
    return base | {"bindingConditions": [READY], "bindingFailureConditions": [RESCHEDULE, FAILED]} | more


def condition(type_: str, status: str = "True", **more: str) -> Object:
    base = {"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": EARLIER}
    return base | more


def claim(results: list[Object], devices: list[Object] | None = None) -> Object:
    meta = {"name": "c", "namespace": "ns", "uid": "u-1", "resourceVersion": "42", "labels": {"x": "y"}}
    status: Object = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "p"}]}
    if devices is not None:
        status["devices"] = devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "status": status}


def entry(device: str, *conditions: Object, **more: Any) -> Object:
    base = {"driver": "gpu.nvidia.com", "pool": "a100-fabric1", "device": device}
    return base | more | {"conditions": list(conditions)}


def body(subject: Object, type_: str = RESCHEDULE, **more: Any) -> Object:
    return device_conditions(subject, type_, "True", "Seen", "told", NOW, **more)


def types(made: Object) -> dict[str, list[str]]:
    return {d["device"]: [c["type"] for c in d["conditions"]] for d in made["status"]["devices"]}


def test_the_body_holds_what_is_ours_and_the_preconditions() -> None:
    made = body(claim([result("d0")]))
    assert made == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u-1", "resourceVersion": "42"},
        "status": {
            "devices": [
                {
                    "driver": "gpu.nvidia.com",
                    "pool": "a100-fabric1",
                    "device": "d0",
                    "conditions": [
                        {
                            "type": RESCHEDULE,
                            "status": "True",
                            "reason": "Seen",
                            "message": "told",
                            "lastTransitionTime": NOW,
                        }
                    ],
                }
            ]
        },
    }


def test_the_claim_is_left_as_it_was() -> None:
    subject = claim([result("d0")], [entry("d0", condition(READY, "False"))])
    before = copy.deepcopy(subject)
    body(subject)
    assert subject == before


def test_every_device_with_binding_conditions_gets_it() -> None:
    local = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    made = body(claim([result("d0"), local, result("d1"), result("d2", bindingConditions=[])]))
    assert list(types(made)) == ["d0", "d1"]


def test_share_id_is_kept_apart() -> None:
    made = body(claim([result("d0", shareID="s1"), result("d0", shareID="s2"), result("d1")]))
    assert [d.get("shareID", "absent") for d in made["status"]["devices"]] == ["s1", "s2", "absent"]


def test_a_device_allocated_for_two_requests_appears_once() -> None:
    assert types(body(claim([result("d0"), result("d0", request="other")]))) == {"d0": [RESCHEDULE]}


def test_the_same_device_name_in_another_pool_is_another_device() -> None:
    made = body(claim([result("d0"), result("d0", pool="a100-fabric2")]))
    assert len(made["status"]["devices"]) == 2


def test_the_transition_time_stays_while_the_status_stays() -> None:
    made = body(claim([result("d0")], [entry("d0", condition(RESCHEDULE, reason="Old"))]))
    only = made["status"]["devices"][0]["conditions"][0]
    assert (only["lastTransitionTime"], only["reason"]) == (EARLIER, "Seen")


def test_the_transition_time_changes_with_the_status() -> None:
    made = body(claim([result("d0")], [entry("d0", condition(RESCHEDULE, "False"))]))
    assert made["status"]["devices"][0]["conditions"][0]["lastTransitionTime"] == NOW


def test_other_binding_conditions_are_repeated_in_their_order() -> None:
    present = [condition(RESCHEDULE), condition(FAILED), condition("Foreign")]
    made = body(claim([result("d0")], [entry("d0", *present)]))
    assert made["status"]["devices"][0]["conditions"][1] == present[1]
    assert types(made) == {"d0": [RESCHEDULE, FAILED]}


def test_repeating_what_is_there_changes_nothing() -> None:
    present = [condition(FAILED, reason="Seen", message="told"), condition(READY)]
    made = body(claim([result("d0")], [entry("d0", *present)]), FAILED)
    assert made["status"]["devices"][0]["conditions"] == present


def test_a_filter_chooses_and_the_others_keep_what_they_have() -> None:
    subject = claim([result("d0"), result("d1"), result("d2")], [entry("d0", condition(FAILED))])
    made = body(subject, results=lambda r: r["device"] == "d1")
    assert types(made) == {"d0": [FAILED], "d1": [RESCHEDULE]}


def test_a_long_message_is_cut_to_the_limit() -> None:
    made = device_conditions(claim([result("d0")]), FAILED, "True", "R", "x" * 40_000, NOW)
    assert len(made["status"]["devices"][0]["conditions"][0]["message"]) == 32768


@pytest.mark.parametrize("subject", [claim([]), claim([result("d", bindingConditions=[])]), {"metadata": {}}])
def test_nothing_to_write_is_an_error(subject: Object) -> None:
    with pytest.raises(ValueError, match="binding conditions"):
        body(subject)


SET = [
    (claim([result("d0")]), False),
    (claim([result("d0")], [entry("d0", condition(RESCHEDULE))]), True),
    (claim([result("d0")], [entry("d0", condition(RESCHEDULE, "False"))]), False),
    (claim([result("d0")], [entry("d0", condition(FAILED))]), False),
    (claim([result("d0"), result("d1")], [entry("d0", condition(RESCHEDULE))]), False),
    (claim([result("d0"), result("d1", bindingConditions=[])], [entry("d0", condition(RESCHEDULE))]), True),
    (claim([result("d0")], [entry("d0", condition(RESCHEDULE), pool="other")]), False),
    (claim([result("d0", shareID="s")], [entry("d0", condition(RESCHEDULE), shareID="s")]), True),
    (claim([result("d0", shareID="s")], [entry("d0", condition(RESCHEDULE), shareID="t")]), False),
    (claim([]), False),
    ({"metadata": {}, "status": None}, False),
]


@pytest.mark.parametrize(("subject", "expected"), SET)
def test_already_set(subject: Object, expected: bool) -> None:
    assert already_set(subject, RESCHEDULE) is expected


def test_already_set_with_another_status() -> None:
    subject = claim([result("d0")], [entry("d0", condition(READY, "False"))])
    assert already_set(subject, READY, "False")
    assert not already_set(subject, READY)
