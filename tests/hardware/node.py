# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node has: its GPUs, what is missing for the suite, who uses a GPU, and a program that computes on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.holders import Holders
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import NVIDIA, vendor_of
from ansible_collections.composable.infra.tests.hardware.compute import COMPUTES, NO_LIBRARY

# The suite's own test runs it on a simulated node.
ROOT = Path(os.environ.get("HARDWARE_ROOT", "/"))
COMPUTE = Path(__file__).with_name("compute.py")
# Name of the device in evidence; no CDI Manager is asked for anything.
DEVICE = "make-hardware"
# Nothing is waited for: the device is on the bus.
OPTIONS = Options(event_patience=0.2, search_patience=0.2, rescan="never")
_END_SECONDS = 60.0


class NotUsable(Exception):
    """A program that a test needs is missing; the message is one sentence that says what to do."""


def gpus(root: Path) -> list[pci.PciDevice]:
    """Return the NVIDIA GPUs on the bus. `root`: where the node's /sys and /proc are. Raises NotProven."""
    return [device for device in pci.devices(root) if vendor_of(device.vendor, device.pci_class) is NVIDIA]


def no_gpu(root: Path) -> str:
    """Return in one sentence that the node has no NVIDIA GPU, empty when it has one."""
    try:
        found = gpus(root)
        where = f"{root / 'sys/bus/pci/devices'} shows no NVIDIA GPU"
    except NotProven as error:
        found, where = [], str(error)
    return "" if found else f"make hardware: {where}, so nothing was tested; run it on a node with an NVIDIA GPU."


def unusable(root: Path, user: int) -> str:
    """Return in one sentence what must be mended before the node's GPU can be tested, empty for nothing.

    `user`: number of the user who runs the suite.
    """
    if user != 0:
        return ("make hardware: only root sees which processes use a GPU, so nothing was tested; run it again as root "
                "(sudo make hardware).")
    if not any(device.driver == NVIDIA.driver for device in gpus(root)):
        return ("make hardware: no GPU of this node is bound to the driver nvidia, so nothing was tested; install the "
                "driver, or load it with modprobe nvidia.")
    if shutil.which(NVIDIA.touch[0]) is None:
        return (f"make hardware: {NVIDIA.touch[0]} is not on PATH, so nothing was tested; install the driver's "
                "utilities.")
    return ""


def chosen(root: Path, wanted: str) -> pci.PciDevice:
    """Return the GPU with this PCI address or UUID; without one the first idle GPU that has its driver, or the first.

    Raises UnknownDevice and NotProven.
    """
    if wanted:
        return pci.need(root, wanted)
    bound = [device for device in gpus(root) if device.driver == NVIDIA.driver]
    return next((device for device in bound if not pci.users(root, device)), bound[0])


def touch(host: Host, device: pci.PciDevice) -> Evidence:
    """Use the GPU once as the node agent does, by nvidia-smi, and return the evidence. Raises NodeTrouble."""
    wanted = Wanted(DEVICE, uuid=device.uuid or "", address=device.address)
    return bring_up(host, wanted, OPTIONS, lambda evidence: None)


def refusal(host: Host, device: pci.PciDevice) -> str:
    """Return why the GPU must not be unbound or removed, empty when it is proven idle."""
    try:
        Holders(host, device, NVIDIA, OPTIONS).prove_idle()
    except NodeTrouble as trouble:
        return f"refused, and nothing was changed: {trouble.message}"
    return ""


@contextlib.contextmanager
def computing(argv: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run compute.py, by this command, while the block runs; it has computed a right result when the block begins.

    Raises NotUsable without libcuda, AssertionError when it computes something wrong.
    """
    program = subprocess.Popen(argv, env={**os.environ, **(environment or {})}, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert program.stdout
    try:
        said = []
        for line in program.stdout:  # runc and hooks may write lines before it
            said.append(line)
            if line.strip() == COMPUTES:
                break
        else:
            if program.wait(timeout=_END_SECONDS) == NO_LIBRARY:
                raise NotUsable("".join(said).strip())
            raise AssertionError(f"{argv[0]} ended with {program.returncode}: {''.join(said)}")
        yield program
        rest, _nothing = program.communicate(timeout=_END_SECONDS)
        assert program.returncode == 0, rest
    finally:
        if program.poll() is None:
            program.kill()
            program.wait()


def on_host(uuid: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that computes on the GPU with this UUID, and what it needs in its environment."""
    return [sys.executable, "-I", str(COMPUTE)], {"CUDA_VISIBLE_DEVICES": uuid}
