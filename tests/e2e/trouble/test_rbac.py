# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped RBAC is enough, and what is missing of it is said and made good while the controller runs."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import ROLES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import refusals
from ansible_collections.composable.infra.tests.e2e.support.launch import begin, launch
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    all_free,
    assert_served,
    await_served,
    delete_all,
    run_pods,
    wait_for,
)

CLUSTER_ROLE_BINDINGS = ApiResource("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", False)
ROLE_BINDINGS = ApiResource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True)
STAGE: dict[str, t.Any] = {"devices": {A100: 3}}
# Words of their own: names of objects are random numbers.
COMPLAINT = re.compile(r"\b(forbidden|403|WARNING|ERROR)\b")


@contextmanager
def without(stage: Stage, kind: ApiResource, *names: str) -> Iterator[t.Callable[[], None]]:
    """Take bindings away; the value puts them back, which also happens at the end."""
    namespace = "composable-infra" if kind.namespaced else None
    taken = [stage.client.get(kind, name, namespace=namespace) for name in names]
    for name in names:
        stage.client.delete(kind, name, namespace=namespace)

    def give() -> None:
        while taken:
            body = taken.pop()
            body["metadata"] = {"name": body["metadata"]["name"]}
            stage.client.create(kind, body, namespace=namespace)

    try:
        yield give
    finally:
        give()


def test_whole_flow_without_one_refusal(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    before = refusals(stage)
    controller = open_process(front_doors.controller, stage)
    wanted = {"two": (A100, 2), "one": (A100, 1)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    delete_all(stage)
    wait_for("the devices are returned", lambda: all_free(stage))
    assert refusals(stage) == before
    assert not [line for line in controller.text().splitlines() if COMPLAINT.search(line)
                and "SlowReconcile" not in line]


def test_each_component_alone_with_its_own_account(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """Three processes, each with the permissions of one role, serve a pod and return its device together."""
    before = refusals(stage)
    started = [open_process(begin, stage, f"alone-{role}", "--only", role, kubeconfig=kubeconfig(stage, role))
               for role in ROLES]
    for process in started:
        process.wait_for("leading as")
    wanted = {"alone": (A100, 1)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    delete_all(stage)
    wait_for("the device is returned", lambda: all_free(stage))
    assert refusals(stage) == before
    for process in started:
        assert not [line for line in process.text().splitlines() if COMPLAINT.search(line)
                    and "SlowReconcile" not in line]


def kubeconfig(stage: Stage, role: str) -> Path:
    """Of the account that a component alone has."""
    return stage.lab.service_account_kubeconfig("composable-infra", f"composable-infra-{role}")


def test_without_any_right_it_ends_with_one_sentence(stage: Stage) -> None:
    roles = [f"composable-infra-{name}" for name in ("publisher", "scaler", "operator")]
    with without(stage, CLUSTER_ROLE_BINDINGS, *roles):
        ended = launch(stage)
    assert ended.status == 2
    assert len(ended.errors) == 1
    assert "may not be listed" in ended.errors[0]
    assert "Apply deploy/rbac" in ended.errors[0]


def test_missing_scaler_role_is_named_and_work_begins_once_it_is_granted(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    with without(stage, CLUSTER_ROLE_BINDINGS, "composable-infra-scaler") as give:
        controller = open_process(begin, stage, "rightless")
        controller.wait_for('cannot list resource "pods"', PATIENCE)
        give()
        run_pods(stage, timeline, lambda: None, {"late": (A100, 1)})
    assert controller.process.poll() is None
    assert "Traceback" not in controller.text()
    delete_all(stage)


def test_role_taken_away_and_given_back_while_it_runs(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = open_process(front_doors.controller, stage)
    wait_for("all devices are free", lambda: all_free(stage))
    with without(stage, CLUSTER_ROLE_BINDINGS, "composable-infra-operator") as give:
        stage.pod("patient", A100)
        controller.wait_for("cannot create resource \"composableresources\"", PATIENCE)
        assert not timeline.running("patient")
        give()
    await_served(stage, timeline, "patient")
    assert "Recovered" in controller.text()
    assert "Traceback" not in controller.text()
    delete_all(stage)


def test_leases_refused_is_named(stage: Stage) -> None:
    with without(stage, ROLE_BINDINGS, "composable-infra-leases"):
        ended = launch(stage, until="leases")
    assert "forbidden" in ended.text
    assert 'namespace "composable-infra"' in ended.text
    assert "Traceback" not in ended.text
