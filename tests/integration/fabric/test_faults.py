# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of fault as a client meets it, and what the log says of it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import typing as t
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.emulator.__main__ import main
from ansible_collections.composable.infra.emulator.faults.rules import KINDS
from ansible_collections.composable.infra.emulator.process import EmulatorError
from ansible_collections.composable.infra.emulator.state_dir import StateDir
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    Client,
    attached,
    logins,
    manager_calls,
)

ATTACH = {"purpose": "attach"}


def strike(emulator: Emulator, kind: str, **rule: t.Any) -> None:
    emulator.set_faults({"kind": kind, **ATTACH, **rule}, seed=1)


def outcome(fabric: FabricManager) -> type[FabricError] | None:
    """The class of the error that an attach ends with."""
    try:
        fabric.attach(NODE_0, MODEL)
    except FabricError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("kind", "rule", "error", "devices"),
    [
        ("latency", {"seconds": 0.01, "distribution": "normal", "spread": 0.001}, None, 1),
        ("latency", {"seconds": 0.01, "after": True}, None, 1),
        ("lost_request", {}, Uncertain, 0),
        ("lost_reply", {}, Uncertain, 1),
        ("doubled", {}, None, 2),
        ("status", {"status": 500}, Uncertain, 0),
        ("status", {"status": 500, "after": True}, Uncertain, 1),
        ("status", {"status": 502, "html": True}, Uncertain, 0),
        ("status", {"status": 409}, Busy, 0),
        ("status", {"status": 429, "retry_after": 60}, Busy, 0),
        ("truncated", {}, Uncertain, 1),
        ("not_json", {}, Uncertain, 1),
        ("slow_drip", {"seconds": 0.01}, None, 1),
        ("reset", {}, Uncertain, 0),
        ("reset", {"after": True}, Uncertain, 1),
        ("health", {"health": "Warning"}, None, 1),
        ("health", {"health": "Critical"}, Refused, 1),
        ("operation_failed", {}, Refused, 0),
        ("vanish", {}, Uncertain, 0),
        ("restart", {"times": 1}, Uncertain, 1),
        ("revoked_token", {"nth": 1}, None, 1),
    ],
)
def test_what_a_client_meets_and_what_happened(
    emulator: Emulator, fabric: FabricManager, kind: str, rule: dict[str, t.Any], error: type[FabricError] | None,
    devices: int
) -> None:
    strike(emulator, kind, **rule)
    assert outcome(fabric) is error
    (told,) = emulator.faults()["rules"]
    assert told["applied"] >= 1
    assert len(attached(emulator)) == devices
    entries = [entry for entry in manager_calls(emulator) if entry["purpose"] == "attach"]
    assert entries[0]["faults"] == [kind]
    assert entries[0]["manager"] == "fm"
    came = [effect for effect in emulator.effects() if effect["effect"].startswith("attached")]
    assert len(came) == max(devices, kind == "vanish")


def test_a_request_that_is_dropped_has_no_status(emulator: Emulator, fabric: FabricManager) -> None:
    strike(emulator, "lost_reply")
    outcome(fabric)
    (entry,) = [entry for entry in manager_calls(emulator) if entry["purpose"] == "attach"]
    assert entry["status"] is None
    assert entry["effect"] == f"attached {entry['device']} to {NODE_0}"


def test_a_doubled_request_is_one_entry_with_both_effects(emulator: Emulator, fabric: FabricManager) -> None:
    strike(emulator, "doubled")
    outcome(fabric)
    (entry,) = [entry for entry in manager_calls(emulator) if entry["purpose"] == "attach"]
    assert entry["effect"].count("attached ") == 2
    assert {effect["request"] for effect in emulator.effects()} == {entry["n"]}


def test_a_list_of_machines_may_be_incomplete(emulator: Emulator, fabric: FabricManager) -> None:
    """A manager that has just started tells no error."""
    emulator.set_faults({"kind": "incomplete", "method": "GET", "path": "/machines$", "times": 1})
    first, second = ({machine.uid for machine in fabric.machines()} for _unused in range(2))
    assert first < second


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_login_with_another_clock_serves_as_long(emulator: Emulator, fabric: FabricManager, seconds: int) -> None:
    emulator.set_faults({"kind": "clock_skew", "purpose": "login", "seconds": seconds})
    for _unused in range(3):
        fabric.machines()
    assert logins(emulator) == 1


def test_a_new_certificate_is_accepted_once_clients_are_told(emulator: Emulator, fabric: FabricManager) -> None:
    fabric.machines()
    strike(emulator, "certificate", nth=1)
    assert outcome(fabric) is Uncertain
    with pytest.raises(Unavailable, match="not signed by the given CA"):
        fabric.machines()
    emulator.publish_certificate()
    fabric.machines()
    assert attached(emulator) == {}


def test_faults_of_the_document_are_in_force_from_the_start_and_end_with_a_word(tmp_path: Path) -> None:
    document = simple_spec(["node-0"], {MODEL: 1}, faults={"seed": 3, "rules": [{"kind": "status", "purpose": "read"}]})
    with Emulator.run(document, tmp_path) as emulator:
        assert emulator.faults()["seed"] == 3
        assert [rule["kind"] for rule in emulator.faults()["rules"]] == ["status"]
        emulator.set_faults()
        assert emulator.faults()["rules"] == []


def test_counts_outlive_a_restart_by_a_fault(emulator: Emulator, fabric: FabricManager) -> None:
    strike(emulator, "restart", nth=1)
    outcome(fabric)
    outcome(fabric)
    (told,) = emulator.faults()["rules"]
    assert (told["matched"], told["applied"]) == (2, 1)


def test_a_wrong_rule_is_refused_and_nothing_changes(emulator: Emulator) -> None:
    strike(emulator, "doubled")
    with pytest.raises(EmulatorError, match="400"):
        emulator.set_faults({"kind": "sleepy"})
    assert [rule["kind"] for rule in emulator.faults()["rules"]] == ["doubled"]


def test_the_log_is_open_while_faults_strike_everything(emulator: Emulator) -> None:
    emulator.set_faults({"kind": "lost_request"})
    assert emulator.state()["devices"]
    context = ssl.create_default_context(cafile=emulator.ca_path)
    with pytest.raises(OSError, match=r"closed|reset"):
        urllib.request.urlopen(f"{emulator.url}/nothing", context=context, timeout=10)


def test_a_request_struck_twice_has_one_answer(emulator: Emulator) -> None:
    request = b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answering = sorted(set(KINDS) - {"certificate", "restart", "lost_request", "lost_reply", "reset"})
    for kinds in itertools.product(answering, repeat=2):
        emulator.set_faults(*({"kind": name} for name in kinds))
        assert raw(emulator, request).count(b"HTTP/1.1 ") == 1, kinds


def raw(emulator: Emulator, request: bytes) -> bytes:
    """All that the emulator sends until it closes the connection."""
    context = ssl.create_default_context(cafile=emulator.ca_path)
    where = urlsplit(emulator.url)
    with (
        socket.create_connection((where.hostname, where.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=where.hostname) as connection,
    ):
        connection.sendall(request)
        came = b""
        with contextlib.suppress(ssl.SSLEOFError):
            while piece := connection.recv(65536):
                came += piece
        return came


def test_two_managers_share_one_pool(tmp_path: Path) -> None:
    document = simple_spec(["node-0"], {MODEL: 2}, attach=0, detach=0, managers=["fm", "nec"])
    with Emulator.run(document, tmp_path) as emulator:
        assert emulator.plain_url.startswith("http://")
        assert emulator.fabric_config("nec")["endpoint"] == emulator.plain_url
        assert emulator.fabric_config()["manager"] == "fm"
        with urllib.request.urlopen(f"{emulator.plain_url}/cdim/api/v1/resources?detail=true", timeout=10) as reply:
            assert reply.status == 200
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{emulator.plain_url}/admin/state", timeout=10)
        url = emulator.plain_url
        emulator.restart()
        assert emulator.plain_url == url


def test_a_reset_forgets(emulator: Emulator, client: Client) -> None:
    client().attach(NODE_0, MODEL)
    emulator.set_faults({"kind": "doubled"})
    emulator.reset()
    assert (attached(emulator), emulator.faults()["rules"]) == ({}, [])
    assert emulator.log() != []
    emulator.reset(log=True)
    assert (emulator.log(), emulator.effects()) == ([], [])


def test_the_command_adds_shows_and_clears(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--state-dir", str(tmp_path / "state")]
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump({"rules": [{"kind": "vanish", "nth": 2}]}), encoding="utf-8")
    assert main(["fault", *where]) == 1
    assert capsys.readouterr().err == (
        f"error: no emulator runs in {StateDir(tmp_path / 'state').path}. Start an emulator with the command up\n")
    with Emulator.run(simple_spec(["node-0"], {MODEL: 1}), tmp_path / "state"):
        words = ["status", "status=429", "retry_after=1", "--purpose", "attach", "--seed", "5"]
        assert main(["fault", *words, *where]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown == [
            "seed 5", "status purpose=attach probability=1.0 status=429 retry_after=1 (matched 0, applied 0)"]
        assert main(["fault", "doubled", "--nth", "2", "--nth", "4", *where]) == 0
        doubled = "doubled nth=[2, 4] probability=1.0 (matched 0, applied 0)"
        assert capsys.readouterr().out.splitlines()[1:] == [shown[1], doubled]
        assert main(["fault", "--file", str(rules), *where]) == 0
        assert capsys.readouterr().out.splitlines()[1:] == ["vanish nth=[2] probability=1.0 (matched 0, applied 0)"]
        assert main(["status", *where]) == 0
        assert "fault vanish nth=[2]" in capsys.readouterr().out
        assert main(["fault", "--profile", "busy", *where]) == 0
        assert capsys.readouterr().out.count("status=409") == 2
        assert main(["fault", "reset", "after", *where]) == 1
        assert capsys.readouterr().err == "error: after: write a parameter as NAME=VALUE\n"
        assert main(["fault", "--clear", *where]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1
