# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser, about a made-up cluster: it changes as the cluster does, and everybody can use it."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ansible_collections.composable.infra.controller.ui.docs_pages import address
from ansible_collections.composable.infra.controller.ui.markdown import slug
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Link, Switch
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.engine import ABOUT
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span, Timeline
from ansible_collections.composable.infra.tests.browser.window import Browser
from ansible_collections.composable.infra.tests.integration.page.shown import Shown, serving
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects


def state_of(browser: Browser, device: str) -> str:
    """As the page shows it."""
    return str(browser.one(f'[data-device="{device}"]').get_attribute("data-state"))


def test_page_shows_nodes_devices_and_sums(browser: Browser) -> None:
    assert [each.text for each in browser.all("#rows .node") if "node-" in each.text] == ["node-0", "node-1"]
    assert state_of(browser, "gpu-0-0") == "idle"
    assert "4 attached, idle" in browser.text("#sums-body")
    assert "Nothing is wrong" in browser.text("#troubles")
    assert "composable-infra-0 leads" in browser.text("#process")


def test_state_changes_without_a_reload(browser: Browser, shown: Shown) -> None:
    browser.script("window.here = true")
    shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()))
    browser.until(lambda: state_of(browser, "gpu-0-0") == "in-use")
    browser.until(lambda: "used by pod train" in browser.text("#served-body"))
    shown.put(shown.resource(1, 1, state="Detaching"))
    browser.until(lambda: state_of(browser, "gpu-1-1") == "leaving")
    assert browser.script("return window.here")


def test_claim_that_waits_says_why_and_goes_when_it_is_served(browser: Browser, shown: Shown) -> None:
    shown.reasons["default/train"] = WaitReason("default/train", "1 x A100 40G on node node-0", 1.0)
    shown.put(objects.claim("train"))
    browser.until(lambda: "waits for 1 x A100 40G on node node-0" in browser.text("#queue-body"))
    shown.reasons.clear()
    shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()))
    browser.until(lambda: browser.text("#queue-body") == "No claim waits.")


def test_claim_that_the_fabric_cannot_serve_is_wrong(browser: Browser, shown: Shown) -> None:
    never = "claim train, request r: no model of device_info satisfies it"
    shown.reasons["default/train"] = WaitReason(
        "default/train", f"a change of the claim or the fabric, which cannot serve it: {never}", 1.0, refused=never)
    shown.said(docs="https://docs.example.com/tree/main/docs")
    shown.put(objects.claim("train"))
    browser.until(lambda: never in browser.text("#troubles-list"))
    assert "Nothing is wrong" not in browser.text("#troubles")
    assert f"cannot be served: {never}" in browser.text("#queue-body")
    assert "waits for" not in browser.text("#queue-body")
    where = browser.one("#troubles a").get_attribute("href") or ""
    assert where.endswith("guides/alerts.md#the-fabric-cannot-serve-a-claim")
    browser.one('#troubles [data-key="claim/default/train"]').click()
    browser.until(lambda: "claim default/train" in browser.text("#story-title"))
    browser.one("#story-close").click()
    browser.until(lambda: browser.violations() == [])


def test_what_is_wrong_is_said_first_and_leads_to_its_story(browser: Browser, shown: Shown) -> None:
    shown.said(troubles=("the CDI Manager does not answer",))
    broken = shown.resource(1, 0)
    broken["status"]["error"] = "the device fell off the bus"
    shown.put(broken)
    browser.until(lambda: "the CDI Manager does not answer" in browser.text("#troubles"))
    browser.until(lambda: "the device fell off the bus (node node-1)" in browser.text("#troubles"))
    assert state_of(browser, "gpu-1-0") == "faulty"
    browser.one('#troubles [data-key="device/gpu-1-0"]').click()
    browser.until(lambda: "kubectl get composableresource gpu-1-0" in browser.text("#story"))
    browser.one("#story-close").click()


def headings(file: str) -> set[str]:
    """The headings of a page of the documentation."""
    return set(re.findall(r"^#+ (.+)$", (ROOT / "docs" / file).read_text(encoding="utf-8"), re.MULTILINE))


# What the page names, the sentence, and the page and heading that say what to do.
REMEDIES = (
    ("page", "the connection to the controllers is lost", "guides/alerts.md", "ComposableControllersDown"),
    ("API server", "watching nodes: Forbidden", "guides/alerts.md", "ComposableWatchRestarts"),
    ("CDI Manager", "the CDI Manager does not answer", "guides/alerts.md", "ComposableManagerDown"),
    ("inventory", "no poll has succeeded for more than 120 s", "guides/alerts.md", "ComposableInventoryOld"),
    ("binding conditions", "pools are not published", "handover.md", "What each Kubernetes version offers for it"),
    ("pools", "DeviceClass gpu would fail", "guides/alerts.md", "ComposablePoolsRefused"),
    ("another operator", "another operator has created gpu-1", "guides/moving-from-cohdi.md", "One after the other"),
    ("fabric 1", "the free A100 could not be counted", "guides/alerts.md", "ComposableManagerDown"),
    ("fabric 1", "switch s1: its health is Critical", "guides/page.md", "What it shows"),
    ("device gpu-0", "it fell off the bus", "guides/alerts.md", "A problem on a node"),
    ("claim a/b", "cannot be served", "guides/alerts.md", "The fabric cannot serve a claim"),
    ("node n", "the node is gone", "guides/alerts.md", "A node is gone"),
    ("node n", "the node is not ready", "guides/alerts.md", "A node is gone"),
    ("node n", "nodes n and m have the same providerID", "guides/alerts.md", "No device is requested"),
    ("node n", "its providerID is empty", "guides/alerts.md", "The pod stays Pending"),
    ("node n", "node n has no node agent", "guides/alerts.md", "Idle devices are not returned"),
    ("controller", "anything else", "guides/alerts.md", "The controllers do not become ready"))


def test_each_trouble_leads_to_the_heading_that_says_what_to_do(browser: Browser) -> None:
    found = browser.driver.execute_async_script(
        "const done = arguments[1]; import('/ui/docs.js').then(({remedy}) => "
        "done(arguments[0].map(([what, text]) => remedy(what, text))))", [list(each[:2]) for each in REMEDIES])
    assert found == [file + "#" + slug(heading) for _what, _text, file, heading in REMEDIES]
    assert [each for each in REMEDIES if each[3] not in headings(each[2])] == []
    assert {each[0] for each in REMEDIES} >= set(ABOUT), "what the process itself complains about"


def test_troubles_and_footer_lead_to_the_documentation(browser: Browser, shown: Shown) -> None:
    assert browser.all("#docs a, #troubles a") == []
    shown.said(docs="https://docs.example.org/tree/main/docs", troubles=("the CDI Manager does not answer",),
               concerns=("CDI Manager",))
    browser.until(lambda: len(browser.all("#troubles a")) == 1)
    links = browser.all("#docs a, #troubles a")
    assert {each.get_attribute("rel") for each in links} == {"noreferrer noopener"}
    places = [(each.get_attribute("href") or "").removeprefix("https://docs.example.org/tree/main/docs/")
              for each in links]
    assert "guides/alerts.md#composablemanagerdown" in places
    assert {"handover.md", "gated.md", "whatif.md"} <= set(places)
    assert [place for place in places if not (ROOT / "docs" / place.partition("#")[0]).is_file()] == []


@pytest.mark.parametrize("width", [1400, 390])
def test_documentation_without_an_address_is_served_beside_the_page(browser: Browser, shown: Shown, width: int) -> None:
    browser.size(width, 900)
    shown.said(docs=address("https://example.com/infra/docs"),
               troubles=("the CDI Manager does not answer",), concerns=("CDI Manager",))
    browser.click("#troubles a")
    browser.until(lambda: browser.driver.current_url.endswith("/ui/docs/guides/alerts.md#composablemanagerdown"))
    assert browser.text("h1") == "Runbook"
    place = "document.querySelector(arguments[0]).getBoundingClientRect()"
    head = browser.script(f"return Math.max(0, {place}.bottom)", "header")
    assert head <= browser.script(f"return {place}.top", "#composablemanagerdown") < 200, "below the head, in sight"
    assert browser.script("return document.documentElement.scrollWidth") <= width
    assert browser.violations() == []
    browser.one('a[href="../autoscaling.md#configure-it"]').click()
    browser.until(lambda: browser.text("h1") == "Attach a device or add a node")
    assert browser.violations() == []
    browser.one("header a").click()
    browser.until(lambda: browser.one("#connection").get_attribute("data-state") == "live")


def test_story_of_a_node_has_its_last_steps(browser: Browser, shown: Shown) -> None:
    shown.put(shown.resource(0, 0, created=60))
    browser.click("#rows button.node")
    browser.until(lambda: "WHAT HAPPENED LAST" in browser.text("#story").upper())
    row = browser.one("#story table tr")
    assert row.text.split("\n")[:2] == ["created", "gpu-0-0"]
    browser.one("#story-close").click()


def choose(browser: Browser, name: str, value: str) -> None:
    """Choose or fill in a field of the what-if form."""
    field = browser.one(f'#what-if-form [name="{name}"]')
    if field.tag_name == "select":
        Select(field).select_by_value(value)
    else:
        field.clear()
        field.send_keys(value)


def test_what_if_shows_the_answer_beside_today(browser: Browser, shown: Shown) -> None:
    shown.put({"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta("default")})
    browser.until(lambda: "A100 40G, fabric 1" in browser.text("#what-if-form"))
    choose(browser, "count", "4")
    choose(browser, "model", f'[1,"{A100}"]')
    choose(browser, "per_hour", "6")
    choose(browser, "hours", "1")
    browser.one("#what-if-ask").click()
    browser.until(lambda: "devices in use" in browser.text("#what-if-result"), seconds=150)
    rows = [each.text.split() for each in browser.all("#what-if-result tr")]
    assert [*A100.split(), "free", "on", "fabric", "1", "3", "7"] in rows
    assert "1 h in simulated time, 3 seeds" in browser.text("#what-if-result")
    assert browser.one("#what-if-stop").get_attribute("disabled")
    assert browser.violations() == []
    choose(browser, "change", "hold")
    assert not browser.one('#what-if-form [name="count"]').is_displayed()
    assert browser.one('#what-if-form [name="seconds"]').is_displayed()


def test_what_if_that_is_stopped_is_not_worked_on(browser: Browser, shown: Shown) -> None:
    shown.what_if._program = (sys.executable, "-c", "import time; time.sleep(1000)")
    browser.one("#what-if-ask").click()
    browser.until(lambda: shown.what_if.busy)
    browser.one("#what-if-stop").click()
    browser.until(lambda: browser.text("#what-if-result") == "Stopped.")
    browser.until(lambda: not shown.what_if.busy)


def test_story_of_a_claim_has_its_timeline_as_a_picture(browser: Browser, shown: Shown) -> None:
    claim = ClaimRef("default/train", "uid-train")
    shown.recorder.note([claim], "attach", 1000.0, 1002.0)
    shown.recorder.note([claim], "bind", 1002.0, 1002.5)
    shown.recorder.served(claim, "node-0", 999.0)
    shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()))
    browser.click("#served-body button")
    picture = browser.until(lambda: browser.one("#story svg[role=img]"))
    assert picture.get_attribute("aria-label") == (
        "attached by the fabric 2.00 s, bound by the scheduler 500 ms, 2.50 s in total")
    widths = [float(each.get_attribute("width") or 0) for each in browser.all("#story svg rect[class]")][:2]
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.02)
    assert {"fabric", "scheduler"} <= {each.get_attribute("class") for each in browser.all("#story svg rect")}


def test_names_that_look_like_markup_stay_text(browser: Browser, shown: Shown) -> None:
    said = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'
    shown.reasons["default/train"] = WaitReason("default/train", said, 1.0)
    shown.put(objects.claim("train"))
    browser.until(lambda: said in browser.text("#queue-body"))
    assert not browser.script("return window.hurt")
    assert browser.all("#queue img, #queue script") == []


def test_search_and_states_choose_nodes(browser: Browser, shown: Shown) -> None:
    browser.one("body").send_keys("/")
    browser.driver.switch_to.active_element.send_keys("gpu-1-0")
    browser.until(lambda: [each.text for each in browser.all("#rows button.node")] == ["node-1"])
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(lambda: len(browser.all("#rows button.node")) == 2)
    shown.put(shown.resource(0, 0, state="Detaching"))
    browser.click('#legend [data-key="leaving"]')
    browser.until(lambda: [each.text for each in browser.all("#rows button.node")] == ["node-0"])


def test_under_a_search_it_says_how_many_claims_do_not_match(browser: Browser, shown: Shown) -> None:
    shown.reasons["default/more"] = WaitReason("default/more", "1 x A100 40G", 1.0)
    shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()), objects.claim("more"))
    browser.until(lambda: browser.text("#queue-title").upper() == "WAITING CLAIMS (1)")
    browser.one("#search").send_keys("zzz")
    browser.until(lambda: "0 of 1 match the search" in browser.text("#queue-body"))
    assert "0 of 1 match the search" in browser.text("#served-body")
    assert browser.text("#queue-title").upper() == "WAITING CLAIMS (0 OF 1)"
    assert not {"No claim waits.", "No claim has devices."} & set(browser.text("main").splitlines())
    assert browser.violations() == []
    browser.one("#queue-body button").click()
    browser.until(lambda: "default/more" in browser.text("#queue-body"))
    assert browser.one("#search").get_attribute("value") == ""


def test_without_nodes_and_devices_it_says_what_to_do_next(window: Browser) -> None:
    for shown in serving(nodes=0):
        shown.said(docs="https://docs.example.com/tree/main/docs")
        shown.look(free=0)
        window.size(1400, 900)
        window.open(f"{shown.server.url}/ui/")
        window.until(lambda: "No node is known yet" in window.text("#nodes"))
        assert "✓" not in window.text("#troubles")
        assert "shows no device" in window.text("#sums")
        assert window.one("#what-if-ask").get_attribute("disabled")
        places = {(each.get_attribute("href") or "").rpartition("docs/")[2] for each in window.all("main a")}
        assert {"guides/connect-a-manager.md", "quickstart.md"} <= places
        assert window.violations() == []
        shown.put({**objects.node("node-0", None), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        window.until(lambda: "No node has a machine of the fabric yet" in window.text("#nodes"))
        assert "providerID" in window.text("#nodes")
        assert window.violations() == []
        assert window.complaints() == []


def test_age_of_the_numbers_is_said_and_old_ones_are_grey(browser: Browser, shown: Shown) -> None:
    assert browser.text("#age") == "", "a process that polls no CDI Manager knows no age"
    shown.said(read=time.time() - 3.0, old_after=10.0)
    browser.until(lambda: re.fullmatch(r"fabric read [3-9] s ago", browser.text("#age")))
    bright = browser.script("return getComputedStyle(document.querySelector('#sums-body .quiet')).color")
    assert browser.one("#age").get_attribute("data-state") == "new"
    assert "Nothing is wrong" in browser.text("#troubles")
    shown.said(read=time.time() - 34.0)
    browser.until(lambda: re.fullmatch(r"fabric read 3[4-9] s ago", browser.text("#age")))
    assert browser.one("#age").get_attribute("data-state") == "old"
    browser.until(lambda: "have not read the CDI Manager for more than 10 s" in browser.text("#troubles"))
    assert browser.one("header").size["height"] < 50, "the head is one line"
    browser.size(390, 900)
    said = browser.one("#troubles li span")
    assert said.size["width"] > 200, "the sentence has a line of its own"
    browser.size(1400, 900)
    assert browser.script("return getComputedStyle(document.querySelector('#sums-body .bar')).filter") == "grayscale(1)"
    assert browser.violations() == []
    shown.said(read=time.time(), old_after=2.0)
    browser.until(lambda: browser.one("#age").get_attribute("data-state") == "new")
    assert browser.script("return getComputedStyle(document.querySelector('#sums-body .quiet')).color") == bright
    browser.until(lambda: browser.one("#age").get_attribute("data-state") == "old")  # by time alone


def test_age_is_told_by_the_controllers_clock(browser: Browser, shown: Shown) -> None:
    """A browser whose clock is wrong takes no fresh number for an old one."""
    shown.state.clock = lambda: time.time() - 3600.0
    shown.said(read=time.time() - 3604.0, old_after=10.0)
    browser.driver.refresh()
    browser.until(lambda: re.fullmatch(r"fabric read [4-9] s ago", browser.text("#age")))
    assert browser.one("#age").get_attribute("data-state") == "new"


def test_what_cannot_be_read_says_so(browser: Browser, shown: Shown) -> None:
    browser.script("composable.feed.get = () => Promise.reject(new Error('down')); composable.waits()")
    browser.until(lambda: "could not be read" in browser.text("#waits"))
    shown.server.stop()
    browser.until(lambda: browser.one("#connection").get_attribute("data-state") == "lost")
    browser.until(lambda: "the connection to the controllers is lost" in browser.text("#troubles"))
    assert "Nothing is wrong" not in browser.text("#troubles")
    browser.complaints()


def test_all_of_it_can_be_done_with_keys(browser: Browser) -> None:
    def here() -> str:
        return str(browser.script("return document.activeElement.innerText + '|' "
                                  "+ (document.activeElement.dataset.device ?? '')"))

    browser.script("document.querySelector('#grid [tabindex=\"0\"]').focus()")
    for _unused in range(2):
        browser.driver.switch_to.active_element.send_keys(Keys.HOME)
    assert here().startswith("▾ Fabric 1")
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert here().startswith("node-0")
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert here().endswith("gpu-0-0")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until(lambda: "device gpu-0-0" in browser.text("#story-title"))
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(lambda: here().endswith("gpu-0-0"))
    browser.driver.switch_to.active_element.send_keys(Keys.HOME)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until(lambda: browser.all("#rows button.node") == [])


def in_boxes(browser: Browser) -> dict[str, str]:
    """What the page says of each box."""
    return {each.text: each.get_attribute("aria-label") or "" for each in browser.all("#rows .inbox button")}


def test_where_the_manager_tells_no_box_the_page_has_none(browser: Browser) -> None:
    assert browser.one("#grid").get_attribute("aria-rowcount") == "4"
    assert "box" not in browser.text("#rows").lower()


def test_boxes_have_their_devices_by_state(browser: Browser, shown: Shown) -> None:
    shown.look(free=3, boxes=2)
    browser.until(lambda: in_boxes(browser) == {
        "box-0": "box box-0, 2 attached, idle", "box-1": "box box-1, 2 attached, idle · free: 3 × A100 40G"})
    shown.put(shown.resource(1, 0, state="Detaching"))
    browser.until(lambda: in_boxes(browser)["box-1"] == (
        "box box-1, 1 attached, idle · 1 leaving · free: 3 × A100 40G"))
    shown.look(free=3)
    browser.until(lambda: in_boxes(browser) == {})


def test_box_and_device_lead_to_each_other(browser: Browser, shown: Shown) -> None:
    shown.look(free=3, boxes=2)
    published = objects.local_slice("GPU-gpu-0-0")
    published["spec"]["devices"][0]["attributes"]["switch"] = {"string": "0000:80:00.0"}
    shown.put(published)
    browser.click("#rows .inbox button")
    browser.until(lambda: "box 1/box-0" in browser.text("#story-title"))
    browser.until(lambda: "Devices on machines".upper() in browser.text("#story").upper())
    assert [each.text.split("\n")[-1] for each in browser.all("#story .claims button")] == [
        "attached, idle, on node-0"] * 2
    assert browser.violations() == []
    browser.one("#story .claims button").click()
    browser.until(lambda: "device gpu-0-0" in browser.text("#story-title"))
    browser.until(lambda: "0000:80:00.0" in browser.text("#story"))
    facts = browser.text("#story dl").split("\n")
    assert (facts[facts.index("Box") + 1], facts[facts.index("Switch") + 1]) == ("box-0", "0000:80:00.0")


def test_boxes_are_walked_and_folded_with_keys(browser: Browser, shown: Shown) -> None:
    def press(key: str) -> str:
        browser.driver.switch_to.active_element.send_keys(key)
        return str(browser.script("return document.activeElement.innerText"))

    shown.look(free=3, boxes=2)
    browser.until(lambda: len(in_boxes(browser)) == 2)
    browser.script("document.querySelector('#grid [tabindex=\"0\"]').focus()")
    press(Keys.HOME)
    assert [press(Keys.ARROW_DOWN) for _unused in range(4)] == ["▾ 2 boxes", "box-0", "box-1", "node-0"]
    assert [press(Keys.ARROW_UP) for _unused in range(3)] == ["box-1", "box-0", "▾ 2 boxes"]
    assert press(Keys.ENTER) == "▸ 2 boxes"
    assert in_boxes(browser) == {}


def test_many_boxes_are_folded_until_they_are_asked_for(browser: Browser, shown: Shown) -> None:
    shown.look(free=3)
    seen = shown.state.snapshot
    assert seen is not None
    many = {(A100, 1, f"box-{number}"): 1 for number in range(17)}
    shown.state.snapshot = replace(seen, free_in_boxes=many)
    head = browser.until(lambda: browser.one('#rows [aria-expanded="false"]'))
    assert (head.text, in_boxes(browser)) == ("▸ 17 boxes", {})
    head.click()
    browser.until(lambda: list(in_boxes(browser))[:3] == ["box-0", "box-1", "box-2"])


CABLED = (
    Switch("s1", 1, "Switch 1", "OK", (Link("machine", "machine-0", 1, 0, 512.0), Link("machine", "machine-1"),
                                       Link("box", "box-0", 2, 1, 256.0), Link("switch", "s2"))),
    Switch("s2", 1, "Switch 2", "Critical", (Link("box", "box-1"), Link("switch", "s1"))))


def test_where_the_manager_tells_no_switch_there_is_no_picture(browser: Browser) -> None:
    assert not browser.one("#links").is_displayed()


def test_switches_are_drawn_and_said_in_words(browser: Browser, shown: Shown) -> None:
    shown.look(free=3, boxes=2, switches=CABLED)
    browser.until(lambda: browser.one("#links").is_displayed())
    assert [each.text for each in browser.all("#links tbody tr")] == [
        "Switch 1 2 machines box-0 Switch 2 1 of 5", "Switch 2 none box-1 Switch 1 none"]
    picture = browser.one("#links svg")
    assert picture.get_attribute("aria-label") == (
        "switch Switch 1 leads to machines node-0, node-1 and box box-0 and switch Switch 2. "
        "switch Switch 2 leads to box box-1 and switch Switch 1")
    words = {each.text for each in browser.all("#links svg text")}
    assert words == {"Switch 1", "! Switch 2", "node-0", "node-1", "box-0, 1 of 2 ports down", "box-1"}
    assert len(browser.all("#links svg .cable")) == 5
    assert len(browser.all("#links svg .cable.down")) == 1
    browser.until(lambda: "switch Switch 2: its health is Critical" in browser.text("#troubles-list"))
    shown.look(free=3, boxes=2)
    browser.until(lambda: not browser.one("#links").is_displayed())


def test_switch_box_and_node_lead_to_each_other(browser: Browser, shown: Shown) -> None:
    shown.look(free=3, boxes=2, switches=CABLED)
    browser.click("#links tbody button")
    browser.until(lambda: "switch 1/s1" in browser.text("#story-title"))
    browser.until(lambda: [each.text for each in browser.all("#story tbody tr")] == [
        "machine node-0 1 port 512 Gbit/s", "machine node-1 1 port", "box box-0 2 ports 1 down 256 Gbit/s",
        "switch Switch 2 1 port"])
    assert browser.violations() == []
    browser.all("#story tbody button")[2].click()
    browser.until(lambda: "box 1/box-0" in browser.text("#story-title"))
    browser.until(lambda: "Switches\nSwitch 1" in browser.text("#story dl"))
    browser.one("#story-close").click()
    browser.one("#rows .row:last-child button.node").click()
    browser.until(lambda: "Switches" in browser.text("#story dl"))


def test_many_machines_of_a_switch_are_one_line(browser: Browser, shown: Shown) -> None:
    far = tuple(Link("machine", f"far-{number}") for number in range(40))
    shown.look(free=3, switches=(replace(CABLED[0], links=far),))
    browser.until(lambda: [each.text for each in browser.all("#links svg text")] == ["40 machines", "Switch 1"])
    assert len(browser.all("#links svg .cable")) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_axe_core_finds_nothing(browser: Browser, shown: Shown, scheme: str, width: int) -> None:
    browser.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    browser.size(width, 900)
    broken = shown.resource(1, 0)
    broken["status"]["error"] = "the device fell off the bus"
    shown.look(free=3, boxes=2, switches=CABLED)
    shown.reasons["default/more"] = WaitReason("default/more", "1 x A100 40G", 1.0)
    shown.put(broken, shown.resource(1, 1, state="Detaching"), shown.resource(0, 1, device="", state="Attaching"),
              objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()), objects.claim("more"))
    browser.until(lambda: len({each.get_attribute("data-state") for each in browser.all("#rows [data-state]")}) == 4)
    assert browser.violations() == []
    browser.one("#served-body button").click()
    browser.until(lambda: "kubectl" in browser.text("#story"))
    assert browser.violations() == []


def busy(shown: Shown, claims: int = 2) -> None:
    """Waits, waiting claims with long sentences, a served claim, and devices in several states."""
    say = "1 x A100 40G: 0/2 nodes: 2 had no free A100 40G on fabric 1; pool a100-fabric1 has 0 free, attached: 2"
    for number in range(claims):
        shown.reasons[f"default/more-{number}"] = WaitReason(f"default/more-{number}", say, time.time() - 3700.0)
        shown.put(objects.claim(f"more-{number}"))
    began = time.time() - 60.0
    shown.waits.count(Timeline("default/train", "u", "node-0", began, (
        Span("attach", began, began + 40.0), Span("bind", began + 40.0, began + 43.0))))
    shown.put(shown.resource(0, 1, device="", state="Attaching"), objects.local_slice("GPU-gpu-0-0"),
              objects.claim("train", objects.local_result()))


def too_wide(browser: Browser) -> list[str]:
    """Cards of which something stands out at the side, and whether the page itself does."""
    return list(browser.script(
        "return [document.documentElement, ...document.querySelectorAll('main section')]"
        ".filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.id || each.tagName)"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1400, 2200])
def test_every_card_holds_what_is_in_it(browser: Browser, shown: Shown, width: int, scheme: str) -> None:
    browser.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    browser.size(width, 900)
    busy(shown)
    browser.script("composable.waits()")
    browser.until(lambda: "bound by the scheduler" in browser.text("#waits-body"))
    browser.until(lambda: "1 h 01 min" in browser.text("#queue-body"))
    assert too_wide(browser) == []
    if width == 390:
        assert all(cell.is_displayed() for cell in browser.all("#waits-body td:nth-child(4)"))
    if width >= 1400:
        sides = [browser.one(each).size["width"] for each in ("#nodes", ".side")]
        assert sides[1] > 0.6 * sides[0], "what an operator reads has room"
    pictures = os.environ.get("PAGE_PICTURES")
    if pictures:
        browser.picture(Path(pictures) / f"page-{width}-{scheme}.png")
    assert browser.violations() == []


@pytest.mark.parametrize("width", [390, 1400])
def test_many_claims_keep_nothing_else_out_of_sight(browser: Browser, shown: Shown, width: int) -> None:
    browser.size(width, 900)
    busy(shown, claims=100)
    browser.until(lambda: browser.text("#queue-title").upper() == "WAITING CLAIMS (100)")
    browser.until(lambda: len(browser.all("#queue-body li")) == 100)
    assert browser.script("return document.documentElement.scrollHeight") < 3600
    assert browser.violations() == []


def test_states_have_one_order_and_bars_one_scale(browser: Browser, shown: Shown) -> None:
    """Node 1 has its idle device first by name, node 0 its leaving one."""
    shown.put(shown.resource(0, 0, state="Detaching"), shown.resource(1, 1, state="Detaching"))
    browser.until(lambda: len(browser.all("#rows .cell.leaving")) == 2)
    notes = {each.text for each in browser.all("#rows .row .note") if "leaving" in each.text}
    assert notes == {"1 attached, idle · 1 leaving"}
    for row in ("gpu-0-1", "gpu-1-0"):
        cells = browser.script("return [...document.querySelector(`[data-device='${arguments[0]}']`).closest('.cells')"
                               ".querySelectorAll('.cell')].map((each) => each.dataset.state)", row)
        assert cells == ["idle", "leaving"]
    seen = shown.state.snapshot
    assert seen
    shown.state.snapshot = replace(seen, free={**seen.free, ("H100 80G", 1): 1})
    browser.until(lambda: len(browser.all("#sums-body .bar")) == 2)
    wide, narrow = (each.size["width"] for each in browser.all("#sums-body .bar"))
    assert wide == pytest.approx(7 * narrow, rel=0.05), "3 free and 4 attached beside 1 free"


def test_what_nodes_have_in_common_is_not_in_their_names(window: Browser) -> None:
    for shown in serving(nodes=0):
        for number in range(2):
            name = f"worker-000{number}.cluster.example.com"
            ready = [{"type": "Ready", "status": "True"}]
            shown.put({**objects.node(name, f"machine-{number}"), "status": {"conditions": ready}})
        window.size(1400, 900)
        window.open(f"{shown.server.url}/ui/")
        window.until(lambda: [each.text.removeprefix("! ") for each in window.all("#rows button.node")] == [
            "worker-0000", "worker-0001"])
        assert window.one("#rows button.node").get_attribute("title") == "worker-0000.cluster.example.com"
        assert window.complaints() == []


def test_served_claim_says_which_model_and_for_how_long(browser: Browser, shown: Shown) -> None:
    shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()))
    browser.until(lambda: "1 × A100 40G" in browser.text("#served-body"))
    assert re.search(r"\d (s|min|h)\b", browser.text("#served-body"))


def test_question_mark_opens_the_keys(browser: Browser) -> None:
    browser.one("body").send_keys("?")
    browser.until(lambda: browser.one("#keys").get_attribute("open"))
    browser.one("#keys button").click()
    browser.one("#search").send_keys("?")
    assert not browser.one("#keys").get_attribute("open")


def test_narrow_window_needs_no_scrolling_to_the_side(browser: Browser) -> None:
    browser.size(360, 800)
    assert browser.script("return document.documentElement.scrollWidth") <= 360


def test_page_comes_back_by_itself_with_what_it_missed(browser: Browser, shown: Shown) -> None:
    shown.ui.broadcaster._lock.acquire()
    streams = list(shown.ui.broadcaster._streams)
    for stream in streams:
        shown.ui.broadcaster._end(stream)
    shown.ui.broadcaster._lock.release()
    shown.put(shown.resource(0, 0, state="Detaching"))
    browser.until(lambda: state_of(browser, "gpu-0-0") == "leaving")
    assert browser.script("return composable.feed.at").split("-")[0] == shown.view.name
