# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files below /sys, /proc and /dev of a made-up node, and what its tests say of a device."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.node import probe
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted

A, B = "0000:10:00.0", "0000:11:00.0"
OFF, ON = f"nvidia-smi -i {A} -pm 0", f"nvidia-smi -i {A} -pm 1"
DRAIN, UNDRAIN, ASK = (f"nvidia-smi drain -p {A} {rest}" for rest in ("-m 1", "-m 0", "-q"))
REMOVE, WRITE = f"nvidia-smi drain -p {A} -r", f"devices/{A}/remove 1"
UP = ["OnBus", "Bound", "Touched"]
MAJORS = {"/dev/nvidia": 195, "/dev/dri/card": 226, "/dev/dri/renderD": 226, "/dev/vfio/": 240,
          "/dev/vfio/devices/vfio": 241, "/dev/cxl/mem": 252}


def drm(entry: Path, name: str) -> Path:
    """A file of DRM that the device's driver has made."""
    folder = entry / "drm" / name
    folder.mkdir(parents=True)
    (folder / "dev").write_text(f"{device_file(entry.parents[4], f'/dev/dri/{name}')}\n", encoding="ascii")
    return folder


def number(folder: Path, text: str) -> None:
    """The kernel shows this number of a device."""
    folder.mkdir(parents=True)
    (folder / "dev").write_text(f"{text}\n", encoding="ascii")


def free() -> str:
    return ""


def plug(root: Path, address: str, pci_class: str = "0x030200", driver: str | None = None, **files: str) -> Path:
    """A device on the bus."""
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, content in {"class": pci_class, "vendor": "0x10de", "device": "0x20f1", "remove": "", **files}.items():
        (folder / name).write_text(f"{content}\n", encoding="utf-8")
    if driver:
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
    return folder


def gpu(root: Path, address: str, uuid: str, minor: int | str | None) -> Path:
    """What the vendor's driver shows of a GPU."""
    folder = root / "proc/driver/nvidia/gpus" / address
    folder.mkdir(parents=True)
    lines = ["Model: \t\t NVIDIA A100", "IRQ: \t\t 128", f"GPU UUID: \t {uuid}", f"Bus Location: \t {address}"]
    lines += [] if minor is None else [f"Device Minor: \t {minor}"]
    (folder / "information").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "information"


def process(root: Path, pid: int, name: str, *opened: str) -> Path:
    """A made-up process and the files that it has open. Device files get the numbers that they have on real nodes."""
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n", encoding="utf-8")
    (root / probe.SIMULATED).touch()
    for number, target in enumerate(opened):
        device_file(root, target)
        (folder / "fd" / str(number)).symlink_to(target)
    return folder


def device_file(root: Path, name: str) -> str:
    """The stand-in of a device file; returns its number, empty for a file of another kind."""
    kind = name.rstrip("0123456789")
    if kind not in MAJORS or kind == name:
        return ""
    number = f"{MAJORS[kind]}:{int(name[len(kind):])}"
    (root / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (root / name.lstrip("/")).write_text(f"{number}\n", encoding="ascii")
    return number


def wanted(uuid: str = "GPU-a", *known: str, before: Evidence | None = None) -> Wanted:
    return Wanted("cdi-1", uuid, known=frozenset(known), before=before)
