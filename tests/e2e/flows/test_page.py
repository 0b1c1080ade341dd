# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a controller at work on a real control plane: a browser watches pods get their devices, and a tenant's
token shows the tenant's own claims only.

With PAGE_PICTURES=FOLDER the pictures of README and guide are written there.
"""

from __future__ import annotations

import http.client
import json
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import of_resource
from ansible_collections.composable.infra.tests.browser.window import Browser, opened
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, delete_all, is_ready, wait_for

STAGE = {"nodes": 3, "devices": {A100: 4, H100: 2}, "hold": 20.0, "handover": "gated", "attach": 1.5,
         "managers": ("redfish",), "manager_settings": {"redfish": {"dialects": ["Connections"]}}}
PICTURES = os.environ.get("PAGE_PICTURES", "")
Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def leader(stage: Stage) -> Iterator[front_doors.Process]:
    """A controller that leads and has a page."""
    process = OPENED.add(front_doors.controller(stage, "--ui", "read-only"))
    yield process
    OPENED.stop(process)


@pytest.fixture(scope="module")
def address(leader: front_doors.Process) -> str:
    """Where it shows its page."""
    return front_doors.page_address(leader)


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    """A window that shows it."""
    with opened() as window:
        window.size(1400, 800)
        window.prefer(prefers_color_scheme="light")
        window.open(address)
        yield window


def picture(browser: Browser, name: str) -> None:
    """For README and guide, where they are asked for."""
    if PICTURES:
        browser.picture(Path(PICTURES) / f"{name}.png")


def states(browser: Browser) -> list[str]:
    """Of the devices in sight."""
    return [str(each.get_attribute("data-state")) for each in browser.all("#rows [data-state]")]


def test_devices_move_as_pods_come_and_go(stage: Stage, browser: Browser) -> None:
    browser.until(lambda: "4 free" in browser.text("#sums-body"))
    browser.script("window.here = true")
    for name, model, count in (("train", A100, 2), ("infer", H100, 1)):
        stage.pod(name, model, count)
    browser.until(lambda: "default/train" in browser.text("#queue-body"))
    browser.until(lambda: "1.5 s" not in browser.text("#queue-body") and "waits for" in browser.text("#queue-body"))
    browser.until(lambda: "attaching" in states(browser))
    picture(browser, "page-attaching")
    browser.until(lambda: sorted(states(browser)) == ["in-use"] * 3)
    browser.until(lambda: "used by pod train" in browser.text("#served-body"))
    wait_for("it runs, so its claim is counted", lambda: runs(stage, "infer"))
    stage.delete_pod("infer")
    browser.until(lambda: "idle" in states(browser))
    browser.until(lambda: " left" in browser.text("#rows"))
    assert browser.script("return window.here")


def test_switches_of_the_fabric_are_drawn(browser: Browser) -> None:
    """As the emulated CDI Manager tells them: everything hangs on one."""
    browser.until(lambda: browser.one("#links svg").get_attribute("aria-label") == (
        "switch switch-1 leads to machines node-0, node-1, node-2 and box box-1"))
    browser.until(lambda: "box-1" in browser.text("#rows"))
    browser.script('document.getElementById("links").scrollIntoView({block: "center"})')
    picture(browser, "page-links")
    browser.script("window.scrollTo(0, 0)")


def test_events_need_the_permission_that_is_shipped_for_the_page(stage: Stage, address: str) -> None:
    """The controllers run with their own accounts, which may not list Events without it."""
    records = "records?key=claim/default/train"
    assert "deploy/ui/rbac.yaml" in (get(address, records) or {}).get("note", "")
    for each in documents(DEPLOY / "ui" / "rbac.yaml"):
        kind = f"{each['kind'].lower()}s"
        stage.lab.api.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", each)
    expected = {("Pod", "Scheduled"), ("Pod", "GateOpened")}
    wait_for("Events of its pod, of the scheduler and of ours", lambda: expected <= {
        (each["kind"], each["reason"]) for each in (get(address, records) or {}).get("events", ())})


def test_story_of_a_claim_is_its_way(stage: Stage, browser: Browser) -> None:
    browser.click('#served-body [data-key="claim/default/train"]')
    browser.until(lambda: "pod started" in browser.text("#story"))
    said = browser.text("#story")
    assert [word for word in ("attached by the fabric", "on the bus, driver, in the slice", "bound by the scheduler",
                              "OnBus, Bound, Touched, PluginRestarted") if word not in said] == []
    browser.prefer(prefers_color_scheme="dark")
    picture(browser, "page-dark")
    browser.prefer(prefers_color_scheme="light")
    assert browser.violations() == []
    browser.one("#story-close").click()


def test_what_if_is_answered_about_the_cluster_at_work(browser: Browser) -> None:
    """More devices of the first model, and pods that come: the controller's own child process replays them."""
    for name, value in (("count", "3"), ("per_hour", "6"), ("hours", "1")):
        field = browser.one(f'#what-if-form [name="{name}"]')
        field.clear()
        field.send_keys(value)
    browser.one("#what-if-ask").click()
    browser.until(lambda: browser.one("#what-if-stop").get_attribute("disabled"), seconds=150)
    rows = {each.text.rsplit("(", 1)[0].strip() for each in browser.all("#what-if-result tr")}
    told = browser.text("#what-if-result")
    assert any(row.startswith("pods that ran ") and not row.startswith("pods that ran 0") for row in rows), told
    assert any(row.startswith("claims served ") and not row.startswith("claims served 0") for row in rows), told


def test_nothing_was_complained_about(browser: Browser) -> None:
    assert browser.complaints() == []


def test_timeline_outlives_the_process(stage: Stage, address: str) -> None:
    def kept() -> list[str]:
        return [each.claim for raw in stage.client.list(COMPOSABLE_RESOURCES).items for each in of_resource(raw)]

    stage.pod("lasting", A100)
    wait_for("the timeline is written down", lambda: "default/lasting" in kept())
    command = front_doors.controller_command(stage, "--ui", "read-only")
    other = OPENED.add(front_doors.Process("standby", command, stage))
    try:
        page = front_doors.page_address(other)
        wait_for("its lists are read", lambda: is_ready(other))
        wait_for("it tells the story", lambda: (get(page, "story?key=claim/default/lasting") or {}).get("timeline"))
        told = get(page, "story?key=claim/default/lasting")
        assert told is not None
        assert "attach" in [span["step"] for span in told["timeline"]["spans"]]
    finally:
        OPENED.stop(other)


def get(address: str, path: str, **headers: str) -> Json | None:
    """An answer; None for none that is one."""
    host, _unused, prefix = address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.request("GET", f"/{prefix}{path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    return json.loads(body) if answer.status == 200 else None


def test_token_of_a_tenant_shows_its_own_claims_only(stage: Stage, address: str) -> None:
    api = stage.lab.api
    for namespace in ("mine", "rival"):
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        body = {"metadata": {"name": f"claim-of-{namespace}"}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}
        api.request("POST", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", body)
    token = tenant(stage)
    elsewhere = {"Host": "fabric.example.com", "X-Composable-Infra-Token": token}
    wait_for("it is let in", lambda: get(address, "snapshot?namespace=mine", **elsewhere) is not None)
    for path in ("snapshot", "snapshot?namespace=rival", "waits", "story?key=claim/rival/claim-of-rival",
                 "story?namespace=mine&key=claim/rival/claim-of-rival", "story?namespace=mine&key=node/node-0"):
        assert get(address, path, **elsewhere) is None, path
    wait_for("its claim is shown", lambda: "claim/mine/claim-of-mine" in shown(address, elsewhere))
    text = json.dumps(shown(address, elsewhere))
    assert not [word for word in ("rival", "default", "train", "node-") if word in text]
    wait_for("who may see everything sees both", lambda: "claim/rival/claim-of-rival" in (
        get(address, "snapshot") or {"rows": {}})["rows"])


def test_waits_of_the_day_outlive_the_process_and_the_devices(stage: Stage, leader: front_doors.Process) -> None:
    """The last test: it stops the controller. Its accounts are those that are shipped."""
    address = front_doors.page_address(leader)
    stage.pod("counted", H100)
    served = claims_served(stage)
    wait_for(f"claims {served} are counted", lambda: waits(address).get("total", 0) == len(served))
    before = waits(address)
    assert {"attach", "bind", "total"} <= before.keys()
    delete_all(stage)
    wait_for("no device keeps a timeline", lambda: not stage.client.list(COMPOSABLE_RESOURCES).items)
    leader.stop()
    other = OPENED.add(front_doors.controller(stage, "--ui", "read-only"))
    try:
        assert waits(front_doors.page_address(other)) == before
    finally:
        OPENED.stop(other)


def runs(stage: Stage, name: str) -> bool:
    return pods.phase(stage.client.get(PODS, name, namespace="default")) == "Running"


def claims_served(stage: Stage) -> list[str]:
    """By all tests so far; those with a browser, which may be missing, have deleted the pod infer."""
    names = {pod["metadata"]["name"] for pod in stage.client.list(PODS).items if pod["spec"].get("resourceClaims")}
    return sorted(names | ({"infer"} if "train" in names else set()))


def waits(address: str) -> dict[str, int]:
    """How many claims of the last day are counted, by step."""
    told = get(address, "waits")
    assert told is not None
    return {row["step"]: row["count"] for row in told["waits"]}


def shown(address: str, headers: dict[str, str]) -> Json:
    """All rows for the namespace mine."""
    found = get(address, "snapshot?namespace=mine", **headers)
    assert found is not None
    rows: Json = found["rows"]
    return rows


def tenant(stage: Stage) -> str:
    """Token of an account that may list the claims of the namespace mine, and nothing else."""
    api, rbac = stage.lab.api, "/apis/rbac.authorization.k8s.io/v1/namespaces/mine"
    api.request("POST", "/api/v1/namespaces/mine/serviceaccounts", {"metadata": {"name": "viewer"}})
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]}
    api.request("POST", f"{rbac}/roles", {"metadata": {"name": "viewer"}, "rules": [rule]})
    api.request("POST", f"{rbac}/rolebindings", {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "mine"}]})
    made = api.request("POST", "/api/v1/namespaces/mine/serviceaccounts/viewer/token", {"spec": {}})
    return str(made["status"]["token"])
