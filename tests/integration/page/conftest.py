# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the browser for each file, and the page about two nodes with two devices each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.tests.browser.window import Browser, opened
from ansible_collections.composable.infra.tests.integration.page.shown import Shown, serving


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """One window for all tests of a file: a browser takes a second to start."""
    with opened() as browser:
        yield browser


@pytest.fixture
def shown() -> Iterator[Shown]:
    """A page about two nodes with two devices each."""
    yield from serving()


@pytest.fixture
def browser(window: Browser, shown: Shown) -> Iterator[Browser]:
    """The page is open; at the end nothing was complained about."""
    window.size(1400, 900)
    window.prefer(prefers_color_scheme="light")
    window.open(f"{shown.server.url}/ui/")
    yield window
    said = window.complaints()
    window.driver.get("about:blank")  # what the page still reads is not refused by the server that stops now
    assert said == []
