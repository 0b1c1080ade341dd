# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoHDI's components are found by what their Deployments are called and by what they run."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.filter.cohdi_components import IMAGES, FilterModule
from ansible_collections.composable.infra.tests.unit.stack.vendor_charts import (
    values,
    vendor,
)

cohdi_components = FilterModule().filters()["cohdi_components"]


def deployment(namespace: str, name: str, image: str = "example.com/image:1",
               replicas: int | None = 1) -> dict[str, t.Any]:
    return {"metadata": {"namespace": namespace, "name": name},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}}}


@pytest.mark.parametrize(("namespace", "name", "component"), [
    ("composable-dra", "composable-dra-driver", "publisher"),
    ("composable-dra", "dds-controller-manager", "scaler"),
    ("composable-resource-operator-system", "composable-resource-operator-controller-manager", "operator"),
])
def test_names_are_those_of_upstreams_chart(namespace: str, name: str, component: str) -> None:
    assert cohdi_components([deployment(namespace, name)]) == [
        {"component": component, "namespace": namespace, "name": name, "replicas": 1}]


@pytest.mark.parametrize("image", [
    "ghcr.io/cohdi/dynamic-device-scaler:v0.2.0", "mirror.example.com:5000/x/dynamic-device-scaler",
    "dynamic-device-scaler@sha256:00", "mirror.example.com:5000/dynamic-device-scaler:v1@sha256:00",
])
def test_another_name_in_another_namespace_is_found_by_its_image(image: str) -> None:
    (found,) = cohdi_components([deployment("gpu", "my-scaler", image, 0)])
    assert (found["component"], found["replicas"]) == ("scaler", 0)


def test_others_are_not_taken_for_it() -> None:
    assert cohdi_components([
        deployment("elsewhere", "dds-controller-manager"), deployment("composable-dra", "exporter"),
        deployment("composable-infra", "composable-infra", "example.com/not-dynamic-device-scaler:1")]) == []


def test_one_without_replicas_has_one() -> None:
    assert cohdi_components([deployment("composable-dra", "dds-controller-manager", replicas=None)])[0]["replicas"] == 1


@pytest.mark.parametrize("repository", sorted(IMAGES))
def test_images_are_those_of_upstreams_chart(repository: str) -> None:
    image = values(vendor("cohdi-0.2.0"))[repository]["common"]["image"]
    assert image["repository"].rpartition("/")[2] == repository
