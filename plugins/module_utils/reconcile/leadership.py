# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine at a time acts: a Lease per component, so that module, rulebook and controller never act at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ..kube.client import Client
from ..kube.lease import Lease, process_identity

ATTEMPT_SECONDS = 1.0


class Leadership:
    """Leases ``composable-infra-<component>`` in one namespace, all or none. ``on_lost`` is called when one is lost."""

    def __init__(self, client: Client, namespace: str, components: Sequence[str],
                 on_lost: Callable[[], object]) -> None:
        identity = process_identity()
        self._leases = [Lease(client, namespace, f"composable-infra-{c}", identity) for c in components]
        for lease in self._leases:
            lease.on_lost = on_lost

    def lead(self, stop: threading.Event, timeout: float | None = None) -> bool:
        """Wait until all leases are ours; False when stopped or out of time, then none is."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        for lease in self._leases:
            while not lease.acquire(ATTEMPT_SECONDS):
                if stop.is_set() or (deadline is not None and time.monotonic() > deadline):
                    self.leave()
                    return False
        return True

    def holders(self) -> list[str]:
        """Identities that hold leases which we do not."""
        return sorted({h for lease in self._leases if not lease.held and (h := lease.holder)})

    def leave(self) -> None:
        """Give up what is held, so that the next one need not wait."""
        for lease in self._leases:
            lease.release()
