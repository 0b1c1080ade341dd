# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease that says somebody lives who opens scheduling gates: the admission policy gates pods while it is renewed.

The policy is deploy/gates/policy.yaml. The Lease expires by itself, so a holder that is killed holds up no pod that is
created more than its duration later.
"""

from __future__ import annotations

import logging
import threading
import typing as t

from .client import Client
from .errors import ApiError
from .lease import Lease, process_identity

NAME: t.Final = "composable-infra-gates"
DURATION: t.Final = 15.0
ATTEMPT_SECONDS: t.Final = 1.0
RETRY_SECONDS: t.Final = 5.0

log = logging.getLogger("composable.infra")


class GateLease:
    """Held from ``start`` to ``stop`` whenever nobody else has it. Thread-safe."""

    def __init__(self, client: Client, namespace: str, duration: float = DURATION) -> None:
        self._lease = Lease(client, namespace, NAME, process_identity(), duration)
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._lease.on_lost = self._lost.set
        self._thread = threading.Thread(target=self._hold, name="gate-lease", daemon=True)

    @property
    def held(self) -> bool:
        """True while new pods are gated on our account."""
        return self._lease.held

    def start(self) -> None:
        """Begin to take the Lease, and take it again whenever it is lost."""
        self._thread.start()

    def stop(self) -> None:
        """Give it up: from now on no pod is gated on our account. Never raises."""
        self._stop.set()
        self._lost.set()
        if self._thread.is_alive():
            self._thread.join(DURATION)
        self._lease.release()

    def _hold(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                if self._lease.acquire(ATTEMPT_SECONDS):
                    said = ""
                    self._lost.wait()
                    self._lost.clear()
            except ApiError as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("new pods are not gated: the Lease %s cannot be taken: %s", NAME, said)
                self._stop.wait(RETRY_SECONDS)
