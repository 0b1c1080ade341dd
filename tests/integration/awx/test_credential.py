# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The credential of a CDI Manager as AWX injects it: every manager can be reached, and nobody else gets the password.

AWX renders each variable of a credential type in Jinja's immutable sandbox. A field that was left empty is undefined
there, so its variable is set to nothing. Source: ansible/awx, ``CredentialType.inject_credential`` in
awx/main/models/credential.py.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.plugins.module_utils.fabric_module import FABRIC_OPTIONS
from ansible_collections.composable.infra.tests.e2e.support.played import play
from ansible_collections.composable.infra.tests.integration.awx.credential_support import (
    FIELDS,
    TYPE,
    injected,
    inputs_of,
)
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx
from ansible_collections.composable.infra.tests.integration.modules.conftest import Json, run
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# what is text on the form and a path for the modules
FILES = {"certificate": "ca_path", "client_certificate": "client_cert_path", "client_key": "client_key_path"}
PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One fabric, behind every kind of CDI Manager."""
    spec = simple_spec(["node-0"], {"A100 40G": 1}, attach=0.0, detach=0.0, managers=list(MANAGERS))
    with Emulator.run(spec, tmp_path_factory.mktemp("emulator")) as running:
        yield running


@pytest.mark.parametrize("manager", list(MANAGERS))
class TestEveryManager:
    def test_what_it_needs_is_on_the_form(self, manager: str, emulator: Emulator) -> None:
        config = emulator.fabric_config(manager)
        assert set(config) - {"ca_path"} <= FIELDS
        elsewhere = {"ca_pem", "given", "credentials_dir", *FILES.values()}
        assert set(FabricConfig.__dataclass_fields__) - elsewhere <= FIELDS
        assert FabricConfig.from_dict(config).manager == manager

    def test_modules_and_inventory_reach_it(self, manager: str, emulator: Emulator, tmp_path: Path) -> None:
        environment = injected(inputs_of(emulator.fabric_config(manager)), tmp_path)
        assert "" in environment.values()
        tasks: list[Json] = [{"name": "Read", "composable.infra.fabric_info": {"models": ["A100 40G"]}}]
        as_module = [{**task, "async": 60, "poll": 1} for task in tasks]
        book = [{"name": "In this process, then as a module", "hosts": "localhost", "connection": "local",
                 "gather_facts": False, "tasks": [*tasks, *as_module]}]
        # Ansible writes there by $HOME and reads by the user's entry in passwd, which need not agree
        done = play(tmp_path / "play", book, {}, **environment, ANSIBLE_ASYNC_DIR=str(tmp_path / "async"))
        assert not done.failures, done.failures
        assert sum(name == "Read" for name, _result in done.tasks) == 2
        (tmp_path / "my.fabric.yml").write_text("plugin: composable.infra.fabric\n", encoding="utf-8")
        read = run(tmp_path, "ansible-inventory", "-i", "my.fabric.yml", "--list",
                   **environment, ANSIBLE_INVENTORY_UNPARSED_FAILED="1")
        assert read.returncode == 0, read.stderr[-2000:]
        assert "node-0" in json.loads(read.stdout)["_meta"]["hostvars"]


@pytest.mark.parametrize(("form", "expected"), [
    ({}, (True, 5.0, None)), ({"validate_certs": "true"}, (True, 5.0, None)),
    ({"validate_certs": "false", "connect_timeout": "2.5", "requests_per_second": "10"}, (False, 2.5, 10.0))])
def test_a_blank_form_verifies_certificates_and_numbers_are_texts(
    form: dict[str, str], expected: tuple[bool, float, float | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in injected(inputs_of({"endpoint": "https://m.test", "manager": "nec", **form}), tmp_path).items():
        monkeypatch.setenv(name, value)
    found = options_of_modules()
    assert (found["validate_certs"], found["connect_timeout"], found["requests_per_second"]) == expected


def test_mutual_tls(tmp_path: Path) -> None:
    """The texts of the form are files for the modules, of their owner alone."""
    form = {name: f"-----BEGIN {name}-----" for name in FILES}
    environment = injected(inputs_of({"endpoint": "https://m.test", **form}), tmp_path)
    for name, option in FILES.items():
        assert Path(environment[f"COMPOSABLE_{option.upper()}"]).read_text(encoding="utf-8") == form[name]


def options_of_modules() -> Json:
    """The connection options as a module has them that is given none."""
    with patch_module_args({}):
        found: Json = AnsibleModule(argument_spec=FABRIC_OPTIONS).params
    return found


@pytest.fixture
def thief() -> Iterator[tuple[str, list[bytes]]]:
    """A server that somebody who may start jobs has set up: its address, and what came there."""
    heard: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(65536))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


VARIABLES: dict[str, Json] = {
    "attach": {}, "plan": {}, "report": {}, "detach": {"composable_detach_nodes": ["node-0"]}}


@pytest.mark.parametrize("book", list(VARIABLES))
@pytest.mark.parametrize("option", ["endpoint", "layout_endpoint"])
def test_a_launcher_cannot_have_the_password_sent_to_him(
    book: str, option: str, thief: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    address, heard = thief
    environment = injected(inputs_of({"endpoint": "https://manager.example.com", "username": "gpu", "auth": "basic",
                                      "manager": "redfish", "password": PASSWORD}), tmp_path)
    config = {"device_info": [], "fabric": {option: address, "validate_certs": False}}
    done = play(tmp_path, f"composable.infra.{book}", {"composable_config": config, **VARIABLES[book]},
                K8S_AUTH_KUBECONFIG=str(tmp_path / "none"), **environment)
    assert done.status != 0
    assert heard == []
    assert f"fabric.{option}: is not COMPOSABLE_{option.upper()}" in done.output, done.failures
    assert PASSWORD not in done.output


def test_templates_ask_for_nothing_that_leads_elsewhere() -> None:
    safe = {"composable_timeout", "composable_platform", "composable_detach_nodes", "composable_detach_keep_closed",
            "uninstall_crds", *(f"composable_defragment_{name}" for name in ("claim", "model", "count", "proposal"))}
    assert not TYPE["awx_template_defaults"]["ask_variables_on_launch"]
    text = json.dumps(TYPE["awx_shipped_templates"])
    assert "_on_launch" not in text
    questions = [TYPE[f"awx_{name}_question"]["variable"] for name in ("nodes", "patience")]
    questions += [q["variable"] for name in ("detach", "claim", "uninstall", "bootstrap")
                  for q in TYPE[f"awx_{name}_questions"] if isinstance(q, dict)]
    questions += re.findall(r"'variable': '(\w+)'", TYPE["awx_defragment_questions"])
    assert set(questions) == safe


def test_the_stub_keeps_only_what_a_survey_asks_for() -> None:
    """AWX ignores other variables where the template does not prompt for them."""
    awx = Awx(ROOT)
    project = awx.create("projects", {"name": "Repository"})
    body = {"name": "pass", "playbook": "playbooks/attach.yml", "project": project["id"], "survey_enabled": True}
    _status, template = awx.answer("POST", "/api/v2/job_templates/", {}, body)
    question = {"question_name": "Seconds", "variable": "composable_timeout", "type": "integer", "required": False}
    awx.answer("POST", f"{template['url']}survey_spec/", {}, {"name": "", "description": "", "spec": [question]})
    given = {"composable_timeout": 5, "composable_config": {"fabric": {}}}
    awx.answer("POST", f"{template['url']}launch/", {}, {"extra_vars": given})
    assert awx.jobs[0]["extra_vars"] == {"composable_timeout": 5}
