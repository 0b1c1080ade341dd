# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts and images come from the vendors or from one mirror, and the list for the mirror is complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError

from ansible_collections.composable.infra.plugins.lookup.images import LookupModule
from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import matrix
from ansible_collections.composable.infra.plugins.plugin_utils.stack.sources import (
    archive,
    chart_source,
    charts_of,
    mirrored,
    wanted,
)

CHART = {"repository": "oci://registry.k8s.io/nfd/charts", "name": "nfd", "version": "1.2.3"}


@pytest.mark.parametrize(
    ("image", "mirror", "result"),
    [
        ("nvcr.io/nvidia/driver:1", "", "nvcr.io/nvidia/driver:1"),
        ("nvcr.io/nvidia/driver:1", "m.example:5000/gpu/", "m.example:5000/gpu/nvidia/driver:1"),
        ("nvcr.io/nvidia", "m", "m/nvidia"),
        ("localhost/x", "m", "m/x"),
        ("host:5000/x", "m", "m/x"),
        ("busybox:1.36", "m", "m/library/busybox:1.36"),
        ("docker.io/busybox", "m", "m/library/busybox"),
        ("library/busybox", "m", "m/library/busybox"),
    ],
)
def test_an_image_on_a_mirror(image: str, mirror: str, result: str) -> None:
    assert mirrored(image, mirror) == result


def test_a_chart_from_the_vendor() -> None:
    assert chart_source(CHART) == {"ref": "oci://registry.k8s.io/nfd/charts/nfd", "repo_url": "", "version": "1.2.3"}
    at_vendor = {**CHART, "repository": "https://charts.example/x"}
    assert chart_source(at_vendor) == {"ref": "nfd", "repo_url": "https://charts.example/x", "version": "1.2.3"}


def test_a_chart_from_a_mirror(tmp_path: Path) -> None:
    assert chart_source(CHART, "oci://m/charts/")["ref"] == "oci://m/charts/nfd"
    assert chart_source(CHART, "https://m")["repo_url"] == "https://m"
    assert chart_source(CHART, str(tmp_path))["ref"] == str(tmp_path / "nfd-1.2.3.tgz")
    (tmp_path / "nfd").mkdir()
    assert chart_source(CHART, str(tmp_path))["ref"] == str(tmp_path / "nfd")


def test_the_address_of_an_archive() -> None:
    assert archive(CHART) == "oci://registry.k8s.io/nfd/charts/nfd:1.2.3"
    assert archive({**CHART, "repository": "https://h/x"}) == "https://h/x/nfd-1.2.3.tgz"
    assert archive({**CHART, "repository": ""}) == "nfd-1.2.3.tgz"


def test_every_image_is_listed_once_with_its_place() -> None:
    versions = matrix()
    found = wanted(versions, ["nfd", "nfd", "cohdi"], "m")
    images = [item["image"] for item in found]
    assert sorted(images) == images == sorted({*versions["images"]["nfd"], *versions["images"]["cohdi"]})
    assert {"image": "busybox:1.36", "mirror": "m/library/busybox:1.36"} in found


def test_charts_of_roles() -> None:
    assert charts_of(["nfd", "monitoring", "controllers"], matrix()) == ["dcgm_exporter", "nfd"]
    assert charts_of(["autoscaler"], matrix()) == ["cluster_autoscaler"]


def test_the_lookup_lists_all_by_default() -> None:
    (found,) = LookupModule().run([], mirror="m")
    assert {item["image"] for item in found["images"]} == {i for images in matrix()["images"].values() for i in images}
    assert len(found["charts"]) == 6


def test_the_lookup_explains_what_it_does_not_know() -> None:
    with pytest.raises(AnsibleError, match="no images are listed for ndf: use "):
        LookupModule().run(["ndf"])
