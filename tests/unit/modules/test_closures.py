# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module carries to its host: every file of module_utils that it imports, also by way of
others. AnsiballZ packs these files (ansible-core, ``executor/module_common.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT, text
from ansible_collections.composable.infra.tests.unit.house.import_rules import PACKAGE, imports

# The most files by what a module needs. A module is in the first group that it fits.
NODE, CLUSTER, FABRIC, ENGINE, WHATIF = 20, 45, 76, 273, 298
BOUNDS = {
    **dict.fromkeys(("kernel_parameters", "node_device", "node_device_info"), NODE),
    **dict.fromkeys(("claim_condition", "composability_request", "composability_request_info", "owned_namespace",
                     "stack_info", "stack_preflight", "stack_verify", "usage"), CLUSTER),
    **dict.fromkeys(("fabric_conformance", "fabric_device", "fabric_info", "fabric_plan", "fabric_power"), FABRIC),
    **dict.fromkeys(("claim_info", "device_pool", "device_pool_info", "fabric_capture", "scale"), ENGINE),
    **dict.fromkeys(("fabric_defragment", "fabric_whatif"), WHATIF),
}
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))


def carried(module: str) -> set[str]:
    """Files of module_utils that AnsiballZ packs for a module."""
    found, todo = set[str](), [f"plugins/modules/{module}.py"]
    while todo:
        path = todo.pop()
        for _line, target in imports(path, text(Path(path))):
            if target.startswith(f"{PACKAGE}.plugins.module_utils."):
                parts = target[len(PACKAGE) + 1:].split(".")
                known = {f"{'/'.join(parts[:n])}.py" for n in (len(parts), len(parts) - 1)}
                todo += (new := {name for name in known if (ROOT / name).is_file()} - found)
                found |= new
    return found


def test_every_module_has_a_bound() -> None:
    assert {name for name in MODULES if name != "__init__"} == set(BOUNDS)


@pytest.mark.parametrize("module", BOUNDS)
def test_a_module_carries_few_files(module: str) -> None:
    assert len(carried(module)) <= BOUNDS[module], sorted(carried(module))


@pytest.mark.parametrize("module", [name for name, most in BOUNDS.items() if most in (NODE, CLUSTER)])
def test_modules_without_a_manager_carry_no_driver(module: str) -> None:
    assert not [name for name in carried(module) if "/fabric/drivers/" in name or "/reconcile/" in name]


@pytest.mark.parametrize("module", [name for name, most in BOUNDS.items() if most == FABRIC])
def test_modules_of_the_manager_carry_no_client_of_the_api_server(module: str) -> None:
    assert not [name for name in carried(module) if "/kube/client/" in name or "/reconcile/" in name]
