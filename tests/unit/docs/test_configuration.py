# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of the configuration says what the code does: every key, default, choice and range, and no other."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.fabric import config as fabric_config
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import CREDENTIALS_OF, MANAGERS
from ansible_collections.composable.infra.plugins.module_utils.planning import device_info, settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile import config as engine_config
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.tools import configuration

REFERENCE, PAGE = configuration.reference(), configuration.page()
FABRIC: dict[str, t.Any] = REFERENCE["fabric"]["suboptions"]
MODEL: dict[str, t.Any] = REFERENCE["device_info"]["suboptions"]
UUID = "00000000-0000-4000-8000-000000000001"
RANGE = re.compile(r"(From|Above) ([\d.]+?)(?: to|, up to) ([\d.]+)\.")
# what a value of each manager needs beside the endpoint
NEEDS = {"tenant": UUID, "cluster": UUID, **dict.fromkeys(CREDENTIALS_OF["password_grant"], "x")}


def smallest(**keys: t.Any) -> dict[str, t.Any]:
    """The configuration that the page shows as the smallest, with keys added or replaced."""
    block = re.search(r"<!-- configuration -->\n```yaml\n(.*?)```", PAGE, re.S)
    assert block
    return {**yaml.safe_load(block[1]), **keys}


def with_fabric(**keys: t.Any) -> dict[str, t.Any]:
    return smallest(fabric={**smallest()["fabric"], **keys})


def with_model(**keys: t.Any) -> dict[str, t.Any]:
    return smallest(device_info=[{**smallest()["device_info"][0], **keys}])


def accepted(data: dict[str, t.Any]) -> bool:
    try:
        EngineConfig.from_dict(data)
    except BadConfig:
        return False
    return True


def test_the_page_is_up_to_date() -> None:
    assert configuration.PAGE.read_text(encoding="utf-8") == configuration.page(), "run make configuration-page"


def test_every_key_that_is_read_is_documented_and_no_other() -> None:
    assert set(REFERENCE) == settings.KNOWN | set(engine_config.ENGINE_KEYS) | {"fabric"}
    assert set(FABRIC) == set(fabric_config._CHECKS)
    assert set(MODEL) == set(device_info.MODEL_KEYS)


def test_the_smallest_configuration_is_accepted_and_each_required_key_is_missed() -> None:
    assert accepted(smallest())
    for key in [name for name, option in REFERENCE.items() if option.get("required")]:
        assert not accepted({name: value for name, value in smallest().items() if name != key}), key
    for key in [name for name, option in FABRIC.items() if option.get("required")]:
        assert not accepted(with_fabric(**{key: None})), key
    for key in [name for name, option in MODEL.items() if option.get("required")]:
        assert not accepted(with_model(**{key: None})), key


def defaults() -> Iterator[tuple[str, t.Any, t.Any]]:
    """Key, documented default, and what the code takes for it when nothing is given."""
    made = EngineConfig.from_dict(smallest(fabric={"endpoint": "https://a.example", **NEEDS}))
    renamed = {"namespace_quotas": made.settings.shares.quotas,
               "namespace_attaches_per_minute": made.settings.shares.attaches, "device_classes": [],
               "prewarm": list(made.settings.idle_minimums)}
    for name, option in REFERENCE.items():
        if "default" in option:
            holder = made if name in engine_config.ENGINE_KEYS else made.settings
            yield name, option["default"], renamed[name] if name in renamed else getattr(holder, name)
    yield from ((f"fabric.{name}", option["default"], getattr(made.fabric, name))
                for name, option in FABRIC.items() if "default" in option)
    model = made.settings.models[0]
    yield from [("kind", MODEL["kind"]["default"], model.kind),
                ("cannot-coexist-with", MODEL["cannot-coexist-with"]["default"], sorted(model.cannot_coexist_with))]


@pytest.mark.parametrize(("key", "documented", "taken"), [pytest.param(*row, id=row[0]) for row in defaults()])
def test_the_default_is_what_the_code_takes(key: str, documented: t.Any, taken: t.Any) -> None:
    assert documented == taken


def test_a_key_without_a_documented_default_has_none() -> None:
    made = EngineConfig.from_dict(smallest(fabric={"endpoint": "https://a.example", **NEEDS})).fabric
    silent = [name for name, option in FABRIC.items() if "default" not in option and not option.get("required")]
    assert [name for name in silent if name not in (*NEEDS, "auth") and getattr(made, name)] == []


@pytest.mark.parametrize("key", [name for name, option in REFERENCE.items() if "choices" in option])
def test_the_choices_are_those_that_are_accepted(key: str) -> None:
    assert all(accepted(smallest(**{key: choice})) for choice in REFERENCE[key]["choices"])
    with pytest.raises(BadConfig) as refused:
        EngineConfig.from_dict(smallest(**{key: "no-such-choice"}))
    assert str(refused.value).endswith(", ".join(REFERENCE[key]["choices"]))


def test_the_choices_of_fabric_and_models_are_those_of_the_code() -> None:
    said = " ".join(FABRIC["manager"]["description"])
    assert set(re.findall(r"V\((\w+)\)", said)) == set(MANAGERS)
    assert FABRIC["auth"]["choices"] == list(CREDENTIALS_OF)
    assert MODEL["kind"]["choices"] == list(device_info.KINDS)
    assert MODEL["handover"]["choices"] == list(device_info.HANDOVERS)


def test_each_manager_logs_in_as_its_row_says() -> None:
    said = " ".join(FABRIC["auth"]["description"])
    assert set(re.findall(r"V\((\w+)\)", said)) == {*MANAGERS, *CREDENTIALS_OF}


def numbers(options: dict[str, t.Any]) -> list[str]:
    return [name for name, option in options.items() if option["type"] in ("int", "float")]


def limits(option: t.Any) -> tuple[str, float, float]:
    """`From` or `Above`, the lowest and the highest number in the description."""
    found = RANGE.search(" ".join([option["description"]] if isinstance(option["description"], str)
                                  else option["description"]))
    assert found, f"no range in {option['description']}"
    return found[1], float(found[2]), float(found[3])


def hold_their_range(option: t.Any, judged: t.Callable[[float], bool]) -> None:
    """``judged`` says whether a number is accepted; a whole number is asked for as such."""
    whole = option["type"] == "int"
    word, low, high = limits(option)
    ends = (int(low), int(high)) if whole else (low, high)
    assert judged(ends[0]) is (word == "From")
    assert judged(ends[1])
    assert not judged(ends[0] - (1 if whole else 0.01))
    assert not judged(ends[1] + 1)
    assert judged(ends[0] + 0.5) is not whole


@pytest.mark.parametrize("key", numbers(dict(REFERENCE)))
def test_numbers_are_accepted_within_their_range_only(key: str) -> None:
    hold_their_range(REFERENCE[key], lambda number: accepted(smallest(**{key: number})))


@pytest.mark.parametrize("key", numbers(FABRIC))
def test_numbers_of_the_fabric_are_accepted_within_their_range_only(key: str) -> None:
    hold_their_range(FABRIC[key], lambda number: accepted(with_fabric(**{key: number})))


def test_the_index_of_a_model_is_accepted_within_its_range_only() -> None:
    hold_their_range(MODEL["index"], lambda number: accepted(with_model(index=number)))


def test_each_key_with_a_guide_exists_and_its_row_leads_there() -> None:
    rows = {line.split(" | ")[0].strip("| `"): line for line in PAGE.splitlines() if line.startswith("| `")}
    assert {key: where for key, where in configuration.GUIDES.items() if f"]({where}) |" not in rows.get(key, "")} == {}
