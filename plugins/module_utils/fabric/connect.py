# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the driver that a configuration names.

Drivers are imported on demand, so a module run for one manager does not load the others.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from .api import FabricManager
from .config import FabricConfig
from .external import connected


def connect(config: FabricConfig) -> FabricManager:
    """Return the driver for ``config.manager``. The first call opens the connections.

    The caller must ``close`` it. Raise BadConfiguration for an unknown manager and for files of the
    configuration (certificates, credentials) that cannot be used.
    """
    make = _DRIVERS.get(config.manager)
    return make(config) if make else connected(config.manager, config)


def _fm(config: FabricConfig) -> FabricManager:
    from .drivers.fm.driver import FmDriver

    return FmDriver(config)


def _cm(config: FabricConfig) -> FabricManager:
    """Return the driver for CM, which also uses FM at the same address and login."""
    from .drivers.cm.driver import CmDriver
    from .drivers.fm.driver import FmDriver
    from .drivers.shared import fsas
    from .http.session import Session

    session = Session(config, fsas.read_error)
    return CmDriver(config, session, FmDriver(config, session))


def _nec(config: FabricConfig) -> FabricManager:
    from .drivers.nec.driver import NecDriver

    return NecDriver(config)


def _redfish(config: FabricConfig) -> FabricManager:
    from .drivers.redfish.driver import RedfishDriver

    return RedfishDriver(config)


def _sunfish(config: FabricConfig) -> FabricManager:
    """Return the Sunfish driver: a Redfish driver, and requests by count if there are no agents."""
    from .drivers.redfish.driver import RedfishDriver
    from .drivers.sunfish.counts import Counts
    from .drivers.sunfish.driver import SunfishDriver

    tree = RedfishDriver(config)
    return SunfishDriver(tree, Counts(config), tree.service.root)


_DRIVERS: t.Final[Mapping[str, Callable[[FabricConfig], FabricManager]]] = {
    "fm": _fm,
    "cm": _cm,
    "nec": _nec,
    "sunfish": _sunfish,
    "redfish": _redfish,
}
