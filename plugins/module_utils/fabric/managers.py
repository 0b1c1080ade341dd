# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Managers that are known, by the name used in configuration, and how each may be reached. The only such table.

A new manager is a row in ``MANAGERS`` and one in ``_DIALECTS``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .errors import BadConfiguration
from .types import Fabric

if t.TYPE_CHECKING:
    from .config import FabricConfig

# Which credentials each way to log in needs; no way uses any other.
CREDENTIALS_OF: t.Final[Mapping[str, tuple[str, ...]]] = {
    "password_grant": ("username", "password", "realm", "client_id", "client_secret"),
    "session": ("username", "password"),
    "basic": ("username", "password"),
    "none": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """How one manager is reached.

    ``auth``: ways to log in, the default first. ``schemes`` of its URLs. ``requires`` and ``takes``: options beside
    the endpoint and the credentials that it must and may have; others of its kind are refused.
    """

    auth: tuple[str, ...]
    schemes: tuple[str, ...] = ("https",)
    requires: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


MANAGERS: t.Final[Mapping[str, Manager]] = {
    "fm": Manager(auth=("password_grant",), requires=("tenant",), takes=("cluster",)),
    "cm": Manager(auth=("password_grant",), requires=("tenant", "cluster")),
    "nec": Manager(auth=("none",), schemes=("http", "https"), takes=("layout_endpoint",)),
    "sunfish": Manager(auth=("none", "basic", "session"), schemes=("http", "https"), takes=("tenant",)),
    "redfish": Manager(auth=("session", "basic", "none"), takes=("tenant",)),
}


def connect(config: FabricConfig) -> Fabric:
    """A client for ``config.manager``; nothing is sent yet. Raises BadConfiguration."""
    make = _DIALECTS.get(config.manager)
    if make is None:
        raise BadConfiguration("manager", config.manager, f"allowed are {', '.join(_DIALECTS)}")
    return make(config)


# A dialect is imported when it is asked for: a module run for one manager does not load the others.
def _fm(config: FabricConfig) -> Fabric:
    from .fm import FabricManager

    return FabricManager(config)


def _cm(config: FabricConfig) -> Fabric:
    from .cm import ClusterManager

    return ClusterManager(config)


def _redfish(config: FabricConfig) -> Fabric:
    from .redfish.client import Redfish

    return Redfish(config)


def _nec(config: FabricConfig) -> Fabric:
    from .nec import NecManager

    return NecManager(config)


def _sunfish(config: FabricConfig) -> Fabric:
    from .sunfish import Sunfish

    return Sunfish(config)


_DIALECTS: t.Final[Mapping[str, Callable[[FabricConfig], Fabric]]] = {
    "fm": _fm,
    "cm": _cm,
    "nec": _nec,
    "sunfish": _sunfish,
    "redfish": _redfish,
}
