# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No password, client secret or token in any message, repr, traceback or log, whatever the manager echoes."""

from __future__ import annotations

import logging
import traceback
import typing as t
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.tests.integration.fabric.conftest import MODEL, NODE_0, Client
from ansible_collections.composable.infra.tests.integration.fabric.scripted import (
    CLIENT_SECRET,
    PASSWORD,
    TOKEN,
    Answer,
    Asked,
    Script,
    ScriptedManager,
    login,
)

Scripted = Callable[..., ScriptedManager]


def everything(error: FabricError, config: FabricConfig, caplog: pytest.LogCaptureFixture) -> str:
    """All that a user, a log or a status could come to see."""
    parts: list[t.Any] = [
        str(error), repr(error), error.code, error.detail, vars(error), repr(config), str(config), caplog.text,
        "".join(traceback.format_exception(error)), *(record.getMessage() for record in caplog.records),
    ]
    return "\n".join(map(str, parts))


def assert_clean(text: str, *secrets: str) -> None:
    for secret in secrets:
        for form in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]):
            assert form not in text


def echo(asked: Asked) -> str:
    """Everything that was sent."""
    return f"{asked.method} {asked.path} {asked.body.decode()} Authorization: {asked.authorization}"


def fm_error(status: int, text: str) -> Answer:
    return Answer(status, {"status": status, "detail": {"code": text, "message": text, "data": {}}})


ECHOES: dict[str, Script] = {
    "refused login": lambda a: Answer(401, {"error": "invalid_grant", "error_description": echo(a)}),
    "failed login": lambda a: Answer(500, {"error": echo(a)}),
    "login as text": lambda a: Answer(502, echo(a).encode()),
    "login without a token": lambda a: Answer(200, echo(a).encode()),
    "login with a bad token": lambda a: Answer(200, {"access_token": PASSWORD + CLIENT_SECRET}),
    "refused": lambda a: login(a) if a.is_login else fm_error(400, echo(a)),
    "unauthorized": lambda a: login(a) if a.is_login else fm_error(401, f"bad token {TOKEN} {PASSWORD}"),
    "missing": lambda a: login(a) if a.is_login else fm_error(404, echo(a)),
    "failed": lambda a: login(a) if a.is_login else fm_error(500, f'{{"password": "{PASSWORD}"}} {echo(a)}'),
    "as text": lambda a: login(a) if a.is_login else Answer(400, echo(a).encode()),
    "not JSON": lambda a: login(a) if a.is_login else Answer(200, f"{TOKEN} {PASSWORD} {CLIENT_SECRET}".encode()),
    "other device": lambda a: login(a) if a.is_login else Answer(200, {"data": {"machines": [
        {"mach_uuid": "m", "resources": [{"res_uuid": "d", "res_type": TOKEN}]}]}}),
    "dropped": lambda a: login(a) if a.is_login else Answer(drop=True),
}


@pytest.mark.parametrize("name", ECHOES)
def test_whatever_is_echoed_stays_hidden(scripted: Scripted, caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.DEBUG)
    config = FabricConfig.from_dict(scripted(ECHOES[name]).options())
    fabric = connect(config)
    with pytest.raises(FabricError) as caught:
        fabric.attach("m", "A100")
    text = everything(caught.value, config, caplog)
    assert "127.0.0.1" in text
    assert_clean(text, PASSWORD, CLIENT_SECRET, TOKEN, TOKEN.split(".")[1], TOKEN.split(".")[2])
    fabric.close()


def test_the_emulators_errors_and_log_hold_no_secret(
    client: Client, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = emulator.credentials
    tries: list[dict[str, t.Any]] = [{"password": "wr0ng-one"}, {"ca_path": None}, {"realm": "other"}, {}]
    seen = []
    for options in tries:
        config = FabricConfig.from_dict(emulator.fabric_config(**options))
        with pytest.raises(FabricError) as caught:
            client(**options).attach(NODE_0, f"not {MODEL}")
        seen.append(everything(caught.value, config, caplog))
    text = "\n".join([*seen, str(emulator.log()), str(emulator.state())])
    assert_clean(text, told["password"], told["client_secret"], "wr0ng-one")
    assert "eyJ" not in text
