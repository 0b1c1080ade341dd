# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page over time: devices by state as a picture and as a table, and who used what at which cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import (
    HOUR,
    Place,
    Stored,
    Sum,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.tests.browser.window import Browser
from ansible_collections.composable.infra.tests.integration.page.shown import Shown
from ansible_collections.composable.infra.tests.integration.page.test_find import choose
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects


def an_hour(shown: Shown, gap: range = range(0)) -> None:
    """Samples of the last hour, one a minute but for those of a gap: node 0 uses a device in its second half."""
    until = shown.now
    for minute in range(60):
        shown.now = until - (60 - minute) * 60
        if minute == 30:
            shown.put(objects.local_slice("GPU-gpu-0-0"), objects.claim("train", objects.local_result()))
            shown.attempts = (2, 1)
            shown.reasons["default/more"] = WaitReason("default/more", "1 x A100 40G", shown.now)
        if minute not in gap:
            shown.past.sample()
    shown.now = until


def figures(browser: Browser) -> dict[str, list[str]]:
    """The table beside the picture."""
    browser.script("composable.past.read()")
    rows = [each.text.split("\n")[-1] for each in browser.all("#history .figures tbody tr")]
    return {" ".join(row.split()[:-4]).strip(): row.split()[-4:] for row in rows}


def test_devices_over_time_are_a_picture_and_a_table(browser: Browser, shown: Shown) -> None:
    an_hour(shown)
    browser.one('#history-spans [data-span="1h"]').click()
    browser.until(lambda: "waiting claims" in figures(browser))
    assert figures(browser)["in use"] == ["1", "0", "0.5", "1"]
    assert figures(browser)["attached, idle"] == ["3", "3", "3.5", "4"]
    assert figures(browser)["free"][0] == "3"
    label = browser.one("#history svg[role=img]").get_attribute("aria-label") or ""
    assert label == "Devices by state. in use: 1 now, attached, idle: 3 now, free: 3 now"
    assert "2 attaches, 1 failed" in str([each.get_attribute("aria-label") for each in browser.all("#history svg")])
    assert "From the memory of this process" in browser.text("#history-body")
    assert browser.driver.current_url.endswith("#span=1h")
    assert browser.violations() == []


def test_no_line_leads_over_a_gap(browser: Browser, shown: Shown) -> None:
    an_hour(shown, gap=range(10, 20))
    browser.one('#history-spans [data-span="1h"]').click()
    browser.until(lambda: len(browser.all("#history .area.idle")) == 2)


def test_a_span_that_is_not_covered_says_so(browser: Browser, shown: Shown) -> None:
    an_hour(shown)
    browser.one('#history-spans [data-span="7d"]').click()
    browser.until(lambda: "keeps samples of at most 24 h" in browser.text("#history-body"))


def used(shown: Shown) -> None:
    """Two namespaces have used devices, and one was idle."""
    hour = int(shown.now // HOUR) * HOUR - HOUR
    shown.stored = Stored({Place(hour, HOUR, "team-a", A100, "red"): Sum(3.25 * HOUR, 0.0, 2),
                           Place(hour, HOUR, "team-b", "H100 80G", ""): Sum(1.0 * HOUR, 0.0, 1),
                           Place(hour, HOUR, "", A100, ""): Sum(0.0, 1.5 * HOUR, 0)}, since=hour - 5 * HOUR,
                          until=shown.now)


def usage(browser: Browser) -> list[list[str]]:
    """The rows of the table."""
    browser.script("composable.usage.read()")
    return [[cell.text for cell in row.find_elements("css selector", "th, td")]
            for row in browser.all("#usage-body tbody tr")]


def test_usage_has_hours_and_costs(browser: Browser, shown: Shown) -> None:
    used(shown)
    browser.until(lambda: len(usage(browser)) == 3)
    assert sorted(usage(browser)) == [["idle, no claim", A100, "0", "1.50", "3.00", "0"],
                                      ["team-a", A100, "3.25", "0", "6.50", "2"],
                                      ["team-b", "H100 80G", "1.00", "0", "no rate", "1"]]
    assert browser.text("#usage-body tfoot").startswith(f"All of {A100}")
    browser.script("const by = document.querySelector('#usage-form [name=by]'); by.value = 'label'; "
                   "by.dispatchEvent(new Event('change', {bubbles: true}))")
    browser.until(lambda: "red" in [row[0] for row in usage(browser)])
    assert browser.driver.current_url.endswith("#by=label")
    assert browser.violations() == []


def test_usage_of_a_namespace_and_as_csv(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    used(shown)
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.one('[data-usage="csv"]').click()
    path = tmp_path / "composable-infra-usage.csv"
    text = browser.until(lambda: path.exists() and path.read_text(encoding="utf-8"))
    assert text.splitlines()[0] == "namespace,model,label,gpu_hours,idle_gpu_hours,cost,currency,attaches"
    assert "team-a,A100 40G,,3.25" in text
    choose(browser, "model", A100)
    browser.until(lambda: sorted(row[0] for row in usage(browser)) == ["idle, no claim", "team-a"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1400])
def test_pictures_keep_to_their_cards(browser: Browser, shown: Shown, width: int, scheme: str) -> None:
    browser.prefer(prefers_color_scheme=scheme)
    browser.size(width, 900)
    an_hour(shown)
    used(shown)
    browser.until(lambda: len(usage(browser)) == 3)
    browser.script("composable.past.read()")
    browser.until(lambda: browser.all("#history .area"))
    wide = ("return [document.documentElement, ...document.querySelectorAll('main section')]"
            ".filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.id || each.tagName)")
    assert browser.script(wide) == []
    assert browser.violations() == []
