# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redaction of every external text before it enters a message.

A manager may repeat a request, and a proxy may quote a header. Known secrets are replaced
everywhere. Texts that look like a token or a named secret are replaced too.
"""

from __future__ import annotations

import re
import typing as t
from urllib.parse import quote, quote_plus

MASK = "********"
LONGEST = 500

_PATTERNS: t.Final = (
    (re.compile(r"eyJ[\w-]{5,}(?:\.[\w-]*){1,4}"), MASK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {MASK}"),
    (
        re.compile(
            r"(?i)(\\?[\"']?(?:password|client_secret|secret|(?:access_|refresh_|id_)?token)\\?[\"']?\s*[=:]\s*)"
            r"(\\?\"[^\"]*\"|'[^']*'|[^\s&,;}]+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\w+://)[^\s/@]+@"), rf"\1{MASK}@"),
)


class Redactor:
    """Replaces secrets in texts. ``learn`` adds a secret.

    Thread-safe, as learned secrets are never changed in place.
    """

    def __init__(self, *secrets: str) -> None:
        self._secrets: tuple[str, ...] = ()
        self._tokens: tuple[str, ...] = ()
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: str) -> None:
        """Replace ``secret`` in later texts, plain and percent-encoded, the longest first."""
        self._secrets = tuple(sorted({*self._secrets, *_forms(secret)}, key=len, reverse=True))

    def learn_token(self, token: str) -> None:
        """Replace ``token`` and the previous token, which a request in flight may still show.

        Forget older tokens, because a manager issues a new token every few minutes.
        """
        if token not in self._tokens:
            self._tokens = (token, *self._tokens[:1])

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets, on one line, with at most 500 characters."""
        tokens = [form for token in self._tokens for form in _forms(token)]
        for secret in sorted((*tokens, *self._secrets), key=len, reverse=True):
            text = text.replace(secret, MASK)
        for pattern, mask in _PATTERNS:
            text = pattern.sub(mask, text)
        text = " ".join(text.split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _forms(secret: str) -> set[str]:
    """Return the plain and percent-encoded forms of a secret."""
    return {secret, quote(secret, safe=""), quote_plus(secret)} - {""}
