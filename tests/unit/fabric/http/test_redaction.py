# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known secrets and whatever looks like one are blanked; ordinary text stays."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.http.redaction import LONGEST, MASK, Redactor

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDB9.c2lnbmF0dXJl"


def test_a_known_secret_is_blanked_in_every_spelling() -> None:
    secret = "p/a ss+w&rd"
    redact = Redactor(secret)
    shown = redact(f"a {secret} b {quote(secret, safe='')} c {quote_plus(secret)} d")
    assert shown == f"a {MASK} b {MASK} c {MASK} d"


def test_a_secret_that_is_part_of_another_does_not_leave_the_rest() -> None:
    assert "tail" not in Redactor("abc", "abctail")("abctail")


def test_a_secret_learned_later_is_blanked() -> None:
    redact = Redactor()
    redact.learn("s3cr3t")
    assert redact("s3cr3t") == MASK


def test_of_tokens_the_one_in_force_and_the_one_before_are_blanked() -> None:
    redact = Redactor("passw0rd")
    for number in range(1000):
        redact.learn_token(f"opaque-{number}-token")
    shown = "passw0rd opaque-999-token opaque-998-token opaque-997-token"
    assert redact(shown) == f"{MASK} {MASK} {MASK} opaque-997-token"


def test_a_token_that_comes_again_does_not_drop_the_one_before() -> None:
    redact = Redactor()
    for token in ("first", "second", "second"):
        redact.learn_token(token)
    assert redact("first second") == f"{MASK} {MASK}"


def test_an_empty_secret_blanks_nothing() -> None:
    assert Redactor("")("text") == "text"


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f"invalid token {TOKEN}",
        f"Authorization: Bearer {TOKEN}",
        "Authorization: Bearer opaque-secret",
        "Proxy-Authorization: Basic b3BhcXVlOnNlY3JldA==",
        "grant_type=password&password=opaque-secret&scope=openid",
        '{"client_secret": "opaque-secret"}',
        '{\\"client_secret\\": \\"opaque-secret\\"}',
        "{'access_token': 'opaque-secret'}",
        "refresh_token: opaque-secret",
        "https://user:opaque-secret@proxy.example.com",
    ],
)
def test_what_looks_like_a_secret_is_blanked(text: str) -> None:
    shown = Redactor()(text)
    for part in (TOKEN, "eyJ", "opaque-secret", "b3BhcXVl"):
        assert part not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "machine 0239b73e-ad1b-5396-b7d5-6f48d9180d2e not found",
        "the token has expired",
        "Invalid user credentials",
        "https://fm.example.com:443/fabric_manager/api/v1/machines",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor("password-of-mine")(text) == text


def test_a_text_becomes_one_line_of_bounded_length() -> None:
    shown = Redactor()("a\n\tb " + "x" * 2000)
    assert shown.startswith("a b x")
    assert len(shown) == LONGEST
