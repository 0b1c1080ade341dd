# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From CoHDI to our controllers and back: no object is lost on the way, and neither side stands in the other's."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.played import Json, Played, play, role, well
from ansible_collections.composable.infra.tests.e2e.test_role_controllers import CONFIG
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

CRO = "/apis/cro.hpsys.ibm.ie.com/v1alpha1"
DRA = "/api/v1/namespaces/composable-dra"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SECRETS = {"username": "gpu", "password": "correct-horse", "realm": "r", "client_id": "c", "client_secret": "battery"}
Run = t.Callable[..., Played]
PLACES = {"composable-dra": ["composable-dra-driver", "dynamic-device-scaler"],
          "composable-resource-operator-system": ["composable-resource-operator-controller-manager"]}


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab of the file's own."""
    return stage_factory(nodes=2).lab


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("--check", cohdi_state="paused")``: the role with the file's options."""
    folder = tmp_path_factory.mktemp("cohdi")

    def start(*options: str, **variables: t.Any) -> Played:
        given = {"composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60,
                 "composable_helm_binary": str(Path(sys.executable).parent / "helm"),
                 "composable_chart_mirror": str(ROOT / "tests" / "charts"),
                 "controllers_config": CONFIG, "controllers_credentials": SECRETS}
        return play(folder, role("cohdi", **variables), given, *options)

    return start


@pytest.fixture(scope="module")
def device(lab: Lab, installed: Played) -> str:
    """A ComposableResource, as either side's operator makes one."""
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": {"name": "gpu-1"},
            "spec": {"type": "gpu", "model": "A100 40G", "target_node": "node-0"}}
    return str(lab.api.request("POST", f"{CRO}/composableresources", body)["metadata"]["uid"])


@pytest.fixture(scope="module")
def installed(run: Run) -> Played:
    """The chart is installed."""
    return well(run())


def replicas(lab: Lab) -> list[int]:
    return [lab.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")["spec"]["replicas"]
            for namespace, names in PLACES.items() for name in names]


def policies(lab: Lab) -> list[str]:
    return [hook["failurePolicy"] for item in lab.api.get(WEBHOOKS)["items"] for hook in item["webhooks"]]


def test_values_come_from_our_configuration(lab: Lab, installed: Played) -> None:
    table = yaml.safe_load(lab.api.get(f"{DRA}/configmaps/composable-dra-dds")["data"]["device-info"])
    assert table == CONFIG["device_info"]
    assert set(lab.api.get(f"{DRA}/secrets/composable-dra-secret")["data"]) == set(SECRETS)
    assert not [text for text in ("correct-horse", "battery") if text in installed.output]


def test_a_second_run_changes_nothing(lab: Lab, installed: Played, run: Run) -> None:
    assert installed.changed
    assert well(run()).changed == []
    assert well(run("--check")).changed == []
    assert replicas(lab) == [1, 1, 1]


def test_paused_it_stops_and_keeps_what_it_knows(lab: Lab, device: str, run: Run) -> None:
    check = well(run("--check", cohdi_state="paused"))
    assert check.changed
    assert replicas(lab) == [1, 1, 1]
    well(run(cohdi_state="paused"))
    assert (replicas(lab), policies(lab)) == ([0, 0, 0], ["Ignore"])
    assert lab.api.get(f"{CRO}/composableresources/gpu-1")["metadata"]["uid"] == device
    assert well(run(cohdi_state="paused")).changed == []


def test_paused_its_webhook_does_not_refuse_what_others_write(lab: Lab, device: str) -> None:
    assert policies(lab) == ["Ignore"]
    resource: Json = {"type": "gpu", "model": "A100 40G", "size": 0, "target_node": "node-0"}
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
            "metadata": {"name": "ours"}, "spec": {"resource": resource}}
    lab.api.request("POST", f"{CRO}/composabilityrequests", body)
    lab.api.request("DELETE", f"{CRO}/composabilityrequests/ours")


def test_it_comes_back_with_the_same_devices(lab: Lab, device: str, run: Run) -> None:
    well(run())
    assert (replicas(lab), policies(lab)) == ([1, 1, 1], ["Fail"])
    assert lab.api.get(f"{CRO}/composableresources/gpu-1")["metadata"]["uid"] == device


def test_it_is_not_removed_while_a_device_is_attached(lab: Lab, device: str, run: Run) -> None:
    refused = run(cohdi_state="absent")
    assert refused.status != 0
    assert "A100 40G on node node-0" in "".join(refused.failures)
    assert replicas(lab) == [1, 1, 1]
    lab.api.request("DELETE", f"{CRO}/composableresources/gpu-1")
    well(run(cohdi_state="absent"))
    assert policies(lab) == []
    assert not lab.api.exists("/api/v1/namespaces/cohdi")
    assert well(run(cohdi_state="absent")).changed == []


def test_a_manager_that_the_chart_does_not_speak_to_is_refused(run: Run) -> None:
    refused = run(cohdi_config={**CONFIG, "fabric": {**CONFIG["fabric"], "manager": "nec"}})
    assert refused.status != 0
    assert "cohdi_config.fabric.manager: nec is not usable" in "".join(refused.failures)
