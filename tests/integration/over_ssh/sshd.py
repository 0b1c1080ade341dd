# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real sshd with keys of its own, as the host of a node."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

NEEDED = ("ssh", "ssh-keygen", "sshd")
_PATIENCE = 20.0


def program(name: str) -> str | None:
    """Return the path of a program of OpenSSH. Debian keeps sshd out of the users' PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def missing() -> str:
    """Return a sentence that names what this machine lacks for a real sshd, empty for nothing."""
    absent = [name for name in NEEDED if program(name) is None]
    if absent:
        return f"{' and '.join(absent)} not found: install openssh-server and openssh-client"
    return ""


def new_key(path: Path) -> Path:
    """Make a key pair and return the path of the private key."""
    subprocess.run([str(program("ssh-keygen")), "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


class Sshd:
    """An sshd that listens at `address`, lets the user of `key` in, and runs until `stop`.

    `within`: a command that the sshd is started by, such as one that enters the namespaces of a node.
    """

    def __init__(self, folder: Path, key: Path, address: str, within: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self.address, self.key, self._folder = address, key, folder
        self.port = _free_port(address)
        self._host_key = new_key(folder / "host_key")
        shutil.copy(key.with_suffix(".pub"), folder / "authorized_keys")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        lines = [f"ListenAddress {address}:{self.port}", f"HostKey {self._host_key}", "StrictModes no", "UsePAM no",
                 f"AuthorizedKeysFile {folder / 'authorized_keys'}", f"PidFile {folder / 'pid'}",
                 "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password"]
        (folder / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with (folder / "log").open("wb") as log:
            # The sessions are in the group of the listener, so that stop ends them with it.
            self._process = subprocess.Popen(
                [*within, str(program("sshd")), "-D", "-e", "-f", str(folder / "config")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self._await_start()

    @property
    def logins(self) -> int:
        """How many times somebody has logged in."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace").count("Accepted publickey")

    def known_hosts(self, changed: bool = False) -> Path:
        """Write the file with which a client knows this host. `changed`: the client knows another key of it."""
        path = self._folder / ("changed_hosts" if changed else "known_hosts")
        key = new_key(self._folder / "former_key") if changed else self._host_key
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        path.write_text(f"[{self.address}]:{self.port} {public}", encoding="utf-8")
        return path

    def host(self, changed: bool = False) -> dict[str, object]:
        """Return the variables of an inventory's host that is logged in to here."""
        return {"ansible_host": self.address, "ansible_port": self.port, "ansible_user": getpass.getuser(),
                "ansible_ssh_private_key_file": str(self.key),
                "ansible_ssh_common_args": strict(self.known_hosts(changed))}

    def stop(self) -> None:
        """End the listener and every session, as a machine that dies does."""
        for pid in _sessions(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait(_PATIENCE)

    def _await_start(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1):
                return
            time.sleep(0.02)
        self._process.kill()
        raise AssertionError(f"sshd did not start: {(self._folder / 'log').read_text(encoding='utf-8')}")


def strict(known_hosts: Path) -> str:
    """Return options of ssh for a client that lets nothing but these hosts in and asks nobody."""
    return (f"-F none -o UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes "
            "-o BatchMode=yes")


def _free_port(address: str) -> int:
    with socket.socket() as found:
        found.bind((address, 0))
        return int(found.getsockname()[1])


def _sessions(pid: int) -> list[int]:
    """Return the processes of sshd that this one has started, and those that they have started."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == pid and (folder / "comm").read_text(encoding="utf-8").startswith("sshd"):
                found += [int(folder.name), *_sessions(int(folder.name))]
    return found
