# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulator as a process: admin calls, restart, command line, and an end with its parent."""

from __future__ import annotations

import json
import os
import select
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.emulator.__main__ import main
from ansible_collections.composable.infra.emulator.process import EmulatorError
from ansible_collections.composable.infra.emulator.state_dir import StateDir
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Uncertain
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    attached,
    await_state,
    manager_calls,
)

END_SECONDS = 20


def ended(process: int) -> bool:
    """Whether the process (a pidfd) ends in time."""
    return bool(select.select([process], [], [], END_SECONDS)[0])


def test_the_state_tells_models_devices_and_machines(emulator: Emulator) -> None:
    state = emulator.state()
    assert state["models"][MODEL]["product_name"] == "NVIDIA A100-PCIE-40GB"
    assert {(d["model"], d["state"], d["fabric"]) for d in state["devices"]} >= {(MODEL, "free", 1)}
    assert set(state["devices"][0]) == {
        "uid", "serial", "model", "name", "fabric", "machine", "state", "slot", "health", "kind", "size", "bars", "box",
        "numa", "on", "since",
    }
    assert {"uid": NODE_0, "name": "node-0", "fabric": 1, "tenant": None} in state["machines"]
    assert {"start": "node-0", "end": "switch-1", "type": "PCIe", "lanes": 16} in state["topology"]["links"]
    assert state["timing"] == {"attach": 0, "detach": 0}


def test_the_state_tells_since_when_a_device_is_attached(emulator: Emulator, fabric: FabricManager) -> None:
    before = time.time()
    (attached,) = fabric.attach(NODE_0, MODEL).devices
    since = {d["uid"]: d["since"] for d in emulator.state()["devices"]}
    assert before <= since.pop(attached.uid) <= time.time()
    assert set(since.values()) == {0.0}


def test_a_waiting_reader_gets_the_change_when_it_happens(emulator: Emulator, fabric: FabricManager) -> None:
    generation = emulator.state()["generation"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(emulator.state, generation, 60)
        fabric.attach(NODE_0, MODEL)
        assert waiting.result(timeout=30)["generation"] > generation


def test_only_what_changed_on_request(emulator: Emulator, fabric: FabricManager) -> None:
    generation = emulator.state()["generation"]
    (device,) = fabric.attach(NODE_0, MODEL).devices
    delta = emulator.ask(f"/admin/state?after={generation}&changes=1")
    assert [d["uid"] for d in delta["devices"]] == [device.uid]
    assert delta["complete"] is False
    old = emulator.ask("/admin/state?after=1&changes=1")
    assert old["complete"] is True
    assert len(old["devices"]) == 5


def test_the_log_tells_who_asked_for_what_when_and_what_came_of_it(emulator: Emulator, fabric: FabricManager) -> None:
    before = time.time()
    (device,) = fabric.attach(NODE_0, MODEL).devices
    fabric.detach(NODE_0, device.uid)
    patch, get, delete = manager_calls(emulator)
    assert (patch["method"], patch["status"], patch["machine"], patch["model"]) == ("PATCH", 200, NODE_0, MODEL)
    assert (patch["device"], patch["effect"]) == (device.uid, f"attached {device.uid} to {NODE_0}")
    assert before <= patch["time_received"] < patch["time_replied"] <= time.time()
    assert patch["monotonic_received"] < patch["monotonic_replied"] < get["monotonic_received"]
    assert (get["method"], get["effect"]) == ("GET", None)
    assert (delete["method"], delete["effect"]) == ("DELETE", f"detached {device.uid} from {NODE_0}")
    assert emulator.log(since=get["n"]) == [delete]
    assert [(e["effect"], e["request"], e["machine"]) for e in emulator.effects()] == [
        (patch["effect"], patch["n"], NODE_0), (delete["effect"], delete["n"], None),
    ]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/admin/timing", {"attach": -1}, "400"),
        ("/admin/timing", {"speed": 1}, "400"),
        ("/admin/device/x", {"health": "OK"}, "404"),
        ("/admin/device/x", {"health": "ill"}, "400"),
        ("/admin/tokens", {"lifetime": 0}, "400"),
        ("/admin/state?after=x", None, "400"),
    ],
)
def test_a_wrong_admin_call_is_refused(emulator: Emulator, path: str, body: object, says: str) -> None:
    with pytest.raises(EmulatorError, match=says):
        emulator.ask(path, body=body)


def test_a_protected_call_without_a_token_is_401_in_fms_form(emulator: Emulator) -> None:
    context = ssl.create_default_context(cafile=emulator.ca_path)
    url = f"{emulator.url}/fabric_manager/api/v1/machines?tenant_uuid=x"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url, context=context, timeout=10)
    assert caught.value.code == 401
    assert json.load(caught.value) == {
        "status": 401, "detail": {"code": "E020101", "message": "no bearer token", "data": {}},
    }
    caught.value.close()


def test_the_page_is_served(emulator: Emulator) -> None:
    context = ssl.create_default_context(cafile=emulator.ca_path)
    with urllib.request.urlopen(emulator.url, context=context, timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/html")
        assert MODEL in reply.read().decode()


@pytest.mark.usefixtures("emulators_as_programs")
def test_a_killed_emulator_comes_back_the_same(emulator: Emulator, fabric: FabricManager) -> None:
    fabric.attach(NODE_0, MODEL)
    before = (emulator.url, emulator.credentials, Path(emulator.ca_path).read_bytes(), attached(emulator))
    log, pid = emulator.log(), emulator.pid
    emulator.kill()
    with pytest.raises(EmulatorError):
        emulator.state()
    emulator.restart()
    assert (emulator.url, emulator.credentials, Path(emulator.ca_path).read_bytes(), attached(emulator)) == before
    assert emulator.pid != pid
    assert emulator.log() == log
    fabric.machines()
    assert emulator.log()[-1]["n"] == log[-1]["n"] + 1


@pytest.mark.usefixtures("emulators_as_programs")
def test_one_that_hangs_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "python"
    line = f"exec {sys.executable} -X faulthandler -c 'import time; time.sleep(99)'"
    hangs.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr("ansible_collections.composable.infra.emulator.process.START_SECONDS", 5.0)
    with pytest.raises(EmulatorError, match=r'(?s)did not start: .*File "<string>", line 1 in <module>'):
        Emulator.run(simple_spec(["node-0"], {MODEL: 1}), tmp_path / "state")


def test_a_wrong_document_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match=r"the fabric\.machines: it must be a list"):
        Emulator.run({"machines": 1}, tmp_path)


def test_a_port_that_is_taken_is_named(emulator: Emulator, tmp_path: Path) -> None:
    port = int(emulator.url.rpartition(":")[2])
    with pytest.raises(EmulatorError, match=f"error: .*{port}.*address already in use"):
        Emulator.run({}, tmp_path / "second", port=port)


@pytest.mark.usefixtures("emulators_as_programs")
def test_300_connections_at_once(tmp_path: Path) -> None:
    with Emulator.run(simple_spec(["node-0"], {MODEL: 300}, attach=1000), tmp_path) as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        with ThreadPoolExecutor(300) as pool:
            asking = [pool.submit(fabric.attach, NODE_0, MODEL) for _unused in range(300)]
            await_state(emulator, "attaching", 300)
            emulator.kill()
        assert {type(task.exception()) for task in asking} == {Uncertain}
        fabric.close()


def test_it_ends_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from ansible_collections.composable.infra.emulator import Emulator\n"
        "emulator = Emulator.run({}, pathlib.Path(sys.argv[1]))\n"
        "print(emulator.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.stdin.close()
        assert ended(child)
    finally:
        os.close(child)
        parent.wait()
        parent.stdout.close()


def test_the_command_line_starts_shows_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, state = tmp_path / "fabric.yml", StateDir(tmp_path / "state")
    document.write_text(yaml.safe_dump(simple_spec(["node-0"], {MODEL: 2}, attach=0)), encoding="utf-8")
    where = ["--state-dir", str(state.path)]
    assert main(["up", "--detach", "--fabric", str(document), *where]) == 0
    pid = state.pid()
    assert pid is not None
    process = os.pidfd_open(pid)
    try:
        url = state.endpoint()
        assert f"fm at {url}, a page at {url}/" in capsys.readouterr().out
        assert main(["up", "--fabric", str(document), *where]) == 1
        assert f"already runs in {state.path} as process {pid}" in capsys.readouterr().err
        told = {"endpoint": url, "ca_path": str(state.file("ca.pem")), **state.credentials()}
        fabric = connect(FabricConfig.from_dict(told))
        fabric.attach(NODE_0, MODEL)
        fabric.close()
        assert main(["status", *where]) == 0
        assert capsys.readouterr().out == f"process {pid} at {url}\n{MODEL}: 1 of 2 free\n"
        assert main(["log", "--since", "1", *where]) == 0
        assert f"to {NODE_0}\n" in capsys.readouterr().out
    finally:
        assert main(["down", *where]) == 0
        assert ended(process)
        os.close(process)
    assert state.pid() is None


def test_secret_files_are_for_their_owner_only(emulator: Emulator, tmp_path: Path) -> None:
    for name in ("credentials.json", "server.key", "token.key"):
        assert (tmp_path / "emulator" / name).stat().st_mode & 0o077 == 0
    assert (tmp_path / "emulator").stat().st_mode & 0o077 == 0


def test_a_device_that_is_being_attached_is_not_there_yet(emulator: Emulator, fabric: FabricManager) -> None:
    emulator.set_timing(attach=1000)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(fabric.attach, NODE_0, MODEL)
        await_state(emulator, "attaching")
        assert fabric.machine(NODE_0).devices == ()
        assert fabric.free(NODE_0, MODEL) == 3
        emulator.kill()
        assert isinstance(asking.exception(), Uncertain)


@pytest.mark.usefixtures("emulators_as_programs")
def test_one_folder_has_one_emulator(emulator: Emulator, tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match=f"already runs in .* as process {emulator.pid}"):
        Emulator.run({}, tmp_path / "emulator")
    assert len(emulator.state()["devices"]) == 5
