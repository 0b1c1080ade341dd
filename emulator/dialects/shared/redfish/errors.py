# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in Redfish's form (DSP0266, 8.6), with messages of DMTF's Base registry (DSP8011)."""

from __future__ import annotations

import typing as t

from aiohttp import web

from ....pool.pool import DeviceBusy, DeviceTaken, Exhausted, OperationFailed, PoolError, UnknownDevice, UnknownMachine

REGISTRY: t.Final = "Base.1.18"
_BY_STATUS: t.Final = {
    400: "GeneralError", 401: "NoValidSession", 403: "InsufficientPrivilege", 404: "ResourceMissingAtURI",
    405: "OperationNotAllowed", 409: "ResourceInUse", 412: "PreconditionFailed", 428: "PreconditionRequired",
    429: "ServiceTemporarilyUnavailable", 503: "ServiceTemporarilyUnavailable",
}
_OF_POOL: t.Final[dict[type[PoolError], tuple[int, str]]] = {
    UnknownMachine: (404, "ResourceMissingAtURI"), UnknownDevice: (404, "ResourceMissingAtURI"),
    Exhausted: (409, "ResourceInUse"), DeviceBusy: (409, "ResourceInUse"), DeviceTaken: (409, "ResourceInUse"),
    OperationFailed: (400, "OperationFailed"),
}


class RedfishError(Exception):
    """An error of the reply."""

    def __init__(self, status: int, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.name = name or _BY_STATUS.get(status, "InternalError")

    @classmethod
    def of_pool(cls, error: PoolError) -> RedfishError:
        """Return the error for an error of the pool."""
        status, name = _OF_POOL[type(error)]
        return cls(status, str(error), name)

    def body(self) -> dict[str, t.Any]:
        """Return the error as JSON."""
        return {"error": {
            "code": f"{REGISTRY}.GeneralError", "message": "see @Message.ExtendedInfo",
            "@Message.ExtendedInfo": [message(self.name, str(self))],
        }}

    def response(self) -> web.Response:
        """Return the reply."""
        return web.json_response(self.body(), status=self.status)


def message(name: str, text: str) -> dict[str, t.Any]:
    """Return one message."""
    return {
        "@odata.type": "#Message.v1_3_0.Message", "MessageId": f"{REGISTRY}.{name}", "Message": text,
        "MessageSeverity": "Critical", "Resolution": "None.",
    }
