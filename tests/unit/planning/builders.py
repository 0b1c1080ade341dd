# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short words for what the planners read, so that a test shows only what it is about.

Everything is on node ``node-0``, machine ``machine-0``, fabric 1, at the moment ``NOW``; ages are seconds before it.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Action, Plan, WaitReason
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import (
    Claim,
    ComposabilityRequest,
    ComposableResource,
    NodeSnapshot,
    PodRef,
    PoolResult,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import DeviceModel, Settings

NOW = 1_800_000_000.0
A100, H100, T4 = "A100 40G", "H100 80G", "T4"
DRIVER = "gpu.nvidia.com"
HOLD, HANDOVER = 600.0, 60.0
ATTACH_DEADLINE = 180.0

A = t.TypeVar("A", bound=Action)


def row(index: int, model: str, device: str, **more: t.Any) -> dict[str, t.Any]:
    """One row of ``device_info`` as a configuration file has it."""
    return {"index": index, "cdi-model-name": model, "k8s-device-name": device, "driver-name": DRIVER,
            "dra-attributes": {"productName": f"NVIDIA {model}"}, "cannot-coexist-with": [], **more}


def rows() -> list[dict[str, t.Any]]:
    """A100 goes with T4; H100 goes with nobody, but only its own row says so."""
    return [row(0, A100, "a100"), row(1, H100, "h100", **{"cannot-coexist-with": [0, 2]}), row(2, T4, "t4")]


def settings(**more: t.Any) -> Settings:
    """Settings with three models; further keys as in a configuration file."""
    return Settings.from_dict({"device_info": rows(), **more})


@functools.cache
def model_of(name: str) -> DeviceModel:
    """The row of one of the three models."""
    found = settings().model(name)
    assert found is not None
    return found


def result(model: str | None = A100, number: int = 0) -> PoolResult:
    """A pool device that an allocation holds; ``model`` None: of a pool that is none of ours."""
    if model is None:
        return PoolResult(DRIVER, "strange-fabric1", f"strange-{number}", None, None)
    known = model_of(model)
    return PoolResult(DRIVER, known.pool(1), f"{known.k8s_device_name}-{number}", known, 1)


def pod(name: str) -> PodRef:
    """A consumer."""
    return PodRef("default", name, f"pod-{name}")


def claim(name: str = "c", *models: str | None, age: float = 5.0, phase: str = "preparing",
          pods: tuple[str, ...] | None = None) -> Claim:
    """An allocated claim for one device per entry of ``models`` (default: one A100), used by a pod of its name."""
    wanted = models or (A100,)
    consumers = tuple(pod(p) for p in (pods if pods is not None else (name,)))
    results = tuple(result(m, i) for i, m in enumerate(wanted))
    return Claim(f"uid-{name}", "default", name, phase, NOW - age, consumers, results)


def resource(name: str = "r", model: str = A100, **more: t.Any) -> ComposableResource:
    """A ComposableResource created 1000 s ago that was never asked for; fields as in ``ComposableResource``.

    The node has done its part for what is visible.
    """
    return ComposableResource(**{"name": name, "uid": f"uid-{name}", "request": "request", "model": model,
                                 "node": "node-0", "usable": more.get("visible", False),
                                 "state": "Attaching", "created": NOW - 1000.0, "machine": "machine-0", **more})


def attached(name: str = "r", model: str = A100, **more: t.Any) -> ComposableResource:
    """A resource whose device the manager has attached, not yet in the node's slice."""
    return resource(name, model, **{"asked": NOW - 900.0, "device_uid": f"device-{name}", "serial": f"GPU-{name}",
                                    **more})


def online(name: str = "r", model: str = A100, **more: t.Any) -> ComposableResource:
    """A resource whose device is in the node's slice and free."""
    return attached(name, model, **{"state": "Online", "visible": True, **more})


def used(name: str = "r", model: str = A100, by: str = "default/user", **more: t.Any) -> ComposableResource:
    """A resource whose device a claim uses."""
    return online(name, model, **{"used_by": by, "in_use": True, **more})


def held(name: str = "r", model: str = A100, age: float = 1.0, **more: t.Any) -> ComposableResource:
    """A resource whose device was handed to a claim ``age`` seconds ago."""
    return online(name, model, **{"held_for": "uid-c", "held_since": NOW - age, "hold_alive": True,
                                  "last_used": NOW - age, **more})


def request(size: int, model: str = A100, name: str = "request", **more: t.Any) -> ComposabilityRequest:
    """The ComposabilityRequest for a model on the node."""
    return ComposabilityRequest(name, f"uid-{name}", model, size, **more)


def node(*parts: Claim | ComposableResource | ComposabilityRequest, **more: t.Any) -> NodeSnapshot:
    """The node with everything that concerns it, of whatever kind."""
    return NodeSnapshot(**{"name": "node-0", "now": NOW, "machine": "machine-0", "fabric": 1, "attached": {},
                           "claims": tuple(p for p in parts if isinstance(p, Claim)),
                           "resources": tuple(p for p in parts if isinstance(p, ComposableResource)),
                           "requests": tuple(p for p in parts if isinstance(p, ComposabilityRequest)), **more})


def on_machine(*uids: str, model: str = A100, owned: tuple[str, ...] = ()) -> dict[str, t.Any]:
    """View fields: the manager shows these devices; ``owned`` ones belong to a resource."""
    return {"attached": dict.fromkeys(uids, model), "owned": frozenset(owned)}


def compose(*parts: Claim | ComposableResource | ComposabilityRequest, **more: t.Any) -> Plan:
    """What is asked of the CDI Manager for a node with these parts."""
    return plan_compose(node(*parts, **more), ATTACH_DEADLINE)


def of(plan: Plan, kind: type[A]) -> list[A]:
    """The plan's actions of one kind, in order."""
    return [a for a in plan.actions if isinstance(a, kind)]


def one(plan: Plan, kind: type[A]) -> A:
    """The plan's only action of one kind."""
    (found,) = of(plan, kind)
    return found


def verdict(plan: Plan, name: str) -> WaitReason:
    """What the plan says of a claim."""
    (found,) = [v for v in plan.wait_reasons if v.claim == f"default/{name}"]
    return found
