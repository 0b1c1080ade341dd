# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authorized calls to one manager, with login renewal on 401 and safe repeats."""

from __future__ import annotations

import json
import time
import typing as t

from ...net.backoff import Backoff
from ...net.client import Response
from ..config import FabricConfig
from ..errors import Busy, Unavailable
from .auth import ReadError, auth_for
from .endpoint import Endpoint
from .http_status import error_for_status, malformed
from .request import JSON, ErrorBody, JsonResponse, Request

REPEATS: t.Final = 2
BACKOFF: t.Final = Backoff(0.1, jitter=0.5)
WHEN_ASKED: t.Final = Backoff(0.0, jitter=0.1)
LONGEST_PAUSE: t.Final = 5.0


class Session:
    """A session that all drivers use. Thread-safe."""

    def __init__(self, config: FabricConfig, read_error: ReadError, endpoint: str | None = None) -> None:
        """Take the driver's ``read_error``, which converts the JSON of an error body.

        ``endpoint`` replaces the configuration's base URL, for a manager with two addresses.
        """
        self.config = config
        self._endpoint = Endpoint(config, endpoint)
        self.redact = self._endpoint.redact
        self._read_error = read_error
        self._auth = auth_for(self._endpoint, read_error)

    def call(self, request: Request) -> JsonResponse:
        """Send a request and return the manager's response if it is a success.

        Without ``request.reads``, an absent body is None. Repeat twice if the request certainly had
        no effect and may succeed at once. Raise Missing, Busy, Changed, Refused or Unauthorized by
        the status of the response, Unavailable if the request was not processed, and Uncertain if a
        change may have taken effect.
        """
        content = None if request.body is None else json.dumps(request.body, separators=(",", ":")).encode()
        headers = {**request.headers, **({} if content is None else {"Content-Type": JSON})}
        for failures in range(1, REPEATS + 2):
            try:
                shown = self._auth.headers()
                response = self._endpoint.send(request, {**shown, **headers}, content)
                if response.status == 401 and (other := self._auth.headers(refused=shown)) is not shown:
                    response = self._endpoint.send(request, {**other, **headers}, content)
                return self._success(request, response)
            except (Unavailable, Busy) as error:
                pause = _pause(error, failures)
                if pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Log out and close idle connections."""
        self._auth.close()
        self._endpoint.close()

    def _success(self, request: Request, response: Response) -> JsonResponse:
        success = 200 <= response.status < 300
        try:
            body = json.loads(response.body)
            said = None if success else self._read_error(body)
        except ValueError:
            body = said = None
            if success and (request.reads or response.body.strip()):
                raise malformed(request, self._endpoint.foreign(response)) from None
        if success:
            return JsonResponse(response.status, response.headers, body)
        blank = said and ErrorBody(said.code and self.redact(said.code), self.redact(said.message))
        raise error_for_status(response, request, blank, self._endpoint.foreign(response))


def _pause(error: Unavailable | Busy, failures: int) -> float | None:
    """Return the seconds until the next repeat, or None if the caller must decide."""
    if failures > REPEATS:
        return None
    if error.retry_after is not None:
        return WHEN_ASKED.delay(1, error.retry_after) if error.retry_after <= LONGEST_PAUSE else None
    if isinstance(error, Unavailable) and error.passing:
        return BACKOFF.delay(failures)
    return None
