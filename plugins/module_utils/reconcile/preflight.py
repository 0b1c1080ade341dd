# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what an engine needs from a cluster. Each failure is a sentence that says what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ..kube.api_resources import CLAIMS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, SLICES, ApiResource
from ..kube.client.verbs import Client
from ..kube.errors import Forbidden, NotServed, Unreachable
from .config import BadConfig
from .manager.watches import WATCHED

# The engine cannot start without these. Permissions for other kinds may be granted while it runs.
ESSENTIAL = (CLAIMS, SLICES, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)


def check_cluster(client: Client, roles: Iterable[str], stop: threading.Event | None = None,
                  say: Callable[[str], object] = lambda text: None) -> None:
    """Raise BadConfig for an API that is not served or may not be read. Wait for an unreachable
    server.

    ``say`` is called once for each reason to wait. Without ``stop``, raise kube.errors.Unreachable
    instead of waiting.
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
                raise BadConfig(f"{resource.plural} may not be listed: {error.message}. Apply deploy/rbac") from None
            except Unreachable as error:
                if stop is None:
                    raise
                if str(error) != said:
                    said = str(error)
                    say(f"waiting for the API server: {said}")
                stop.wait(1.0)


def _missing(resource: ApiResource) -> str:
    if resource in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
        return f"the API server does not serve {resource.plural} ({resource.group_version}). Apply deploy/crds"
    return (f"the API server does not serve {resource.plural} ({resource.group_version}). "
            "Kubernetes 1.34 or later is needed")
