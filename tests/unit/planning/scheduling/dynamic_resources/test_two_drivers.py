# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that two DRA drivers may show: pods go where the node's own driver shows what they ask for."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import IdleDevice, Stock
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, row
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    WAIT,
    Json,
    claim,
    device,
    device_class,
    gated,
    node,
    nodes_by_pod,
    plan,
    release,
)

OWN = "own.example"
BOTH = "both"
TABLE = {"device_info": [row(0, A100, "a100", **{"other-driver-names": [OWN]})]}
SETTINGS = Settings.from_dict(TABLE)
RULES = replace(WAIT, models=SETTINGS.models, device_classes=(*SETTINGS.device_classes, BOTH))
LET_GO = replace(RULES, unserved="release")
CLASSES = {CLASS: device_class(), OWN: device_class(f"device.driver == '{OWN}'", name=OWN),
           BOTH: device_class(f"device.driver in ['{DRIVER}', '{OWN}']", name=BOTH)}
PRODUCT = f'device.attributes[device.driver].productName == "NVIDIA {A100}"'
VENDORS_PRODUCT = f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'


def ask(name: str, *expressions: str, count: int = 1) -> Json:
    """A request of a class."""
    return {"deviceClassName": name, "count": count, "allocationMode": "ExactCount",
            "selectors": [{"cel": {"expression": each}} for each in expressions]}


def chosen(name: str, *nodes: t.Any, expressions: tuple[str, ...] = (), free: int = 1) -> str:
    """The node of a pod that asks for one device of a class; empty for none."""
    found = plan(*nodes, gated("p", ask(name, *expressions)), rules=RULES, free=free, classes=CLASSES)
    return nodes_by_pod(found).get("p", "")


def idle(driver: str) -> dict[str, Stock]:
    """One device that a driver shows."""
    return {A100: Stock((IdleDevice("r", device(), driver),))}


@pytest.mark.parametrize(("name", "theirs", "ours"), [(CLASS, "vendors", ""), (OWN, "", "moved"),
                                                      (BOTH, "vendors", "moved")])
def test_device_is_attached_where_the_driver_of_the_node_satisfies_the_class(name: str, theirs: str, ours: str) -> None:
    assert chosen(name, node("vendors")) == theirs
    assert chosen(name, node("vendors", driver=DRIVER)) == theirs
    assert chosen(name, node("moved", driver=OWN)) == ours
    assert chosen(name, node("vendors"), node("moved", driver=OWN)) in {theirs, ours} - {""}


@pytest.mark.parametrize(("name", "theirs", "ours"), [(CLASS, "n", ""), (OWN, "", "n"), (BOTH, "n", "n")])
def test_idle_device_counts_by_the_driver_that_shows_it(name: str, theirs: str, ours: str) -> None:
    assert chosen(name, node("n", stock=idle(DRIVER)), free=0) == theirs
    assert chosen(name, node("n", stock=idle(OWN), driver=OWN), free=0) == ours


def test_idle_device_that_the_old_driver_still_shows_is_not_that_of_the_new_one() -> None:
    leaving = node("n", stock=idle(DRIVER), driver=OWN)
    assert chosen(CLASS, leaving, free=0) == "n"
    assert chosen(OWN, leaving, free=0) == ""


def test_selector_that_names_the_driver_of_the_device_fits_on_both() -> None:
    assert chosen(BOTH, node("moved", driver=OWN), expressions=(PRODUCT,)) == "moved"
    assert chosen(BOTH, node("vendors"), expressions=(PRODUCT,)) == "vendors"


def test_selector_for_one_driver_is_not_sent_to_a_node_of_the_other() -> None:
    nodes = node("moved", driver=OWN), node("vendors")
    assert chosen(BOTH, *nodes, expressions=(VENDORS_PRODUCT,)) == "vendors"
    assert chosen(BOTH, nodes[0], expressions=(VENDORS_PRODUCT,)) == ""


def test_it_is_said_which_driver_the_node_has() -> None:
    said = f"shows {A100} by the driver {OWN}, which the selectors do not accept"
    found = plan(node("moved", driver=OWN), gated("p", ask(CLASS)), rules=LET_GO, free=1, classes=CLASSES)
    assert said in release(found, "p").reason


def test_what_devices_of_one_driver_show_says_nothing_of_those_of_the_other() -> None:
    memory = 'device.capacity["{0}"].memory.compareTo(quantity("40Gi")) == 0'
    shown = device(capacity={"memory": {"value": "40Gi"}})
    asked = gated("p", ask(OWN, memory.format(OWN)))
    with_samples = {(A100, OWN): (shown,), (A100, DRIVER): (device(),)}
    found = plan(node("n", driver=OWN), asked, rules=RULES, free=1, classes=CLASSES, samples=with_samples)
    assert nodes_by_pod(found) == {"p": "n"}
    found = plan(node("n", driver=OWN), asked, rules=LET_GO, free=1, classes=CLASSES,
                 samples={(A100, DRIVER): (device(capacity={"memory": {"value": "40Gi"}}),)})
    assert release(found, "p").unschedulable is False


def test_idle_and_fresh_devices_of_one_request_are_of_the_same_node() -> None:
    moved = node("moved", stock=idle(OWN), driver=OWN)
    found = plan(moved, gated("p", ask(BOTH, count=2)), rules=RULES, free=1, classes=CLASSES)
    assert nodes_by_pod(found) == {"p": "moved"}
    found = plan(moved, gated("p", ask(CLASS, count=2)), rules=RULES, free=2, classes=CLASSES)
    assert not nodes_by_pod(found)


@pytest.mark.parametrize(("name", "attribute", "fits"), [
    (CLASS, f"{DRIVER}/productName", True), (OWN, f"{OWN}/productName", True),
    (BOTH, f"{DRIVER}/productName", False)])
def test_attribute_to_share_counts_for_the_drivers_that_a_request_accepts(name: str, attribute: str,
                                                                          fits: bool) -> None:
    pair = claim("c", ask(name, count=2), constraints=[{"matchAttribute": attribute}])
    nodes = node("vendors"), node("moved", driver=OWN)
    found = plan(*nodes, gated("p", claims={"gpu": pair}), rules=RULES, free=2, classes=CLASSES)
    assert bool(nodes_by_pod(found)) is fits
