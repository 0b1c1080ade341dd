# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of shipped playbooks that need no cluster: conformance on an emulator, awx and eda on stand-ins, images.

tests/unit/roles/test_playbook_arguments.py lists which test runs each playbook.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid, simple_spec
from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.integration.awx import conftest as of_awx
from ansible_collections.composable.infra.tests.integration.awx import stub as awx_stub
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN
from ansible_collections.composable.infra.tests.integration.eda import stub as eda_stub
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

MODEL = "A100 40G"
ORGANIZATION = "Composable infrastructure"
EDA: Json = {"eda_decision_environment_image": "registry.example.com/composable/decision:0.1.0",
             "eda_project_url": "https://git.example.com/composable.infra.git",
             "eda_cluster_inputs": {"host": "https://api.example.com", "api_key": "key"},
             "eda_controller_inputs": {"host": "https://platform.example.com", "oauth_token": "of-the-controller"}}


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a stand-in, while it is served."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator with two machines and two devices."""
    spec = simple_spec(["node-0", "node-1"], {MODEL: 2}, attach=0.0, detach=0.0)
    with Emulator.run(spec, tmp_path_factory.mktemp("emulator")) as running:
        yield running


def test_conformance_examines_a_manager_and_writes_what_it_found(emulator: Emulator, tmp_path: Path) -> None:
    options = {**emulator.fabric_config(), "machine": machine_uuid("node-0"), "model": MODEL}
    given: dict[str, t.Any] = {"composable_conformance": options, "composable_report_dir": "report"}
    folder = tmp_path / "report"
    well(play(tmp_path, "composable.infra.conformance", given, "--check"))
    assert (folder.exists(), emulator.effects()) == (False, [])
    done = well(play(tmp_path, "composable.infra.conformance", given))
    assert " 0 failed" in (folder / "conformance.md").read_text(encoding="utf-8")
    assert emulator.effects(), "devices were attached and detached"
    cases = ElementTree.parse(folder / "conformance.xml").getroot().iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == []
    assert done.result("Report the results")["msg"]


def test_conformance_fails_where_the_manager_is_not_reached(tmp_path: Path) -> None:
    options = {"endpoint": "http://127.0.0.1:9", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
               "password": "not-told", "realm": "r", "client_id": "c", "client_secret": "not-told-either"}
    done = play(tmp_path, "composable.infra.conformance", {"composable_conformance": options})
    assert done.status != 0
    assert "not-told" not in done.output
    assert not (tmp_path / "conformance.md").exists()


def test_eda_sets_a_controller_up_and_removes_it(tmp_path: Path) -> None:
    eda = eda_stub.Eda(ROOT, "Default", ORGANIZATION)
    with served(eda_stub.serve(eda)) as address:
        env = {"AAP_HOSTNAME": address, "AAP_TOKEN": TOKEN}
        well(play(tmp_path, "composable.infra.eda", EDA, **env))
        assert [item["name"] for item in eda.items["activations"].values()] == ["Attach devices for waiting claims"]
        well(play(tmp_path, "composable.infra.eda", {**EDA, "eda_state": "absent"}, **env))
    assert (eda.items["activations"], eda.items["projects"], eda.items["eda-credentials"]) == ({}, {}, {})


def test_awx_speaks_to_a_controller_and_writes_its_data(tmp_path: Path) -> None:
    awx = awx_stub.Awx(ROOT)
    awx.create("organizations", {"name": ORGANIZATION})
    with served(awx_stub.serve(awx)) as address:
        env = {"CONTROLLER_HOST": address, "CONTROLLER_OAUTH_TOKEN": TOKEN}
        absent = well(play(tmp_path, "composable.infra.awx", {**of_awx.OPTIONS, "awx_state": "absent"}, **env))
    assert absent.changed == []
    well(play(tmp_path, "composable.infra.awx", {**of_awx.OPTIONS, "awx_data_path": "aap.yml"}))
    assert "Composable attach" in (tmp_path / "aap.yml").read_text(encoding="utf-8")


def test_images_lists_what_a_mirror_must_hold(tmp_path: Path) -> None:
    well(play(tmp_path, "composable.infra.images", {"composable_images_path": "images.txt"}, "--check"))
    assert not (tmp_path / "images.txt").exists()
    well(play(tmp_path, "composable.infra.images", {"composable_images_path": "images.txt"}))
    assert "nvcr.io/nvidia" in (tmp_path / "images.txt").read_text(encoding="utf-8")
