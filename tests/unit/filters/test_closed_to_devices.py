# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closing a node to devices and opening it again leaves it as it was, whatever limits it had."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter.closed_to_devices import BEFORE, FilterModule

Json = dict[str, t.Any]
change = FilterModule().filters()["closed_to_devices"]
MODELS = ("a100", "h100", "l40")
CONFIG: Json = {"device_info": [
    {"index": i, "cdi-model-name": name.upper(), "k8s-device-name": name, "driver-name": "gpu.nvidia.com",
     "cannot-coexist-with": [], "dra-attributes": {"productName": name, "uuid": ""}}
    for i, name in enumerate(MODELS, 1)],
    "scan_interval": 5, "fabric": {"manager": "fm"}}


def label(model: str) -> str:
    return f"cohdi.io/{model}-size-max"


def node(labels: dict[str, str], annotations: dict[str, str] | None = None) -> Json:
    return {"metadata": {"name": "node-0", "labels": labels, "annotations": annotations}}


def patched(old: Json, patch: Json) -> Json:
    """What the API server makes of a patch: null takes away."""
    done = {kind: {k: v for k, v in {**(old["metadata"].get(kind) or {}), **patch[kind]}.items() if v is not None}
            for kind in ("labels", "annotations")}
    return {"metadata": {"name": "node-0", **done}}


def limits(of: Json) -> list[str | None]:
    return [of["metadata"]["labels"].get(label(model)) for model in MODELS]


def test_closed_means_no_device_of_any_model() -> None:
    shut = patched(node({label("h100"): "3", "zone": "a"}), change(node({label("h100"): "3"}), CONFIG))
    assert limits(shut) == ["0", "0", "0"]
    assert shut["metadata"]["labels"]["zone"] == "a"


def test_opened_again_it_is_as_before(rng: random.Random) -> None:
    for _round in range(50):
        labels = {label(m): str(rng.randrange(5)) for m in MODELS if rng.random() < 0.5}
        before = node({**labels, "zone": "a"}, {"other": "note"})
        now = before
        for _step in range(rng.randrange(1, 4)):
            some = rng.choice([None, rng.sample(MODELS, 2)])
            now = patched(now, change(now, CONFIG, models=some))
        opened = patched(now, change(now, CONFIG, closed=False))
        assert opened["metadata"] == before["metadata"]


def test_closing_twice_changes_nothing() -> None:
    once = patched(node({label("a100"): "2"}), change(node({label("a100"): "2"}), CONFIG))
    assert patched(once, change(once, CONFIG)) == once


def test_opening_an_open_one_changes_nothing() -> None:
    open_one = node({label("a100"): "2"}, {})
    assert patched(open_one, change(open_one, CONFIG, closed=False)) == open_one


def test_models_can_be_opened_one_by_one() -> None:
    shut = patched(node({label("a100"): "2"}), change(node({label("a100"): "2"}), CONFIG))
    half = patched(shut, change(shut, CONFIG, closed=False, models=["a100"]))
    assert limits(half) == ["2", "0", "0"]
    assert BEFORE in half["metadata"]["annotations"]


def test_another_prefix() -> None:
    assert set(change(node({}), {**CONFIG, "label_prefix": "gpu.example.com"}, models=["l40"])["labels"]) == {
        "gpu.example.com/l40-size-max"}


@pytest.mark.parametrize(("config", "models", "words"), [
    (CONFIG, ["b200"], "models: 'b200' is not usable: the configuration has a100, h100, l40"),
    ({}, None, "config: device_info")])
def test_bad_input_is_named(config: Json, models: list[str] | None, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        change(node({}), config, models=models)
