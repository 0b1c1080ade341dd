# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator may set about scaling, checked once so that no pass meets a bad value later."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .device_info import DNS_LABEL, DNS_SUBDOMAIN, BadSetting, DeviceModel, device_info, dns_text

__all__ = ["DNS_LABEL", "BadSetting", "DeviceModel", "Settings", "device_info"]

POOL_NAME = re.compile(r"^(?P<device>.+)-fabric(?P<fabric>[0-9]+)$")
HANDOVERS = ("gated", "reschedule")
UNSERVED = ("release", "wait")
POLICIES = ("samenode", "differentnode", "roundrobin")
KNOWN = frozenset({"device_info", "label_prefix", "handover", "handover_namespaces", "handover_models", "unserved",
                   "allocation_policy", "device_classes", "device_no_removal_duration",
                   "device_no_allocation_duration", "max_devices_per_node", "handover_timeout"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the planners need to know that is not state. Durations are seconds.

    ``handover``: ``gated`` serves pods that our scheduling gate holds, ``reschedule`` lets them go; exceptions by
    namespace and by model. What is not gated is always served by ``reschedule``. ``unserved``: whether a held pod that
    no node fits is let go or waits.
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
    _by_pool: dict[str, DeviceModel] = field(default_factory=dict, compare=False, repr=False)
    _by_cdi: dict[str, DeviceModel] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._by_pool.update({m.k8s_device_name: m for m in self.models})
        self._by_cdi.update({m.cdi_model_name: m for m in self.models})
        if not self.device_classes:
            object.__setattr__(self, "device_classes", self.drivers)

    def model(self, cdi_model_name: str) -> DeviceModel | None:
        """Row of the model that the CDI Manager calls ``cdi_model_name``."""
        return self._by_cdi.get(cdi_model_name)

    def of_pool(self, pool: str) -> tuple[DeviceModel, int] | None:
        """Model and fabric id that a pool name stands for; None when the pool is none of ours."""
        match = POOL_NAME.match(pool)
        model = self._by_pool.get(match["device"]) if match else None
        return (model, int(match["fabric"])) if match and model else None

    @property
    def drivers(self) -> tuple[str, ...]:
        """DRA driver names in use, sorted."""
        return tuple(sorted({m.driver_name for m in self.models}))

    @property
    def gating(self) -> bool:
        """True when pods of any namespace and model may be served while they are held."""
        return "gated" in (self.handover, *self.handover_namespaces.values(), *self.handover_models.values())

    def handover_of(self, namespace: str) -> str:
        """The handover of a namespace."""
        return self.handover_namespaces.get(namespace, self.handover)

    @property
    def ungated_models(self) -> frozenset[str]:
        """Models that held pods are not given."""
        return frozenset(name for name, handover in self.handover_models.items() if handover != "gated")

    def label(self, name: str) -> str:
        """Full name of a node label or annotation of CoHDI's."""
        return f"{self.label_prefix}/{name}"

    @classmethod
    def from_dict(cls, data: Mapping[str, t.Any]) -> Settings:
        """Build from a configuration mapping.

        Raises BadSetting naming the first field that cannot be used. Unknown keys are refused.
        """
        for key in data:
            if key not in KNOWN:
                raise BadSetting(key, data[key], f"unknown key, known are {', '.join(sorted(KNOWN))}")
        models = device_info(data.get("device_info"))
        return cls(
            models=models,
            label_prefix=dns_text(data, "label_prefix", "cohdi.io", DNS_SUBDOMAIN, 100),
            handover=_choice(data, "handover", HANDOVERS),
            handover_namespaces=_choices(data, "handover_namespaces", None),
            handover_models=_choices(data, "handover_models", [m.cdi_model_name for m in models]),
            unserved=_choice(data, "unserved", UNSERVED),
            allocation_policy=_choice(data, "allocation_policy", POLICIES),
            device_classes=_names(data, "device_classes"),
            device_no_removal_duration=_number(data, "device_no_removal_duration", 600),
            device_no_allocation_duration=_number(data, "device_no_allocation_duration", 0),
            max_devices_per_node=_whole(data, "max_devices_per_node", 50),
            handover_timeout=_number(data, "handover_timeout", 60, low=1),
        )


def _choice(data: Mapping[str, t.Any], key: str, allowed: Sequence[str]) -> str:
    value = data.get(key, allowed[0])
    if value not in allowed:
        raise BadSetting(key, value, f"must be one of {', '.join(allowed)}")
    return str(value)


def _choices(data: Mapping[str, t.Any], key: str, names: Sequence[str] | None) -> dict[str, str]:
    """Handover by name of a namespace or model; ``names``: those that exist, when that is known."""
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise BadSetting(key, value, "must be a mapping of names to handovers")
    for name in value:
        if names is not None and name not in names:
            raise BadSetting(f"{key}.{name}", value[name], f"no such name, known are {', '.join(names)}")
        _choice({f"{key}.{name}": value[name]}, f"{key}.{name}", HANDOVERS)
    return {str(k): str(v) for k, v in value.items()}


def _names(data: Mapping[str, t.Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadSetting(key, value, "must be a list of names")
    for name in value:
        if not isinstance(name, str) or not DNS_SUBDOMAIN.fullmatch(name) or len(name) > 253:
            raise BadSetting(key, name, "must hold names of DeviceClasses")
    return tuple(value)


def _number(data: Mapping[str, t.Any], key: str, default: float, low: float = 0) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= 86400:
        raise BadSetting(key, value, f"must be a number from {low:g} to 86400")
    return float(value)


def _whole(data: Mapping[str, t.Any], key: str, default: int) -> int:
    value = _number(data, key, default, low=1)
    if value != int(value):
        raise BadSetting(key, data[key], "must be a whole number")
    return int(value)
