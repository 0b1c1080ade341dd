# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version matrix answers by path, explains what it lacks, and agrees with itself."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible.errors import AnsibleError

from ansible_collections.composable.infra.plugins.lookup.matrix import LookupModule
from ansible_collections.composable.infra.plugins.plugin_utils.stack import matrix as m


def test_a_path_leads_to_a_value() -> None:
    assert m.lookup("charts.nfd.name") == "node-feature-discovery"
    assert m.lookup("") == m.matrix()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("charts.ndf", "below 'charts' the matrix has cluster_autoscaler, cohdi, dcgm_exporter, gpu_operator, nfd, "
                       "nvidia_dra_driver"),
        ("chart", "below its top level the matrix has charts, "),
        ("charts.nfd.version.major", "below 'charts.nfd.version' there is only a value"),
    ],
)
def test_a_wrong_path_is_explained(path: str, says: str) -> None:
    with pytest.raises(m.UnknownPath) as raised:
        m.lookup(path)
    assert str(raised.value).startswith(f"the version matrix has nothing at {path!r}: ")
    assert says in str(raised.value)


def test_callers_cannot_change_it() -> None:
    m.matrix()["charts"].clear()
    assert m.lookup("charts.nfd.version")


@pytest.mark.parametrize(
    ("version", "floor", "holds"),
    [
        ("v1.36.3+rke2r1", "1.34", True),
        ("1.34", "1.34.0", True),
        ("1.34.1", "1.34.2", False),
        ("1.34.10", "1.34.9", True),
        ("", "1", False),
        (None, "1", False),
        (580, 565, True),
        ("550", 565, False),
        ("v2.0.0-rc.7", "2.0.1", False),
    ],
)
def test_versions_are_compared_as_numbers(version: object, floor: object, holds: bool) -> None:
    assert m.at_least(version, floor) is holds


def test_comparison_is_an_order(rng: random.Random) -> None:
    versions = [".".join(str(rng.randrange(12)) for _part in range(rng.randint(1, 3))) for _count in range(12)]
    for one, two, three in itertools.islice(itertools.permutations(versions, 3), 600):
        assert m.at_least(one, two) or m.at_least(two, one)
        assert m.at_least(one, three) or not (m.at_least(one, two) and m.at_least(two, three))


def test_series() -> None:
    assert (m.series("v1.36.3+rke2r1"), m.series("26.7"), m.series("")) == ("1.36", "26.7", "")


def test_the_default_branch_is_known_and_lets_go() -> None:
    driver = m.lookup("driver")
    low, high = driver["unsafe_removal"]
    assert driver["default_branch"] in driver["branches"]
    assert not low <= driver["default_branch"] <= high
    assert set(driver["versions"]) <= set(map(str, driver["branches"]))


def test_charts_agree_with_images_and_release_lines() -> None:
    charts, images = m.lookup("charts"), m.lookup("images")
    assert all(tag.endswith(f":v{charts['nfd']['version']}") for tag in images["nfd"])
    assert all(tag.endswith(f":v{charts['nvidia_dra_driver']['version']}") for tag in images["nvidia_dra_driver"])
    assert f"nvcr.io/nvidia/gpu-operator:{charts['gpu_operator']['version']}" in images["gpu_operator"]
    assert m.series(charts["gpu_operator"]["version"]) == m.lookup("gpu_operator.majors")[-1]
    assert [tag.partition(":v")[2] for tag in images["autoscaler"]] == [m.lookup("cluster_autoscaler.version")]
    assert m.lookup("cohdi.operator") in m.lookup("cohdi.plugin_names")


def test_the_lookup_plugin_returns_one_value_per_path() -> None:
    assert LookupModule().run(["charts.nfd.name", "driver.default_branch"]) == ["node-feature-discovery", 580]


def test_the_lookup_plugin_explains() -> None:
    with pytest.raises(AnsibleError, match="the version matrix has nothing at 'nothing'"):
        LookupModule().run(["nothing"])
