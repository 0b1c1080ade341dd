# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node agent's program.

It reads the command line, waits until no other agent works on the node, and works until it is
stopped.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import typing as t
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import disable_created_metrics

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.controller.logs import add_log_options
from ansible_collections.composable.infra.controller.program import OK, add_cluster_options, outcome
from ansible_collections.composable.infra.controller.serving_tls import add_tls_options, serving_certificate
from ansible_collections.composable.infra.controller.tracing.settings import add_trace_options
from ansible_collections.composable.infra.controller.tracing.start import start_tracer
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.rate_limit import TokenBucket
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import RESCANS, Options
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

from .agent import PLUGIN_NAMESPACES, AgentOptions, NodeAgent
from .device_work import Patience
from .host_files import only_agent
from .host_operations import HostOperations
from .kubelet_plugin.beside_agent import kubelet_plugin
from .kubelet_plugin.options import add_plugin_options, check_plugin_options, own_kinds
from .metrics import AgentMetrics
from .node_state import NodeDriver

log = logging.getLogger("composable.infra")
COMPONENT = "composable-infra-agent"
CONNECTIONS = 8


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    it = argparse.ArgumentParser(
        prog="agent",
        description="Prepare devices on this node after an attach, release them before a detach, and write the "
                    "evidence on their ComposableResources.",
        epilog="Exit status: 0 after a stop on request, 2 if an option is wrong or the node cannot be used.")
    it.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""),
                    help="name of this node (default: the variable NODE_NAME)")
    it.add_argument("--root", type=Path, default=Path("/"),
                    help="folder at which this process sees the node's / (default: %(default)s)")
    add_cluster_options(it)
    it.add_argument("--lease-namespace", default="composable-infra",
                    help="namespace of the agent's Lease (default: %(default)s)")
    it.add_argument("--plugin-namespace", action="append", metavar="NAMESPACE",
                    help="namespace of the vendor's DRA plugin. You can give the option more than once "
                         f"(default: {', '.join(PLUGIN_NAMESPACES)})")
    it.add_argument("--rescan", choices=RESCANS, default="port",
                    help="part of the bus to rescan if a device does not appear by itself (default: %(default)s)")
    it.add_argument("--ports", nargs="+", default=[], metavar="ADDRESS",
                    help="PCI addresses of the bridges behind which devices of the fabric appear "
                         "(default: all bridges without a device)")
    it.add_argument("--event-patience", type=float, default=2.0, metavar="SECONDS",
                    help="time for a device to appear by itself, and between two rescans (default: %(default)g)")
    it.add_argument("--search-patience", type=float, default=60.0, metavar="SECONDS",
                    help="time for a device to appear at all (default: %(default)g)")
    it.add_argument("--patience", type=float, default=60.0, metavar="SECONDS",
                    help="time limit of each command, rescan and removal (default: %(default)g)")
    it.add_argument("--announce-patience", type=float, default=120.0, metavar="SECONDS",
                    help="time for the vendor's plugin to publish a device (default: %(default)g)")
    add_plugin_options(it)
    it.add_argument("--kube-api-qps", type=float, default=50.0, metavar="NUMBER",
                    help="requests to the API server per second, without watches and the Lease (default: %(default)g)")
    it.add_argument("--kube-api-burst", type=int, default=100, metavar="NUMBER",
                    help="requests that the agent may send to the API server at once after a pause "
                         "(default: %(default)d)")
    it.add_argument("--listen", default="127.0.0.1:8081", metavar="HOST:PORT",
                    help="address of /metrics, /healthz, /readyz and /status. Port 0 selects a free port "
                         "(default: %(default)s)")
    add_log_options(it)
    add_trace_options(it)
    add_tls_options(it)
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped. Return the exit status."""
    return outcome(parser().parse_args(argv), checked)


def checked(args: argparse.Namespace, stop: threading.Event) -> int:
    """Check the options, then run. Return the exit status.

    Raises BadConfig, BadKubeconfig or ApiError before it starts.
    """
    try:
        check(args)
        return run(args, stop)
    except NodeTrouble as error:
        raise BadConfig(str(error)) from error
    except OSError as error:
        raise BadConfig(f"{error.filename or args.root} cannot be used: {error.strerror}") from error


def check(args: argparse.Namespace) -> None:
    """Check the options.

    Raises BadConfig with one sentence of the option, its value and the allowed values.
    """
    if not args.node_name:
        raise BadConfig("--node-name is not set. Set it, or the variable NODE_NAME, to the name of this node")
    if not (args.root / "sys/bus/pci/devices").is_dir():
        raise BadConfig(f"--root: {str(args.root)!r} is not allowed. It must be the folder at which this process sees "
                        "the node's /, with sys/bus/pci/devices below it")
    for name in ("event_patience", "search_patience", "patience", "announce_patience"):
        value = getattr(args, name)
        if not 0.01 <= value <= 3600:
            raise BadConfig(f"--{name.replace('_', '-')}: {value:g} is not allowed. It must be from 0.01 to 3600 "
                            "seconds")
    for name in ("kube_api_qps", "kube_api_burst"):
        value = getattr(args, name)
        if not 1 <= value <= 100000:
            raise BadConfig(f"--{name.replace('_', '-')}: {value:g} is not allowed. It must be from 1 to 100000")
    check_plugin_options(args)


def run(args: argparse.Namespace, stop: threading.Event) -> int:
    """Work until stopped. Return the exit status.

    Raises BadConfig, BadKubeconfig, ApiError, NodeTrouble or OSError before it starts.
    """
    certificate = serving_certificate(args)
    client = Client(Connection.load(args.kubeconfig, args.context), pool=CONNECTIONS)
    disable_created_metrics()
    limited = client.limited(TokenBucket(args.kube_api_qps, args.kube_api_burst))
    metrics, recorder = AgentMetrics(), Recorder(limited, COMPONENT, args.node_name)
    tracer = start_tracer(args.otlp_endpoint, COMPONENT)
    try:
        with only_agent(args.root, stop) as alone:
            if alone:
                driver = NodeDriver(args.node_name, args.dra_driver, by_label=args.dra_driver_by_label)
                operations = HostOperations(Host(args.root), host_options(args), own_kinds(args), driver.is_own)
                operations.take_stock()
                agent = NodeAgent(limited, operations, agent_options(args), metrics, recorder, client, tracer, driver)
                metrics.ask(agent.devices_by_phase, agent.hung_removals)
                with kubelet_plugin(args, limited, agent) as plugin:
                    health = HealthServer(args.listen, agent, metrics, lambda: status(agent) | plugin(), Access(client),
                                          certificate)
                    _serve(agent, health, stop)
    finally:
        recorder.close()
        client.close()
        if tracer:
            tracer.stop()
        log.info("stopped")
    return OK


def host_options(args: argparse.Namespace) -> Options:
    """Return the options of the node operations."""
    return Options(event_patience=args.event_patience, search_patience=args.search_patience, patience=args.patience,
                   rescan=args.rescan, ports=tuple(args.ports), by="agent")


def agent_options(args: argparse.Namespace) -> AgentOptions:
    """Return the options of the agent."""
    return AgentOptions(args.node_name, args.lease_namespace, tuple(args.plugin_namespace or PLUGIN_NAMESPACES),
                        Patience(args.event_patience, args.search_patience), args.announce_patience, args.dra_driver)


def _serve(agent: NodeAgent, health: HealthServer, stop: threading.Event) -> None:
    try:
        health.start()
        log.info("listening on %s", health.url)
        agent.start()
        stop.wait()
    finally:
        agent.stop()
        health.stop()


def status(agent: NodeAgent) -> dict[str, t.Any]:
    """Return the known facts about each device, and the current problems."""
    return {"ready": agent.ready(), "troubles": agent.problems(), "node": agent.options.node,
            "devices": {request.name: {"phase": request.evidence.phase, "address": request.evidence.address,
                                       "steps": [step.step for step in request.evidence.steps],
                                       "trouble": request.evidence.trouble.message if request.evidence.trouble else ""}
                        for request in agent.devices.requests() if request.evidence}}


if __name__ == "__main__":
    sys.exit(main())
