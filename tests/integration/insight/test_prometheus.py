# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history from a real Prometheus, which scrapes the controller's own metrics and a stand-in of DCGM's exporter.

The stand-in has the names and labels of DCGM exporter 4 (docs.nvidia.com/datacenter/dcgm, field identifiers).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.insight.history import History, Sources
from ansible_collections.composable.infra.controller.ui.insight.metrics import InsightMetrics
from ansible_collections.composable.infra.controller.ui.insight.prometheus import NotReadable, Prometheus
from ansible_collections.composable.infra.controller.ui.insight.span import Span
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Stored

PROGRAM = shutil.which("prometheus")
A100 = "NVIDIA-A100-PCIE-40GB"
pytestmark = pytest.mark.skipif(not PROGRAM, reason="prometheus is not on PATH (Debian: apt-get install prometheus)")
SECONDS: t.Final = 30.0


class Exporter:
    """The metrics of a controller and of DCGM's exporter, over HTTP."""

    def __init__(self) -> None:
        self.devices: dict[tuple[str, str, int | None], int] = {("in-use", A100, 1): 2, ("free", A100, 1): 5}
        self.metrics = PrometheusMetrics("fm", [A100])
        self.metrics.ask(lambda: {"claims_waiting": 3.0})
        self.metrics.registry.register(InsightMetrics(lambda: self.devices, Stored))
        dcgm = CollectorRegistry()
        for name, value in (("GPU_UTIL", 80.0), ("POWER_USAGE", 250.0), ("GPU_TEMP", 61.0)):
            gauge = Gauge(f"DCGM_FI_DEV_{name}", name, ["gpu", "modelName", "Hostname"], registry=dcgm)
            gauge.labels("0", A100, "node-0").set(value)
            gauge.labels("1", A100, "node-0").set(value + 10)
        texts: dict[str, t.Callable[[], bytes]] = {"/controller": self.metrics.text,
                                                   "/dcgm": lambda: generate_latest(dcgm)}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = texts[self.path]()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: t.Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """It is scraped once a second."""
    made = Exporter()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has scraped both."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    target = f"127.0.0.1:{exporter.server.server_address[1]}"
    jobs = [{"job_name": name, "metrics_path": f"/{name}", "static_configs": [{"targets": [target]}]}
            for name in ("controller", "dcgm")]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(
        {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [str(PROGRAM), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
         f"--web.listen-address={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(10)


def recorded(url: str, ready: t.Callable[[t.Any], bool]) -> t.Any:
    """What is read once it is there. The points of a step appear with its end."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            now = time.time()
            found = Prometheus(url).read(Span("1h", now - 3600, now, 1.0), gpu=True)
            if ready(found):
                return found
        except NotReadable:
            found = None
        assert time.monotonic() < deadline, found
        threading.Event().wait(0.2)


def test_devices_waits_and_attaches_are_those_that_the_controller_told(exporter: Exporter, url: str) -> None:
    recorded(url, lambda found: bool(found.attaches))
    exporter.metrics.count("attaches_total", manager="fm", model=A100, outcome="succeeded", reason="none")
    exporter.devices = {("in-use", A100, 1): 3, ("free", A100, 1): 4}
    found = recorded(url, lambda found: found.attaches[-1][1] > 0 and any(
        each.state == "in-use" and each.points[-1][1] == 3 for each in found.series))
    last = {(each.state, each.model, each.fabric): each.points[-1][1] for each in found.series}
    assert last == {("in-use", A100, 1): 3.0, ("free", A100, 1): 4.0, ("waiting", "", None): 3.0}


def test_dcgms_metrics_are_those_of_a_model(url: str) -> None:
    found = recorded(url, lambda found: bool(found.gpu))
    (gpu,) = found.gpu
    assert (gpu["model"], gpu["utilization"][-1][1], gpu["power_w"][-1][1], gpu["temperature_c"][-1][1]) == (
        A100, 85.0, 510.0, 71.0)


def history(url: str) -> History:
    """A history with an empty memory."""
    return History(Sources(lambda: True, dict, lambda: 0, lambda: (0, 0), dict, time.time), Prometheus(url))


def test_history_says_where_it_is_from(url: str) -> None:
    recorded(url, lambda found: bool(found.gpu))
    answer = history(url).answer("30d", Scope())
    assert (answer.source, answer.step_s) == ("prometheus", 14400.0)
    assert "waits are those of the last day" in answer.bounded


def test_namespace_gets_no_metrics_of_gpus(url: str) -> None:
    assert history(url).answer("1h", Scope("mine")).gpu == []


def test_memory_answers_if_prometheus_does_not_and_says_so() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        made = history(f"http://127.0.0.1:{closed.getsockname()[1]}")
        answer, own = made.answer("1h", Scope()), made.answer("1h", Scope("mine"))
    assert answer.source == "memory"
    assert answer.bounded.startswith("Prometheus cannot be read: it did not answer")
    assert own.bounded.startswith("Prometheus cannot be read. ")


def test_query_that_prometheus_refuses_is_one_sentence(url: str) -> None:
    recorded(url, lambda found: True)
    with pytest.raises(NotReadable, match="it answered with status 400"):
        Prometheus(url).read(Span("1h", 0.0, 1e12, 1.0), gpu=False)
