# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GateLease of a live process that removes scheduling gates. The policy gates pods while it is
renewed.

The policy is deploy/gates/policy.yaml, the kind deploy/crds/gateleases.yaml. The GateLease expires
by itself. After its holder was killed, pods are gated only for its duration. The policy compares
the time of the renewal with the time of the API server. The written time is therefore that of the
API server, and the local clock does not matter.
"""

from __future__ import annotations

import logging
import threading
import typing as t
from collections.abc import Callable

from ..api_resources import GATE_LEASES
from ..client.verbs import Client
from ..errors import ApiError
from .lease import Lease, process_identity

NAME: t.Final = "composable-infra-gates"
DURATION: t.Final = 15.0
ATTEMPT_SECONDS: t.Final = 1.0
# A starting controller serves gated pods after a moment. That is no problem to log, and no second
# to lose.
FIRST_SECONDS: t.Final = 0.05
RETRY_SECONDS: t.Final = 5.0

log = logging.getLogger("composable.infra")


class GateLease:
    """Held from ``start`` to ``stop`` while gated pods are served and no other process has it.
    Thread-safe.

    ``namespace``: namespace of the Lease, which the admission policy names too. ``duration``:
    seconds for which pods are still gated after a holder was killed. ``problem``: returns why pods
    would not be served now, empty if they are. The GateLease is released meanwhile. If the API
    server refuses or does not answer, that is logged, and the request is repeated.
    """

    def __init__(self, client: Client, namespace: str, duration: float = DURATION,
                 problem: Callable[[], str] = lambda: "") -> None:
        self._lease = Lease(client, namespace, NAME, process_identity(), duration, wall=client.server_time,
                            kind=GATE_LEASES)
        self._problem, self._said = problem, ""
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._lease.on_lost = self._lost.set
        self._thread = threading.Thread(target=self._hold, name="gate-lease", daemon=True)

    @property
    def held(self) -> bool:
        """Return whether new pods are gated because of this process."""
        return self._lease.held

    def start(self) -> None:
        """Begin to take the Lease, and take it again whenever it is lost."""
        self._thread.start()

    def stop(self) -> None:
        """Release the Lease. From now on no pod is gated because of this process. Never raise."""
        self._stop.set()
        self._lost.set()
        if self._thread.is_alive():
            self._thread.join(DURATION)
        self._lease.release()

    def _hold(self) -> None:
        pause = FIRST_SECONDS
        while not self._stop.is_set():
            if why := self._problem():
                if pause >= ATTEMPT_SECONDS:
                    self._say(why)
                self._stop.wait(pause)
                pause = min(2 * pause, ATTEMPT_SECONDS)
                continue
            pause = FIRST_SECONDS
            try:
                if self._lease.acquire(ATTEMPT_SECONDS):
                    self._say("")
                    self._while_served()
            except ApiError as error:
                self._say(f"the GateLease {NAME} cannot be taken: {error}")
                self._stop.wait(RETRY_SECONDS)

    def _while_served(self) -> None:
        """Wait until the Lease is lost, or release it when gated pods are not served."""
        while not self._lost.wait(ATTEMPT_SECONDS):
            if self._problem():
                self._lease.release()
                return
        self._lost.clear()

    def _say(self, why: str) -> None:
        """Log a problem once while it lasts, and its end."""
        if why and why != self._said:
            log.warning("The policy does not gate new pods: %s", why)
        elif self._said and not why:
            log.info("The policy gates new pods again")
        self._said = why
