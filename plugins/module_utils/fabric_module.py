# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and driver of the CDI Manager, for the modules and plugins that need it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .environment import environment_value, source_of
from .fabric.api import FabricManager
from .fabric.config import FabricConfig
from .fabric.connect import connect
from .fabric.errors import BadConfiguration
from .fabric.registry import CREDENTIALS_OF


def _option(name: str, **rest: t.Any) -> dict[str, t.Any]:
    return {"type": "str", "fallback": (environment_value, [f"COMPOSABLE_{name.upper()}"]), **rest}


FABRIC_OPTIONS: dict[str, dict[str, t.Any]] = {
    "manager": _option("manager", default="fm"),
    "driver_options": _option("driver_options", type="dict"),
    "endpoint": _option("endpoint"),
    "layout_endpoint": _option("layout_endpoint"),
    "tenant": _option("tenant"),
    "cluster": _option("cluster"),
    "machines": _option("machines", type="dict"),
    "auth": _option("auth", choices=list(CREDENTIALS_OF)),
    "username": _option("username"),
    "password": _option("password", no_log=True),
    "realm": _option("realm"),
    "client_id": _option("client_id"),
    "client_secret": _option("client_secret", no_log=True),
    "credentials_dir": _option("credentials_dir", type="path"),
    "ca_path": _option("ca_path", type="path"),
    "client_cert_path": _option("client_cert_path", type="path"),
    "client_key_path": _option("client_key_path", type="path", no_log=False),
    "validate_certs": _option("validate_certs", type="bool", default=True),
    "connect_timeout": _option("connect_timeout", type="float", default=5.0),
    "read_timeout": _option("read_timeout", type="float", default=30.0),
    "attach_timeout": _option("attach_timeout", type="float", default=180.0),
    "requests_per_second": _option("requests_per_second", type="float"),
}


def fabric(params: Mapping[str, t.Any]) -> FabricManager:
    """Return the CDI Manager of the options. Raise FabricError, naming an environment variable."""
    try:
        return connect(FabricConfig.from_dict({k: params[k] for k in FABRIC_OPTIONS if params.get(k) is not None}))
    except BadConfiguration as error:
        variable = source_of(error.field, params.get(error.field), FABRIC_OPTIONS)
        if not variable:
            raise
        raise BadConfiguration(variable, error.value, error.allowed) from None
