# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory through the engine, as a GPU goes: wanted, attached at the emulator, online, and given back."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.tests.unit.planning.builders import row
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

MEMORY = "CXL-64G"
ROWS = [row(0, MEMORY, "cxl-64g", kind="memory")]


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    """A machine, and two memory devices."""
    spec = simple_spec(["node-0"], {}, attach=0.0, detach=0.0, managers=["redfish", "fm"])
    spec["models"] = [{"name": MEMORY, "kind": "memory", "size": 65536}]
    spec["fabrics"] = [{"id": 1, "devices": [{"model": MEMORY, "count": 2}]}]
    with Emulator.run(spec, tmp_path / "emulator") as running:
        yield running


def config(emulator: Emulator, manager: str = "redfish") -> EngineConfig:
    """A configuration with memory in its table."""
    return EngineConfig.from_dict({"device_info": ROWS, "fabric": emulator.fabric_config(manager=manager)})


@pytest.fixture
def bench(emulator: Emulator) -> Iterator[Bench]:
    """The engine's parts, with the manager that the emulator is."""
    made = Bench(device_info=ROWS)
    manager = config(emulator).manager()
    made.fabric = t.cast(t.Any, manager)
    made.build()
    made.put(objects.node("node-0", machine_uuid("node-0")))
    made.look()
    yield made
    made.operations.stop()
    made.threads.stop(5.0)
    manager.close()


def states(emulator: Emulator) -> list[str]:
    """Of all devices."""
    return sorted(str(device["state"]) for device in emulator.state()["devices"])


def test_memory_of_a_claim_comes_and_goes(emulator: Emulator, bench: Bench) -> None:
    claim = objects.claim("train", objects.pool_result("cxl-64g-0", "cxl-64g-fabric1"))
    bench.put(claim)
    bench.run(2)
    (request,) = bench.api.of(COMPOSABILITY_REQUESTS)
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert (request["spec"]["resource"]["type"], resource["spec"]["type"]) == ("cxlmemory", "cxlmemory")
    assert resource["metadata"]["name"].startswith("cxlmemory-")
    assert states(emulator) == ["attached", "free"]
    bench.put(objects.local_slice(resource["status"]["device_id"]))
    bench.run(2)
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert resource["status"]["state"] == "Online"
    bench.drop(claim)
    bench.state.holds.end(resource["metadata"]["name"])
    resource["metadata"]["annotations"].pop("composable.infra/held-for", None)
    resource["metadata"]["annotations"]["cohdi.io/last-used-time"] = "2001-01-01T00:00:00Z"
    resource["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    bench.put(resource)
    bench.state.last_uses.forget(resource["metadata"]["name"])
    bench.run(5)
    assert states(emulator) == ["free", "free"]
    assert bench.api.of(COMPOSABLE_RESOURCES) == []


def test_request_for_memory_is_served(emulator: Emulator, bench: Bench) -> None:
    bench.put(objects.request("request", 2, MEMORY, type="cxlmemory"),
              *(objects.claim(f"c{n}", objects.pool_result(f"cxl-64g-{n}", "cxl-64g-fabric1")) for n in range(2)))
    bench.run(2)
    assert states(emulator) == ["attached", "attached"]


def test_manager_that_composes_no_memory_is_named_before_anything_starts(emulator: Emulator) -> None:
    with pytest.raises(BadConfig, match=r"^config: device_info\[0\]\.kind: 'memory' is not usable: manager fm "
                                        "attaches only gpu$"):
        config(emulator, "fm").manager()
