# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""composability_request and claim_condition: what they write, once, and what they refuse."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client import object_applier
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Invalid
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.modules import (
    claim_condition,
    composability_request,
    composability_request_info,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

RunModule = Callable[..., dict[str, t.Any]]
WANTED = {"name": "r", "node": "node-0", "model": A100, "size": 2}
PATH = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composabilityrequests/r"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(object_applier, "POLL_SECONDS", 0.0)


def request(run_module: RunModule, check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    given = {name: value for name, value in {**WANTED, **args}.items() if value is not None}
    return run_module(composability_request, check=check, **given)


def test_request_is_created_once(run_module: RunModule, api: FakeApi) -> None:
    check = request(run_module, check=True)
    assert api.of(COMPOSABILITY_REQUESTS) == []
    apply, again = request(run_module), request(run_module)
    assert [check["changed"], apply["changed"], again["changed"]] == [True, True, False]
    assert check["diff"] == apply["diff"] == {"before": {}, "after": {"resource": {
        "type": "gpu", "model": A100, "size": 2, "target_node": "node-0"}}}
    (stored,) = api.of(COMPOSABILITY_REQUESTS)
    assert stored["metadata"]["finalizers"] == [cohdi.FINALIZER]
    assert (again["diff"]["before"], again["request"]["spec"]) == (again["diff"]["after"], stored["spec"])
    assert [c.verb for c in api.writes(COMPOSABILITY_REQUESTS)] == ["create"]


def test_request_is_changed_by_a_patch(run_module: RunModule, api: FakeApi) -> None:
    api.put(COMPOSABILITY_REQUESTS, objects.request("r", 1, allocation_policy="samenode"))
    predicted = objects.request("r", 2, allocation_policy="samenode")
    api.paths[PATH] = predicted
    check = request(run_module, check=True)
    assert api.writes() == []
    apply = request(run_module)
    assert (check["changed"], check["diff"]) == (apply["changed"], apply["diff"])
    assert apply["diff"]["after"]["resource"]["size"] == 2
    assert [(c.verb, c.body) for c in api.writes()] == [("merge_patch", {"spec": {"resource": {
        "type": "gpu", "model": A100, "size": 2, "target_node": "node-0"}}})]


def test_what_is_not_named_is_left_as_it_is(run_module: RunModule, api: FakeApi) -> None:
    api.put(COMPOSABILITY_REQUESTS, objects.request("r", 2, force_detach=True))
    assert request(run_module)["changed"] is False
    assert request(run_module, force_detach=False)["changed"] is True


NOTES: dict[str, t.Any] = {"labels": {"team": "training"}, "annotations": {"example.com/ticket": "42"}}


def test_labels_and_annotations_are_set_once(run_module: RunModule, api: FakeApi) -> None:
    first, again = request(run_module, **NOTES), request(run_module, **NOTES)
    assert (first["changed"], again["changed"]) == (True, False)
    (stored,) = api.of(COMPOSABILITY_REQUESTS)
    assert {kind: stored["metadata"][kind] for kind in NOTES} == NOTES
    assert {kind: first["diff"]["after"][kind] for kind in NOTES} == NOTES
    more = request(run_module, labels={"team": "inference", "cost-centre": "7"})
    assert (more["changed"], more["diff"]["before"]["labels"]) == (True, {"team": "training"})
    assert more["diff"]["after"]["labels"] == {"team": "inference", "cost-centre": "7"}
    assert more["diff"]["after"]["annotations"] == NOTES["annotations"]


def test_null_removes_a_label_once(run_module: RunModule, api: FakeApi) -> None:
    request(run_module, **NOTES)
    gone, again = (request(run_module, labels={"team": None}) for _unused in range(2))
    assert (gone["changed"], again["changed"]) == (True, False)
    assert "team" not in (api.of(COMPOSABILITY_REQUESTS)[0]["metadata"].get("labels") or {})
    assert api.writes()[-1].body["metadata"] == {"labels": {"team": None}}


def test_label_that_is_to_be_removed_is_not_created(run_module: RunModule, api: FakeApi) -> None:
    request(run_module, labels={"team": None, "kept": "x"})
    assert api.of(COMPOSABILITY_REQUESTS)[0]["metadata"]["labels"] == {"kept": "x"}


@pytest.fixture
def several(api: FakeApi) -> FakeApi:
    """Requests for two nodes with their devices, and a device of nobody."""
    for name, node, model, labels in (("b", "node-1", A100, {}), ("a", "node-0", A100, {"team": "training"}),
                                      ("c", "node-0", "H100", {})):
        made = objects.request(name, 1, node=node, model=model)
        made["metadata"] |= {"labels": labels, "managedFields": [{"manager": "somebody"}]}
        api.put(COMPOSABILITY_REQUESTS, made)
        api.put(COMPOSABLE_RESOURCES, cohdi.resource_body(f"{name}-0", name, node, model, ""))
    api.put(COMPOSABLE_RESOURCES, cohdi.resource_body("nobodys", "gone", "node-0", A100, ""))
    return api


@pytest.mark.parametrize(("args", "names"), [
    ({}, ["a", "b", "c"]), ({"name": "b"}, ["b"]), ({"name": "nobody"}, []), ({"node": "node-0"}, ["a", "c"]),
    ({"node": "node-0", "model": A100}, ["a"]),
])
def test_requests_with_their_devices(run_module: RunModule, several: FakeApi, args: dict[str, t.Any],
                                     names: list[str]) -> None:
    found = run_module(composability_request_info, **args)
    assert [r["metadata"]["name"] for r in found["requests"]] == names
    assert [r["metadata"]["name"] for r in found["resources"]] == [f"{name}-0" for name in names]
    assert (found.get("changed", False), several.writes()) == (False, [])
    assert "managedFields" not in str(found)


def test_requests_that_may_not_be_listed(run_module: RunModule, api: FakeApi) -> None:
    api.fail("list", COMPOSABILITY_REQUESTS, Forbidden(403, "Forbidden", "no"))
    found = run_module(composability_request_info)
    assert (found["failed"], found["msg"], found["error"]) == (True, "no", "Forbidden")


def test_request_is_deleted_once(run_module: RunModule, api: FakeApi) -> None:
    api.put(COMPOSABILITY_REQUESTS, objects.request("r", 2))
    check, apply = (run_module(composability_request, check=c, name="r", state="absent") for c in (True, False))
    assert (check["changed"], check["diff"], check["request"]) == (apply["changed"], apply["diff"], None)
    assert [c.verb for c in api.writes()] == ["delete"]
    again = run_module(composability_request, name="r", state="absent")
    assert (again["changed"], len(api.writes())) == (False, 1)
    assert run_module(composability_request, name="nobody", state="absent")["changed"] is False


def test_waiting_until_it_runs(run_module: RunModule, api: FakeApi) -> None:
    looks = []

    def operator(call: t.Any) -> None:
        looks.append(call.verb)
        if looks.count("get") == 3:
            api.before = None
            api.put(COMPOSABILITY_REQUESTS, {**api.one(COMPOSABILITY_REQUESTS, "r"), "status": {"state": "Running"}})

    api.before = operator
    assert request(run_module, wait=True)["request"]["status"] == {"state": "Running"}


def test_waiting_in_vain_says_how_far_it_came(run_module: RunModule, api: FakeApi) -> None:
    api.put(COMPOSABILITY_REQUESTS, {**objects.request("r", 2), "status": {"state": "Updating",
                                                                           "error": "no free device is left"}})
    found = request(run_module, wait=True, wait_timeout=0)
    assert (found["failed"], found["error"]) == (True, "NotReached")
    assert found["msg"] == "ComposabilityRequest r after 0 s: no free device is left"
    api.put(COMPOSABILITY_REQUESTS, objects.request("r", 2))
    assert request(run_module, wait=True, wait_timeout=0)["msg"].endswith("it is not taken up by an operator")


@pytest.mark.parametrize(("args", "said"), [
    ({"model": None}, "state is present but all of the following are missing: model"),
    ({"size": -1}, "size: -1 is not allowed. It must be 0 or more"),
    ({"allocation_policy": "differentnode"}, "allocation_policy: 'differentnode' is not allowed. With node only"),
    ({"labels": {"cost-centre": 7}}, "labels.cost-centre: 7 is not allowed. It must be a string in quotes, or null"),
    ({"annotations": {"a": True}}, "annotations.a: True is not allowed. It must be a string in quotes"),
    ({"kind": "tape"}, "value of kind must be one of: gpu, cxlmemory, got: tape"),
])
def test_bad_requests(run_module: RunModule, api: FakeApi, args: dict[str, t.Any], said: str) -> None:
    found = request(run_module, **args)
    assert found["failed"]
    assert said in found["msg"]
    assert api.calls == []


@pytest.mark.parametrize("error", [Invalid(422, "Invalid", "model: too short"), Forbidden(403, "Forbidden", "no")])
def test_refusal_of_the_api_server_is_one_sentence(run_module: RunModule, api: FakeApi, error: Exception) -> None:
    api.fail("create", COMPOSABILITY_REQUESTS, error)
    for check in (True, False):
        found = request(run_module, check=check)
        assert (found["failed"], found["msg"], found["error"]) == (True, str(error), type(error).__name__)


READY, FAILED = "FabricDeviceReady", "FabricDeviceFailed"


@pytest.fixture
def claim(api: FakeApi) -> dict[str, t.Any]:
    """A claim that was promised two pool devices and one of the node."""
    return api.put(CLAIMS, objects.claim("train", objects.pool_result("a100-0"), objects.pool_result("a100-1"),
                                         objects.local_result()))


def condition(run_module: RunModule, claim: dict[str, t.Any], check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    return run_module(claim_condition, check=check, **{"namespace": claim["metadata"]["namespace"], "name": "train",
                                                       "condition": READY, **args})


def conditions(found: dict[str, t.Any]) -> list[dict[str, str]]:
    return [d["conditions"] for d in found["devices"]]


def test_condition_is_set_once_on_all_pool_devices(
    run_module: RunModule, api: FakeApi, claim: dict[str, t.Any]
) -> None:
    apply, again = (condition(run_module, claim, text="by hand") for _unused in range(2))
    assert (apply["changed"], again["changed"]) == (True, False)
    assert conditions(apply) == conditions(again) == [{READY: "True"}] * 2
    assert conditions(apply["diff"]["before"]) == [{}] * 2
    (call,) = api.writes()
    assert (call.verb, call.subresource, call.body["metadata"]["uid"]) == ("apply", "status", claim["metadata"]["uid"])


def test_check_mode_asks_the_api_server(run_module: RunModule, api: FakeApi, claim: dict[str, t.Any]) -> None:
    meta = claim["metadata"]
    told = [objects.told(objects.pool_result(n), READY) for n in ("a100-0", "a100-1")]
    api.paths[f"/apis/resource.k8s.io/v1/namespaces/{meta['namespace']}/resourceclaims/train/status"] = {
        **claim, "status": {**claim["status"], "devices": told}}
    check = condition(run_module, claim, check=True)
    assert api.writes() == []
    apply = condition(run_module, claim)
    assert (check["changed"], check["devices"], check["diff"]) == (apply["changed"], apply["devices"], apply["diff"])


def test_one_device_only_and_other_status(run_module: RunModule, api: FakeApi, claim: dict[str, t.Any]) -> None:
    found = condition(run_module, claim, devices=["a100-1"], condition=FAILED, status="False")
    assert conditions(found) == [{}, {FAILED: "False"}]
    assert condition(run_module, claim, devices=["a100-1"], condition=FAILED, status="True")["changed"] is True


@pytest.mark.parametrize(("args", "said"), [
    ({"condition": "Ready"}, "condition: 'Ready' is not allowed. Allowed are FabricDeviceFailed, FabricDeviceReady"),
    ({"devices": ["gpu-0"]}, "devices: 'gpu-0' is not allowed. Allowed are a100-0, a100-1"),
    ({"status": "Maybe"}, "value of status must be one of: True, False, Unknown, got: Maybe"),
    ({"name": "nobody"}, 'resourceclaims "nobody" not found'),
])
def test_bad_conditions(run_module: RunModule, api: FakeApi, claim: dict[str, t.Any], args: dict[str, t.Any],
                        said: str) -> None:
    found = condition(run_module, claim, **args)
    assert found["failed"]
    assert said in found["msg"]
    assert api.writes() == []


def test_claim_that_waits_for_nothing(run_module: RunModule, api: FakeApi) -> None:
    claim = api.put(CLAIMS, objects.claim("train", objects.local_result()))
    assert "Allowed are none, no allocated device waits for a condition" in condition(run_module, claim)["msg"]
