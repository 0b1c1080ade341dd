# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets stay inside: every text of foreign origin passes here before it enters a message.

A manager may echo what it was sent, a proxy may quote a header. So known secrets are blanked wherever they
appear, and whatever looks like a token or a named secret is blanked even when nobody knows it.
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
    """Blanks secrets in texts; ``learn`` adds one. Thread-safe: the sets are replaced, never changed."""

    def __init__(self, *secrets: str) -> None:
        self._secrets: tuple[str, ...] = ()
        self._tokens: tuple[str, ...] = ()
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: str) -> None:
        """Blank ``secret`` from now on, as it is and percent-encoded; the longest first."""
        self._secrets = tuple(sorted({*self._secrets, *_forms(secret)}, key=len, reverse=True))

    def learn_token(self, token: str) -> None:
        """Blank ``token`` and the one before, which a request in flight may still show. Forget older ones: a manager
        gives a new token every few minutes."""
        if token not in self._tokens:
            self._tokens = (token, *self._tokens[:1])

    def __call__(self, text: str) -> str:
        """``text`` without secrets, on one line, at most 500 characters."""
        tokens = [form for token in self._tokens for form in _forms(token)]
        for secret in sorted((*tokens, *self._secrets), key=len, reverse=True):
            text = text.replace(secret, MASK)
        for pattern, mask in _PATTERNS:
            text = pattern.sub(mask, text)
        text = " ".join(text.split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _forms(secret: str) -> set[str]:
    """A secret as it is and percent-encoded."""
    return {secret, quote(secret, safe=""), quote_plus(secret)} - {""}
