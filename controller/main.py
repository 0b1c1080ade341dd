# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's program.

It reads the configuration, waits until it leads, and runs the engine until SIGTERM or until it
loses a Lease.
"""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Sequence
from functools import partial

from prometheus_client import disable_created_metrics

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.accounting import Accounting
from ansible_collections.composable.infra.controller.health import REFUSALS, HealthServer, status
from ansible_collections.composable.infra.controller.logs import add_log_options
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.program import Ending, add_cluster_options, outcome
from ansible_collections.composable.infra.controller.serving_tls import add_tls_options, serving_certificate
from ansible_collections.composable.infra.controller.tracing.settings import add_trace_options
from ansible_collections.composable.infra.controller.tracing.start import start_tracer
from ansible_collections.composable.infra.controller.ui.insight.insight import Insight
from ansible_collections.composable.infra.controller.ui.insight.metrics import InsightMetrics
from ansible_collections.composable.infra.controller.ui.insight.start import history_of, usage_of
from ansible_collections.composable.infra.controller.ui.page import READ_ONLY, UiMetrics, add_ui_option, page
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.rate_limit import TokenBucket
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import GateLease
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import costs
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import (
    ROLES,
    BadConfig,
    EngineConfig,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.gauges import gauges
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection
from ansible_collections.composable.infra.plugins.module_utils.reconcile.preflight import check_cluster
from ansible_collections.composable.infra.plugins.module_utils.runtime.garbage import (
    collect_seldom,
    spare_collections,
)

log = logging.getLogger("composable.infra")
RESYNC_SECONDS = 60.0
# A pod has 30 s to end. This part of them is for replies of the CDI Manager.
REPLY_SECONDS = 20.0
SERVICE = "composable-infra-controllers"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    it = argparse.ArgumentParser(
        prog="controller",
        description="Attach devices of a composable fabric to the nodes on which ResourceClaims wait for them.",
        epilog="Exit status: 0 after a stop on request, 2 if the configuration is wrong, 3 if the Lease was lost.")
    it.add_argument("--config", required=True,
                    help="YAML file with device_info, fabric and the other settings (docs/configuration.md)")
    add_cluster_options(it)
    it.add_argument("--only", action="append", choices=ROLES,
                    help="do the work of this component of CoHDI only. You can give the option more than once "
                         "(default: all)")
    it.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT",
                    help="address of /healthz, /readyz, /metrics and /status. Port 0 selects a free port "
                         "(default: %(default)s)")
    add_ui_option(it)
    add_log_options(it)
    add_trace_options(it)
    add_tls_options(it)
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped. Return the exit status."""
    args = parser().parse_args(argv)
    return outcome(args, run)


def run(args: argparse.Namespace, stop: threading.Event) -> int:
    """Build the engine and run it. Return the exit status.

    Raises BadConfig, BadKubeconfig, FabricError or ApiError before it starts.
    """
    config, certificate = EngineConfig.load(args.config), serving_certificate(args)
    # This client renews the Leases. It has no rate limit, so requests of the engine cannot delay
    # it.
    client = Client(Connection.load(args.kubeconfig, args.context))
    roles = frozenset(args.only or ROLES)
    check_cluster(client, roles, stop, log.warning)
    disable_created_metrics()
    metrics = PrometheusMetrics(config.fabric.manager, [model.cdi_model_name for model in config.settings.models])
    limited = client.limited(TokenBucket(config.kube_api_qps, config.kube_api_burst))
    tracer = start_tracer(args.otlp_endpoint, SERVICE)
    engine = ControllerManager(limited, config.manager(), config, roles=roles, metrics=metrics, tracer=tracer)
    metrics.ask(partial(gauges, engine))
    for said in config.deprecations:
        log.warning("%s", said)
    for said in costs(config.settings.idle_minimums):
        log.info("%s", said)
    ending = Ending(stop)
    leadership = LeaderElection(client, config.lease_namespace, sorted(roles), ending.give_way)
    access = Access(client)
    history = history_of(engine, metrics)
    accounting = Accounting(engine)
    insight = Insight(history, usage_of(config, accounting.keeper))
    ui = page(engine, access, REFUSALS, leadership.leaders, insight) if args.ui == READ_ONLY else None
    metrics.registry.register(UiMetrics(ui))
    metrics.registry.register(InsightMetrics(lambda: history.now, accounting.keeper.known))
    try:
        health = HealthServer(args.listen, engine, metrics, partial(status, engine), access, certificate, ui)
    except BadConfig:
        engine.stop()
        if tracer:
            tracer.stop()
        raise
    try:
        health.start()
        history.start()
        log.info("listening on %s", health.url)
        if ui:
            log.info("the page is at %s/ui/", health.url)
        accounting.start()
        serve(engine, leadership, stop, client)
        accounting.end()
    finally:
        history.stop()
        health.stop()
        engine.stop()
        leadership.leave()
        if tracer:
            tracer.stop()
        log.info("stopped")
    return ending.status


def serve(engine: ControllerManager, leadership: LeaderElection, stop: threading.Event,
          lease_client: Client | None = None) -> None:
    """Watch, wait until this process leads, list again, and act until stopped.

    A process that does not lead sends nothing to the CDI Manager and writes nothing. A standby may
    have waited for months. If etcd was restored meanwhile, its watches may have gone on from
    another past.

    ``lease_client``: renews the GateLease, by default the engine's client.
    """
    collect_seldom()
    engine.fence.require(lambda: leadership.held)
    engine.watch()
    engine.read_ahead()
    if leadership.lead(stop):
        log.info("leading as %s", ", ".join(sorted(engine.roles)))
        engine.watches.relist()
        if _all_read(stop, engine):
            spare_collections()
            _act(stop, engine, lease_client or engine.client)


def _act(stop: threading.Event, engine: ControllerManager, lease_client: Client) -> None:
    """Work until stopped. Hold the GateLease meanwhile, if the engine removes gates.

    The policy gates pods only while a controller holds the GateLease.
    """
    engine.work()
    gate_lease = None
    if engine.gates:
        gate_lease = GateLease(lease_client, engine.config.lease_namespace, problem=engine.gates_problem)
    if gate_lease:
        gate_lease.start()
    try:
        while not stop.wait(RESYNC_SECONDS):
            engine.dispatch.everything()
            engine.waits.keep()
    finally:
        if gate_lease:
            gate_lease.stop()
    if engine.fence.open:
        engine.await_replies(REPLY_SECONDS)
        engine.waits.keep()


def _all_read(stop: threading.Event, engine: ControllerManager) -> bool:
    """Wait until every list was read. Return False if stopped before.

    With incomplete lists the engine would return devices that are in use.
    """
    said: list[str] = []
    while not engine.watches.synced():
        if (troubles := engine.problems()) != said:
            said = troubles
            for trouble in said:
                log.warning("waiting for the API server: %s", trouble)
        if stop.wait(0.02):
            return False
    return True
