# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_config.py` and others share."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.tests.unit.planning.builders import rows

FABRIC = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "user",
          "password": "not-told", "realm": "realm", "client_id": "client", "client_secret": "not-told-either"}


def document(**changes: t.Any) -> dict[str, t.Any]:
    """A valid configuration with changes; None leaves a key out."""
    made = {"device_info": rows(), "fabric": FABRIC, **changes}
    return {k: v for k, v in made.items() if v is not None}


def refused(data: object) -> str:
    """The message with which a configuration is refused."""
    with pytest.raises(BadConfig) as caught:
        EngineConfig.from_dict(data, "config.yml")
    message = str(caught.value)
    assert message.startswith("config.yml: ")
    assert "not-told" not in message
    assert "\n" not in message
    return message.removeprefix("config.yml: ")
