# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elect a leader by a Lease for each component, so that module, rulebook and controller never act
at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ...kube.client.verbs import Client
from ...kube.coordination.lease import Lease, process_identity
from ...kube.errors import Unreachable

ATTEMPT_SECONDS = 1.0


class LeaderElection:
    """Leases ``composable-infra-<component>`` in one namespace, all or none.

    ``on_lost`` is called when a Lease is lost.
    """

    def __init__(self, client: Client, namespace: str, components: Sequence[str],
                 on_lost: Callable[[], object]) -> None:
        self._client, self._identity = client, process_identity()
        self._leases = [Lease(client, namespace, f"composable-infra-{c}", self._identity) for c in components]
        for lease in self._leases:
            lease.on_lost = on_lost

    @property
    def held(self) -> bool:
        """Return whether this process leads, so that no other can."""
        return all(lease.held for lease in self._leases)

    def lead(self, stop: threading.Event) -> bool:
        """Wait until this process has all Leases. Return False if stopped, and then it has none."""
        return self._take(lambda _lease: stop.is_set())

    def lead_unless_led(self, stop: threading.Event, timeout: float) -> tuple[str, ...]:
        """Take all Leases and return (), or return the holders and take none.

        Retry on errors of the API server. Raise Unreachable if they last ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        if self._take(lambda lease: stop.is_set() or not lease.last_error or time.monotonic() > deadline):
            return ()
        if holders := tuple(self.holders()):
            return holders
        why = next((lease.last_error for lease in self._leases if lease.last_error), "this process lost it again")
        raise Unreachable(f"no process leads, but the Lease could not be acquired in {timeout:g} s: {why}")

    def _take(self, enough: Callable[[Lease], bool]) -> bool:
        """Take the Leases in a fixed order.

        Watch the remaining Leases meanwhile, so that the time after which a silent holder counts as
        gone begins for all at once.
        """
        for number, lease in enumerate(self._leases):
            while not lease.acquire(ATTEMPT_SECONDS):
                if enough(lease):
                    self.leave()
                    return False
                for later in self._leases[number + 1:]:
                    later.look()
        return True

    def holders(self) -> list[str]:
        """Return the identities of other holders, as of the last successful reads."""
        return sorted({h for lease in self._leases if not (lease.held or lease.last_error) and (h := lease.holder)})

    def leaders(self) -> list[str]:
        """Return the identities of the known leaders: this process, or others."""
        return [self._identity] if self.held else self.holders()

    def look(self) -> tuple[str, ...]:
        """Return the identities of other leaders without taking a Lease. Raise ApiError."""
        now = self._client.server_time()
        found = {lease.live_holder(now) for lease in self._leases}
        return tuple(sorted(found - {"", self._identity}))

    def leave(self) -> None:
        """Release the Leases, so that a successor need not wait."""
        for lease in self._leases:
            lease.release()
