# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the planners. Settings are checked once, when they are read."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .device_info import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    HANDOVERS,
    BadSetting,
    DeviceModel,
    device_info,
    dns_text,
    known_keys,
)
from .fairness import ANY, Shares
from .prewarm import IdleMinimum, idle_minimums

__all__ = ["DNS_LABEL", "HANDOVERS", "BadSetting", "DeviceModel", "Settings", "device_info"]

POOL_NAME = re.compile(r"^(?P<device>.+)-fabric(?P<fabric>[0-9]+)$")
# A namespace decides only whether its pods are gated. The model decides between ``direct`` and the
# others.
OF_NAMESPACES = ("gated", "reschedule")
UNSERVED = ("release", "wait")
# How the controllers know that the machine of a node that is gone is off: from the CDI Manager, or
# because the administrator sets it.
REPORTED, ASSUME_OFF = "reported", "assume_off"
POLICIES = ("samenode", "differentnode", "roundrobin")
# Keys with their allowed values, or with the lowest number. ``Settings`` has the defaults.
_CHOICES = {"handover": HANDOVERS, "unserved": UNSERVED, "allocation_policy": POLICIES,
            "gone_node_power": (REPORTED, ASSUME_OFF)}
_SECONDS = {"device_no_removal_duration": 0, "device_no_allocation_duration": 0, "handover_timeout": 1,
            "hold_timeout": 1, "placement_timeout": 1, "gone_node_duration": 1}
_COUNTS = {"max_devices_per_node": 1, "max_group_size": 1, "max_size_min": 0, "max_pool_devices": 1}
KNOWN = frozenset({*_CHOICES, *_SECONDS, *_COUNTS, "device_info", "label_prefix", "handover_namespaces",
                   "handover_models", "device_classes", "namespace_quotas", "namespace_attaches_per_minute", "prewarm"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the planners need besides the state of the cluster. Durations are in seconds.

    - ``models``: rows of ``device_info``.
    - ``label_prefix``: prefix of CoHDI's node labels and annotations.
    - ``handover``: ``gated`` serves gated pods, the other values release them.
      ``handover_namespaces`` and ``handover_models`` are exceptions by name. A device of a model
      with ``direct`` stays with the claim for which it was attached. For all other models, pods
      without the gate are served by ``reschedule``.
    - ``unserved``: whether a gated pod that no node can serve is released (``release``) or waits
      (``wait``).
    - ``allocation_policy``: which node is chosen among nodes that need the same number of attaches.
    - ``device_classes``: DeviceClasses with claims for the fabric. The default is the names of the
      drivers.
    - ``device_no_removal_duration``: how long an idle device stays attached.
    - ``device_no_allocation_duration``: how long after its last use a device goes to no other
      claim.
    - ``max_devices_per_node``: limit for each model.
    - ``handover_timeout``: how long a device is reserved for the claim for which it was attached.
    - ``hold_timeout``: how long a gated pod waits before it is released, if its plan lacks the
      first poll of a CDI Manager or devices that are being returned.
    - ``placement_timeout``: how long the devices of a gated pod may take to reach the chosen node.
      The pod is released after twice this time in all.
    - ``max_group_size``: most pods of a group. The pods of a larger group are released.
    - ``max_size_min``: most devices that the node label ``size-min`` keeps attached, since a
      kubelet can write it.
    - ``max_pool_devices``: most unassigned devices that a pool shows to the scheduler.
    - ``shares``: limits of the namespaces.
    - ``gone_node_duration``: how long a node must be gone before its devices are returned.
    - ``gone_node_power``: what proves that its machine is off, the CDI Manager (``reported``) or
      this setting (``assume_off``).
    - ``idle_minimums``: the minimums of idle devices (``prewarm``).
    """

    models: tuple[DeviceModel, ...]
    label_prefix: str = "cohdi.io"
    handover: str = "gated"
    handover_namespaces: Mapping[str, str] = field(default_factory=dict)
    handover_models: Mapping[str, str] = field(default_factory=dict)
    unserved: str = "release"
    allocation_policy: str = "samenode"
    device_classes: tuple[str, ...] = ()
    device_no_removal_duration: float = 600.0
    device_no_allocation_duration: float = 0.0
    max_devices_per_node: int = 50
    handover_timeout: float = 60.0
    hold_timeout: float = 60.0
    placement_timeout: float = 300.0
    gone_node_duration: float = 300.0
    gone_node_power: str = REPORTED
    max_group_size: int = 256
    max_size_min: int = 8
    max_pool_devices: int = 512
    shares: Shares = field(default_factory=Shares)
    idle_minimums: tuple[IdleMinimum, ...] = ()
    _by_pool: dict[str, DeviceModel] = field(default_factory=dict, compare=False, repr=False)
    _by_cdi: dict[str, DeviceModel] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._by_pool.update({m.k8s_device_name: m for m in self.models})
        self._by_cdi.update({m.cdi_model_name: m for m in self.models})
        if not self.device_classes:
            object.__setattr__(self, "device_classes", self.drivers)

    def model(self, cdi_model_name: str) -> DeviceModel | None:
        """Return the row of the model with this name at the CDI Manager, None if there is none."""
        return self._by_cdi.get(cdi_model_name)

    def of_pool(self, pool: str) -> tuple[DeviceModel, int] | None:
        """Return the model and the fabric ID of a pool name, None if the model is unknown."""
        match = POOL_NAME.match(pool)
        model = self._by_pool.get(match["device"]) if match else None
        return (model, int(match["fabric"])) if match and model else None

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return the names of the DRA drivers in use, sorted."""
        return tuple(sorted({driver for m in self.models for driver in m.drivers}))

    @property
    def gating(self) -> bool:
        """Return whether any namespace or model uses the handover ``gated``."""
        return "gated" in (self.handover, *self.handover_namespaces.values(), *self.handover_models.values())

    def handover_of(self, namespace: str) -> str:
        """Return the handover of a namespace: its own, else the general one.

        If the general one is ``direct`` and any model has ``gated``, it is ``gated``.
        """
        gated = "gated" if "gated" in self.handover_models.values() else self.handover
        return self.handover_namespaces.get(namespace, gated if self.handover == "direct" else self.handover)

    def is_direct(self, cdi_model_name: str) -> bool:
        """Return whether a claim keeps the device of this model that was attached for it."""
        return self.handover_models.get(cdi_model_name, self.handover) == "direct"

    @property
    def bar_sizes(self) -> dict[str, int]:
        """Return the bytes of the memory windows (BARs) of one device by model, 0 if unknown."""
        return {m.cdi_model_name: m.bar_size for m in self.models}

    @property
    def direct_models(self) -> tuple[str, ...]:
        """Return the models with the handover ``direct``."""
        return tuple(m.cdi_model_name for m in self.models if self.is_direct(m.cdi_model_name))

    @property
    def ungated_models(self) -> frozenset[str]:
        """Return the models that gated pods do not get."""
        others = (name for name, handover in self.handover_models.items() if handover != "gated")
        return frozenset((*others, *self.direct_models))

    def label(self, name: str) -> str:
        """Return the full name of a node label or annotation of CoHDI."""
        return f"{self.label_prefix}/{name}"

    @classmethod
    def from_dict(cls, data: Mapping[str, t.Any]) -> Settings:
        """Check a configuration and build the settings.

        ``data``: the keys of ``KNOWN``, as in the configuration file. Only ``device_info`` is
        required. Raise BadSetting for the first invalid field or unknown key.
        """
        known_keys(data, sorted(KNOWN))
        models = device_info(data.get("device_info"))
        given: dict[str, t.Any] = {key: _choice(data, key, _CHOICES[key]) for key in _CHOICES if key in data}
        given |= {key: _number(data, key, _SECONDS[key]) for key in _SECONDS if key in data}
        given |= {key: _whole(data, key, _COUNTS[key]) for key in _COUNTS if key in data}
        if "label_prefix" in data:
            given["label_prefix"] = dns_text(data, "label_prefix", "", DNS_SUBDOMAIN, 100)
        return cls(
            models=models, **given,
            handover_namespaces=_choices(data, "handover_namespaces", None, OF_NAMESPACES),
            handover_models=_of_models(data, models),
            device_classes=_names(data, "device_classes"),
            shares=Shares(_quotas(data, "namespace_quotas", {m.cdi_model_name for m in models}),
                          _counts(data, "namespace_attaches_per_minute", low=1)),
            idle_minimums=idle_minimums(data.get("prewarm", []), [m.cdi_model_name for m in models]),
        )


def _choice(data: Mapping[str, t.Any], key: str, allowed: Sequence[str]) -> str:
    value = data[key]
    if value not in allowed:
        raise BadSetting(key, value, f"must be one of {', '.join(allowed)}")
    return str(value)


def _choices(data: Mapping[str, t.Any], key: str, names: Sequence[str] | None,
             handovers: Sequence[str]) -> dict[str, str]:
    """Return the handover by namespace or model. ``names``: allowed names, None for any."""
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise BadSetting(key, value, "must be a mapping of names to handovers")
    for name in value:
        if names is not None and name not in names:
            raise BadSetting(f"{key}.{name}", value[name], f"no such name. Known names are {', '.join(names)}")
        _choice({f"{key}.{name}": value[name]}, f"{key}.{name}", handovers)
    return {str(k): str(v) for k, v in value.items()}


def _of_models(data: Mapping[str, t.Any], models: Sequence[DeviceModel]) -> dict[str, str]:
    """Return the handover by model, from ``device_info`` and ``handover_models``.

    Raise BadSetting if the two contradict each other.
    """
    given = _choices(data, "handover_models", [m.cdi_model_name for m in models], HANDOVERS)
    for number, model in enumerate(models):
        other = given.get(model.cdi_model_name, model.handover)
        if model.handover and other != model.handover:
            raise BadSetting(f"device_info[{number}].handover", model.handover,
                             f"handover_models.{model.cdi_model_name} is {other!r}. Set one of the two, or the same "
                             "value in both")
    return {**{m.cdi_model_name: m.handover for m in models if m.handover}, **given}


def _names(data: Mapping[str, t.Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadSetting(key, value, "must be a list of names")
    for name in value:
        if not isinstance(name, str) or not DNS_SUBDOMAIN.fullmatch(name) or len(name) > 253:
            raise BadSetting(key, name, "must contain only names of DeviceClasses")
    return tuple(value)


def _number(data: Mapping[str, t.Any], key: str, low: float) -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= 86400:
        raise BadSetting(key, value, f"must be a number from {low:g} to 86400")
    return float(value)


def _quotas(data: Mapping[str, t.Any], key: str, models: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the devices by namespace and model. ``*`` stands for any other."""
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise BadSetting(key, value, "must be a mapping of namespaces to numbers of devices by model")
    for namespace, of_models in value.items():
        for model in of_models if isinstance(of_models, Mapping) else ():
            if model != ANY and model not in models:
                raise BadSetting(f"{key}.{namespace}.{model}", of_models[model], "device_info has no such model")
    return {str(namespace): _counts({f"{key}.{namespace}": of_models}, f"{key}.{namespace}")
            for namespace, of_models in value.items()}


def _counts(data: Mapping[str, t.Any], key: str, low: int = 0) -> dict[str, int]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise BadSetting(key, value, "must be a mapping of names to numbers")
    return {str(name): _whole({f"{key}.{name}": n}, f"{key}.{name}", low) for name, n in value.items()}


def _whole(data: Mapping[str, t.Any], key: str, low: int) -> int:
    value = _number(data, key, low)
    if value != int(value):
        raise BadSetting(key, data[key], "must be a whole number")
    return int(value)
