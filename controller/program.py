# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts that all programs share, such as options, exit statuses and one sentence for errors."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Callable

from ansible_collections.composable.infra.controller.logs import set_up_logging
from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, BadKubeconfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

log = logging.getLogger("composable.infra")
OK, BAD_INPUT, LOST_LEASE = 0, 2, 3


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the connection to the API server."""
    parser.add_argument("--kubeconfig",
                        help="kubeconfig file (default: KUBECONFIG, ~/.kube/config, or the pod's service account)")
    parser.add_argument("--context", help="context of the kubeconfig")


def outcome(args: argparse.Namespace, run: Callable[[argparse.Namespace, threading.Event], int]) -> int:
    """Set up the log, call ``run`` until a signal stops it, and return the exit status.

    ``run``: returns the exit status. If it raises an error about unusable input, the error is
    logged and the status is 2.
    """
    set_up_logging(args.log_format, args.log_level)
    try:
        return run(args, asked_to_stop())
    except (BadConfig, BadKubeconfig, FabricError, ApiError) as error:
        log.error("%s", error)
        return BAD_INPUT


class Ending:
    """End a program that has lost its Lease. ``stop``: the event that stops the program."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop, self._lost = stop, False

    def give_way(self) -> None:
        """Stop, because another process may lead now."""
        self._lost = True
        self._stop.set()

    @property
    def status(self) -> int:
        """The exit status."""
        return LOST_LEASE if self._lost else OK
