# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real browser for the tests of the page: Debian's Chromium, driven by Selenium, and axe-core as the judge of what
everybody can use. Where no browser is, the tests that need one are skipped."""

from __future__ import annotations

import shutil
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 120.0
ABSENT = "chromium and chromedriver are not both on PATH (Debian: apt-get install chromium chromium-driver)"
# Without them Chromium does not start as root in a container, or without much shared memory.
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
# Chromium drops what it loads when an interface of the machine comes or goes, as those of real nodes beside it do.
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
Json = dict[str, t.Any]


def programs() -> tuple[str, str] | None:
    """Paths of browser and driver, None where one is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window. What it complained about so far is in ``complaints``."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self._said: list[str] = []

    def open(self, address: str) -> None:
        """Go there, and wait until the page is told of changes. It is loaded again when the network changed."""
        self._load(address)
        self.until(partial(self._is_live, address))

    def _load(self, address: str) -> None:
        try:
            self.driver.get(address)
        except WebDriverException as error:
            if NETWORK_CHANGED not in str(error):
                raise

    def _is_live(self, address: str) -> bool:
        if self._network_changed():
            self._load(address)
        return self.one("#connection").get_attribute("data-state") == "live"

    def _network_changed(self) -> bool:
        """Whether that made the browser drop something since this was last asked."""
        driver: t.Any = self.driver  # this one method has no types
        said = [str(entry["message"]) for entry in driver.get_log("browser")]
        self._said += [each for each in said if NETWORK_CHANGED not in each]
        return any(NETWORK_CHANGED in each for each in said)

    def one(self, selector: str) -> WebElement:
        """The first element that fits. Raises NoSuchElementException."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """All elements that fit."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click on the first element that fits, as soon as it is there. The page may draw it again before the click,
        which then is tried again."""
        self.until(partial(self._clicked, selector))

    def _clicked(self, selector: str) -> bool:
        self.one(selector).click()
        return True

    def text(self, selector: str) -> str:
        """What is to be read there, as soon as it is there: the page takes an element away to draw it anew."""
        (found,) = self.until(lambda: self._read(selector))
        return str(found)

    def _read(self, selector: str) -> list[str]:
        return t.cast("list[str]", self.script(
            "const found = document.querySelector(arguments[0]); return found ? [found.innerText] : []", selector))

    def script(self, source: str, *arguments: t.Any) -> t.Any:
        """What a script returns."""
        return self.driver.execute_script(source, *arguments)

    def until(self, condition: Callable[[], t.Any], seconds: float = PATIENCE) -> t.Any:
        """Wait for a condition and return it; AssertionError after ``seconds``. Elements may be replaced meanwhile."""
        deadline, said = time.monotonic() + seconds, ""
        while time.monotonic() < deadline:
            try:
                if found := condition():
                    return found
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds:g} s; {said}\n{self.script('return document.body.innerText')}")

    def complaints(self) -> list[str]:
        """What the console has said since it was last asked, refused requests among it, but for a changed network."""
        self._network_changed()
        said, self._said = self._said, []
        return said

    def size(self, width: int, height: int) -> None:
        """Of the window, in pixels."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, **features: str) -> None:
        """Media features, such as prefers_color_scheme="dark"."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": told})

    def picture(self, path: Path) -> None:
        """Write what the window shows."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    def violations(self) -> list[str]:
        """What axe-core finds against WCAG 2.1 A and AA and its best practices, one sentence each."""
        self.driver.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        found: Json = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(done, (error) => done({violations: [{id: String(error), "
            "nodes: []}]}))")
        return [f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
                for each in found["violations"] for node in each["nodes"] or [{"html": ""}]]


@contextmanager
def opened() -> Iterator[Browser]:
    """A window of its own, closed at the end; skips the test where no browser is."""
    found = programs()
    if found is None:
        pytest.skip(ABSENT)
    options = Options()
    options.binary_location = found[0]
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
