# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be true of a cluster before an engine starts; each failure is one sentence that says what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ..kube.api_resources import CLAIMS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, SLICES, ApiResource
from ..kube.client.verbs import Client
from ..kube.errors import Forbidden, NotServed, Unreachable
from .config import BadConfig
from .state.watches import WATCHED

# Without these there is nothing to do; a permission for the rest may still be granted while the engine runs.
ESSENTIAL = (CLAIMS, SLICES, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)


def check_cluster(client: Client, roles: Iterable[str], stop: threading.Event | None = None,
                  say: Callable[[str], object] = lambda text: None) -> None:
    """Raise BadConfig for an API that is not served or may not be read; wait for a server that is not there yet.

    ``say`` is told once what is waited for. Without ``stop`` an unreachable server raises kube.errors.Unreachable.
    """
    said = ""
    for resource in dict.fromkeys(r for role in roles for r in WATCHED[role] if r in ESSENTIAL):
        while not (stop and stop.is_set()):
            try:
                client.raw("GET", resource.path(), query={"limit": 1})
                break
            except NotServed:
                raise BadConfig(_missing(resource)) from None
            except Forbidden as error:
                raise BadConfig(f"{resource.plural} may not be listed: {error.message}; apply deploy/rbac") from None
            except Unreachable as error:
                if stop is None:
                    raise
                if str(error) != said:
                    said = str(error)
                    say(f"waiting for the API server: {said}")
                stop.wait(1.0)


def _missing(resource: ApiResource) -> str:
    if resource in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
        return f"the API server does not serve {resource.plural} ({resource.group_version}); apply deploy/crds"
    return (f"the API server does not serve {resource.plural} ({resource.group_version}); "
            "Kubernetes 1.34 or later is needed")
