# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row whose pool would make the scheduler fail is found before it is published, and no other row is."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.pool.device_classes import (
    class_failures,
    refusal,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import DeviceModel
from ansible_collections.composable.infra.tests.unit.planning.builders import settings

# As the vendor's chart installs it.
VENDORS = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def device_class(*expressions: str, name: str = "gpu.nvidia.com") -> dict[str, t.Any]:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": e}} for e in expressions]}}


def row(**attributes: str) -> DeviceModel:
    return dataclasses.replace(settings().models[0], attributes=attributes)


def test_row_without_type_breaks_the_vendors_class() -> None:
    assert class_failures(row(productName="A100"), [device_class(VENDORS)]) == {"gpu.nvidia.com": "no such key: type"}
    said = refusal(row(productName="A100"), [device_class(VENDORS)])
    assert "DeviceClass gpu.nvidia.com would fail on their devices (no such key: type)" in said
    assert "dra-attributes" in said


@pytest.mark.parametrize("kind", ["gpu", "mig"])
def test_row_with_type_breaks_nothing_whether_or_not_it_fits(kind: str) -> None:
    assert refusal(row(productName="A100", type=kind), [device_class(VENDORS)]) == ""


def test_first_selector_that_does_not_hold_ends_the_trial() -> None:
    guarded = device_class("device.driver == 'other'", "device.attributes['gpu.nvidia.com'].type == 'gpu'")
    assert refusal(row(productName="A100"), [guarded]) == ""


@pytest.mark.parametrize("expression", ["device.driver in [1, 2].map(x, x)", "", "device.driver.unheardOf()"])
def test_expression_that_is_not_understood_here_refuses_nothing(expression: str) -> None:
    assert refusal(row(productName="A100"), [device_class(expression)]) == ""


def test_class_without_selectors_breaks_on_nothing() -> None:
    assert refusal(row(productName="A100"), [{"metadata": {"name": "any"}, "spec": {}}]) == ""
