# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped rulebook that has AWX do the work, run by ansible-rulebook against the stub."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import environment
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
# A file with the name of a shipped source takes its place.
SOURCE = """\
import asyncio

async def main(queue, args):
    for event in {events!r}:
        await queue.put(event)
    await asyncio.Event().wait()
"""
ORGANIZATION, TEMPLATE, NODES = "Composable infrastructure", "Composable scale pass", "Composable nodes"
CLAIMS_WAIT = {"claims": {"reason": "claims", "waiting": [{"namespace": "default", "name": "train"}]}}
NODE_EVENTS = ({"unschedulable": {"waiting": [{"uid": "u", "namespace": "default", "name": "train"}]}},
               {"node_unneeded": {"nodes": [{"uid": "7", "name": "node-7", "since": 1}, {"uid": "8", "name": "node-8",
                                                                                         "since": 2}]}})


@pytest.fixture
def awx() -> Awx:
    """An AWX with the job templates that the rulebooks name by default, and surveys that take their variables."""
    awx = Awx(ROOT)
    _status, organization = awx.answer("POST", "/api/v2/organizations/", {}, {"name": ORGANIZATION})
    project = awx.create("projects", {"name": "Repository", "organization": organization["id"]})
    for name, variables in ((TEMPLATE, ["composable_timeout"]),
                            (NODES, ["node_action", "node_group", "node_count", "node_name"])):
        _status, template = awx.answer("POST", "/api/v2/job_templates/", {}, {
            "name": name, "playbook": "playbooks/attach.yml", "organization": organization["id"],
            "project": project["id"], "survey_enabled": True})
        awx.answer("POST", f"{template['url']}survey_spec/", {}, {"name": "", "description": "", "spec": [
            {"question_name": each, "variable": each, "type": "text", "required": False} for each in variables]})
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


@contextmanager
def rulebook(server: ThreadingHTTPServer, folder: Path, name: str, source: str, variables: Json,
             *events: Json) -> Iterator[subprocess.Popen[str]]:
    """ansible-rulebook with a shipped rulebook and events of the test's own."""
    (folder / f"composable.infra.{source}.py").write_text(SOURCE.format(events=events), encoding="utf-8")
    (folder / "inventory").write_text("localhost ansible_connection=local\n", encoding="utf-8")
    (folder / "vars.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    command = [str(Path(sys.executable).parent / "ansible-rulebook"), "--rulebook", f"composable.infra.{name}",
               "-i", "inventory", "-S", str(folder), "--vars", "vars.yml", "--controller-url", address]
    env = environment(folder, EDA_CONTROLLER_TOKEN=TOKEN, JAVA_TOOL_OPTIONS="-Xrs", EDA_JOB_TEMPLATE_REFRESH_DELAY="1")
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_for(check: Callable[[], object], process: subprocess.Popen[str], log: Path, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        ended = process.poll() is not None or time.monotonic() > deadline
        assert not ended, log.read_text(encoding="utf-8")[-3000:]
        time.sleep(0.05)


def test_an_event_launches_the_job_template_with_its_variables(
    awx: Awx, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    with rulebook(server, tmp_path, "claim_job", "claims", {"timeout": 42}, CLAIMS_WAIT) as process:
        wait_for(lambda: awx.jobs, process, tmp_path / "log")
    (job,) = awx.jobs
    assert job["name"] == TEMPLATE
    assert job["extra_vars"] == {"composable_timeout": 42}
    assert TOKEN not in (tmp_path / "log").read_text(encoding="utf-8")


def test_nodes_are_ordered_by_jobs(awx: Awx, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with rulebook(server, tmp_path, "node_scale", "nodes", {"node_group": "gpu"}, *NODE_EVENTS) as process:
        wait_for(lambda: len(awx.jobs) == 2, process, tmp_path / "log")
    assert [job["name"] for job in awx.jobs] == [NODES, NODES]
    assert [job["extra_vars"] for job in awx.jobs] == [
        {"node_action": "add", "node_group": "gpu", "node_count": 1},
        {"node_action": "remove", "node_group": "gpu", "node_count": 1, "node_name": "node-7"}]


def test_the_defaults_are_what_the_role_makes() -> None:
    variables = (ROOT / "roles" / "awx" / "vars" / "main" / "templates.yml").read_text(encoding="utf-8")
    defaults = yaml.safe_load((ROOT / "roles" / "awx" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    text = (ROOT / "extensions" / "eda" / "rulebooks" / "claim_job.yml").read_text(encoding="utf-8")
    assert f"default('{defaults['awx_organization']}')" in text
    assert f"default('{TEMPLATE}')" in text
    assert TEMPLATE in yaml.safe_load(variables)["awx_shipped_templates"]
    text = (ROOT / "extensions" / "eda" / "rulebooks" / "node_scale.yml").read_text(encoding="utf-8")
    assert f"default('{defaults['awx_organization']}')" in text
    assert f"default('{NODES}')" in text
    assert NODES in yaml.safe_load(variables)["awx_node_templates"]
