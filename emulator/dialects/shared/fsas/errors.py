# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the form of Fsas's managers, FM and CM: ``{status, detail: {code, message, data}}``.

FM's own codes are ``E02`` and four characters. These codes are made up in that form.

======== ====== ==========================================================
code     status meaning
======== ====== ==========================================================
E020001  400    the request is malformed, and the message is JSON with the field
E020101  401    the token is absent, false, expired or revoked
E020401  404    unknown tenant
E020402  404    unknown machine
E020403  404    the machine has no such resource
E020404  404    no free device of the model on the machine's fabric
E020501  400    the fabric tried and could not
E020901  409    the resource is being attached or detached
======== ====== ==========================================================
"""

from __future__ import annotations

import json
import typing as t

from aiohttp import web

from ....pool.pool import DeviceBusy, Exhausted, OperationFailed, PoolError, UnknownDevice, UnknownMachine

MALFORMED: t.Final = "E020001"
UNAUTHORIZED: t.Final = "E020101"
UNKNOWN_TENANT: t.Final = "E020401"
UNKNOWN_MACHINE: t.Final = "E020402"
UNKNOWN_RESOURCE: t.Final = "E020403"
INSUFFICIENT: t.Final = "E020404"
FAILED: t.Final = "E020501"
BUSY: t.Final = "E020901"

_OF_POOL: t.Final[dict[type[PoolError], tuple[int, str, str]]] = {
    UnknownMachine: (404, UNKNOWN_MACHINE, "machine not found"),
    UnknownDevice: (404, UNKNOWN_RESOURCE, "resource not found"),
    Exhausted: (404, INSUFFICIENT, "insufficient resources"),
    OperationFailed: (400, FAILED, "the operation failed"),
    DeviceBusy: (409, BUSY, "resource is busy"),
}


class FsasError(Exception):
    """An error of the reply."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @classmethod
    def malformed(cls, field: str, reason: str) -> FsasError:
        """Return an error 400 with JSON text as message, like some of FM's messages."""
        return cls(400, MALFORMED, json.dumps({"field": field, "reason": reason}))

    @classmethod
    def of_pool(cls, error: PoolError) -> FsasError:
        """Return the error for an error of the pool."""
        status, code, words = _OF_POOL[type(error)]
        return cls(status, code, f"{words}: {error}")

    def response(self) -> web.Response:
        """Return the reply."""
        detail = {"code": self.code, "message": self.message, "data": {}}
        return web.json_response({"status": self.status, "detail": detail}, status=self.status)
