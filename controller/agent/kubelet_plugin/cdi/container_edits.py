# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files, variables and libraries that a container gets with a device, for a Container Device
Interface spec.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, NotEnded
from ansible_collections.composable.infra.plugins.module_utils.node.probe import SIMULATED
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import NVIDIA

from ..devices import NodeDevice
from ..errors import Refused

# No field is used that is newer than this version.
VERSION = "0.5.0"
# The program's path if the GPU Operator installed it.
TOOLKITS = ("nvidia-ctk", "/usr/local/nvidia/toolkit/nvidia-ctk")
_GENERATE = ("cdi", "generate", "--format=json", "--device-name-strategy=uuid")
_SECONDS = 30.0
_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_VFIO = "/dev/vfio/vfio"
# A simulated node has plain files instead of device files. Containers get a device that can be
# opened.
_NULL = (1, 3)
_OTHER = re.compile("[^A-Z0-9]")


@dataclass(frozen=True, slots=True)
class Edits:
    """``containerEdits`` for each device by its name, and for any container that gets one of them.

    ``libraries``: whether the edits include the vendor's libraries.
    """

    devices: dict[str, Json]
    common: Json
    version: str = VERSION
    libraries: bool = False


class ContainerEdits:
    """Build the edits.

    The output of the vendor's tool is reused until the set of its devices changes.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: tuple[frozenset[str], Json | None] = (frozenset(), None)

    def of(self, devices: Sequence[NodeDevice]) -> Edits:
        """Return the edits for the devices.

        Raises Refused with one sentence when a file is missing, or the vendor's tool fails.
        """
        gpus = [device for device in devices if device.kind == NVIDIA.name]
        told = self._toolkit(frozenset(device.uuid for device in gpus)) if gpus else None
        own = {device.name: self._own(device, told) for device in devices}
        common = dict(told.get("containerEdits") or {}) if told else {}
        if gpus:
            # An older hook adds the GPUs that this variable names. It must not add any.
            common["env"] = [*common.get("env", ()), "NVIDIA_VISIBLE_DEVICES=void"]
            if told is None:
                common["deviceNodes"] = self._nodes(file for file in _COMMON if self._path(file).exists())
        version = max(VERSION, str(told.get("cdiVersion", VERSION)) if told else VERSION, key=_number)
        return Edits(own, common, version, told is not None)

    def forget(self) -> None:
        """Call the vendor's tool again next time, because a change of devices may mean another
        driver.
        """
        self._told = (frozenset(), None)

    def _own(self, device: NodeDevice, told: Json | None) -> Json:
        edits: Json = {"env": [variable(device)]}
        if told is not None and device.kind == NVIDIA.name:
            found = next((e for e in told.get("devices") or () if e.get("name") == device.uuid), None)
            if found is None:
                raise Refused(f"nvidia-ctk cdi generate does not list {device.uuid}. Check that nvidia-smi shows it on "
                              "the node")
            given = dict(found.get("containerEdits") or {})
            return {**given, "env": [*given.get("env", ()), *edits["env"]]}
        files = [*device.files, _VFIO] if any(f.startswith("/dev/vfio/") for f in device.files) else device.files
        return {**edits, "deviceNodes": self._nodes(files)}

    def _nodes(self, files: Iterable[str]) -> list[Json]:
        return [self._node(file) for file in files]

    def _node(self, file: str) -> Json:
        """Return the device file with its numbers, so that the container runtime need not see the
        file.
        """
        try:
            found = os.stat(self._path(file))
        except OSError as error:
            raise Refused(f"the device file {file} cannot be used: {error.strerror}") from None
        if stat.S_ISCHR(found.st_mode):
            major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
        elif (self._host.root / SIMULATED).exists():
            major, minor = _NULL
        else:
            raise Refused(f"{file} cannot be used: it must be a character device")
        return {"path": file, "type": "c", "major": major, "minor": minor, "permissions": "rw"}

    def _path(self, file: str) -> Path:
        return self._host.root / file.lstrip("/")

    def _toolkit(self, uuids: frozenset[str]) -> Json | None:
        """Return what nvidia-ctk prints about all GPUs, None if there is no such program."""
        known, told = self._told
        if not uuids <= known:
            told = self._generate()
            listed = (e.get("name") for e in (told or {}).get("devices") or ())
            self._told = (frozenset(map(str, listed)) | uuids if told is not None else frozenset(), told)
        return told

    def _generate(self) -> Json | None:
        for program in TOOLKITS:
            try:
                done = self._host.run([program, *_GENERATE], _SECONDS)
            except NotEnded as trouble:
                raise Refused(trouble.message) from None
            except NodeTrouble:
                continue
            if done.code:
                raise Refused(f"{program} cdi generate ended with exit status {done.code}: {done.said}")
            return _parsed(program, done.out)
        return None


def _parsed(program: str, text: str) -> Json:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise Refused(f"{program} cdi generate printed no JSON object")
    return told


def variable(device: NodeDevice) -> str:
    """Return the variable that names the device in the container, such as ``GPU_DEVICE_0=GPU-…``.
    """
    number = str(device.minor) if device.minor is not None else device.address.replace(":", "_").replace(".", "_")
    return f"{device.type.upper().replace('-', '_')}_DEVICE_{number}={device.identity}"


def with_share(edits: Json, device: NodeDevice, share_id: str, consumed: Mapping[str, str]) -> Json:
    """Add a variable for the container's share, such as
    ``GPU_DEVICE_0_SHARE_5F3A9C01=memory=10Gi``.
    """
    if not share_id:
        return edits
    name = f"{variable(device).partition('=')[0]}_SHARE_{_OTHER.sub('_', share_id[:8].upper())}"
    part = ",".join(f"{capacity}={amount}" for capacity, amount in sorted(consumed.items()))
    return {**edits, "env": [*edits.get("env", ()), f"{name}={part}"]}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
