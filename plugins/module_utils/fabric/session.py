# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authorised calls to one manager: one renewed login on 401, repeats where safe, errors by class, no secrets."""

from __future__ import annotations

import json
import random
import time
import typing as t

from .auth import ReadError, auth_for
from .config import FabricConfig
from .errors import Busy, Unavailable
from .link import JSON, Link
from .transport import Reply
from .verdicts import Answer, Call, Said, malformed, verdict

REPEATS: t.Final = 2
FIRST_PAUSE: t.Final = 0.1
LONGEST_PAUSE: t.Final = 5.0


class Session:
    """Shared by all dialects. ``read_error`` is the dialect's: JSON of an error body -> the manager's words.

    ``endpoint``: another base URL than the configuration's, for a manager that has two.
    """

    def __init__(self, config: FabricConfig, read_error: ReadError, endpoint: str | None = None) -> None:
        self.config = config
        self._link = Link(config, endpoint)
        self.redact = self._link.redact
        self._read_error = read_error
        self._auth = auth_for(self._link, read_error)

    def call(self, call: Call) -> t.Any:
        """Carry out; returns the JSON of the reply (None unless ``call.reads``). Raises FabricError."""
        answer = self.exchange(call)
        return answer.body if call.reads else None

    def exchange(self, call: Call) -> Answer:
        """Carry out; returns status, headers and JSON of the reply. Raises FabricError.

        Without ``call.reads`` a body that is absent or no JSON is None.
        """
        for attempt in range(REPEATS + 1):
            try:
                return self._authorised(call)
            except (Unavailable, Busy) as error:
                pause = _pause(error, attempt)
                if pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Log out and close kept connections."""
        self._auth.close()
        self._link.close()

    def _authorised(self, call: Call) -> Answer:
        shown = self._auth.headers()
        reply = self._send(call, shown)
        if reply.status == 401 and (other := self._auth.headers(refused=shown)) is not shown:
            reply = self._send(call, other)
        if not 200 <= reply.status < 300:
            raise verdict(reply, call, self._said(reply), self._link.foreign(reply))
        return Answer(reply.status, reply.headers, self._json(call, reply))

    def _send(self, call: Call, shown: t.Mapping[str, str]) -> Reply:
        headers = {**shown, "Accept": JSON, **call.headers}
        body = None
        if call.body is not None:
            headers["Content-Type"] = JSON
            body = json.dumps(call.body, separators=(",", ":")).encode()
        return self._link.ask(call, headers, body)

    def _json(self, call: Call, reply: Reply) -> t.Any:
        try:
            return json.loads(reply.body)
        except ValueError:
            if not call.reads:
                return None
            raise malformed(call, self._link.foreign(reply)) from None

    def _said(self, reply: Reply) -> Said | None:
        try:
            said = self._read_error(json.loads(reply.body))
        except ValueError:
            return None
        return said and Said(said.code and self.redact(said.code), self.redact(said.message))


def _pause(error: Unavailable | Busy, attempt: int) -> float | None:
    """Seconds before the request is repeated; None: it is for the caller to decide when."""
    if attempt >= REPEATS:
        return None
    if error.retry_after is not None:
        return error.retry_after * random.uniform(1.0, 1.1) if error.retry_after <= LONGEST_PAUSE else None
    if isinstance(error, Unavailable) and error.passing:
        return FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1.5)
    return None
