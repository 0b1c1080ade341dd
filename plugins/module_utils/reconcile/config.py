# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of the engine, with the same keys for the controller's file, modules and the
rulebook."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..fabric.api import FabricManager
from ..fabric.config import FabricConfig
from ..fabric.connect import connect
from ..fabric.errors import BadConfiguration
from ..planning.accounting import settings as usage
from ..planning.settings import DNS_LABEL, BadSetting, Settings
from .state.node_agents import AGENT, NODE_OPERATIONS

try:
    import yaml

    HAS_YAML = True
except ImportError:
    HAS_YAML = False

ROLES = ("publisher", "scaler", "operator")
# Keys with their lowest and highest number. ``EngineConfig`` has the defaults.
_NUMBERS = {"scan_interval": (0.1, 86400), "kube_api_qps": (1, 100000)}
_COUNTS = {"workers": 64, "parallel_attaches": 1024, "kube_api_burst": 100000}
ENGINE_KEYS = frozenset({*_NUMBERS, *_COUNTS, *usage.KEYS, "lease_namespace", "node_operations",
                         "provisioning_requests"})
# Present name of each key that has a former name, which is accepted until version 2.0.0.
FORMER_KEYS: t.Final[Mapping[str, str]] = {"node_hands": "node_operations"}


class BadConfig(Exception):
    """The configuration cannot be used. The message names file, field, value and the allowed
    values."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Configuration of an engine, besides the connection to the cluster.

    ``scan_interval`` is the number of seconds between two polls of the CDI Manager. ``node_operations``
    says which program runs node operations: the node agent (``agent``), playbooks over SSH
    (``ssh``), or none (``none``). ``kube_api_qps`` and ``kube_api_burst`` limit the requests of a
    controller to the API server, per second and at once after a pause. ``provisioning_requests``
    says whether ProvisioningRequests are served. ``usage_label`` is the key of a label of pods by
    which usage is summed, ``usage_rates`` the price of an hour by model in ``usage_currency``.
    ``prometheus_url`` is the address of a Prometheus that scrapes the controllers, for the history
    on the page. ``planning`` has the keys from which ``settings`` were made. ``deprecations`` has
    a sentence for each key with its former name.
    """

    settings: Settings
    fabric: FabricConfig
    scan_interval: float = 5.0
    workers: int = 32
    parallel_attaches: int = 256
    lease_namespace: str = "composable-infra"
    node_operations: str = AGENT
    kube_api_qps: float = 800.0
    kube_api_burst: int = 1600
    provisioning_requests: bool = False
    usage_label: str = ""
    usage_rates: Mapping[str, float] = field(default_factory=dict)
    usage_currency: str = ""
    prometheus_url: str = ""
    source: str = "config"
    planning: Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)
    deprecations: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def manager(self) -> FabricManager:
        """Connect to the CDI Manager. Raise BadConfig with the file if the connection shows a bad
        setting."""
        try:
            manager = connect(self.fabric)
        except BadConfiguration as error:
            raise BadConfig(f"{self.source}: {error}") from None
        for number, model in enumerate(self.settings.models):
            if model.kind not in (kinds := manager.capabilities.kinds):
                manager.close()
                said = f"manager {self.fabric.manager} attaches only {', '.join(kinds)}"
                raise BadConfig(f"{self.source}: device_info[{number}].kind: {model.kind!r} is not usable: {said}")
        return manager

    @classmethod
    def from_dict(cls, data: object, where: str = "config") -> EngineConfig:
        """Check the data and return the configuration. Raise BadConfig with a sentence that starts
        with ``where``."""
        if not isinstance(data, Mapping):
            raise BadConfig(f"{where}: must be a mapping of settings, is {type(data).__name__}")
        deprecations = tuple(f"{where}: {former} is deprecated. Use {present}."
                             for former, present in FORMER_KEYS.items() if former in data)
        data = _with_present_keys(data)
        try:
            planning = _planning_keys(data)
            settings = Settings.from_dict(planning)
            fabric = FabricConfig.from_dict(_mapping(data.get("fabric"), "fabric"))
            return cls(settings, fabric, source=where, planning=planning, deprecations=deprecations,
                       **_engine(data, settings))
        except (BadSetting, BadConfiguration) as error:
            raise BadConfig(f"{where}: {error}") from None

    @classmethod
    def load(cls, path: str) -> EngineConfig:
        """Read a YAML file. Raise BadConfig with the file, also if it is missing or not YAML."""
        return cls.from_dict(loaded(path), path)


def loaded(path: str) -> object:
    """Return the content of a YAML file. Raise BadConfig with the file if it is missing or not
    YAML."""
    if not HAS_YAML:
        raise BadConfig("the Python library PyYAML is needed to read a configuration file. Install pyyaml")
    try:
        return t.cast("object", yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise BadConfig(f"{path}: is not valid YAML{line}") from None


def settings_of(data: Mapping[str, t.Any]) -> Settings:
    """Return the planners' settings, without those of the engine and the CDI Manager. Raise
    BadSetting."""
    return Settings.from_dict(_planning_keys(_with_present_keys(data)))


def _with_present_keys(data: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the data without former keys. If both are there, the present one counts."""
    renamed = {present: data[former] for former, present in FORMER_KEYS.items() if former in data}
    return renamed | {key: value for key, value in data.items() if key not in FORMER_KEYS}


def _planning_keys(data: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {k: v for k, v in data.items() if k not in ENGINE_KEYS and k != "fabric"}


def _mapping(value: object, name: str) -> dict[str, t.Any]:
    if not isinstance(value, Mapping):
        raise BadSetting(name, value, "must be a mapping with the connection to the CDI Manager")
    return dict(value)


def _engine(data: Mapping[str, t.Any], settings: Settings) -> dict[str, t.Any]:
    found = {key: data[key] for key in ENGINE_KEYS if key in data}
    found |= usage.checked(data, [model.cdi_model_name for model in settings.models])
    for key in (each for each in _NUMBERS if each in found):
        value, (low, high) = found[key], _NUMBERS[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise BadSetting(key, value, f"must be a number from {low:g} to {high}")
    for key in (each for each in _COUNTS if each in found):
        value = found[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _COUNTS[key]:
            raise BadSetting(key, value, f"must be a whole number from 1 to {_COUNTS[key]}")
    program = found.get("node_operations", AGENT)
    if program not in NODE_OPERATIONS:
        raise BadSetting("node_operations", program, f"must be one of {', '.join(NODE_OPERATIONS)}")
    if settings.direct_models and program != AGENT:
        raise BadSetting("node_operations", program, f"must be {AGENT}: {settings.direct_models[0]} has the "
                         "handover direct, for which the node agents are the DRA driver")
    if not isinstance(serve := found.get("provisioning_requests", False), bool):
        raise BadSetting("provisioning_requests", serve, "must be true or false")
    if serve and not settings.gating:
        raise BadSetting("provisioning_requests", serve, "needs the handover gated for at least one namespace")
    if "lease_namespace" in found:
        _check_namespace(found["lease_namespace"])
    return found


def _check_namespace(value: object) -> None:
    if not isinstance(value, str) or not DNS_LABEL.fullmatch(value) or len(value) > 63:
        raise BadSetting("lease_namespace", value, "must be the name of a namespace")
