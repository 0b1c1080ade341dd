# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the emulated managers beside their routes: listener, what clients are told, words of errors.

A manager is one row here and one line in ``server.DIALECTS``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LOGIN: t.Final = ("tenant", "realm", "username", "password", "client_id", "client_secret")
BASIC: t.Final = ("username", "password")


def plain_error(status: int, text: str) -> t.Any:
    """Body of an error of a manager that has no form of its own for it."""
    return {"error": {"code": str(status), "message": text}}


def fm_error(status: int, text: str) -> t.Any:
    """FM's form."""
    return {"status": status, "detail": {"code": f"E020{status}", "message": text, "data": {}}}


def purpose_of(method: str, path: str, body: t.Any) -> str:
    """``login``, ``read``, or ``change`` where a dialect cannot tell attach from detach by the method."""
    if "/openid-connect/token" in path:
        return "login"
    return "read" if method in ("GET", "HEAD") else "change"


def fm_purpose(method: str, path: str, body: t.Any) -> str:
    """FM attaches by PATCH and detaches by DELETE."""
    return {"PATCH": "attach", "DELETE": "detach"}.get(method) or purpose_of(method, path, body)


def cm_purpose(method: str, path: str, body: t.Any) -> str:
    """CM does both by one request, and is polled by reading the machine."""
    if method == "POST" and isinstance(body, dict):
        return "detach" if "remove_resources" in body else "attach"
    return purpose_of(method, path, body)


def nec_error(status: int, text: str) -> t.Any:
    """CDIM's form."""
    return {"code": f"E40{status}", "message": text}


def nec_purpose(method: str, path: str, body: t.Any) -> str:
    """Both by one request, told apart by the first procedure; polled by the apply's id."""
    found = body.get("procedures") if isinstance(body, dict) else None
    if method == "POST" and isinstance(found, list) and found and isinstance(found[0], dict):
        return "detach" if found[0].get("operation") == "disconnect" else "attach"
    return "poll" if "/layout-apply/" in path else purpose_of(method, path, body)


@dataclass(frozen=True, slots=True)
class Row:
    """``plain``: on the http listener instead of the https one.

    ``tells``: which of the emulator's values (LOGIN, ``cluster``) clients are given as options; ``options``: more of
    them as they are. ``error``: body of an injected error status. ``purpose``: of a request, by method, path and JSON
    body: login, read, poll, attach, detach or change. ``settings``: keys that the document may set under
    ``settings.<manager>``.
    """

    plain: bool = False
    tells: tuple[str, ...] = LOGIN
    options: Mapping[str, t.Any] = field(default_factory=dict)
    error: Callable[[int, str], t.Any] = plain_error
    purpose: Callable[[str, str, t.Any], str] = purpose_of
    settings: tuple[str, ...] = ()


def redfish_error(status: int, text: str) -> t.Any:
    """Redfish's form."""
    words = {"MessageId": "Base.1.18.GeneralError", "Message": text}
    return {"error": {"code": "Base.1.18.GeneralError", "message": text, "@Message.ExtendedInfo": [words]}}


def redfish_purpose(method: str, path: str, body: t.Any) -> str:
    """By action, by collection, or by the number that is asked of Sunfish."""
    if path.endswith("/SessionService/Sessions") and method == "POST":
        return "login"
    if method in ("GET", "HEAD"):
        return "poll" if "/TaskService/Task" in path else "read"
    if path.endswith(".AddResourceBlock") or (method == "POST" and path.endswith("/Connections")):
        return "attach"
    return "detach" if path.endswith(".RemoveResourceBlock") or "/Connections/" in path else "change"


REDFISH: t.Final = ("dialects", "asynchronous", "keeps_tasks", "etags", "strict_etags", "one_sided", "page", "expand",
                    "reset_types", "power_seconds", "ignores_shutdown", "attach_off")

MANAGERS: t.Final[Mapping[str, Row]] = {
    "fm": Row(error=fm_error, purpose=fm_purpose),
    "cm": Row(
        tells=(*LOGIN, "cluster"), error=fm_error, purpose=cm_purpose, settings=("device_count", "limits"),
    ),
    "nec": Row(
        plain=True, tells=(), error=nec_error, purpose=nec_purpose, settings=("generation", "sequential", "uuids"),
    ),
    "redfish": Row(
        tells=BASIC, options={"auth": "session"}, error=redfish_error, purpose=redfish_purpose, settings=REDFISH,
    ),
    "sunfish": Row(
        plain=True, tells=(), error=redfish_error, purpose=redfish_purpose, settings=(*REDFISH, "agents"),
    ),
}
