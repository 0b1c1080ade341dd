# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between the emulated managers other than their routes, such as listener, options
and errors.

A manager of this collection is one row here and one line in ``server.DIALECTS``. The emulator of
another collection's driver ``namespace.collection.name`` is the file ``emulator/NAME.py`` of that
collection. When it is imported, it calls ``register``.
"""

from __future__ import annotations

import importlib
import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LOGIN: t.Final = ("tenant", "realm", "username", "password", "client_id", "client_secret")
BASIC: t.Final = ("username", "password")


def plain_error(status: int, text: str) -> t.Any:
    """Return the body of an error, for a manager without a form of its own."""
    return {"error": {"code": str(status), "message": text}}


def fm_error(status: int, text: str) -> t.Any:
    """Return the body of an error in FM's form."""
    return {"status": status, "detail": {"code": f"E020{status}", "message": text, "data": {}}}


def purpose_of(method: str, path: str, body: t.Any) -> str:
    """Return ``login``, ``read``, or ``change`` if the method does not tell attach from detach."""
    if "/openid-connect/token" in path:
        return "login"
    return "read" if method in ("GET", "HEAD") else "change"


def fm_purpose(method: str, path: str, body: t.Any) -> str:
    """Return the purpose of a request. FM attaches by PATCH and detaches by DELETE."""
    return {"PATCH": "attach", "DELETE": "detach"}.get(method) or purpose_of(method, path, body)


def cm_purpose(method: str, path: str, body: t.Any) -> str:
    """Return the purpose of a request.

    CM attaches and detaches by POST, and clients poll the machine.
    """
    if method == "POST" and isinstance(body, dict):
        return "detach" if "remove_resources" in body else "attach"
    return purpose_of(method, path, body)


def nec_error(status: int, text: str) -> t.Any:
    """Return the body of an error in CDIM's form."""
    return {"code": f"E40{status}", "message": text}


def nec_purpose(method: str, path: str, body: t.Any) -> str:
    """Return the purpose of a request, by the first procedure of a POST.

    Clients poll by the apply's id.
    """
    found = body.get("procedures") if isinstance(body, dict) else None
    if method == "POST" and isinstance(found, list) and found and isinstance(found[0], dict):
        return "detach" if found[0].get("operation") == "disconnect" else "attach"
    return "poll" if "/layout-apply/" in path else purpose_of(method, path, body)


@dataclass(frozen=True, slots=True)
class Row:
    """Properties of a manager.

    ``plain``: it is on the http listener instead of the https listener. ``tells``: the emulator's
    values (LOGIN, ``cluster``) that clients get as options. ``options``: further options with their
    values. ``error``: returns the body of an injected error status. ``purpose``: returns the
    purpose of a request by method, path and JSON body (login, read, poll, attach, detach or
    change). ``settings``: keys that the document may set under ``settings.<manager>``. ``routes``:
    returns the routes of a dialect from another collection, given an EmulatorContext.
    """

    plain: bool = False
    tells: tuple[str, ...] = LOGIN
    options: Mapping[str, t.Any] = field(default_factory=dict)
    error: Callable[[int, str], t.Any] = plain_error
    purpose: Callable[[str, str, t.Any], str] = purpose_of
    settings: tuple[str, ...] = ()
    routes: Callable[[t.Any], list[t.Any]] | None = None


def redfish_error(status: int, text: str) -> t.Any:
    """Return the body of an error in Redfish's form."""
    words = {"MessageId": "Base.1.18.GeneralError", "Message": text}
    return {"error": {"code": "Base.1.18.GeneralError", "message": text, "@Message.ExtendedInfo": [words]}}


def redfish_purpose(method: str, path: str, body: t.Any) -> str:
    """Return the purpose of a request, by action or by collection."""
    if path.endswith("/SessionService/Sessions") and method == "POST":
        return "login"
    if method in ("GET", "HEAD"):
        return "poll" if "/TaskService/Task" in path else "read"
    if path.endswith(".AddResourceBlock") or (method == "POST" and path.endswith("/Connections")):
        return "attach"
    return "detach" if path.endswith(".RemoveResourceBlock") or "/Connections/" in path else "change"


REDFISH: t.Final = ("dialects", "asynchronous", "keeps_tasks", "etags", "strict_etags", "one_sided", "page", "expand",
                    "reset_types", "power_seconds", "ignores_shutdown", "attach_off")

MANAGERS: t.Final[dict[str, Row]] = {
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
EXTERNAL: t.Final = re.compile(r"([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)\.([a-z][a-z0-9_]*)")


def register(name: str, row: Row) -> None:
    """Register the emulator of another collection's driver.

    Args:
        name: The driver's ``namespace.collection.name``.
        row: The properties of its dialect, with ``routes``.

    Raises:
        ValueError: The name has another form, or there are no routes.
    """
    if not EXTERNAL.fullmatch(name):
        raise ValueError(f"name: {name!r} is not allowed. It must be namespace.collection.name")
    if row.routes is None:
        raise ValueError("routes: None is not allowed. Give a function that returns the routes of the dialect")
    MANAGERS[name] = row


def problem_of(name: str) -> str:
    """Return why there is no emulator of a manager, empty if there is one.

    An emulator of another collection is imported.

    Args:
        name: The manager as configurations name it.
    """
    found = EXTERNAL.fullmatch(name)
    if name in MANAGERS:
        return ""
    if found is None:
        return f"{name!r} is not known. Allowed are {', '.join(MANAGERS)}, or namespace.collection.name"
    try:
        importlib.import_module(f"ansible_collections.{found[1]}.emulator.{found[2]}")
    except Exception as error:
        return f"{name!r} has no emulator: cannot import emulator/{found[2]}.py of the collection {found[1]}: {error}"
    return "" if name in MANAGERS else f"{name!r} is not registered by emulator/{found[2]}.py of {found[1]}"
