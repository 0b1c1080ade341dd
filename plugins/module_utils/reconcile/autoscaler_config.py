# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of the node groups for Cluster Autoscaler, checked when it is read."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..planning.autoscaling.scale_down import POLICIES, ScaleDownPolicy
from ..planning.autoscaling.scale_up import METHODS, SHARE, ScaleUpPolicy
from ..planning.device_info import known_keys
from ..planning.scheduling.framework.quantity import BadQuantity, amount
from ..planning.settings import BadSetting, Settings
from .config import BadConfig, loaded

PROVIDERS = ("none", "static", "cluster-api", "awx")
_ID = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_KEYS = {"vertical", "nodes", "attach_costs", "not_attached", "methods", "scale_down", "provision_timeout"}
_VERTICAL = {"id", "selector", "labels", "taints", "devices", "cpu", "memory", "pods", "max_size"}
_NODES = {"id", "selector", "min_size", "max_size", "provider", "template", "cost", "fabric", "devices", "watts"}
_TEMPLATE = {"labels", "taints", "cpu", "memory", "pods"}
_SCALE_DOWN = {"policy", "reserve_nodes", "node_watts", "device_watts"}
Json = Mapping[str, t.Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Capacity that a node would offer, with ``devices`` by extended resource.

    An empty quantity means the same as the largest real node. Empty ``devices`` of a vertical group
    mean as many as the fabric may attach to a node.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    cpu: str = ""
    memory: str = ""
    pods: str = "110"


@dataclass(frozen=True, slots=True)
class VerticalGroup:
    """A group that never owns a node, so its shape always comes from here.

    ``selector`` selects the nodes that it stands for.
    """

    id: str
    shape: Shape
    selector: Mapping[str, str] = field(default_factory=dict)
    max_size: int = 100


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The real nodes with these labels.

    ``provider`` is the configuration of the provider that adds and removes nodes, and has its
    ``kind``. ``max_size`` limits the nodes that we add. Cluster Autoscaler itself sees a full
    group. ``fabric`` is the number of its machines' fabric, or None. ``devices`` are those that a
    new node brings along, by model. ``watts`` is the power of a node without devices, or None for
    ``scale_down.node_watts``.
    """

    id: str
    shape: Shape
    selector: Mapping[str, str] = field(default_factory=dict)
    min_size: int = 0
    max_size: int = 0
    provider: Json = field(default_factory=lambda: {"kind": "none"})
    cost: float = 10.0
    fabric: int | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class AutoscalerConfig:
    """Configuration of the autoscaler's provider.

    Requested devices and nodes must arrive within ``provision_timeout`` seconds. Cluster
    Autoscaler's own ``--max-node-provision-time`` must be longer.
    """

    vertical: tuple[VerticalGroup, ...]
    nodes: tuple[NodeGroup, ...]
    scale_up: ScaleUpPolicy = field(default_factory=ScaleUpPolicy)
    scale_down: ScaleDownPolicy = field(default_factory=ScaleDownPolicy)
    provision_timeout: float = 600.0

    @classmethod
    def load(cls, path: str, settings: Settings) -> AutoscalerConfig:
        """Read a YAML file. Raise BadConfig with the file, the field, its value and the allowed
        values."""
        return cls.from_dict(loaded(path), settings, path)

    @classmethod
    def from_dict(cls, data: object, settings: Settings, where: str = "config") -> AutoscalerConfig:
        """Check the data and return the configuration. Raise BadConfig with a sentence that starts
        with ``where``."""
        try:
            return _config(_mapping("config", data, _KEYS), frozenset(m.cdi_model_name for m in settings.models))
        except BadSetting as error:
            raise BadConfig(f"{where}: {error}") from None


def _config(data: Json, models: frozenset[str]) -> AutoscalerConfig:
    vertical = tuple(_vertical(f"vertical[{i}]", each) for i, each in enumerate(_list(data, "vertical")))
    nodes = tuple(_node_group(f"nodes[{i}]", each, models) for i, each in enumerate(_list(data, "nodes")))
    if not vertical:
        raise BadSetting("vertical", data.get("vertical"), "must list at least one group")
    ids = [*(group.id for group in vertical), *(group.id for group in nodes)]
    for name in ids:
        if ids.count(name) > 1:
            raise BadSetting("id", name, "each group needs an id of its own")
    not_attached = frozenset(map(str, _list(data, "not_attached")))
    for model in sorted(not_attached - models):
        raise BadSetting("not_attached", model, f"no such model. Known models are {', '.join(sorted(models))}")
    costs = {m: _number(f"attach_costs.{m}", n) for m, n in _of_models("attach_costs", data, models).items()}
    return AutoscalerConfig(vertical, nodes, ScaleUpPolicy(costs, not_attached, _methods(data, models)),
                            _scale_down(_mapping("scale_down", data.get("scale_down") or {}, _SCALE_DOWN), models),
                            _number("provision_timeout", data.get("provision_timeout", 600), low=1, high=86400))


def _methods(data: Json, models: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the methods of each model in their order.

    Sharing must come first, because the scheduler does it before it asks the autoscaler.
    """
    found = {}
    for model, listed in _of_models("methods", data, models).items():
        names = list(map(str, listed)) if isinstance(listed, Sequence) and not isinstance(listed, str) else []
        if not names or len(names) > len(set(names)) or not set(names) <= set(METHODS) or SHARE in names[1:]:
            raise BadSetting(f"methods.{model}", listed,
                             f"must be a list with some of {', '.join(METHODS)}. {SHARE} comes first")
        found[model] = tuple(names)
    return found


def _vertical(where: str, data: object) -> VerticalGroup:
    found = _mapping(where, data, _VERTICAL)
    shape = _shape(where, {key: found[key] for key in (*_TEMPLATE, "devices") if key in found})
    if "devices" in found and not shape.devices:
        raise BadSetting(f"{where}.devices", found["devices"], "must map each extended resource to the most that a "
                         "node may have, such as nvidia.com/gpu: 8. Without the key, the fabric's limits apply")
    return VerticalGroup(_id(where, found), shape, _texts(f"{where}.selector", found.get("selector") or {}),
                         _whole(f"{where}.max_size", found.get("max_size", 100), low=1))


def _node_group(where: str, data: object, models: frozenset[str]) -> NodeGroup:
    found = _mapping(where, data, _NODES)
    provider = found.get("provider") or {"kind": "none"}
    if not isinstance(provider, Mapping) or provider.get("kind") not in PROVIDERS:
        kind = provider.get("kind") if isinstance(provider, Mapping) else provider
        raise BadSetting(f"{where}.provider.kind", kind, f"must be one of {', '.join(PROVIDERS)}")
    shape = _shape(f"{where}.template", _mapping(f"{where}.template", found.get("template") or {}, _TEMPLATE))
    least = _whole(f"{where}.min_size", found.get("min_size", 0))
    most = _whole(f"{where}.max_size", found.get("max_size", 0))
    fabric = found.get("fabric")
    devices = {m: _whole(f"{where}.devices.{m}", n) for m, n in _of_models("devices", found, models, where).items()}
    return NodeGroup(_id(where, found), shape, _texts(f"{where}.selector", found.get("selector") or {}), least,
                     most, dict(provider), _number(f"{where}.cost", found.get("cost", 10)),
                     None if fabric is None else _whole(f"{where}.fabric", fabric), devices,
                     _number(f"{where}.watts", found["watts"]) if "watts" in found else None)


def _shape(where: str, found: Json) -> Shape:
    devices = found.get("devices") or {}
    if not isinstance(devices, Mapping):
        raise BadSetting(f"{where}.devices", devices, "must be a mapping of extended resources to numbers")
    return Shape(_texts(f"{where}.labels", found.get("labels") or {}), tuple(_list(found, "taints")),
                 {str(name): _whole(f"{where}.devices.{name}", n, low=1) for name, n in devices.items()},
                 _quantity(f"{where}.cpu", found.get("cpu", ""), "cpu"),
                 _quantity(f"{where}.memory", found.get("memory", ""), "memory"),
                 _quantity(f"{where}.pods", found.get("pods", "110"), "pods"))


def _scale_down(found: Json, models: frozenset[str]) -> ScaleDownPolicy:
    policy = found.get("policy", POLICIES[0])
    if policy not in POLICIES:
        raise BadSetting("scale_down.policy", policy, f"must be one of {', '.join(POLICIES)}")
    watts = {m: _number(f"scale_down.device_watts.{m}", n)
             for m, n in _of_models("device_watts", found, models, "scale_down").items()}
    return ScaleDownPolicy(str(policy), _whole("scale_down.reserve_nodes", found.get("reserve_nodes", 1)),
                           _number("scale_down.node_watts", found.get("node_watts", 0)), watts)


def _id(where: str, found: Json) -> str:
    name = found.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise BadSetting(f"{where}.id", name, "must be a lower case name")
    return name


def _mapping(where: str, data: object, known: set[str]) -> Json:
    if not isinstance(data, Mapping):
        raise BadSetting(where, data, "must be a mapping")
    known_keys(data, sorted(known), where)
    return data


def _list(data: Json, key: str) -> Sequence[t.Any]:
    value = data.get(key) or ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadSetting(key, value, "must be a list")
    return value


def _of_models(key: str, data: Json, models: frozenset[str], where: str = "") -> Json:
    value, name = data.get(key) or {}, f"{where}.{key}" if where else key
    if not isinstance(value, Mapping):
        raise BadSetting(name, value, "must be a mapping by model")
    for model in value:
        if model not in models:
            raise BadSetting(f"{name}.{model}", value[model],
                             f"no such model. Known models are {', '.join(sorted(models))}")
    return value


def _texts(where: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(n, str) for pair in value.items() for n in pair):
        raise BadSetting(where, value, "must be a mapping of texts")
    return dict(value)


def _quantity(where: str, value: object, resource: str) -> str:
    text = str(value)
    try:
        if text:
            amount(resource, text)
    except BadQuantity:
        raise BadSetting(where, value, "must be a Kubernetes quantity, such as 64 or 256Gi") from None
    return text


def _number(where: str, value: object, low: float = 0, high: float = 1e9) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise BadSetting(where, value, f"must be a number from {low:g} to {high:g}")
    return float(value)


def _whole(where: str, value: object, low: int = 0, high: int = 1_000_000) -> int:
    found = _number(where, value, low, high)
    if found != int(found):
        raise BadSetting(where, value, "must be a whole number")
    return int(found)
