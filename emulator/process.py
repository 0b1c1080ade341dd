# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulator as a process of its own, for tests and labs, so that ``kill -9`` is real.

It ends with its parent, however that ends, because it watches a pipe with an end that only the
parent has. (The kernel's PR_SET_PDEATHSIG would act when the *thread* ends that started it.)
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import ssl
import subprocess
import sys
import time
import typing as t
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from .dialects.managers import MANAGERS
from .state_dir import StateDir

START_SECONDS: t.Final = 90.0
_LAST_WORDS_SECONDS: t.Final = 5.0
STOP_SECONDS: t.Final = 10.0
_LOOK_SECONDS: t.Final = 0.02


class EmulatorError(Exception):
    """The emulator did not start, or did not answer."""


class Away(EmulatorError):
    """No process listens at the emulator's address, or it ended too soon."""


class Emulator:
    """A running emulator. Use it as a context manager, or call ``stop``."""

    # Tests replace this to start emulators faster.
    launch: t.ClassVar[Callable[..., subprocess.Popen[bytes]]] = subprocess.Popen

    def __init__(self, state_dir: Path, host: str = "127.0.0.1") -> None:
        self._state = StateDir(Path(state_dir))
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    @classmethod
    def run(cls, spec: Mapping[str, t.Any], state_dir: Path, host: str = "127.0.0.1", port: int = 0) -> Emulator:
        """Start with the fabric's document ``spec``. Return when it accepts requests.

        Raises EmulatorError.
        """
        emulator = cls(state_dir, host)
        emulator._state.prepare()
        emulator._state.keep_fabric(dict(spec))
        emulator._start(port)
        return emulator

    def __enter__(self) -> Emulator:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """``https://host:port``, the same after a restart."""
        return self._state.endpoint() or ""

    @property
    def plain_url(self) -> str:
        """``http://host:port`` of the managers without TLS, empty for none."""
        return self._state.endpoint(plain=True) or ""

    @property
    def ca_path(self) -> str:
        """PEM file of the authority that signed the server's certificate."""
        return str(self._state.file("ca.pem"))

    @property
    def credentials(self) -> dict[str, str]:
        """``tenant, realm, username, password, client_id, client_secret``."""
        return self._state.credentials()

    @property
    def pid(self) -> int:
        """Id of the running process. Raises EmulatorError."""
        if self._process is None:
            raise EmulatorError("the emulator is not running")
        return self._process.pid

    def fabric_config(self, manager: str | None = None, **more: t.Any) -> dict[str, t.Any]:
        """Return options for ``FabricConfig.from_dict`` of one manager, by default the document's
        first.

        ``more``: replaces or adds options.
        """
        spec = self._state.fabric()
        name = manager or spec.managers[0]
        row = MANAGERS[name]
        where = {"endpoint": self.plain_url} if row.plain else {"endpoint": self.url, "ca_path": self.ca_path}
        values = {**self.credentials, "cluster": spec.cluster}
        return {"manager": name, **where, **{key: values[key] for key in row.tells}, **row.options, **more}

    def state(self, after: int | None = None, timeout: float = 30.0) -> dict[str, t.Any]:
        """Return GET /admin/state. With ``after`` (a generation), wait for the next change."""
        query = "" if after is None else f"?after={after}&timeout={timeout}"
        return t.cast(dict[str, t.Any], self.ask(f"/admin/state{query}", timeout + 10))

    def log(self, since: int = 0) -> list[dict[str, t.Any]]:
        """Return GET /admin/log, requests with a number above ``since``."""
        return t.cast(list[dict[str, t.Any]], self.ask(f"/admin/log?since={since}"))

    def set_timing(self, attach: float | None = None, detach: float | None = None) -> None:
        """Set the seconds of future operations."""
        given = {"attach": attach, "detach": detach}
        self.ask("/admin/timing", body={key: value for key, value in given.items() if value is not None})

    def set_health(self, device_uid: str, health: str) -> None:
        """Set a device's health to ``OK``, ``Warning``, ``Critical`` or ``Unknown``."""
        self.ask(f"/admin/device/{device_uid}", body={"health": health})

    def set_tokens(self, lifetime: float | None = None, revoke: bool = False, skew: float | None = None) -> None:
        """Set lifetime and clock skew of future tokens, in seconds.

        ``revoke``: revoke all earlier tokens.
        """
        given = {"revoke": revoke, "lifetime": lifetime, "skew": skew}
        self.ask("/admin/tokens", body={key: value for key, value in given.items() if value is not None})

    def effects(self, since: int = 0) -> list[dict[str, t.Any]]:
        """Return GET /admin/effects, attached and detached devices in order, with a number above
        ``since``.
        """
        return t.cast(list[dict[str, t.Any]], self.ask(f"/admin/effects?since={since}"))

    def faults(self) -> dict[str, t.Any]:
        """Return GET /admin/faults, seed and rules with the number of requests that each met and
        struck.
        """
        return t.cast(dict[str, t.Any], self.ask("/admin/faults"))

    def set_faults(self, *rules: Mapping[str, t.Any], profile: str | None = None, seed: int | None = None) -> None:
        """Replace the rules (faults/rules.py). Without arguments, remove all."""
        given = {"rules": [dict(rule) for rule in rules], "profile": profile, "seed": seed}
        self.ask("/admin/faults", body={key: value for key, value in given.items() if value is not None})

    def reset(self, log: bool = False) -> None:
        """Put devices back as in the document, and remove faults.

        ``log``: forget requests and effects.
        """
        self.ask("/admin/reset", body={"log": log})

    def set_present(self, device_uid: str, present: bool) -> None:
        """Make a device vanish, or come back free."""
        self.ask(f"/admin/device/{device_uid}", body={"present": present})

    def publish_certificate(self) -> None:
        """Give clients the authority of a certificate that was changed without a notice."""
        self.ask("/admin/certificate", body={"publish": True})

    def ask(self, path: str, timeout: float = 10.0, body: t.Any = None) -> t.Any:
        """Return the JSON of an /admin address. It sends a POST if there is a ``body``.

        Waits while the emulator restarts. Raises EmulatorError.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return ask_admin(self.url, self._state.trust(), path, timeout, body)
            except Away:
                if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL, and return when the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if that does not help. Do nothing if it is not running."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def restart(self) -> None:
        """Stop if it runs, and start on the same port with the same state, certificates and users.
        """
        self.stop()
        self._start(0)

    def _start(self, port: int) -> None:
        ready, tell = os.pipe()
        watch, self._lifeline = os.pipe()
        command = [
            sys.executable, "-X", "faulthandler", "-m", f"{__package__}", "up", "--state-dir", str(self._state.path),
            "--host", self._host, "--port", str(port), "--ready-fd", str(tell), "--parent-fd", str(watch),
        ]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        with self._state.file("output.log").open("ab") as output:
            self._process = self.launch(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(tell, watch), env=environ
            )
        os.close(tell)
        os.close(watch)
        self._await(ready)

    def _await(self, ready: int) -> None:
        found, _unused, _unused = select.select([ready], [], [], START_SECONDS)
        said = os.read(ready, 16) if found else b""
        os.close(ready)
        if not said:
            if not found:
                self._abort()
            self.kill()
            end = self._state.file("output.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise EmulatorError(f"the emulator did not start: {end.strip()}")

    def _abort(self) -> None:
        """Abort the process, so that faulthandler writes where it hangs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_WORDS_SECONDS)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def ask_admin(url: str, ca_path: str, path: str, timeout: float = 10.0, body: t.Any = None) -> t.Any:
    """Return the JSON of an /admin address. It sends a POST if there is a ``body``.

    Raises EmulatorError.
    """
    data = None if body is None else json.dumps(body).encode()
    try:
        context = ssl.create_default_context(cafile=ca_path)
        handler = urllib.request.HTTPSHandler(context=context)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
        with opener.open(f"{url}{path}", data=data, timeout=timeout) as reply:
            return json.load(reply)
    except (OSError, ValueError) as error:
        away = isinstance(getattr(error, "reason", error), ConnectionError)
        raise (Away if away else EmulatorError)(f"{url}{path}: {error}") from None
