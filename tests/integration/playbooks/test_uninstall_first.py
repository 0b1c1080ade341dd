# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role uninstall refuses before it removes anything what one of its parts would refuse after others are gone."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi
from ansible_collections.composable.infra.tests.integration.playbooks.test_unserved_kinds import (
    NO_CLAIMS,
    include,
    run,
    serve,
)

NO_HELM = "/nowhere/helm"
HELM = {"composable_helm_binary": "/bin/true"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi(None)
    yield made
    made.stop()


def holding(api: FakeApi, **holds: list[Json]) -> None:
    """Have a cluster with these objects, and no ComposableResource."""
    serve(api, "", "", composableresources=[], **holds)


def asked(api: FakeApi, folder: Path, *parts: str, **variables: t.Any) -> Played:
    """Look what is in the way of the removal of these parts."""
    return run(api, folder, include("uninstall", "attached"),
               **{**HELM, **NO_CLAIMS, "uninstall_parts": list(parts), **variables})


def request(name: str, size: int, **meta: str) -> Json:
    """A ComposabilityRequest."""
    return {"metadata": {"name": name, **meta}, "spec": {"resource": {"type": "gpu", "model": "A100", "size": size}}}


def deployment(name: str, replicas: int) -> Json:
    """A Deployment of ours."""
    return {"metadata": {"name": name, "namespace": "composable-infra",
                         "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "composable-infra"}},
            "spec": {"replicas": replicas}}


def test_requests_for_devices_are_in_the_way_of_cohdi_and_of_the_definitions(api: FakeApi, tmp_path: Path) -> None:
    holding(api, composabilityrequests=[request("r1", 2, deletionTimestamp="2026-11-26T00:00:00Z"), request("r2", 1),
                                        request("r3", 0)])
    words = ("ComposabilityRequest r1 asks for 2 devices and is being deleted",
             "ComposabilityRequest r2 asks for 1 device: delete it first")
    asking: list[tuple[str, Json]] = [("cohdi", {}), ("controllers", {"uninstall_crds": True})]
    for part, more in asking:
        (message,) = asked(api, tmp_path, part, **more).failures
        assert message.startswith("Nothing was removed.")
        assert [word for word in words if word not in message] == []
        assert "r3" not in message
    assert asked(api, tmp_path, "controllers", "monitoring").status == 0


def test_controllers_that_stay_are_in_the_way_of_cohdi(api: FakeApi, tmp_path: Path) -> None:
    holding(api, deployments=[deployment("composable-infra", 2), deployment("composable-infra-autoscaler", 1),
                              deployment("composable-infra-gate-reaper", 0)])
    (message,) = asked(api, tmp_path, "monitoring", "autoscaler", "cohdi").failures
    assert "Deployment composable-infra/composable-infra runs, and cohdi is not removed beside it" in message
    assert "autoscaler" not in message
    (message,) = asked(api, tmp_path, "controllers", "cohdi").failures
    assert "Deployment composable-infra/composable-infra-autoscaler runs" in message
    assert asked(api, tmp_path, "controllers", "autoscaler", "cohdi").status == 0


def test_claims_of_a_parts_own_driver_are_in_the_way_whatever_drivers_are_named(api: FakeApi, tmp_path: Path) -> None:
    holding(api)
    held = {"namespace": "tenant", "name": "training", "devices": [{"driver": "gpu.nvidia.com", "pool": "n1"}]}
    claims = {"uninstall_found": {"stack": {"claims": [held]}}, "uninstall_drivers": []}
    (message,) = asked(api, tmp_path, "gpu_operator", **claims).failures
    assert "claim tenant/training" in message
    assert asked(api, tmp_path, "nfd", **claims).status == 0


@pytest.mark.parametrize(("parts", "variables", "needed"), [
    (("nfd", "gpu_operator"), {"composable_platform": "openshift"}, False), (("nvidia_dra_driver",), {}, True),
    (("monitoring", "controllers"), {"monitoring_dcgm_exporter": True}, True)])
def test_a_missing_helm_is_in_the_way_of_charts(
    api: FakeApi, tmp_path: Path, parts: tuple[str, ...], variables: Json, needed: bool
) -> None:
    holding(api)
    failures = asked(api, tmp_path, *parts, composable_helm_binary=NO_HELM, **variables).failures
    assert [f"the command {NO_HELM} does not run here, and charts are removed by it" in each
            for each in failures] == [True] * needed
