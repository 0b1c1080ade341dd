# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Managers that are known, by the name used in configuration, and how each may be reached. The only such table.

A new manager of this collection is a row in ``MANAGERS``, and one in ``connect`` that makes its driver. Those of other
collections are in ``external``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

# Which credentials each way to log in needs; no way uses any other.
CREDENTIALS_OF: t.Final[Mapping[str, tuple[str, ...]]] = {
    "password_grant": ("username", "password", "realm", "client_id", "client_secret"),
    "session": ("username", "password"),
    "basic": ("username", "password"),
    "none": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverOption:
    """An option that only one driver has. ``type``: ``str``, ``int``, ``float`` or ``bool``.

    ``default``: what the driver gets where the option is not given. ``choices``: the allowed values, all if empty.
    """

    type: str = "str"
    required: bool = False
    default: str | float | None = None
    choices: tuple[str | float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerEntry:
    """How one manager is reached.

    ``auth``: ways to log in, the default first. ``schemes`` of its URLs. ``requires`` and ``takes``: options beside
    the endpoint and the credentials that it must and may have; others of its kind are refused. ``options``: those that
    only this driver has, given as ``driver_options``.
    """

    auth: tuple[str, ...]
    schemes: tuple[str, ...] = ("https",)
    requires: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    options: Mapping[str, DriverOption] = field(default_factory=dict)


MANAGERS: t.Final[Mapping[str, ManagerEntry]] = {
    "fm": ManagerEntry(auth=("password_grant",), requires=("tenant",), takes=("cluster",)),
    "cm": ManagerEntry(auth=("password_grant",), requires=("tenant", "cluster")),
    "nec": ManagerEntry(auth=("none",), schemes=("http", "https"), takes=("layout_endpoint",)),
    "sunfish": ManagerEntry(auth=("none", "basic", "session"), schemes=("http", "https"), takes=("tenant", "machines")),
    "redfish": ManagerEntry(auth=("session", "basic", "none"), takes=("tenant", "machines")),
}
