# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store a capture as a JSON file with a format and a version, readable only by its owner."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ...fabric.api import Device, FabricSnapshot, Machine, Size
from ...model.value import Json
from ...planning.settings import Settings
from ..config import BadConfig
from .capture import Capture
from .past_arrivals import PastArrivals

FORMAT: t.Final = "composable.infra/capture"
VERSION: t.Final = 1
MODE: t.Final = 0o600


class BadCapture(BadConfig):
    """A file is not a usable capture. The message names file, field, value and the allowed
    values."""


def as_document(capture: Capture) -> Json:
    """Return the capture as plain data, in the order of the file."""
    return {"format": FORMAT, "version": VERSION, "taken": capture.taken, "settings": dict(capture.settings),
            "manager": capture.manager, "attach_timeout": capture.attach_timeout,
            "node_operations": capture.node_operations, "agents": dict(capture.agents),
            "past": capture.past.as_document(),
            "fabric": _fabric_document(capture.fabric),
            "objects": {kind: list(found) for kind, found in capture.objects.items()}}


def _fabric_document(fabric: FabricSnapshot) -> Json:
    return {"taken": fabric.taken, "read": fabric.read, "problems": dict(fabric.problems),
            "machines": [asdict(replace(machine, devices=tuple(machine.devices)))
                         for machine in fabric.machines.values()],
            "free": [{"model": model, "fabric": number, "count": n} for (model, number), n in fabric.free.items()],
            "sizes": {uid: {model: asdict(size) for model, size in sizes.items()}
                      for uid, sizes in fabric.sizes.items()}}


def of_document(data: object, where: str) -> Capture:
    """Return the capture in plain data. Raise BadCapture with one sentence that starts with
    ``where``."""
    if not isinstance(data, Mapping):
        raise BadCapture(f"{where}: must contain a JSON object, not {type(data).__name__}")
    for field, allowed in (("format", FORMAT), ("version", VERSION)):
        if data.get(field) != allowed:
            raise BadCapture(f"{where}: {field}: {data.get(field)!r} is not usable: must be {allowed!r}, as "
                             "fabric_capture of this version of the collection writes it. Take a new capture")
    try:
        return _capture(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadCapture(f"{where}: is damaged: {type(error).__name__} at {error}. Take a new capture") from None


def _capture(data: Mapping[str, t.Any]) -> Capture:
    Settings.from_dict(data["settings"])
    return Capture(float(data["taken"]), {**data["settings"]}, str(data["manager"]), float(data["attach_timeout"]),
                   str(data["node_operations"]), {str(node): bool(held) for node, held in data["agents"].items()},
                   {kind: tuple(map(_object, found)) for kind, found in data["objects"].items()},
                   _fabric(data["fabric"]),
                   PastArrivals.of_document(data["past"]) if data.get("past") else PastArrivals())


def _object(raw: t.Any) -> Json:
    """Return the object. Raise KeyError if it has no name or UID."""
    return raw if raw["metadata"]["name"] and raw["metadata"]["uid"] else {}


def _fabric(data: Mapping[str, t.Any]) -> FabricSnapshot:
    machines = [Machine(**{**each, "devices": tuple(Device(**device) for device in each["devices"])})
                for each in data["machines"]]
    sizes = {uid: {model: Size(**size) for model, size in of_machine.items()}
             for uid, of_machine in data["sizes"].items()}
    return FabricSnapshot({machine.uid: machine for machine in machines},
                          {(each["model"], int(each["fabric"])): int(each["count"]) for each in data["free"]},
                          float(data["taken"]), {**data["problems"]}, float(data["read"]), sizes)


def write(capture: Capture, path: str) -> None:
    """Write the file atomically with mode 0600, and replace an existing file. Raise BadCapture."""
    try:
        handle, new = tempfile.mkstemp(dir=Path(path).resolve().parent, prefix=".capture-")
    except OSError as error:
        raise BadCapture(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, MODE)
            json.dump(as_document(capture), file, separators=(",", ":"))
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise BadCapture(f"{path}: cannot be written: {error.strerror}") from None


def read(path: str) -> Capture:
    """Return the capture in a file. Raise BadCapture."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCapture(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadCapture(f"{path}: is not JSON. Take a capture with fabric_capture") from None
    return of_document(data, path)
