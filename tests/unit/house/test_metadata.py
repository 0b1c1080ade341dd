# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's description of itself says what is there, no more and no less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT, text


def load(path: str) -> Any:
    """A YAML file of the checkout."""
    return yaml.safe_load(text(Path(path)))


def modules() -> set[str]:
    """Names of the public modules."""
    return {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if not path.stem.startswith("_")}


def test_every_module_that_connects_has_a_block_of_defaults() -> None:
    """A group's members take the same options; what works on the node itself, or on a file, connects to nothing."""
    groups = load("meta/runtime.yml")["action_groups"]
    assert {name for members in groups.values() for name in members} == modules() - {
        "fabric_whatif", "kernel_parameters", "node_device", "node_device_info"}


def test_declared_extension_folders_hold_plugins() -> None:
    declared = {entry["args"]["ext_dir"] for entry in load("meta/extensions.yml")["extensions"]}
    plugins = ROOT.glob("extensions/*/plugins/*/*.py")
    present = {path.parent.relative_to(ROOT / "extensions").as_posix() for path in plugins}
    assert declared == present


def test_execution_environment_files_exist() -> None:
    needs = load("meta/execution-environment.yml")["dependencies"]
    assert [name for name in needs.values() if not (ROOT / name).is_file()] == []


def test_every_pin_of_setup_is_in_the_constraints() -> None:
    folder = ROOT / "requirements"
    pinned = {line.lower().replace("_", "-") for line in pins(folder / "constraints.txt")}
    for name in ("runtime", "tests", "gates"):
        assert {line.lower().replace("_", "-") for line in pins(folder / f"{name}.txt")} <= pinned


def pins(path: Path) -> list[str]:
    """The requirement lines of a file; every one must be a pin."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if "==" not in line] == []
    return lines


def test_archive_leaves_out_what_setup_writes() -> None:
    assert {".venv", ".cache", "dist", "tests/output"} <= set(load("galaxy.yml")["build_ignore"])


def test_a_change_passes_the_same_tests_as_a_person_runs() -> None:
    lines = text(Path(".ci/run")).splitlines()
    commands = [line for line in lines if not line.startswith(("#", "set -", "cd "))]
    assert commands == ["make test"]


@pytest.mark.parametrize("name", ["fabric_device", "fabric_info", "fabric_plan"])
def test_examples_of_the_main_modules_show_redfish(name: str) -> None:
    source = text(Path(f"plugins/modules/{name}.py"))
    tasks = yaml.safe_load(source.partition('EXAMPLES = r"""')[2].partition('"""')[0])
    assert "redfish" in [task[f"composable.infra.{name}"].get("manager") for task in tasks]
