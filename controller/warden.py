# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets held pods go when nobody is left who would open their gates.

Run it apart from the controller, as a CronJob with ``--once`` or as a Deployment: it needs only the Lease and the pods.
Where the controller comes back in time it does nothing.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence

from ansible_collections.composable.infra.controller.logs import set_up_logging
from ansible_collections.composable.infra.plugins.module_utils.kube import gates
from ansible_collections.composable.infra.plugins.module_utils.kube.client import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, BadKubeconfig, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.gatelease import DURATION, NAME
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import LEASES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time

log = logging.getLogger("composable.infra")
OK, BAD_INPUT = 0, 2
GRACE_SECONDS = 30.0
EVERY_SECONDS = 5.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    it = argparse.ArgumentParser(
        prog="warden",
        description=f"Remove the scheduling gate {gates.GATE} from all pods when the Lease {NAME} has not been renewed "
                    "for its duration and a grace period.")
    it.add_argument("--kubeconfig", help="default: KUBECONFIG, ~/.kube/config, or the pod's service account")
    it.add_argument("--context", help="context of the kubeconfig")
    it.add_argument("--namespace", default="composable-infra", help="of the Lease (default: %(default)s)")
    it.add_argument("--grace", type=float, default=GRACE_SECONDS, metavar="SECONDS",
                    help="time for a controller to come back after its Lease has expired (default: %(default)g)")
    it.add_argument("--once", action="store_true", help="look once and end")
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit status."""
    args = parser().parse_args(argv)
    set_up_logging("text", "info")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_unused: stop.set())
    try:
        client = Client(Connection.load(args.kubeconfig, args.context))
        while not stop.is_set():
            look(client, args.namespace, args.grace)
            if args.once:
                break
            stop.wait(EVERY_SECONDS)
    except (BadKubeconfig, ApiError) as error:
        log.error("%s", error)
        return BAD_INPUT
    return OK


def look(client: Client, namespace: str, grace: float) -> int:
    """Let all held pods go when the Lease has expired; how many went."""
    if _alive(client, namespace, grace):
        return 0
    held = [pod for pod in client.list(PODS, field_selector="spec.nodeName=").items if gates.held(pod)]
    return sum(_let_go(client, pod) for pod in held)


def _alive(client: Client, namespace: str, grace: float) -> bool:
    """Whether somebody opens gates, or did a moment ago; clocks are compared, so that the grace should exceed skew."""
    try:
        spec = client.get(LEASES, NAME, namespace=namespace).get("spec") or {}
    except NotFound:
        return False
    renewed = parse_time(spec.get("renewTime"))
    return time.time() - renewed <= float(spec.get("leaseDurationSeconds") or DURATION) + grace


def _let_go(client: Client, pod: dict[str, object]) -> bool:
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    try:
        client.strategic_patch(PODS, meta["name"], gates.removal(meta["uid"]), namespace=meta["namespace"])
    except ApiError as error:
        log.warning("pod %s/%s keeps its gate: %s", meta["namespace"], meta["name"], error)
        return False
    log.info("pod %s/%s let go: nobody renews the Lease %s", meta["namespace"], meta["name"], NAME)
    return True


if __name__ == "__main__":
    sys.exit(main())
