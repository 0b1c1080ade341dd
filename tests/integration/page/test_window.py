# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The window of the browser tests: a network that changes under it fails no test, all other complaints do."""

from __future__ import annotations

import typing as t

import pytest
from selenium.common.exceptions import WebDriverException

from ansible_collections.composable.infra.tests.browser.window import NETWORK_CHANGED, Browser

ADDRESS = "http://127.0.0.1:1/ui/"
DROPPED = f"{ADDRESS}page.js - Failed to load resource: {NETWORK_CHANGED}"


class Driver:
    """A stand-in for a driver: each load goes as the next of ``loads`` says, which is what the console says of it."""

    def __init__(self, *loads: str) -> None:
        self.loads, self.said, self.state = list(loads), list[str](), "connecting"

    def get(self, address: str) -> None:
        """Goes there. Raises WebDriverException when even that is dropped."""
        assert address == ADDRESS
        said = self.loads.pop(0)
        self.state = "connecting" if said else "live"
        self.said += [said] if said else []
        if said.startswith("unknown error"):
            raise WebDriverException(said)

    def get_log(self, kind: str) -> list[dict[str, str]]:
        """What the console said since it was last asked."""
        said, self.said = self.said, []
        return [{"message": each} for each in said]

    def find_element(self, by: str, selector: str) -> t.Any:
        """The sign of the connection, which is this."""
        return self

    def get_attribute(self, name: str) -> str:
        """What the page shows."""
        return self.state


@pytest.mark.parametrize("loads", [[""], [DROPPED, ""], [f"unknown error: {NETWORK_CHANGED}", DROPPED, ""]],
                         ids=["loaded", "a script was dropped", "the page was dropped, then a script"])
def test_page_is_loaded_until_the_network_stays_as_it_is(loads: list[str]) -> None:
    driver: t.Any = Driver(*loads)
    window = Browser(driver)
    window.open(ADDRESS)
    assert (driver.loads, driver.state, window.complaints()) == ([], "live", [])


def test_another_failure_is_raised_and_another_complaint_is_kept() -> None:
    driver: t.Any = Driver("unknown error: net::ERR_CONNECTION_REFUSED")
    window = Browser(driver)
    with pytest.raises(WebDriverException, match="REFUSED"):
        window.open(ADDRESS)
    driver.said += [DROPPED, "page.js 1:1 Uncaught TypeError"]
    assert window.complaints() == ["unknown error: net::ERR_CONNECTION_REFUSED", "page.js 1:1 Uncaught TypeError"]
    assert window.complaints() == []


class Redrawn(Driver):
    """One whose page has an element only when it was asked for the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [[], ["Switch 1"]]

    def execute_script(self, _source: str, selector: str) -> list[str]:
        """What the element reads."""
        assert selector == "#story dl"
        return self.found.pop(0)


def test_a_text_is_read_when_it_is_there() -> None:
    driver: t.Any = Redrawn()
    assert Browser(driver).text("#story dl") == "Switch 1"
    assert driver.found == []
