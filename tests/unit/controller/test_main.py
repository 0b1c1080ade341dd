# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's command line: bad input is one sentence and status 2, a stop is 0, a lost Lease 3."""

from __future__ import annotations

import logging
import signal
import threading
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.controller import main as module
from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.controller.logs import LOGGERS
from ansible_collections.composable.infra.controller.main import main, parser
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.plugins.module_utils.kube.client.rate_limit import TokenBucket
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.fence import Fence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import Tracer
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, rows

MANAGER = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "not-told", "realm": "r", "client_id": "c", "client_secret": "not-told"}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Signals and logging are as before afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield
    for logger, (kept, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = kept, propagate
        logger.setLevel(level)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A usable configuration."""
    path = tmp_path / "config.yml"
    path.write_text(yaml.safe_dump({"device_info": rows(), "fabric": MANAGER}), encoding="utf-8")
    return path


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error, without time and level."""
    written = capsys.readouterr()
    assert "Traceback" not in written.err
    assert "not-told" not in written.err
    (line,) = written.err.splitlines()
    return line.partition("ERROR   ")[2]


def test_missing_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.yml"
    assert main(["--config", str(path)]) == 2
    assert one_sentence(capsys) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize(("change", "said"), [
    ({"device_info": []}, "device_info: [] is not usable: must be a list with at least one model"),
    ({"workers": 0}, "workers: 0 is not usable: must be a whole number from 1 to 64"),
    ({"fabric": {**MANAGER, "endpoint": "ftp://x"}}, "endpoint: 'ftp://x' is not allowed. It must be an https URL"),
    ({"surprise": 1}, "surprise: 1 is not usable: unknown key"),
])
def test_bad_configuration(config_file: Path, capsys: pytest.CaptureFixture[str], change: dict[str, t.Any],
                           said: str) -> None:
    config_file.write_text(yaml.safe_dump({"device_info": rows(), "fabric": MANAGER, **change}), encoding="utf-8")
    assert main(["--config", str(config_file)]) == 2
    assert one_sentence(capsys).startswith(f"{config_file}: {said}")


def test_bad_kubeconfig(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(config_file), "--kubeconfig", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in one_sentence(capsys)


def test_bad_configuration_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(tmp_path / "none.yml"), "--log-format", "json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert yaml.safe_load(line)["level"] == "error"


@pytest.mark.parametrize("argv", [[], ["--config"], ["--config", "x", "--only", "somebody"],
                                  ["--config", "x", "--log-format", "xml"], ["--config", "x", "surprise"]])
def test_bad_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: controller" in capsys.readouterr().err


def test_help_names_every_option_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    text = capsys.readouterr().out
    for word in ("--config", "--kubeconfig", "--only", "--listen", "--log-format", "publisher", "Exit status: 0"):
        assert word in text


class FakeWatches:
    """Lists that are read."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def relist(self) -> None:
        self.log.append("relist")

    def synced(self) -> bool:
        return True


class FakeClient:
    """Knows its own limit, None for none."""

    def __init__(self, rate: TokenBucket | None = None) -> None:
        self.rate = rate

    def limited(self, rate: TokenBucket) -> FakeClient:
        return FakeClient(rate)


class FakeKeeper:
    """``kept``: what it notes when it is to store something."""

    def __init__(self, log: list[str], kept: str = "keep") -> None:
        self.log, self.kept, self.problem = log, kept, ""

    def keep(self) -> None:
        self.log.append(self.kept)

    def known(self) -> dict[str, float]:
        return {}


class FakeEngine:
    """Notes what is done with it."""

    made: t.ClassVar[list[FakeEngine]] = []

    def __init__(self, client: FakeClient, fabric: object, config: EngineConfig, *, roles: frozenset[str],
                 metrics: PrometheusMetrics, tracer: Tracer | None = None) -> None:
        self.roles, self.log = roles, list[str]()
        self.watches = FakeWatches(self.log)
        self.client, self.config, self.gates, self.fence = client, config, "scaler" in roles, Fence()
        self.tracer, self.waits = tracer, FakeKeeper(self.log, "waits")
        self.state = ClusterState(config.settings)
        self.made.append(self)

    def watch(self) -> None:
        self.log.append("watch")

    def read_ahead(self) -> None:
        self.log.append("read ahead")

    def work(self) -> None:
        self.log.append("work")

    def await_replies(self, seconds: float) -> None:
        self.log.append("replies")

    def stop(self) -> None:
        self.log.append("stop")

    @property
    def dispatch(self) -> FakeEngine:
        return self

    def everything(self) -> None:
        self.log.append("all")

    def stuck(self) -> str:
        return ""

    def gates_problem(self) -> str:
        return ""

    def gauges(self) -> dict[str, float]:
        return {}

    def problems(self) -> list[str]:
        return []

    def ready(self) -> bool:
        return True

    def wait_reasons(self) -> list[str]:
        return []


class FakeAccounting:
    """Notes when it stores the sums."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine, self.keeper = engine, FakeKeeper(engine.log, "usage")

    def start(self) -> None:
        """It counts from now on."""

    def end(self) -> None:
        if self.engine.fence.open and "work" in self.engine.log:
            self.keeper.keep()


class FakeLeadership:
    """Leads at once; ``then`` is called once it does, with the way to lose it."""

    then: t.ClassVar[Callable[[Callable[[], object]], object]] = staticmethod(lambda lose: None)
    wins: t.ClassVar[bool] = True
    log: t.ClassVar[list[str]] = []

    def __init__(self, client: FakeClient, namespace: str, components: list[str],
                 on_lost: Callable[[], object]) -> None:
        assert client.rate is None, "the engine's requests must not hold up a renewal"
        self.log.append(f"{namespace}: {', '.join(components)}")
        self._on_lost, self.held = self._lost(on_lost), True

    def _lost(self, told: Callable[[], object]) -> Callable[[], object]:
        def lose() -> object:
            self.held = False
            return told()

        return lose

    def lead(self, stop: threading.Event) -> bool:
        type(self).then(self._on_lost)
        return self.wins

    def leave(self) -> None:
        self.log.append("left")


class FakeGateLease:
    """Notes in the engine's log when pods are gated."""

    def __init__(self, client: FakeClient, namespace: str, problem: Callable[[], str]) -> None:
        assert client.rate is None, "the engine's requests must not hold up a renewal"
        self.namespace, self.problem = namespace, problem

    def start(self) -> None:
        assert self.problem() == ""
        FakeEngine.made[-1].log.append(f"gates open in {self.namespace}")

    def stop(self) -> None:
        FakeEngine.made[-1].log.append("gates closed")


class QuickHealth(HealthServer):
    """A server that is bound but does not serve: its stop would take a moment."""

    def start(self) -> None:
        """Nobody asks."""


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch, config_file: Path) -> Callable[..., int]:
    """Run the controller with fakes; further arguments as on the command line."""
    monkeypatch.setattr(f"{module.__name__}.Connection.load", lambda *args: None)
    monkeypatch.setattr(module, "Client", lambda connection: FakeClient())
    monkeypatch.setattr(EngineConfig, "manager", lambda self: None)
    monkeypatch.setattr(module, "check_cluster", lambda *args: None)
    monkeypatch.setattr(module, "ControllerManager", FakeEngine)
    monkeypatch.setattr(module, "Accounting", FakeAccounting)
    monkeypatch.setattr(module, "HealthServer", QuickHealth)
    monkeypatch.setattr(module, "GateLease", FakeGateLease)
    monkeypatch.setattr(module, "LeaderElection", FakeLeadership)
    monkeypatch.setattr(FakeEngine, "made", [])
    monkeypatch.setattr(FakeLeadership, "log", [])
    monkeypatch.setattr(module, "RESYNC_SECONDS", 0.001)
    monkeypatch.setattr(module, "spare_collections", lambda: FakeEngine.made[-1].log.append("spare"))
    # It is for a process that has no other threads yet.
    return lambda *argv: main(["--config", str(config_file), "--listen", "127.0.0.1:0", *argv])


def terminated(lose: Callable[[], object]) -> None:
    """SIGTERM arrives."""
    signal.raise_signal(signal.SIGTERM)


def test_stop_on_request(controller: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(terminated))
    assert controller() == 0
    (engine,) = FakeEngine.made
    # How often everything was looked at meanwhile depends on the machine.
    log = [what for what in engine.log if what not in ("all", "keep", "waits", "usage")]
    assert log == ["watch", "read ahead", "relist", "spare", "work", "gates open in composable-infra",
                   "gates closed", "replies", "stop"]
    assert engine.log[-5:] == ["gates closed", "replies", "waits", "usage", "stop"]
    assert FakeLeadership.log == ["composable-infra: operator, publisher, scaler", "left"]


def test_engine_has_the_limit_of_the_configuration(controller: Callable[..., int], config_file: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    document = yaml.safe_load(config_file.read_text(encoding="utf-8"))
    config_file.write_text(yaml.safe_dump({**document, "kube_api_qps": 7, "kube_api_burst": 9}), encoding="utf-8")
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(terminated))
    assert controller() == 0
    rate = FakeEngine.made[0].client.rate
    assert rate is not None
    assert (rate.qps, rate.burst) == (7, 9)


def test_lost_lease(controller: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(lambda lose: lose()))
    assert controller() == 3
    assert FakeEngine.made[0].log[-1] == "stop"
    assert not {"waits", "usage"} & {*FakeEngine.made[0].log}, "who does not lead any more writes nothing"


def test_never_led(controller: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLeadership, "wins", False)
    assert controller() == 0
    assert FakeEngine.made[0].log == ["watch", "read ahead", "stop"]


def test_everything_is_looked_at_from_time_to_time(controller: Callable[..., int],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    def count(self: FakeEngine) -> None:
        self.log.append("all")
        if self.log.count("all") == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(FakeEngine, "everything", count)
    assert controller() == 0
    assert FakeEngine.made[0].log.count("all") >= 3


def test_only_some_roles(controller: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(terminated))
    assert controller("--only", "scaler", "--only", "publisher") == 0
    assert FakeEngine.made[0].roles == {"scaler", "publisher"}
    assert FakeLeadership.log[:1] == ["composable-infra: publisher, scaler"]


def test_pods_are_not_gated_where_no_scaler_runs(controller: Callable[..., int],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(terminated))
    assert controller("--only", "operator") == 0
    # a resync may come before the signal
    did = [entry for entry in FakeEngine.made[0].log if entry not in ("all", "keep", "waits", "usage")]
    assert did == ["watch", "read ahead", "relist", "spare", "work", "replies", "stop"]


def test_refused_lease_is_one_sentence_and_all_is_stopped(
    controller: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(lose: Callable[[], object]) -> None:
        raise Forbidden(403, "Forbidden", "leases may not be created")

    monkeypatch.setattr(FakeLeadership, "then", staticmethod(refuse))
    assert controller() == 2
    assert FakeEngine.made[0].log == ["watch", "read ahead", "stop"]
    assert FakeLeadership.log[-1] == "left"
    assert "leases may not be created" in capsys.readouterr().err


def test_bad_address_is_one_sentence(controller: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert controller("--listen", "nowhere") == 2
    assert one_sentence(capsys).startswith("--listen: 'nowhere' is not allowed. It must be HOST:PORT")


def test_what_prewarm_costs_is_logged_at_the_start(
    controller: Callable[..., int], config_file: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prewarm = [{"model": A100, "idle": 2}]
    config_file.write_text(yaml.safe_dump({"device_info": rows(), "fabric": MANAGER, "prewarm": prewarm}),
                           encoding="utf-8")
    monkeypatch.setattr(FakeLeadership, "then", staticmethod(terminated))
    assert controller() == 0
    said = capsys.readouterr().err
    assert f"prewarm keeps 2 x {A100} idle on any node: at most 336 idle device-hours a week" in said


def test_bad_address_leaves_nothing_running(controller: Callable[..., int]) -> None:
    assert controller("--listen", "nowhere") == 2
    assert all(engine.log[-1:] == ["stop"] for engine in FakeEngine.made)
