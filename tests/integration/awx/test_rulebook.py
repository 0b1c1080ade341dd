# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped rulebook that has AWX do the work, run by ansible-rulebook against the stub."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import environment
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# A file of this name takes the place of the shipped source.
SOURCE = """\
import asyncio

async def main(queue, args):
    await queue.put({"claims": {"reason": "claims", "waiting": [{"namespace": "default", "name": "train"}]}})
    await asyncio.Event().wait()
"""
ORGANIZATION, TEMPLATE = "Composable infrastructure", "Composable scale pass"


@pytest.fixture
def awx() -> Awx:
    """An AWX with the job template that the rulebook names by default."""
    awx = Awx(ROOT)
    _status, organization = awx.answer("POST", "/api/v2/organizations/", {}, {"name": ORGANIZATION})
    _status, template = awx.answer("POST", "/api/v2/job_templates/", {}, {
        "name": TEMPLATE, "playbook": "playbooks/attach.yml", "organization": organization["id"],
        "survey_enabled": True})
    awx.answer("POST", f"{template['url']}survey_spec/", {}, {
        "name": "", "description": "", "spec": [{"question_name": "Seconds to wait", "variable": "composable_timeout",
                                                 "type": "integer", "required": False}]})
    return awx


@pytest.fixture
def server(awx: Awx) -> Iterator[ThreadingHTTPServer]:
    """The stub, served."""
    server = serve(awx)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def rulebook(server: ThreadingHTTPServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """ansible-rulebook with the shipped rulebook and an event of the test's own."""
    (tmp_path / "composable.infra.claims.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "inventory").write_text("localhost ansible_connection=local\n", encoding="utf-8")
    (tmp_path / "vars.yml").write_text("timeout: 42\n", encoding="utf-8")
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    command = [str(Path(sys.executable).parent / "ansible-rulebook"), "--rulebook", "composable.infra.claim_job",
               "-i", "inventory", "-S", str(tmp_path), "--vars", "vars.yml", "--controller-url", address]
    env = environment(tmp_path, EDA_CONTROLLER_TOKEN=TOKEN, JAVA_TOOL_OPTIONS="-Xrs")
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT, text=True)
        yield process
        process.terminate()
        process.wait(60)


def wait_for(check: Callable[[], object], process: subprocess.Popen[str], log: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        ended = process.poll() is not None or time.monotonic() > deadline
        assert not ended, log.read_text(encoding="utf-8")[-3000:]
        time.sleep(0.05)


def test_an_event_launches_the_job_template_with_its_variables(
    awx: Awx, rulebook: subprocess.Popen[str], tmp_path: Path
) -> None:
    wait_for(lambda: awx.jobs, rulebook, tmp_path / "log")
    (job,) = awx.jobs
    assert job["name"] == TEMPLATE
    assert job["extra_vars"] == {"composable_timeout": 42}
    assert TOKEN not in (tmp_path / "log").read_text(encoding="utf-8")


def test_the_defaults_are_what_the_role_makes() -> None:
    variables = (ROOT / "roles" / "awx" / "vars" / "main" / "templates.yml").read_text(encoding="utf-8")
    defaults = yaml.safe_load((ROOT / "roles" / "awx" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    text = (ROOT / "extensions" / "eda" / "rulebooks" / "claim_job.yml").read_text(encoding="utf-8")
    assert f"default('{defaults['awx_organization']}')" in text
    assert f"default('{TEMPLATE}')" in text
    assert TEMPLATE in yaml.safe_load(variables)["awx_shipped_templates"]
