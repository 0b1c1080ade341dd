# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens as Keycloak gives them: signed, short-lived, revocable."""

from __future__ import annotations

import base64
import json
import stat
import time
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec
from ansible_collections.composable.infra.emulator.credentials import Credentials, choose, signing_key
from ansible_collections.composable.infra.emulator.tokens import Tokens
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.token import lifetime


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(Credentials("t", "realm", "client", "secret", {"user": "password"}), b"key", 60)


def test_a_token_is_accepted_and_its_lifetime_readable(tokens: Tokens) -> None:
    token = tokens.issue("user")
    assert tokens.problem(f"Bearer {token}") is None
    assert tokens.problem(f"bearer {token}") is None
    assert 60 <= lifetime(token, 0) <= 62
    assert tokens.issued == 1


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer abc", "Basic YTpi"])
def test_no_token(tokens: Tokens, header: str | None) -> None:
    assert tokens.problem(header) == "no bearer token"


def test_a_token_of_another_key_or_with_a_changed_payload(tokens: Tokens) -> None:
    token = Tokens(tokens.credentials, b"other", 60).issue("user")
    assert tokens.problem(f"Bearer {token}") == "the token's signature is not valid"
    head, _unused, signature = tokens.issue("user").split(".")
    forged = base64.urlsafe_b64encode(json.dumps({"exp": 9e9, "issued_at": 0}).encode()).rstrip(b"=").decode()
    assert tokens.problem(f"Bearer {head}.{forged}.{signature}") == "the token's signature is not valid"
    assert tokens.problem("Bearer a.b.ü") == "the token's signature is not valid"


def test_a_token_expires(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.issue("user")
    later = time.time() + 62
    monkeypatch.setattr("ansible_collections.composable.infra.emulator.tokens.time.time", lambda: later)
    assert tokens.problem(f"Bearer {token}") == "the token has expired"


def test_a_revoked_token(tokens: Tokens) -> None:
    token = tokens.issue("user")
    tokens.revoke()
    assert tokens.problem(f"Bearer {token}") == "the token was revoked"
    assert tokens.problem(f"Bearer {tokens.issue('user')}") is None


def test_credentials_are_made_up_once_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    first = choose(FabricSpec.parse({}), path)
    assert choose(FabricSpec.parse({}), path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.as_dict().keys() == {"tenant", "realm", "username", "password", "client_id", "client_secret"}
    assert len(first.as_dict()["password"]) >= 32
    for secret in (first.client_secret, *first.users.values()):
        assert secret not in repr(first)


def test_credentials_of_the_document_win(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    choose(FabricSpec.parse({}), path)
    given = {"client": {"id": "c", "secret": "s"}, "users": [{"username": "u", "password": "p"}], "realm": "r"}
    told = choose(FabricSpec.parse(given), path).as_dict()
    assert (told["client_id"], told["client_secret"], told["username"], told["password"]) == ("c", "s", "u", "p")
    assert told["realm"] == "r"


def test_the_signing_key_is_kept(tmp_path: Path) -> None:
    key = signing_key(tmp_path / "key")
    assert signing_key(tmp_path / "key") == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
