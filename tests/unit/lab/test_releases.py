# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import (
    COMPONENTS,
    DEFAULT_SERIES,
    GANG_API,
    KUBERNETES_COMPONENTS,
    RELEASES,
    find_release,
)
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.plugins.plugin_utils.stack import matrix

MAKEFILE = Path(__file__).parents[3] / "Makefile"


@pytest.mark.parametrize("wanted", ["1.37", "1.37.x", "v1.37", " 1.37.2 ", "v1.37.2"])
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
    with pytest.raises(LabError, match=r"1\.34\.\d+, 1\.35\.\d+, 1\.36\.\d+, 1\.37\.\d+"):
        find_release(wanted)


@pytest.mark.parametrize("series", ["1.34", "1.35"])
def test_alpha_releases_switch_binding_conditions_on_where_they_are_needed(series: str) -> None:
    for component in ("kube-apiserver", "kube-scheduler"):
        assert "DRADeviceBindingConditions=true" in RELEASES[series].feature_gates(component).split(",")


@pytest.mark.parametrize("series", sorted(RELEASES))
def test_the_lab_sets_what_preflight_asks_for_taint_rules(series: str) -> None:
    """A component does not start with a gate that it does not know, so each release has exactly its own."""
    wanted = matrix.lookup("kubernetes.taint_rules")[series]
    for component in KUBERNETES_COMPONENTS:
        given = RELEASES[series].gates.get(component, {})
        assert sorted(name for name in given if name.startswith("DRADeviceTaint")) == sorted(wanted["gates"])
    served = {"v1", *(each.removeprefix("resource.k8s.io/").removesuffix("=true")
                      for each in RELEASES[series].runtime_config)}
    assert wanted["version"] in served


def test_1_36_needs_no_gate_for_conditions_but_one_for_taint_rules() -> None:
    release = RELEASES["1.36"]
    assert {release.feature_gates(name) for name in KUBERNETES_COMPONENTS} == {"DRADeviceTaintRules=true"}
    assert "resource.k8s.io/v1beta2=true" in release.runtime_config


def test_1_37_needs_no_gate_and_no_version_of_the_api() -> None:
    release = RELEASES["1.37"]
    assert {release.feature_gates(name) for name in KUBERNETES_COMPONENTS} == {""}
    assert release.runtime_config == ()
    assert release == release.plain()


def test_preflight_and_make_releases_know_the_same_releases() -> None:
    assert matrix.lookup("kubernetes.known") == sorted(RELEASES)
    made = re.search(r"^RELEASES := (.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert made is not None
    assert made[1].split() == sorted(RELEASES)


def made_demos(folder: Path, script: str) -> tuple[int, list[str]]:
    """Exit status of `make releases` whose demo is `script`, and the arguments of each demo that it began."""
    demo = folder / "program.lab.demo"
    demo.write_text(f'#!/bin/sh\necho "$@" >> {folder}/begun\n{script}\n', encoding="utf-8")
    demo.chmod(0o755)
    command = ["make", "-f", str(MAKEFILE), "-o", "setup", "releases", f"PROGRAM={folder}/program"]
    done = subprocess.run(command, cwd=MAKEFILE.parent, capture_output=True, timeout=60, check=False)
    return done.returncode, (folder / "begun").read_text(encoding="utf-8").splitlines()


def test_make_releases_plays_every_handover_on_every_release(tmp_path: Path) -> None:
    """A release plays gated as it is; before 1.36 the ways through the pool need the gates that the lab sets."""
    status, begun = made_demos(tmp_path, "exit 0")
    assert status == 0
    ways = ("--mode gated --no-feature-gates", "--mode direct", "--mode reschedule")
    assert begun == [f"--kubernetes {series} {way}" for series in sorted(RELEASES) for way in ways]


def test_make_releases_ends_with_the_first_demo_that_fails(tmp_path: Path) -> None:
    status, begun = made_demos(tmp_path, 'case "$*" in *1.35*direct*) exit 1;; esac')
    assert status != 0
    assert begun[-1] == "--kubernetes 1.35 --mode direct"


def test_no_release_is_given_a_gate_that_preflight_takes_to_be_on() -> None:
    """The lab switches on what the release has off, so that both say the same of a release."""
    defaults = matrix.lookup("kubernetes.gates")
    for release in RELEASES.values():
        for component in KUBERNETES_COMPONENTS:
            given = release.gates.get(component, {})
            assert {name for name in given if matrix.at_least(release.series, defaults[name])} == set()


def test_other_components_have_no_gates() -> None:
    assert RELEASES["1.34"].feature_gates("etcd") == ""


def test_gang_scheduling_is_where_pods_name_their_pod_group() -> None:
    found = RELEASES["1.36"].with_gangs()
    assert found.feature_gates("kube-scheduler") == (
        "DRADeviceTaintRules=true,DRAWorkloadResourceClaims=true,GangScheduling=true,GenericWorkload=true")
    assert found.runtime_config[-1] == "scheduling.k8s.io/v1alpha2=true"
    refused = r"1\.35\.\d+ has no gang scheduling that the lab knows: use one of 1\.36, 1\.37$"
    with pytest.raises(LabError, match=refused):
        RELEASES["1.35"].with_gangs()


@pytest.mark.parametrize("series", sorted(GANG_API))
def test_pod_groups_end_only_with_their_controller(series: str) -> None:
    """Without it a PodGroup keeps its finalizer, and the claims of the group stay."""
    assert RELEASES[series].controllers == ()
    assert RELEASES[series].with_gangs().controllers == ("podgroup-protection-controller",)


def test_1_37_has_no_gate_of_its_own_for_gangs_and_serves_them_as_beta() -> None:
    """A component of 1.37 does not start with a gate that it does not know."""
    found = RELEASES["1.37"].with_gangs()
    assert {found.feature_gates(name) for name in KUBERNETES_COMPONENTS} == {
        "DRAWorkloadResourceClaims=true,GenericWorkload=true"}
    assert found.runtime_config == ("scheduling.k8s.io/v1beta1=true",)


def test_binding_timeout_exists_from_1_35() -> None:
    assert {series: release.binding_timeout for series, release in RELEASES.items()} == {
        "1.34": False,
        "1.35": True,
        "1.36": True,
        "1.37": True,
    }


def test_every_component_has_a_version() -> None:
    release = RELEASES["1.36"]
    versions = {component: release.version_of(component) for component in COMPONENTS}
    assert versions["kube-scheduler"] == "1.36.3"
    assert versions["etcd"].startswith("3.")
    assert versions["kwok"].startswith("0.")
