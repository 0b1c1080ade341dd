# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page about 5,000 nodes with 8 devices each, made up: the browser gets changes, and draws what is in sight.

How long that takes is measured by ``tests/bench/page/measure.py``; a test asserts no durations.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.tests.browser.window import Browser, opened
from ansible_collections.composable.infra.tests.integration.page.shown import Shown, serving
from ansible_collections.composable.infra.tests.unit.reconcile import objects

NODES, DEVICES = 5000, 8


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    """The large cluster."""
    yield from serving(nodes=NODES, devices=DEVICES)


@pytest.fixture(scope="module")
def browser(shown: Shown) -> Iterator[Browser]:
    """A window that shows it."""
    with opened() as window:
        window.size(1400, 900)
        window.open(f"{shown.server.url}/ui/")
        window.until(lambda: "40,000 attached, idle" in window.text("#sums-body"))
        yield window


def test_only_rows_in_sight_are_in_the_document(browser: Browser) -> None:
    assert len(browser.all("#rows .row")) < 60
    assert browser.one("#grid").get_attribute("aria-rowcount") == str(NODES // 100 + 2)


def test_many_nodes_are_sums_that_are_unfolded(browser: Browser, shown: Shown) -> None:
    shown.put(shown.resource(150, 3, state="Detaching"))
    browser.until(lambda: "799 attached, idle · 1 leaving" in browser.text("#rows"))
    label = browser.one("#rows .range button").get_attribute("aria-label")
    assert label == "100 machines from node-0 to node-99, 800 attached, idle"
    second = browser.all("#rows .range button")[1]
    second.click()
    browser.until(lambda: browser.one("#grid").get_attribute("aria-rowcount") == str(NODES // 100 + 102))
    browser.until(lambda: "node-101" in [each.text for each in browser.all("#rows button.node")])
    assert browser.violations() == []
    browser.until(lambda: browser.all('#rows .range [aria-expanded="true"]'))[0].click()
    browser.until(lambda: browser.one("#grid").get_attribute("aria-rowcount") == str(NODES // 100 + 2))
    shown.put(shown.resource(150, 3, state="Online"))


def test_one_change_is_sent_as_one_row(browser: Browser, shown: Shown) -> None:
    before = browser.script("return composable.feed.bytes")
    shown.put(shown.resource(4321, 3, state="Detaching"))
    browser.until(lambda: "1 leaving" in browser.text("#sums-body"))
    assert browser.script("return composable.feed.bytes") - before < 3000


def test_search_finds_one_node_of_all(browser: Browser) -> None:
    browser.one("#search").send_keys("node-4999")
    browser.until(lambda: [each.text for each in browser.all("#rows button.node")] == ["node-4999"])
    browser.one("#search").clear()
    browser.one("#search").send_keys(" ")
    browser.until(lambda: len(browser.all("#rows button.node")) > 10)


def test_last_row_is_reached_by_a_key(browser: Browser) -> None:
    browser.script("document.querySelector('#grid [tabindex=\"0\"]').focus()")
    browser.script("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'End', bubbles: true}))")
    browser.until(lambda: browser.driver.switch_to.active_element.text == "▸ node-4900 … 4999")


def test_states_choose_the_nodes_that_have_them(browser: Browser, shown: Shown) -> None:
    shown.put(shown.resource(2500, 0, device="", state="Attaching"), objects.claim("waits"))
    browser.click('#legend [data-key="attaching"]')
    browser.until(lambda: [each.text for each in browser.all("#rows button.node")] == ["node-2500"])


def test_axe_core_finds_nothing(browser: Browser) -> None:
    assert browser.violations() == []
    assert browser.complaints() == []
