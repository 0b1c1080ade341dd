# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version table."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import (
    COMPONENTS,
    DEFAULT_SERIES,
    KUBERNETES_COMPONENTS,
    RELEASES,
    find_release,
)
from ansible_collections.composable.infra.lab.errors import LabError


@pytest.mark.parametrize("wanted", ["1.36", "1.36.x", "v1.36", " 1.36.3 ", "v1.36.3"])
def test_ways_to_name_the_default_release(wanted: str) -> None:
    assert find_release(wanted) == RELEASES[DEFAULT_SERIES]


def test_exact_patch_release_keeps_the_gates_of_its_series() -> None:
    release = find_release("1.35.1")
    assert release.kubernetes == "1.35.1"
    assert release.staging == "0.35.1"
    assert release.gates == RELEASES["1.35"].gates
    assert release.runtime_config == RELEASES["1.35"].runtime_config


@pytest.mark.parametrize("wanted", ["1.33", "1.36.3-rc.1", "", "latest", "1", "2.36", "1.36.3.1"])
def test_unknown_release_is_refused_with_what_is_allowed(wanted: str) -> None:
    with pytest.raises(LabError, match=r"1\.34\.\d+, 1\.35\.\d+, 1\.36\.\d+"):
        find_release(wanted)


@pytest.mark.parametrize("series", ["1.34", "1.35"])
def test_alpha_releases_switch_binding_conditions_on_where_they_are_needed(series: str) -> None:
    for component in ("kube-apiserver", "kube-scheduler"):
        assert "DRADeviceBindingConditions=true" in RELEASES[series].feature_gates(component).split(",")


def test_1_36_needs_no_gate_for_conditions_but_one_for_taint_rules() -> None:
    release = RELEASES["1.36"]
    assert {release.feature_gates(name) for name in KUBERNETES_COMPONENTS} == {"DRADeviceTaintRules=true"}
    assert "resource.k8s.io/v1beta2=true" in release.runtime_config


def test_other_components_have_no_gates() -> None:
    assert RELEASES["1.34"].feature_gates("etcd") == ""


def test_gang_scheduling_is_where_pods_name_their_pod_group() -> None:
    found = RELEASES["1.36"].with_gangs()
    assert found.feature_gates("kube-scheduler") == "DRADeviceTaintRules=true,GangScheduling=true,GenericWorkload=true"
    assert found.runtime_config[-1] == "scheduling.k8s.io/v1alpha2=true"
    with pytest.raises(LabError, match=r"1\.35\.\d+ has no gang scheduling that the lab knows: use one of 1\.36$"):
        RELEASES["1.35"].with_gangs()


def test_binding_timeout_exists_from_1_35() -> None:
    assert {series: release.binding_timeout for series, release in RELEASES.items()} == {
        "1.34": False,
        "1.35": True,
        "1.36": True,
    }


def test_every_component_has_a_version() -> None:
    release = RELEASES["1.36"]
    versions = {component: release.version_of(component) for component in COMPONENTS}
    assert versions["kube-scheduler"] == "1.36.3"
    assert versions["etcd"].startswith("3.")
    assert versions["kwok"].startswith("0.")
