# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters are found under the names that they document, and answer as roles call them."""

from __future__ import annotations

import importlib
import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import lookup
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

HOST = {"system": "Ubuntu", "system_version": "24.04"}
CLAIM = {"namespace": "d", "name": "c", "devices": [{"driver": "g", "pool": "n", "device": "x"}]}
# filter: input, further arguments, what is looked at in the answer, what it must be
CALLS: dict[str, tuple[t.Any, tuple[t.Any, ...], t.Callable[[t.Any], t.Any], t.Any]] = {
    "mirrored": ("nvcr.io/x", ("m",), str, "m/x"),
    "chart_source": (lookup("charts.nfd"), ("oci://m",), lambda found: found["ref"], "oci://m/node-feature-discovery"),
    "claims_of": ([CLAIM], ("g",), list, ["d/c"]),
    "host_facts": (
        {"os_release": "ID=ubuntu"},
        ("n",),
        lambda found: (found["name"], found["system"]),
        ("n", "Ubuntu"),
    ),
    "driver_packages": (HOST, (580, lookup("driver")), len, 3),
}


FOLDER = ROOT / "plugins" / "filter"


def module(name: str) -> t.Any:
    """The file of a filter."""
    return importlib.import_module(f"ansible_collections.composable.infra.plugins.filter.{name}")


def documentation(name: str) -> tuple[dict[str, t.Any], str]:
    """What a filter says of itself and its examples: in the file of its name, or else in a .yml of its name."""
    if (FOLDER / f"{name}.yml").is_file():
        told = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
        return told["DOCUMENTATION"], told["EXAMPLES"]
    found = module(name)
    return yaml.safe_load(found.DOCUMENTATION), found.EXAMPLES


@pytest.mark.parametrize("name", CALLS)
def test_a_filter_answers(name: str) -> None:
    given, more, look, wanted = CALLS[name]
    assert look(module(name).FilterModule().filters()[name](given, *more)) == wanted


@pytest.mark.parametrize("name", CALLS)
def test_a_filter_documents_itself(name: str) -> None:
    told, examples = documentation(name)
    assert told["name"] == name
    assert set(module(name).FilterModule().filters()) == {name}
    assert [
        option for option in told.get("positional", "").split(", ") if option and option not in told["options"]
    ] == []
    assert f"composable.infra.{name}" in examples


def test_every_filter_file_has_what_is_documented_and_documents_what_it_has() -> None:
    names = {path.stem for path in (*FOLDER.glob("*.py"), *FOLDER.glob("*.yml"))}
    defined = {name for path in FOLDER.glob("*.py") for name in module(path.stem).FilterModule().filters()}
    assert defined == names
