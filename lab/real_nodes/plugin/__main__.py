# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for NVIDIA's DRA plugin on a real node: it looks for devices when it starts, and never again."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import DRA, EARLIER_DRA, service
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.sockets import (
    Registration,
    Sockets,
    serving,
)
from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.node.faults import PLUGIN_IS_OLD, read
from ansible_collections.composable.infra.lab.hardware.slices import device_entries
from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.lab.real_nodes.plugin.api import PodApi
from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import DeviceFiles, hold, look
from ansible_collections.composable.infra.lab.real_nodes.plugin.driver import Driver
from ansible_collections.composable.infra.lab.real_nodes.plugin.publisher import Publisher


def log(line: str) -> None:
    """Write a line to the pod's log."""
    print(time.strftime("%H:%M:%S"), line, flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the DaemonSet's command line."""
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--node", required=True, help="name of the node")
    found.add_argument("--server", required=True, help="URL of the API server")
    found.add_argument("--hardware", required=True, type=Path, help="where the node's /sys, /proc and /dev are read")
    found.add_argument("--kubelet", type=Path, default=Path("/var/lib/kubelet"), help="the kubelet's folder")
    found.add_argument("--specs", type=Path, default=Path("/var/run/cdi"), help="folder of the specs of containers")
    found.add_argument("--start-seconds", type=float, default=0.0, help="how long the start takes")
    return found


def main() -> None:
    """Serve until SIGTERM."""
    options = parser().parse_args()
    ended = asked_to_stop()
    # The vendor's plugin needs this time to load libraries and to wait for the driver.
    if ended.wait(options.start_seconds):
        return
    try:
        devices = look(options.hardware)
    except LabError as error:
        sys.exit(f"the vendor's library fails: {error}")
    held = hold(options.hardware, devices)
    log(f"found {', '.join(device.uuid for device in devices) or 'no device'}")
    api = PodApi(options.server)
    publisher = Publisher(api, options.node, device_entries(devices), log)
    publisher.start()
    files = DeviceFiles(options.hardware, devices)
    driver = Driver(options.node, devices, files, options.specs, lambda path: dict(api.request("GET", path)), log)
    sockets = Sockets(options.kubelet, DRIVER)
    package = EARLIER_DRA if PLUGIN_IS_OLD in read(options.hardware) else DRA
    registration = Registration(sockets, [f"{package.rpartition('.')[2]}.DRAPlugin"], publisher.registered.set, log)
    served = service(f"{DRA}.DRAPlugin", driver.methods(), f"{package}.DRAPlugin")
    with serving(sockets, [served], registration), ExitStack() as opened:
        for file in held:
            opened.enter_context(file)
        ended.wait()


if __name__ == "__main__":
    main()
