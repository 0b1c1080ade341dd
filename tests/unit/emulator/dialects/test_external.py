# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Emulators of drivers of other collections are found by name; what is missing is named."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec, SpecError
from ansible_collections.composable.infra.emulator.dialects.managers import MANAGERS, Row, register

COLLECTIONS = itertools.count()
REGISTERED = """
from ansible_collections.composable.infra.emulator.dialects.managers import Row, register

register("NAME", Row(settings=("rack",), routes=lambda context: []))
"""
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Install a collection with the source of an emulator, in which NAME stands for its name. Return the name."""

    def written(source: str) -> str:
        collection = f"emulated{next(COLLECTIONS)}"
        folder = tmp_path / "ansible_collections" / "external" / collection / "emulator"
        folder.mkdir(parents=True)
        name = f"external.{collection}.box"
        (folder / "box.py").write_text(source.replace("NAME", name), encoding="utf-8")
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
        return name

    return written


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let registrations end with the test."""
    before = set(MANAGERS)
    yield
    for name in set(MANAGERS) - before:
        del MANAGERS[name]


def test_a_fabric_may_name_it_with_settings_and_faults(write: Write) -> None:
    name = write(REGISTERED)
    spec = FabricSpec.parse({"managers": [name], "settings": {name: {"rack": "r1"}},
                             "faults": {"rules": [{"kind": "lost_reply", "manager": name}]}})
    assert (spec.managers, spec.settings[name], spec.faults.rules[0].manager) == ((name,), {"rack": "r1"}, name)


@pytest.mark.parametrize(("source", "said"), [
    ("", "is not registered by emulator/box.py"),
    ("import no_such_package", "No module named 'no_such_package'"),
    (REGISTERED.replace("routes=", "options=").replace("lambda context: []", "{}"), "Give a function that returns"),
    (REGISTERED.replace('"NAME"', '"box"'), "'box' is not allowed. It must be namespace.collection.name"),
])
def test_what_cannot_be_used_is_named(write: Write, source: str, said: str) -> None:
    name = write(source)
    with pytest.raises(SpecError, match=f"managers: '{name}' ") as caught:
        FabricSpec.parse({"managers": [name]})
    assert said in str(caught.value)


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(SpecError, match=r"'nobody.at_all.box' has no emulator: cannot import emulator/box.py "):
        FabricSpec.parse({"managers": ["nobody.at_all.box"]})


def test_a_dialect_needs_routes() -> None:
    with pytest.raises(ValueError, match="routes: None is not allowed"):
        register("a.b.c", Row())
