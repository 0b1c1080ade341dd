# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the scheduling gate of gated pods when no controller is left to remove it.

Run it apart from the controller, as a Deployment, or as a CronJob with ``--once``. It reads only
the GateLease and the pods. It does nothing while the GateLease is renewed, and for the grace period
after. It compares no clocks. It measures how long the GateLease stays unchanged.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence

from ansible_collections.composable.infra.controller.logs import set_up_logging
from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import GATE_LEASES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import NAME
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.lease import Observed, observe
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    BadKubeconfig,
    NotFound,
    NotServed,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods

log = logging.getLogger("composable.infra")
OK, BAD_INPUT = 0, 2
GRACE_SECONDS = 30.0
EVERY_SECONDS = 5.0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    it = argparse.ArgumentParser(
        prog="gate-reaper",
        description=f"Remove the scheduling gate {pods.GATE} from all pods if no controller has renewed the "
                    f"GateLease {NAME} for its duration and a grace period.")
    it.add_argument("--kubeconfig",
                    help="kubeconfig file (default: KUBECONFIG, ~/.kube/config, or the pod's service account)")
    it.add_argument("--context", help="context of the kubeconfig")
    it.add_argument("--namespace", default="composable-infra",
                    help="namespace of the GateLease (default: %(default)s)")
    it.add_argument("--grace", type=float, default=GRACE_SECONDS, metavar="SECONDS",
                    help="time for a controller to return after its Lease has expired (default: %(default)g)")
    it.add_argument("--once", action="store_true",
                    help="end as soon as the Lease is renewed, or the gates are removed after the grace period")
    it.add_argument("--now", action="store_true",
                    help="remove the gates at once, even if a controller renews the Lease, and end")
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped. Return the exit status."""
    args = parser().parse_args(argv)
    set_up_logging("text", "info")
    stop = asked_to_stop()
    try:
        client = Client(Connection.load(args.kubeconfig, args.context))
        if args.now:
            let_all_go(client, "the option --now is set")
        else:
            _run(Reaper(client, args.namespace, args.grace), stop, once=args.once)
    except (BadKubeconfig, ApiError) as error:
        log.error("%s", error)
        return BAD_INPUT
    return OK


def _run(reaper: Reaper, stop: threading.Event, *, once: bool) -> None:
    """Check the GateLease until stopped.

    Try again when the API server does not answer. With ``once``, raise its ApiError instead.
    """
    said = ""
    while not stop.is_set():
        try:
            reaper.look()
            said = ""
        except ApiError as error:
            if once:
                raise
            if str(error) != said:
                said = str(error)
                log.warning("%s", said)
        if once and reaper.decided:
            return
        stop.wait(EVERY_SECONDS)


class Reaper:
    """Watch the GateLease and remove gates when it has expired.

    ``namespace``: of the Lease. ``grace``: seconds after its expiry in which a controller may still
    come back. ``clock``: returns monotonic seconds. ``decided``: whether the Lease was seen to be
    renewed, or the gates were removed.
    """

    def __init__(self, client: Client, namespace: str, grace: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._namespace, self._grace, self._clock = client, namespace, grace, clock
        self._seen: Observed | None = None
        self.decided = False

    def look(self) -> int:
        """Remove our gate from every gated pod if the Lease was unchanged for its duration and the
        grace period.

        Return the number of pods without their gate now. A pod that cannot be changed is logged and
        left out. Raises ApiError when the Lease or the pods cannot be read.
        """
        try:
            lease = self._client.get(GATE_LEASES, NAME, namespace=self._namespace)
        # Without its CRD no controller can renew it, and gated pods must not wait forever.
        except (NotFound, NotServed):
            lease = {}
        before, self._seen = self._seen, observe(lease, self._seen, self._clock())
        if before and before.renewed != self._seen.renewed and self._seen.holder:
            self.decided = True
        lasts = (self._seen.duration if self._seen.holder else 0.0) + self._grace
        if self._clock() - self._seen.since < lasts:
            return 0
        self.decided = True
        return let_all_go(self._client, f"no controller renews the GateLease {NAME}")


def let_all_go(client: Client, why: str) -> int:
    """Remove our gate from every gated pod.

    Return their number. Raises ApiError if pods cannot be read.
    """
    held = [pod for pod in client.list(PODS, field_selector="spec.nodeName=").items if pods.held(pod)]
    return sum(_remove_gate(client, pod, why) for pod in held)


def _remove_gate(client: Client, pod: dict[str, object], why: str) -> bool:
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    try:
        client.strategic_patch(PODS, meta["name"], pods.removal(meta["uid"]), namespace=meta["namespace"])
    except ApiError as error:
        log.warning("cannot remove the gate of pod %s/%s: %s", meta["namespace"], meta["name"], error)
        return False
    log.info("Removed the gate of pod %s/%s: %s", meta["namespace"], meta["name"], why)
    return True


if __name__ == "__main__":
    sys.exit(main())
