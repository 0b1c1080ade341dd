# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role uninstall refuses before it removes anything what one of its parts would refuse after others are gone."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played
from ansible_collections.composable.infra.tests.integration.playbooks.unserved_kinds_support import (
    NO_CLAIMS,
    Clusters,
    include,
)

NO_HELM: Json = {"composable_helm_binary": "/nowhere/helm"}


def request(name: str, size: int, **meta: str) -> Json:
    """A ComposabilityRequest."""
    return {"metadata": {"name": name, **meta}, "spec": {"resource": {"type": "gpu", "model": "A100", "size": size}}}


def deployment(name: str, replicas: int) -> Json:
    """A Deployment of ours."""
    return {"metadata": {"name": name, "namespace": "composable-infra",
                         "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "composable-infra"}},
            "spec": {"replicas": replicas}}


REQUESTS = {"composabilityrequests": [request("r1", 2, deletionTimestamp="2026-11-26T00:00:00Z"), request("r2", 1),
                                      request("r3", 0)]}
DEPLOYMENTS = {"deployments": [deployment("composable-infra", 2), deployment("composable-infra-autoscaler", 1),
                               deployment("composable-infra-gate-reaper", 0)]}
HELD = {"namespace": "tenant", "name": "training", "devices": [{"driver": "gpu.nvidia.com", "pool": "n1"}]}
CLAIMS = {"uninstall_found": {"stack": {"claims": [HELD]}}, "uninstall_drivers": []}
# What the cluster holds, the parts to remove, and other variables.
QUESTIONS: t.Final[dict[str, tuple[Json, list[str], Json]]] = {
    "cohdi, requests": (REQUESTS, ["cohdi"], {}),
    "definitions, requests": (REQUESTS, ["controllers"], {"uninstall_crds": True}),
    "others, requests": (REQUESTS, ["controllers", "monitoring"], {}),
    "cohdi, both stay": (DEPLOYMENTS, ["monitoring", "autoscaler", "cohdi"], {}),
    "cohdi, one stays": (DEPLOYMENTS, ["controllers", "cohdi"], {}),
    "cohdi, none stays": (DEPLOYMENTS, ["controllers", "autoscaler", "cohdi"], {}),
    "driver, claim": ({}, ["gpu_operator"], CLAIMS),
    "no driver, claim": ({}, ["nfd"], CLAIMS),
    "no chart, no helm": ({}, ["nfd", "gpu_operator"], {**NO_HELM, "composable_platform": "openshift"}),
    "chart, no helm": ({}, ["nvidia_dra_driver"], NO_HELM),
    "chart of a part, no helm": ({}, ["monitoring", "controllers"], {**NO_HELM, "monitoring_dcgm_exporter": True}),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """What is in the way of the removal of the parts, without a ComposableResource."""
    clusters = Clusters(tmp_path_factory.mktemp("clusters"))
    for key, (holds, parts, variables) in QUESTIONS.items():
        clusters.ask(key, include("uninstall", "attached"), holds={"composableresources": [], **holds},
                     **{**NO_CLAIMS, "uninstall_parts": parts, **variables})
    return clusters.answers()


@pytest.mark.parametrize("key", ["cohdi, requests", "definitions, requests"])
def test_requests_for_devices_are_in_the_way(answers: dict[str, Played], key: str) -> None:
    (message,) = answers[key].failures
    words = ("ComposabilityRequest r1 requests 2 devices and is being deleted",
             "ComposabilityRequest r2 requests 1 device: delete it first")
    assert message.startswith("Nothing was removed.")
    assert [word for word in words if word not in message] == []
    assert "r3" not in message


def test_controllers_that_stay_are_in_the_way_of_cohdi(answers: dict[str, Played]) -> None:
    (message,) = answers["cohdi, both stay"].failures
    assert "Deployment composable-infra/composable-infra runs, and cohdi cannot be removed while it runs" in message
    assert "autoscaler" not in message
    (message,) = answers["cohdi, one stays"].failures
    assert "Deployment composable-infra/composable-infra-autoscaler runs" in message


def test_claims_of_a_parts_own_driver_are_in_the_way_whatever_drivers_are_named(answers: dict[str, Played]) -> None:
    (message,) = answers["driver, claim"].failures
    assert "claim tenant/training" in message


@pytest.mark.parametrize("key", ["chart, no helm", "chart of a part, no helm"])
def test_a_missing_helm_is_in_the_way_of_charts(answers: dict[str, Played], key: str) -> None:
    (message,) = answers[key].failures
    assert ("the command /nowhere/helm does not run on the control node, and the role needs it to remove "
            "charts") in message


@pytest.mark.parametrize("key", ["others, requests", "cohdi, none stays", "no driver, claim", "no chart, no helm"])
def test_what_is_of_another_part_is_not_in_the_way(answers: dict[str, Played], key: str) -> None:
    assert (answers[key].failures, answers[key].status) == ([], 0)
