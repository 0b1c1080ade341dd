# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage the real nodes' addresses on the machine's loopback interface."""

from __future__ import annotations

import json
import subprocess

from ansible_collections.composable.infra.lab.errors import LabError


def add(address: str) -> None:
    """Give the machine `address`. Raise LabError with the message of `ip`."""
    _ip("addr", "add", f"{address}/32", "dev", "lo")


def remove(address: str) -> None:
    """Remove `address` from the machine, if it has it."""
    if address in present():
        _ip("addr", "del", f"{address}/32", "dev", "lo")


def present() -> set[str]:
    """Return all IPv4 addresses of the machine."""
    links = json.loads(_ip("-json", "-4", "addr", "show"))
    return {entry["local"] for link in links for entry in link.get("addr_info", [])}


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout
