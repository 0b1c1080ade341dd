# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's options of the agent's command line.

Nothing here imports grpcio, because an agent without the plugin does not need it.
"""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DRIVER_LABEL
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

from .devices import DEFAULT_KINDS, KINDS
from .memory import ALL_NAMESPACES
from .shares import BadShare, Share, read_share

# The kubelet makes a socket below its folder with the name in its path.
LONGEST_DRIVER = 63
# The release with which `make protos` generated messages. An older protobuf refuses them.
OLDEST_PROTOBUF = (7, 35, 1)
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DRIVER = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def add_plugin_options(parser: argparse.ArgumentParser) -> None:
    """Add the plugin's options to the agent's parser."""
    add = parser.add_argument
    add("--dra-driver", default="", metavar="NAME",
        help="run a DRA driver with this name for the node's devices, as a kubelet plugin. This needs grpcio "
             "(default: none)")
    add("--dra-driver-by-label", action="store_true",
        help=f"offer the node's devices only while the label {DRIVER_LABEL} of the node names this driver. Otherwise "
             "the driver that the label names offers them, and the agent restarts its plugin for new devices")
    add("--dra-kinds", nargs="+", default=list(DEFAULT_KINDS), metavar="KIND", choices=KINDS,
        help=f"kinds of devices that this driver offers, from {', '.join(KINDS)} (default: {' '.join(DEFAULT_KINDS)})")
    add("--dra-shares", nargs="+", default=[], metavar="DEVICES=CAPACITY:AMOUNT:STEP",
        help="devices that several claims may share. Name a kind or a productName, a capacity, its amount and the "
             "step of a share, such as nvidia=memory:80Gi:10Gi. Only the scheduler enforces the shares (default: none)")
    add("--unsanitized-memory", nargs="+", default=[], metavar="NAMESPACE",
        help="give claims of these namespaces also CXL memory that the kernel cannot sanitize. It may hold data of "
             f"earlier users. {ALL_NAMESPACES} means all namespaces (default: none)")
    add("--kubelet-folder", type=Path, default=Path("/var/lib/kubelet"), metavar="FOLDER",
        help="folder of the kubelet, at the same path as on the node (default: %(default)s)")
    add("--cdi-folder", type=Path, default=Path("/var/run/cdi"), metavar="FOLDER",
        help="folder in which the container runtime reads Container Device Interface specs (default: %(default)s)")


def own_kinds(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the rows of the table of vendors that the agent's own driver offers, none without a
    driver.
    """
    return tuple(args.dra_kinds) if args.dra_driver else ()


def shares(args: argparse.Namespace) -> tuple[Share, ...]:
    """Return which devices several claims may share. Raises BadConfig."""
    try:
        return tuple(read_share(text) for text in args.dra_shares)
    except BadShare as error:
        raise BadConfig(f"--dra-shares: {error}") from None


def check_plugin_options(args: argparse.Namespace) -> None:
    """Check the options.

    Raises BadConfig if the name is not valid for a DRA driver, or the driver cannot run here.
    """
    name = args.dra_driver
    if args.dra_driver_by_label and not name:
        raise BadConfig("--dra-driver-by-label needs --dra-driver. Set --dra-driver to the name that the node's label "
                        "may have")
    if shares(args) and not name:
        raise BadConfig("--dra-shares needs --dra-driver. Set --dra-driver to the name of the driver that offers the "
                        "devices")
    if not name:
        return
    if len(name) > LONGEST_DRIVER or not _DRIVER.fullmatch(name):
        raise BadConfig(f"--dra-driver: {name!r} is not allowed. It must be a DNS subdomain of at most "
                        f"{LONGEST_DRIVER} characters, such as devices.composable.infra")
    for module in ("grpc", "google.protobuf"):
        try:
            importlib.import_module(module)
        except ImportError:
            raise BadConfig(f"--dra-driver: {name!r} cannot run, because this Python has no {module}. Install grpcio "
                            "and protobuf in the image, or leave the option out") from None
    _check_protobuf(name)


def _check_protobuf(name: str) -> None:
    version = str(importlib.import_module("google.protobuf").__version__)
    if tuple(int(part) for part in re.findall(r"\d+", version)) < OLDEST_PROTOBUF:
        raise BadConfig(f"--dra-driver: {name!r} cannot run with protobuf {version}. Install "
                        f"{'.'.join(map(str, OLDEST_PROTOBUF))} or later in the image, or leave the option out")
