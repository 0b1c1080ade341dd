# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of the page with 5,000 nodes of 8 devices from an emulated CDI Manager.

Figures: processor time of the process with no page open and with 50, while ten devices change a
second. Bytes for all rows and for a change. Times of a browser's frames while rows change and are
scrolled. The cost of a question of what-if.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.tests.bench.page.fed import Fed, fed
from ansible_collections.composable.infra.tests.browser.window import opened

PAGES, CHANGES, SECONDS = 50, 10, 20.0
# Nodes of the cluster of the page, and of a smaller one for which what-if is measured too.
SIZES = (5000, 500)
QUESTIONS = {"8 more devices": "change=add_devices&count=8",
             "8 more devices, 100 pods in an hour": "change=add_devices&count=8&per_hour=100&lifetime=600&hours=1"}
FRAMES = """
const done = arguments[0], frames = [];
let last = performance.now();
const grid = document.getElementById("grid");
function frame(now) {
  frames.push(now - last);
  last = now;
  grid.scrollTop += 300;
  if (frames.length < 300) requestAnimationFrame(frame);
  else { frames.sort((a, b) => a - b); done(frames); }
}
requestAnimationFrame(frame);
"""


def run(sizes: Sequence[int] = SIZES) -> list[dict[str, str]]:
    """Return one row for each figure, in words.

    ``sizes``: nodes of the page, and of another cluster for what-if.
    """
    rows = []
    for what, value in _rows(*sizes):
        print(f"{what}: {value}", file=sys.stderr, flush=True)  # it takes minutes
        rows.append({"what": what, "measured": value})
    return rows


def _rows(large: int, *others: int) -> Iterator[tuple[str, str]]:
    with fed(large) as shown:
        for part in (_look, _process, _browser, _what_if):
            yield from part(shown)
    for nodes in others:
        with fed(nodes) as shown:
            shown.look()
            yield from _what_if(shown)


def _look(shown: Fed) -> list[tuple[str, str]]:
    began, busy = time.monotonic(), time.process_time()
    shown.look()
    return [("a poll of the emulated fabric, over TLS",
             f"{time.monotonic() - began:.1f} s, {time.process_time() - busy:.1f} s of processor time")]


def _process(shown: Fed) -> list[tuple[str, str]]:
    began = time.process_time()
    shown.view.open()
    opened = time.process_time() - began
    snapshot = shown.view.snapshot(Scope()).encode()
    packed = len(zlib.compress(snapshot, 1))
    alone = processor(shown)
    with pages(shown, PAGES) as received:
        many = processor(shown)
        change_bytes = received[0] / (SECONDS * CHANGES)
    shown.look()  # no change was lost
    return [("first page: rows read, in seconds of processor time", f"{opened:.1f}"),
            ("all rows", f"{len(snapshot) / 1e6:.1f} MB, packed {packed / 1e6:.1f} MB"),
            ("a changed device, for each page", f"{change_bytes:.0f} bytes"),
            (f"{CHANGES} changes a second at the manager, no page open", f"{alone:.1%} of a core"),
            (f"the same with {PAGES} open pages", f"{many:.1%} of a core")]


def processor(shown: Fed) -> float:
    """Return the share of a core that this process uses while devices change for SECONDS."""
    began, busy = time.monotonic(), time.process_time()
    change(shown, SECONDS)
    return (time.process_time() - busy) / (time.monotonic() - began)


def change(shown: Fed, seconds: float) -> None:
    """Detach and attach devices all over the cluster, CHANGES a second. It is a load, so it follows
    the clock.
    """
    began = time.monotonic()
    for number in range(int(seconds * CHANGES)):
        shown.change(number)
        time.sleep(max(0.0, began + (number + 1) / CHANGES - time.monotonic()))


@contextmanager
def pages(shown: Fed, count: int) -> Iterator[list[int]]:
    """Open ``count`` pages in a separate process. The list has the bytes that the first page
    received.
    """
    host, _unused, port = shown.server.address.partition(":")
    at = json.loads(shown.view.snapshot(Scope()))["at"]
    ends, received = [], [0]
    child = os.fork()
    if child:
        shown.view.open()
        begin = shown.ui.broadcaster
        deadline = time.monotonic() + 30
        while begin.open < count and time.monotonic() < deadline:
            time.sleep(0.01)
        reader = threading.Thread(target=_read, args=(host, int(port), at, received), daemon=True)
        reader.start()
        yield received
        os.kill(child, 9)
        os.waitpid(child, 0)
        return
    for _each in range(count):
        connection = http.client.HTTPConnection(host, int(port))
        connection.request("GET", f"/ui/changes?since={at}")
        ends.append(connection.getresponse())
        threading.Thread(target=_drain, args=(ends[-1],), daemon=True).start()
    time.sleep(600)
    os._exit(0)


def _drain(answer: http.client.HTTPResponse) -> None:
    while answer.read1(65536):
        pass


def _read(host: str, port: int, at: str, received: list[int]) -> None:
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", f"/ui/changes?since={at}")
    answer = connection.getresponse()
    while data := answer.read1(65536):
        received[0] += len(data)


def _browser(shown: Fed) -> Iterator[tuple[str, str]]:
    """Yield the times of 300 frames of a browser, while it scrolls and devices change."""
    with opened() as browser:
        browser.size(1400, 900)
        began = time.monotonic()
        browser.open(f"{shown.server.url}/ui/")
        yield "from the address to the live page, in a browser", f"{time.monotonic() - began:.1f} s"
        worker = threading.Thread(target=change, args=(shown, SECONDS))
        worker.start()
        browser.driver.set_script_timeout(120)
        found = browser.driver.execute_async_script(FRAMES)
        worker.join()
    half, most = (found[round(share * (len(found) - 1))] for share in (0.5, 0.95))
    yield ("a frame while 300 pixels are scrolled in each, with changes",
           f"half up to {half:.0f} ms, 95% up to {most:.0f} ms, the longest {found[-1]:.0f} ms")


def _what_if(shown: Fed) -> Iterator[tuple[str, str]]:
    """Yield questions of the page, and the cost of each for this process and its child."""
    for words, query in QUESTIONS.items():
        yield f"what-if with {shown.nodes:,} nodes: {words}", _asked(shown, query)


def _asked(shown: Fed, query: str) -> str:
    began, busy, child = time.monotonic(), time.process_time(), _children()
    host, _unused, port = shown.server.address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    connection.request("GET", f"/ui/what-if?{query}", headers={"X-Composable-Infra-Page": "1"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    took, ours = time.monotonic() - began, time.process_time() - busy
    said = f'not answered, "{answer["error"]}",' if "error" in answer else "answered in"
    return (f"{said} {took:.0f} s, of processor time {ours:.1f} s in the controller and "
            f"{_children() - child:.1f} s in its child")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
