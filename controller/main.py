# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, lead, stop: reads the configuration, waits for its turn, runs the engine until SIGTERM or a lost Lease."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Sequence
from functools import partial

from prometheus_client import disable_created_metrics

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.health import HealthServer, status
from ansible_collections.composable.infra.controller.logs import add_log_options, set_up_logging
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import GateLease
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, BadKubeconfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import (
    ROLES,
    BadConfig,
    EngineConfig,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.preflight import check_cluster
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.leader_election import LeaderElection

log = logging.getLogger("composable.infra")
OK, BAD_INPUT, LOST_LEASE = 0, 2, 3
RESYNC_SECONDS = 60.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    it = argparse.ArgumentParser(
        prog="controller",
        description="Attach GPUs of a composable fabric to the nodes whose ResourceClaims wait for them.",
        epilog="Exit status: 0 stopped on request, 2 unusable configuration, 3 the Lease was lost.")
    it.add_argument("--config", required=True, help="YAML file: device_info, fabric and the rest (docs/quickstart.md)")
    it.add_argument("--kubeconfig", help="default: KUBECONFIG, ~/.kube/config, or the pod's service account")
    it.add_argument("--context", help="context of the kubeconfig")
    it.add_argument("--only", action="append", choices=ROLES,
                    help="stand for one of CoHDI's components only; may be given more than once (default: all)")
    it.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT",
                    help="address of /healthz, /readyz, /metrics and /status; port 0 takes a free one "
                         "(default: %(default)s)")
    add_log_options(it)
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit status."""
    args = parser().parse_args(argv)
    set_up_logging(args.log_format, args.log_level)
    stop = asked_to_stop()
    try:
        return run(args, stop)
    except (BadConfig, BadKubeconfig, FabricError, ApiError) as error:
        log.error("%s", error)
        return BAD_INPUT


def run(args: argparse.Namespace, stop: threading.Event) -> int:
    """Build the engine and run it. Raises BadConfig, BadKubeconfig, FabricError or ApiError before it starts."""
    config = EngineConfig.load(args.config)
    client = Client(Connection.load(args.kubeconfig, args.context))
    roles = frozenset(args.only or ROLES)
    check_cluster(client, roles, stop, log.warning)
    disable_created_metrics()
    metrics = PrometheusMetrics()
    engine = ControllerManager(client, config.manager(), config, roles=roles, metrics=metrics)
    metrics.ask(engine.gauges)
    try:
        health = HealthServer(args.listen, engine, metrics, partial(status, engine), Access(client))
    except BadConfig:
        engine.stop()
        raise
    lost = threading.Event()

    def give_way() -> None:
        lost.set()
        stop.set()

    leadership = LeaderElection(client, config.lease_namespace, sorted(roles), give_way)
    try:
        health.start()
        log.info("listening on http://%s", health.address)
        serve(engine, leadership, stop)
    finally:
        health.stop()
        engine.stop()
        leadership.leave()
        log.info("stopped")
    return LOST_LEASE if lost.is_set() else OK


def serve(engine: ControllerManager, leadership: LeaderElection, stop: threading.Event) -> None:
    """Watch, wait for the turn to lead, and act until stopped. Whoever does not lead asks and writes nothing."""
    engine.fence.require(lambda: leadership.held)
    engine.watch()
    if leadership.lead(stop):
        log.info("leading as %s", ", ".join(sorted(engine.roles)))
        if _all_read(stop, engine):
            _act(stop, engine)


def _act(stop: threading.Event, engine: ControllerManager) -> None:
    """Work until stopped; pods are gated only while somebody works who opens their gates."""
    engine.work()
    gate_lease = None
    if engine.gates:
        gate_lease = GateLease(engine.client, engine.config.lease_namespace, problem=engine.gates_problem)
    if gate_lease:
        gate_lease.start()
    try:
        while not stop.wait(RESYNC_SECONDS):
            engine.enqueue_all()
    finally:
        if gate_lease:
            gate_lease.stop()


def _all_read(stop: threading.Event, engine: ControllerManager) -> bool:
    """Wait until every list was read: acting on half the truth would return devices that are in use."""
    said: list[str] = []
    while not engine.watches.synced():
        if (troubles := engine.problems()) != said:
            said = troubles
            for trouble in said:
                log.warning("waiting for the API server: %s", trouble)
        if stop.wait(0.02):
            return False
    return True
