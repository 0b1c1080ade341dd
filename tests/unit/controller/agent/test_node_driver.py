# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The label of a node says which driver has its devices, and the agent follows it."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.node_state import NodeDriver
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

LABEL = "composable.infra/dra-driver"
OWN = "devices.composable.infra"


NONE = f"of a node without the label {LABEL}"


def labelled(driver: str) -> dict[str, t.Any]:
    """The node with this driver in its label."""
    return {"metadata": {"name": "n", "labels": {LABEL: driver}}}


@pytest.mark.parametrize(("name", "own"), [("", False), (OWN, True)])
def test_without_the_option_no_label_counts_and_nothing_is_watched(name: str, own: bool) -> None:
    driver = NodeDriver("n", name)
    assert driver.is_own() is own
    assert driver.other() == ""
    assert driver.reflectors(FakeApi().client, lambda *_: None) == []


@pytest.mark.parametrize(("raw", "other"), [
    (None, NONE), ({"metadata": {"name": "n"}}, NONE), ({"metadata": {"name": "n", "labels": {}}}, NONE),
    (labelled("gpu.nvidia.com"), "gpu.nvidia.com"), (labelled(OWN), "")])
def test_label_says_whose_the_devices_are(raw: dict[str, t.Any] | None, other: str) -> None:
    driver = NodeDriver("n", OWN, by_label=True)
    if raw is not None:
        driver.store.upsert(raw)
    assert driver.other() == other
    assert driver.is_own() is not bool(other)


def test_change_of_the_label_is_followed() -> None:
    api, changed = FakeApi(), threading.Event()
    driver = NodeDriver("n", OWN, by_label=True)
    api.put(NODES, labelled("gpu.nvidia.com"))
    (reflector,) = driver.reflectors(api.client, lambda *_: changed.set() if driver.is_own() else None)
    reflector.start()
    try:
        assert reflector.synced.wait(5)
        assert not driver.is_own()
        api.put(NODES, labelled(OWN))
        assert changed.wait(5)
        assert driver.is_own()
    finally:
        reflector.stop()
