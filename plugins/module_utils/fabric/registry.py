# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known CDI Managers by their name in the configuration, and how each is reached.

To add a manager to this collection, add a row to ``MANAGERS`` and a function to ``connect`` that
makes its driver. ``external`` handles the drivers of other collections.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

# The only credentials that each login method uses.
CREDENTIALS_OF: t.Final[Mapping[str, tuple[str, ...]]] = {
    "password_grant": ("username", "password", "realm", "client_id", "client_secret"),
    "session": ("username", "password"),
    "basic": ("username", "password"),
    "none": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverOption:
    """An option of one driver only. ``type`` is ``str``, ``int``, ``float`` or ``bool``.

    ``default`` is the value if the option is not set. ``choices`` are the allowed values. If empty,
    all values are allowed.
    """

    type: str = "str"
    required: bool = False
    default: str | float | None = None
    choices: tuple[str | float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerEntry:
    """How to reach one manager.

    ``auth`` lists the login methods, the default first. ``schemes`` are the allowed URL schemes.
    ``requires`` and ``takes`` are the required and the optional options beside endpoint and
    credentials. All other such options are refused. ``options`` are the options of this driver
    only, set as ``driver_options``.
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
