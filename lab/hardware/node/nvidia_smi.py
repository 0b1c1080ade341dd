# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for `nvidia-smi` on a simulated node, with the vendor's output and exit codes.

NODE_ROOT is the node's folder. A command that lists devices uses each device of the driver, and so
makes its files. Only `drain` sees a draining device. A lost device is reported as an error.

The output is like that of nvidia-smi 580, and the exit codes are those of its manual.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node import driver_files, faults
from ansible_collections.composable.infra.lab.hardware.node.records import GPU_DRIVER, BusDevice, Records

OK, INVALID, NOT_FOUND, NO_DRIVER, LOST, OTHER = 0, 2, 6, 9, 15, 255
_STATES = {"0": False, "1": True}


class _Ended(Exception):
    """Ends the program with a code after a message."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    root = Path(os.environ["NODE_ROOT"])
    try:
        if not (root / "sys" / "module" / "nvidia").exists():
            raise _Ended(NO_DRIVER, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                                    "Make sure that the latest NVIDIA driver is installed and running.")
        return _run(Records(root), list(arguments))
    except _Ended as end:
        print(end)
        return end.code


def _run(records: Records, arguments: list[str]) -> int:
    if arguments[:1] == ["drain"]:
        return _drain(records, arguments[1:])
    fields = [a.partition("=")[2].split(",") for a in arguments if a.startswith("--query-gpu=")]
    if fields and "--format=csv,noheader" in arguments:
        return _tell(records, lambda d: ", ".join(_field(d, name) for name in fields[0]))
    if arguments == ["-L"]:
        return _tell(records, lambda d: f"GPU {d.minor}: {d.model} (UUID: {d.uuid})")
    if not arguments:
        return _tell(records, lambda d: f"|   {d.minor}  {d.model}  {_bus_id(d)} |")
    if len(arguments) == 4 and (arguments[0], arguments[2]) == ("-i", "-pm") and arguments[3] in _STATES:
        return _set_persistence(records, arguments[1], _STATES[arguments[3]])
    raise _Ended(INVALID, f"Invalid combination of input arguments: {' '.join(arguments)}. "
                          "Please run 'nvidia-smi -h' for help.")


def _seen(records: Records) -> list[BusDevice]:
    """Return the devices that a new program sees, by minor number. Use each of them once.

    The caller holds the lock.
    """
    fails = faults.DRIVER_FAILS in faults.read(records.root)
    seen = []
    for device in records.devices():
        if device.driver != GPU_DRIVER or device.draining:
            continue
        if fails and not device.touched and not device.lost:
            records.log(f"NVRM: GPU {device.address}: RmInitAdapter failed! (0x24:0x72:1568)")
            records.log(f"NVRM: GPU {device.address}: rm_init_adapter failed, device minor number {device.minor}")
            continue
        seen.append(device if device.touched or device.lost else driver_files.touch(records, device))
    return sorted(seen, key=lambda device: device.minor)


def _tell(records: Records, line: Callable[[BusDevice], str]) -> int:
    with records.lock():
        found = _seen(records)
    if not found:
        raise _Ended(NOT_FOUND, "No devices were found")
    for device in found:
        print(_lost_words(device) if device.lost else line(device))
    return LOST if any(device.lost for device in found) else OK


def _field(device: BusDevice, name: str) -> str:
    known = {"uuid": device.uuid, "pci.bus_id": _bus_id(device), "name": device.model, "index": str(device.minor),
             "persistence_mode": "Enabled" if device.persistence else "Disabled"}
    if name not in known:
        raise _Ended(INVALID, f'Field "{name}" is not a valid field to query.')
    return known[name]


def _set_persistence(records: Records, wanted: str, on: bool) -> int:
    word = "Enabled" if on else "Disabled"
    with records.lock():
        device = next((d for d in _seen(records) if _is_meant(d, wanted)), None)
        if device is None:
            raise _Ended(NOT_FOUND, f"No devices were found matching {wanted}")
        if device.lost:
            raise _Ended(LOST, _lost_words(device))
        records.save(device.but(persistence=on))
    print(f"Persistence mode is already {word} for GPU {_bus_id(device)}." if device.persistence == on
          else f"{word} persistence mode for GPU {_bus_id(device)}.")
    print("All done.")
    return OK


def _drain(records: Records, arguments: list[str]) -> int:
    if len(arguments) < 3 or arguments[0] != "-p":
        raise _Ended(INVALID, "drain needs -p and one of -m, -q, -r")
    with records.lock():
        device = next((d for d in records.devices() if d.driver == GPU_DRIVER and _is_meant(d, arguments[1])), None)
    if device is None:
        raise _Ended(NOT_FOUND, f"Failed to find GPU {arguments[1]}")
    if arguments[2] == "-m" and arguments[3:] and arguments[3] in _STATES:
        return _set_draining(records, device, _STATES[arguments[3]])
    if arguments[2:] == ["-q"]:
        print(f"The current drain state of GPU {_bus_id(device)} is: {'' if device.draining else 'not '}draining.")
        return OK
    if arguments[2:] == ["-r"]:
        return _remove(records, device)
    raise _Ended(INVALID, "drain knows -m 0|1, -q and -r")


def _set_draining(records: Records, device: BusDevice, on: bool) -> int:
    with records.lock():
        if on and device.persistence:
            raise _Ended(OTHER, f"Failed to set the drain state of GPU {_bus_id(device)}: In use by another client")
        records.save(device.but(draining=on))
    print(f"Successfully set GPU {_bus_id(device)} drain state to: {'' if on else 'not '}draining.")
    return OK


def _remove(records: Records, device: BusDevice) -> int:
    if not device.draining:
        raise _Ended(OTHER, f"Failed to remove GPU {_bus_id(device)}: it is not draining")
    if records.is_open(device):
        raise _Ended(OTHER, f"Failed to remove GPU {_bus_id(device)}: In use by another client")
    # From here on the kernel removes the device, and this program waits.
    with (records.root / "sys/bus/pci/devices" / device.address / "remove").open("w", encoding="utf-8") as removal:
        removal.write("1")
    print(f"Successfully removed GPU {_bus_id(device)}")
    return OK


def _is_meant(device: BusDevice, wanted: str) -> bool:
    by_address = ":" in wanted and _bus_id(device).lower().endswith(wanted.lower()[-12:])
    return by_address or wanted in (device.uuid, str(device.minor))


def _bus_id(device: BusDevice) -> str:
    # The vendor writes the domain with eight digits, the kernel with four.
    return f"0000{device.address}".upper()


def _lost_words(device: BusDevice) -> str:
    return (f"Unable to determine the device handle for GPU{device.minor}: {device.address}: GPU is lost.  "
            "Reboot the system to recover this GPU")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
