# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find something on the page and share it: addresses, links, copies, filters, orders and files."""

from __future__ import annotations

import csv
import io
import json
import time
import typing as t
from pathlib import Path

import pytest
from selenium.webdriver.support.ui import Select

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.tests.browser.window import Browser
from ansible_collections.composable.infra.tests.integration.page.shown import Shown
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
UUID = "GPU-2ef071ae-1b2c-3d4e-5f60-718293a4b5c6"


def waiting(shown: Shown, name: str, namespace: str, seconds: float, model: str = A100) -> Json:
    """A claim that has waited that long for a model."""
    key = f"{namespace}/{name}"
    shown.reasons[key] = WaitReason(key, f"1 x {model}", time.time() - seconds)
    raw = objects.claim(name)
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace, "uid": f"uid-{key}"}}


def names(browser: Browser, body: str) -> list[str]:
    """Of the claims of a list, in its order."""
    return [each.text for each in browser.all(f"#{body} b")]


def nodes(browser: Browser) -> list[str]:
    """Of the nodes in sight, from above."""
    return [each.text for each in sorted(browser.all("#rows button.node"), key=lambda each: each.location["y"])]


def choose(browser: Browser, field: str, value: str) -> None:
    """Choose in the bar of filters."""
    browser.until(lambda: browser.all(f'#filters-form [name="{field}"] option[value="{value}"]'))
    Select(browser.one(f'#filters-form [name="{field}"]')).select_by_value(value)


def test_details_have_an_address_and_the_back_button_leaves_them(browser: Browser) -> None:
    browser.click("#rows button.node")
    browser.until(lambda: "node node-0" in browser.text("#story-title"))
    address = browser.driver.current_url
    assert address.endswith("#open=node/node-0")
    browser.one("#story .claims button").click()
    browser.until(lambda: "device gpu-0-0" in browser.text("#story-title"))
    browser.driver.back()
    browser.until(lambda: "node node-0" in browser.text("#story-title"))
    browser.driver.back()
    browser.until(lambda: not browser.one("#story").is_displayed())
    browser.driver.get("about:blank")
    browser.open(address)
    browser.until(lambda: "node node-0" in browser.text("#story-title"))
    browser.until(lambda: browser.violations() == [])
    browser.one("#story-close").click()
    assert "open" not in browser.driver.current_url


def test_view_is_in_its_address(browser: Browser, shown: Shown) -> None:
    shown.put(shown.resource(0, 0, state="Detaching"), waiting(shown, "a", "mine", 10.0))
    browser.one("#search").send_keys("gpu 0")
    choose(browser, "namespace", "mine")
    choose(browser, "nodes", "idle")
    browser.click('#legend [data-key="leaving"]')
    wanted = "search=gpu+0&namespace=mine&nodes=idle&states=leaving"
    browser.until(lambda: browser.driver.current_url.partition("#")[2] == wanted)
    address = browser.driver.current_url
    browser.driver.back()
    browser.until(lambda: browser.one('#legend [data-key="leaving"]').get_attribute("aria-pressed") == "false")
    browser.driver.get("about:blank")
    browser.open(address)
    browser.until(lambda: browser.one('#legend [data-key="leaving"]').get_attribute("aria-pressed") == "true")
    assert browser.one("#search").get_attribute("value") == "gpu 0"
    chosen = {each: Select(browser.one(f'#filters-form [name="{each}"]')).first_selected_option.text
              for each in ("namespace", "nodes")}
    assert chosen == {"namespace": "mine", "nodes": "most idle first"}
    browser.script("document.querySelector('.skip').click()")
    browser.until(lambda: browser.driver.current_url == address)
    browser.one("#clear").click()
    browser.until(lambda: browser.driver.current_url.partition("#")[2] == "nodes=idle")
    assert browser.one("#search").get_attribute("value") == ""


def test_details_lead_from_claim_to_device_and_node(browser: Browser, shown: Shown) -> None:
    shown.put(shown.resource(0, 0, serial=UUID), objects.local_slice(UUID),
              objects.claim("train", objects.local_result()))
    browser.click("#served-body button")
    browser.until(lambda: browser.one('#story button.to[title="gpu-0-0"], #story dd button.to'))
    links = {each.text: each for each in browser.all("#story dd button.to")}
    assert links.keys() == {"node-0", "gpu-0-0"}
    links["gpu-0-0"].click()
    browser.until(lambda: "device gpu-0-0" in browser.text("#story-title"))
    browser.until(lambda: {"default/train", "node-0"} <= {each.text for each in browser.all("#story dd button.to")})
    assert "GPU-2ef071ae…" in browser.text("#story dl").split("\n")
    next(each for each in browser.all("#story dd button.to") if each.text == "default/train").click()
    browser.until(lambda: "claim default/train" in browser.text("#story-title"))


def test_a_shortened_name_is_copied_whole(browser: Browser, shown: Shown) -> None:
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", {
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": shown.server.url})
    shown.put(shown.resource(0, 0, serial=UUID))
    browser.click('[data-device="gpu-0-0"]')
    browser.click(f'#story [aria-label="copy {UUID}"]')
    browser.until(lambda: browser.one("#copied").get_attribute("textContent") == f"copied {UUID}")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    assert browser.driver.execute_async_script(read) == UUID
    browser.click('#story-title [aria-label="copy the link to this"]')
    browser.until(lambda: browser.driver.execute_async_script(read).endswith("#open=device/gpu-0-0"))


def test_without_a_clipboard_the_page_copies_by_hand(browser: Browser, shown: Shown) -> None:
    """Browsers have none for a page over plain HTTP from another host."""
    browser.script("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});"
                   "window.was = ''; document.addEventListener('copy', () => { window.was = String(getSelection() "
                   "|| document.activeElement.value) || document.activeElement.value; })")
    browser.click("#link .copy")
    browser.until(lambda: browser.one("#copied").get_attribute("textContent"))
    assert browser.one("#copied").get_attribute("textContent") == f"copied {shown.server.url}/ui/"
    assert browser.script("return window.was") == f"{shown.server.url}/ui/"


def test_filters_choose_claims_and_nodes(browser: Browser, shown: Shown) -> None:
    shown.put(waiting(shown, "old", "mine", 4000.0), waiting(shown, "new", "mine", 5.0, "H100 80G"),
              waiting(shown, "other", "yours", 4000.0), objects.local_slice("GPU-gpu-0-0"),
              objects.claim("train", objects.local_result()))
    browser.until(lambda: sorted(names(browser, "queue-body")) == ["mine/new", "mine/old", "yours/other"])
    choose(browser, "namespace", "mine")
    browser.until(lambda: names(browser, "queue-body") == ["mine/old", "mine/new"])
    assert browser.text("#queue-title").upper() == "WAITING CLAIMS (2 OF 3)"
    assert nodes(browser) == [], "no device of a node is used by this namespace"
    choose(browser, "age", "3600")
    browser.until(lambda: names(browser, "queue-body") == ["mine/old"])
    choose(browser, "namespace", "default")
    browser.until(lambda: nodes(browser) == ["node-0"])
    browser.one("#clear").click()
    choose(browser, "model", A100)
    browser.until(lambda: names(browser, "queue-body") == ["mine/old", "yours/other"])
    assert names(browser, "served-body") == ["default/train"]
    choose(browser, "fabric", "1")
    browser.until(lambda: nodes(browser) == ["node-0", "node-1"])
    assert browser.violations() == []


def test_claims_and_nodes_have_the_chosen_order(browser: Browser, shown: Shown) -> None:
    broken = shown.resource(1, 0)
    broken["status"]["error"] = "the device fell off the bus"
    shown.put(waiting(shown, "b", "mine", 50.0), waiting(shown, "a", "mine", 5.0), broken)
    browser.until(lambda: names(browser, "queue-body") == ["mine/b", "mine/a"])
    choose(browser, "claims", "name")
    browser.until(lambda: names(browser, "queue-body") == ["mine/a", "mine/b"])
    assert nodes(browser) == ["node-0", "node-1"]
    choose(browser, "nodes", "trouble")
    browser.until(lambda: nodes(browser) == ["node-1", "node-0"])
    choose(browser, "nodes", "idle")
    browser.until(lambda: nodes(browser) == ["node-0", "node-1"])


def download(browser: Browser, folder: Path, file: str) -> str:
    """The text of a file that the page saves."""
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    browser.one(f'[data-file="{file}"]').click()
    path = folder / f"composable-infra-{file}"
    return str(browser.until(lambda: path.exists() and path.read_bytes()).decode())


def test_what_is_shown_is_had_as_csv_and_json(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    evil = '=HYPERLINK("http://example.com"), and a "quote"'
    key = "mine/a"
    shown.put(waiting(shown, "a", "mine", 5.0), waiting(shown, "b", "yours", 5.0))
    shown.reasons[key] = WaitReason(key, evil, time.time())
    browser.until(lambda: evil in browser.text("#queue-body"))
    choose(browser, "namespace", "mine")
    rows = list(csv.DictReader(io.StringIO(download(browser, tmp_path, "claims.csv"))))
    assert [(row["namespace"], row["name"], row["reason"]) for row in rows] == [("mine", "a", f"'{evil}")]
    found = json.loads(download(browser, tmp_path, "claims.json"))
    assert [row["reason"] for row in found["claims"]] == [evil]
    browser.one("#clear").click()
    devices = list(csv.DictReader(io.StringIO(download(browser, tmp_path, "devices.csv"))))
    assert [(row["node"], row["device"], row["uuid"], row["state"]) for row in devices] == [
        (f"node-{n}", f"gpu-{n}-{place}", f"GPU-gpu-{n}-{place}", "idle") for n in (0, 1) for place in (0, 1)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1400])
def test_bar_of_filters_is_for_everybody(browser: Browser, width: int, scheme: str) -> None:
    browser.prefer(prefers_color_scheme=scheme)
    browser.size(width, 900)
    browser.script("document.getElementById('filters').open = true")
    assert browser.violations() == []
    assert browser.script("return document.documentElement.scrollWidth") <= width
