# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first process of a real node: make the node's file system, and start and restart its
programs.

It runs in its own mount, name and process namespaces, so that all programs, containers and mounts
end with it. `namespace.py` starts it as `python -m … FILE`. Standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_RESTART_SECONDS = 0.2
_READY_SECONDS = 60.0


def main() -> None:
    """Run the node that the file describes, until killed."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    socket.sethostname(plan["hostname"])
    for file in plan["cgroups"]:
        Path(file).write_text("0", encoding="ascii")
    _mount(plan)
    running = {_start(plan["containerd"]): plan["containerd"]}
    _await_socket(plan["socket"])
    for command in plan["prepare"]:
        subprocess.run(command, check=True, stdout=sys.stderr)
    running[_start(plan["kubelet"])] = plan["kubelet"]
    while True:
        _keep(running)


def _mount(plan: dict[str, Any]) -> None:
    for target in plan["tmpfs"]:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "lab", target)
    for source, target in plan["binds"]:
        _run("mount", "--rbind", source, target)
    for target in plan["shared"]:
        _run("mount", "--make-shared", target)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _start(service: dict[str, Any]) -> int:
    with open(service["log"], "ab") as log:
        child = subprocess.Popen(
            service["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **service["environment"]},
        )
    # `_keep` reaps it with all orphans, so Popen must not wait for it.
    child.returncode = 0
    return child.pid


def _await_socket(path: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(path) == 0:
                return
        if time.monotonic() > deadline:
            sys.exit(f"containerd does not listen at {path} after {_READY_SECONDS:g} s")
        time.sleep(0.02)


def _keep(running: dict[int, dict[str, Any]]) -> None:
    """Wait for the end of any process, and restart it if it was one of the node's programs."""
    pid, status = os.waitpid(-1, 0)
    service = running.pop(pid, None)
    if service is not None:
        print(f"{service['command'][0]} ended with {status:#x}, it is started again", file=sys.stderr, flush=True)
        # Pause like a service manager, so that a broken program does not restart in a loop.
        time.sleep(_RESTART_SECONDS)
        running[_start(service)] = service


if __name__ == "__main__":
    main()
