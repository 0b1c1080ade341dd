# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind that the API server does not know keeps the controllers from nothing else."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PROVISIONING_REQUESTS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotServed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.watches import Watches
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench


def watching(bench: Bench) -> Watches:
    """Watches of a scaler that serves ProvisioningRequests."""
    def ignore(*_unused: object) -> None:
        return

    return Watches(bench.api.client, bench.state, ignore, ignore, roles=["scaler"], leases="composable-infra",
                   provisioning=True)


def test_missing_definition_is_a_problem_that_stops_nothing(bench: Bench) -> None:
    bench.api.fail("list", PROVISIONING_REQUESTS, NotServed(404, "NotFound", "no such resource"))
    watches = watching(bench)
    watches.start()
    bench.wait(watches.synced, "all other lists")
    bench.wait(watches.problems, "the problem")
    assert watches.problems() == ["no such resource"]
    watches.stop()


def test_missing_permission_is_waited_for(bench: Bench) -> None:
    """Bookings may exist, and their devices must not be returned."""
    bench.api.fail("list", PROVISIONING_REQUESTS, Forbidden(403, "Forbidden", "cannot list"))
    watches = watching(bench)
    watches.start()
    bench.wait(watches.problems, "the problem")
    bench.wait(lambda: sum(not each.synced.is_set() for each in watches.reflectors) == 1, "all other lists")
    assert not watches.synced()
    watches.stop()
