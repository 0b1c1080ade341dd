# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook that starts jobs, end to end: a stand-in of AWX runs the shipped playbook as the job.

The event source, ansible-rulebook and the pass are the real ones. The stand-in (tests/integration/awx/stub.py) gives
the job what AWX gives it: the variables of the template, those that the survey asks for, credentials as environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    gated,
    lets_new_pods_go,
)
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    all_free,
    assert_served,
    delete_all,
    holds_new_pods,
    run_pods,
    wait_for,
)
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
SERVED_WITHIN = 4
STAGE: Json = {"handover": "gated", "nodes": 2, "devices": {A100: 3}}
QUESTION = {"question_name": "Seconds to wait", "variable": "composable_timeout", "type": "integer", "required": False}


class Working(Awx):
    """Runs a job when it is launched. `able`: whether jobs can start at all."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(ROOT)
        self.stage, self.able = stage, True
        self.processes: list[subprocess.Popen[bytes]] = []
        config = stage.config()
        self.environment = {f"COMPOSABLE_{name.upper()}": str(value) for name, value in config.pop("fabric").items()}
        _status, owner = self.answer("POST", "/api/v2/organizations/", {}, {"name": "Composable infrastructure"})
        project = self.create("projects", {"name": "Repository", "organization": owner["id"]})
        _status, template = self.answer("POST", "/api/v2/job_templates/", {}, {
            "project": project["id"],
            "name": "Composable scale pass", "playbook": "playbooks/attach.yml", "organization": owner["id"],
            "survey_enabled": True, "extra_vars": json.dumps({"composable_config": config})})
        self.answer("POST", f"{template['url']}survey_spec/", {}, {"name": "", "description": "", "spec": [QUESTION]})

    def _launch(self, template: Json, body: Json) -> tuple[int, t.Any]:
        status, job = super()._launch(template, body)
        job["status"] = "running"
        threading.Thread(target=self._work, args=(job, template), daemon=True).start()
        return status, dict(job)

    def _work(self, job: Json, template: Json) -> None:
        """One job after the other, as its template says."""
        if not self.able:
            job["status"] = "failed"
            return
        variables = self.stage.folder / f"job-{job['id']}.json"
        variables.write_text(json.dumps({**json.loads(template["extra_vars"]), **job["extra_vars"]}), encoding="utf-8")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), str(ROOT / template["playbook"]),
                   "-e", f"@{variables}"]
        env = {**front_doors.environment(self.stage), **self.environment,
               "K8S_AUTH_KUBECONFIG": str(self.stage.kubeconfig)}
        with (self.stage.folder / "jobs.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.stage.folder, env=env, stdout=log, stderr=log)
            self.processes.append(process)
            job["status"] = "successful" if process.wait() == 0 else "failed"


@pytest.fixture(scope="module")
def awx(stage: Stage) -> Iterator[Working]:
    """A stand-in of AWX with the template that the rulebook names by default."""
    made = Working(stage)
    yield made
    for process in made.processes:
        process.wait(120)


@pytest.fixture(scope="module", autouse=True)
def rulebook(stage: Stage, awx: Working) -> Iterator[front_doors.Process]:
    """ansible-rulebook with the shipped rulebook and source, which asks for the job's state more often than usual."""
    server = serve(awx)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    inventory, variables = stage.folder / "inventory", stage.folder / "job-rulebook.yml"
    inventory.write_text(front_doors.INVENTORY.format(python=sys.executable), encoding="utf-8")
    variables.write_text(json.dumps({"kubeconfig": str(stage.kubeconfig), "release_after": stage.options.hold,
                                     "settle": 0.05, "interval": 1, "retry": 2, "resync": 30,
                                     "served_within": SERVED_WITHIN}), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-rulebook"), "--rulebook", "composable.infra.claim_job",
               "-i", str(inventory), "--vars", str(variables),
               "--controller-url", f"http://127.0.0.1:{server.server_address[1]}/"]
    process = OPENED.add(front_doors.Process("job-rulebook", command, stage, EDA_CONTROLLER_TOKEN=TOKEN,
                                             JAVA_TOOL_OPTIONS="-Xrs", EDA_JOB_TEMPLATE_REFRESH_DELAY="0.2"))
    yield process
    OPENED.stop(process)
    server.shutdown()
    thread.join()
    server.server_close()


def test_jobs_serve_held_pods_and_return_devices(stage: Stage, timeline: Timeline, awx: Working) -> None:
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    wanted = {"one": (A100, 1), "two": (A100, 2)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    delete_all(stage)
    wait_for("all devices are free", lambda: all_free(stage))
    assert {job["status"] for job in awx.jobs} <= {"successful", "running"}
    assert all(job["extra_vars"] == {"composable_timeout": 600} for job in awx.jobs)


def test_new_pods_are_held_only_while_jobs_serve_them(stage: Stage, timeline: Timeline, awx: Working) -> None:
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    awx.able = False
    wait_for("no job that began before runs", lambda: all(job["status"] != "running" for job in awx.jobs))
    before = len(awx.jobs)
    stage.pod("stuck", A100)
    wait_for("the pod is told of, and the job fails", lambda: [j for j in awx.jobs[before:] if j["status"] == "failed"])
    assert gated(stage, "stuck")
    wait_for("new pods are let go", lambda: lets_new_pods_go(stage))
    awx.able = True
    wait_for("jobs serve the pod that was held before", lambda: not gated(stage, "stuck"))
    wait_for("new pods are held again", lambda: holds_new_pods(stage))
    delete_all(stage)
    wait_for("all devices are free", lambda: all_free(stage))
