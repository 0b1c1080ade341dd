# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the three front doors as processes, as a user would start them. Each does the same work."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.deployed import AS_DEPLOYED
from ansible_collections.composable.infra.lab.demo.stage import Stage

PACKAGE = "ansible_collections.composable.infra"
# A limit for hangs. The Lease of a killed leader alone lasts 15 s, and machines can be slow.
PATIENCE = 90.0
PAGE = "the page is at "
INVENTORY = "localhost ansible_connection=local ansible_python_interpreter={python}\n"


def collections_root() -> Path:
    """Return the folder of the imported ansible_collections/composable/infra."""
    return Path(__file__).absolute().parents[5]


def environment(stage: Stage) -> dict[str, str]:
    """Return the environment in which Ansible finds this collection and no settings of the user."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "COMPOSABLE_", "K8S_AUTH_"))}
    env |= {"ANSIBLE_COLLECTIONS_PATH": str(collections_root()), "ANSIBLE_HOME": str(stage.folder / "ansible"),
            # Otherwise Ansible uses the home folder in /etc/passwd, which may differ from the
            # environment.
            "ANSIBLE_ASYNC_DIR": str(stage.folder / "ansible" / "async"),
            "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "true",
            "PYTHONPATH": str(collections_root()), "PATH": f"{Path(sys.executable).parent}:{env.get('PATH', '')}"}
    return env


class Process:
    """A process with its log, stopped by its own process group."""

    def __init__(self, name: str, command: list[str], stage: Stage, **env: str) -> None:
        self.name, self.log_path = name, stage.folder / f"{name}.log"
        self._log = self.log_path.open("ab")
        self._begin = self._log.tell()
        self._command, self._environment, self._folder = command, {**environment(stage), **env}, stage.folder
        self.process = self._start()

    @property
    def pid(self) -> int:
        """Return the ID of the process and of its group."""
        return self.process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                env=self._environment, cwd=self._folder, start_new_session=True)

    def start_again_if_ended(self) -> None:
        """Start the process again with the same log if it has ended, as a Deployment does."""
        if self.process.poll() is not None:
            self.process = self._start()

    def text(self) -> str:
        """Return the log of this process. Skip the text of an earlier process in the same file."""
        return self.log_path.read_bytes()[self._begin:].decode("utf-8", errors="replace")

    def kill(self) -> None:
        """Send SIGKILL to the whole group, so that nothing can clean up."""
        self._signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, patience: float = 10.0) -> int:
        """Send SIGTERM, then SIGKILL after ``patience`` seconds. Return the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self._signal(signal.SIGKILL)
        self._log.close()
        return self.process.wait(10)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until the log has a text. Raise RuntimeError with the end of the log if it does not
        appear."""
        deadline = time.monotonic() + seconds
        while text not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} {self._how_it_is()} and did not print {text!r}. The end of its log:\n"
                                   f"{self.text()[-3000:]}")
            time.sleep(0.05)

    def _how_it_is(self) -> str:
        status = self.process.poll()
        return "still runs" if status is None else f"ended with status {status}"


def controller_command(stage: Stage, *args: str) -> list[str]:
    """Return the command of a controller with the shipped RBAC, on a free port."""
    return [sys.executable, "-m", f"{PACKAGE}.controller", "--config", str(stage.config_path),
            "--kubeconfig", str(stage.kubeconfig), "--listen", "127.0.0.1:0", *args]


def controller(stage: Stage, *args: str) -> Process:
    """Start the controller with the shipped RBAC, and return when it leads."""
    process = Process("controller", controller_command(stage, *args), stage, **AS_DEPLOYED)
    try:
        process.wait_for("leading as")
    except BaseException:
        process.stop()
        raise
    return process


def page_address(controller_: Process) -> str:
    """Return the address of the page of a controller with the option --ui."""
    controller_.wait_for(PAGE)
    return controller_.text().partition(PAGE)[2].split()[0]


def rulebook(stage: Stage, retry: float = 10.0) -> Process:
    """Start ansible-rulebook with the shipped rulebook."""
    inventory = stage.folder / "inventory"
    inventory.write_text(INVENTORY.format(python=sys.executable), encoding="utf-8")
    variables = stage.folder / "rulebook-vars.yml"
    variables.write_text(f"config_path: {stage.config_path}\nkubeconfig: {stage.kubeconfig}\n"
                         f"release_after: {stage.options.hold}\nresync: 30\nretry: {retry}\n", encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-rulebook"), "--rulebook",
               "composable.infra.claim_attach", "-i", str(inventory), "--vars", str(variables), "--print-events"]
    return Process("rulebook", command, stage, JAVA_TOOL_OPTIONS="-Xrs")


def playbook(stage: Stage, *args: str, name: str = "attach") -> Process:
    """Start ansible-playbook with a shipped playbook."""
    command = [str(Path(sys.executable).parent / "ansible-playbook"), f"composable.infra.{name}", "-v",
               "-e", f"config_path={stage.config_path}", "-e", f"kubeconfig={stage.kubeconfig}", *args]
    return Process("playbook", command, stage)


FRONT_DOORS: dict[str, t.Callable[[Stage], Process]] = {"controller": controller, "rulebook": rulebook}
