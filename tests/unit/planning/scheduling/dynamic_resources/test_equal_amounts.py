# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that differ by their UUID alone share their entry. Equal amounts are in memory once. No answer changes."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling import parse_cache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.cel.values import Unknown
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.dynamic_resources import (
    catalogue,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.pod_info import PodInfo
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import (
    EqualAmounts,
    ParseCache,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import IdleDevice
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.tests.bench.large import objects

Json = dict[str, t.Any]
ATTRIBUTES = f'device.attributes["{objects.DRIVER}"]'
OWN, OTHER = objects.serial(1, 2), objects.serial(1, 3)
SELECTORS = [
    "true", f'{ATTRIBUTES}.uuid == "{OWN}"', f'{ATTRIBUTES}.uuid == "{OTHER}"', f'{ATTRIBUTES}.uuid != "{OWN}"',
    f'{ATTRIBUTES}.uuid != ""', f'{ATTRIBUTES}.uuid.startsWith("GPU-")', f'{ATTRIBUTES}.uuid.endsWith("{OWN[-4:]}")',
    f'"uuid" in {ATTRIBUTES}', f'{ATTRIBUTES}["uuid"] == "{OWN}"', f"{ATTRIBUTES}.uuid > 3", f"{ATTRIBUTES}.minor == 2",
    f'{ATTRIBUTES}.minor == 2 && {ATTRIBUTES}.uuid == "{OTHER}"', f'{ATTRIBUTES}.nothing == "a"',
    f'{ATTRIBUTES}.minor == 9 || {ATTRIBUTES}.uuid in ["{OWN}", "x"]', objects.SELECTOR, "device.no.such.thing",
]


@pytest.fixture
def known() -> catalogue.Catalogue:
    return catalogue.Catalogue(Settings.from_dict({"device_info": [objects.ROW]}).models, {})


def whole_and_shared(number: int, gpu: int) -> tuple[IdleDevice, IdleDevice]:
    """One device with its entry as it is, and with the entry that it shares."""
    entry = objects.node_slice(number)["spec"]["devices"][gpu]
    return (IdleDevice("a", entry),
            IdleDevice("a", slices.without_uuid(entry), uuid=slices.attribute(entry, "uuid") or ""))


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_selector_answers_the_same(known: catalogue.Catalogue, selector: str) -> None:
    for gpu in (2, 3):
        whole, shared = whole_and_shared(1, gpu)
        for _again in range(2):
            assert known.device_satisfies(shared, objects.MODEL, (selector,)) is known.device_satisfies(
                whole, objects.MODEL, (selector,))


def test_devices_with_one_entry_are_told_apart(known: catalogue.Catalogue) -> None:
    entry = whole_and_shared(1, 2)[1].device
    answers = [known.device_satisfies(IdleDevice(uuid, entry, uuid=uuid), objects.MODEL, (SELECTORS[1],))
               for uuid in (OWN, OTHER, OWN)]
    assert answers == [True, False, True]


def test_every_attribute_is_the_same(known: catalogue.Catalogue) -> None:
    whole, shared = whole_and_shared(1, 2)
    names = [*whole.device["attributes"], "uuid", "nothing"]
    for name in (name if "/" in name else f"{objects.DRIVER}/{name}" for name in names):
        found = known.attribute(shared, objects.MODEL, name)
        assert found == known.attribute(whole, objects.MODEL, name)
        assert not isinstance(found, Unknown)


def test_an_entry_without_a_uuid_has_none(known: catalogue.Catalogue) -> None:
    entry = whole_and_shared(1, 2)[1].device
    assert known.attribute(IdleDevice("a", entry), objects.MODEL, f"{objects.DRIVER}/uuid") is None
    assert known.attribute(IdleDevice("a", entry, uuid=OWN), objects.MODEL, f"{objects.DRIVER}/uuid") == OWN


def test_equal_requests_of_pods_are_in_memory_once() -> None:
    cache, raws = ParseCache(), [json.loads(json.dumps(objects.pod(i, 5))) for i in range(3)]
    infos = [cache.pod(raw) for raw in raws]
    assert [info.requests for info in infos] == [PodInfo.from_raw(raw).requests for raw in raws]
    assert len({id(info.requests) for info in infos}) == 1
    assert len({*infos}) == 3, "each is a pod of its own"
    assert [cache.pod(raw) for raw in raws] == infos, "a pod is parsed once"


def test_what_nodes_offer_alike_is_kept_once() -> None:
    amounts = EqualAmounts()
    first, same, other = (amounts.once({"cpu": 64000, "pods": count}) for count in (110, 110, 250))
    assert first is same
    assert (first, other) == ({"cpu": 64000, "pods": 110}, {"cpu": 64000, "pods": 250})


def test_amounts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_cache, "MOST_AMOUNTS", 10)
    amounts = EqualAmounts()
    for number in range(200):
        assert amounts.once({"cpu": number}) == {"cpu": number}
    assert len(amounts._known) <= 11
