# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the provider for Cluster Autoscaler."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Callable, Sequence

from prometheus_client import disable_created_metrics

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.autoscaler.cluster import Cluster
from ansible_collections.composable.infra.controller.autoscaler.leading import COMPONENT, Leading
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.provider import Provider
from ansible_collections.composable.infra.controller.autoscaler.server import Certificates, Server
from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.controller.logs import add_log_options
from ansible_collections.composable.infra.controller.program import Ending, add_cluster_options, outcome
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection

log = logging.getLogger("composable.infra")
STEP_SECONDS, UNTRIGGERED_EVERY = 0.5, 5.0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    it = argparse.ArgumentParser(
        prog="autoscaler",
        description="A cloud provider (externalgrpc) for Cluster Autoscaler. When Cluster Autoscaler requests a node, "
                    "the provider attaches devices of a composable fabric, or adds a node.",
        epilog="Exit status: 0 after a stop on request, 2 if the configuration is wrong, 3 if another process "
               "leads now.")
    it.add_argument("--config", required=True,
                    help="YAML file of the controllers with device_info, fabric and the other settings")
    it.add_argument("--autoscaler-config", required=True,
                    help="YAML file with the groups and their providers (docs/autoscaling.md)")
    add_cluster_options(it)
    it.add_argument("--address", default="127.0.0.1:8086", metavar="HOST:PORT",
                    help="address at which to answer Cluster Autoscaler. Port 0 selects a free port "
                         "(default: %(default)s)")
    it.add_argument("--tls-cert-file", metavar="PATH", help="certificate, with its chain, for --address")
    it.add_argument("--tls-private-key-file", metavar="PATH", help="private key of that certificate")
    it.add_argument("--client-ca-file", metavar="PATH",
                    help="certificate of the authority that signs the certificates of allowed clients")
    it.add_argument("--insecure", action="store_true",
                    help="answer every client without TLS. Use this only for tests on one machine")
    it.add_argument("--listen", default="127.0.0.1:8087", metavar="HOST:PORT",
                    help="address of /healthz, /readyz and /metrics. Port 0 selects a free port (default: %(default)s)")
    add_log_options(it)
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped. Return the exit status."""
    return outcome(parser().parse_args(argv), run)


def run(args: argparse.Namespace, stop: threading.Event) -> int:
    """Build the provider, wait until it leads, and run. Return the exit status.

    Raises BadConfig, BadKubeconfig, FabricError or ApiError before it answers.
    """
    config, certificates = EngineConfig.load(args.config), certificates_of(args)
    try:
        autoscaler = AutoscalerConfig.load(args.autoscaler_config, config.settings)
    except BadSetting as error:
        raise BadConfig(f"{args.autoscaler_config}: {error}") from None
    client = Client(Connection.load(args.kubeconfig, args.context))
    disable_created_metrics()
    measurements, ending = Measurements(), Ending(stop)
    leadership = LeaderElection(client, config.lease_namespace, [COMPONENT], ending.give_way)
    cluster = Cluster(client, config.manager(), config, autoscaler)
    cluster.fence.require(lambda: leadership.held)
    try:
        provider = Provider(cluster, autoscaler, measurements)
        server = Server(args.address, ProviderService(provider, measurements), certificates)
        health = HealthServer(args.listen, Leading(cluster.engine, leadership), measurements, dict, Access(client),
                              None)
    except BaseException:
        cluster.engine.stop()
        raise
    try:
        cluster.engine.watch()
        health.start()
        log.info("listening on %s", health.url)
        if leadership.lead(stop):
            server.start()
            log.info("answering Cluster Autoscaler on port %d", server.port)
            go_on(provider, stop)
    finally:
        server.stop()
        health.stop()
        cluster.engine.stop()
        leadership.leave()
        log.info("stopped")
    return ending.status


def certificates_of(args: argparse.Namespace) -> Certificates | None:
    """Return the certificates of the options, None for no TLS.

    Raises BadConfig if the options name neither certificates nor ``--insecure``, or both.
    """
    files = (args.tls_cert_file, args.tls_private_key_file, args.client_ca_file)
    if args.insecure:
        if any(files):
            raise BadConfig("--insecure cannot be used together with certificates. Leave out the one or the other")
        return None
    if not all(files):
        raise BadConfig("set --tls-cert-file, --tls-private-key-file and --client-ca-file, or --insecure")
    return Certificates(*files)


def go_on(provider: Provider, stop: threading.Event) -> None:
    """Work until stopped. Providers of nodes may take long, so they have a thread of their own."""
    threading.Thread(target=repeat, args=(provider.serve_nodes, STEP_SECONDS, stop), name="nodes", daemon=True).start()
    threading.Thread(target=repeat, args=(provider.serve_untriggered, UNTRIGGERED_EVERY, stop), name="untriggered",
                     daemon=True).start()
    repeat(provider.step, STEP_SECONDS, stop)


def repeat(work: Callable[[], object], every: float, stop: threading.Event) -> None:
    """Repeat work until stopped, every ``every`` seconds.

    An error is logged once, and the work goes on.
    """
    said = ""
    while not stop.wait(every):
        try:
            work()
            said = ""
        except Exception as error:
            if str(error) != said:
                said = str(error)
                log.warning("%s", said, exc_info=None if isinstance(error, ApiError) else error)
