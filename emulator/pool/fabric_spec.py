# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated fabric, as a YAML document. It is read once, and each error names its field.

::

    tenant: 7e63fd31-…              # UUID, by default a fixed one
    realm: composable
    client: {id: composable-infra, secret: …}        # by default generated at start, like users
    users: [{username: …, password: …}]
    token_lifetime: 300             # seconds
    timing: {attach: 2.0, detach: 1.0}               # seconds the fabric takes
    concurrency: {per_machine: 0}   # operations at once on one machine, 0 for no limit
    managers: [fm]                  # several managers share the pool
    settings: {fm: {}}              # of dialects, by the manager's name
    cluster: 7e63fd31-…             # UUID of CM's cluster, by default a fixed one
    faults: {seed: 7, rules: [{kind: latency, seconds: 0.2}]}   # see faults/rules.py
    models:
      - name: NVIDIA-A100-40GB      # the CDI Manager's name of the model
        product_name: NVIDIA A100-PCIE-40GB
        memory: 40Gi
        vendor_id: 10de
        device_id: 20f1
        attributes: {architecture: Ampere}
        bars: [16Mi, 64Gi, 32Mi]
      - {name: CXL-64G, kind: memory, size: 65536}   # MiB
    boxes: [{id: box-a, name: rack 1 box a, fabric: 1, slots: 16}]   # default: one per fabric
    switches: [{id: switch-a, fabric: 1, ports: 64}]                  # default: one per fabric
    links: [{from: node-0, to: switch-a, type: PCIe, lanes: 16}]      # default: all to the switch
    fabrics:
      - id: 1
        devices:
          - {model: NVIDIA-A100-40GB, count: 3}
          - {model: NVIDIA-A100-40GB, serials: [GPU-…], box: box-a, numa: 0}
          - {model: NVIDIA-A100-40GB, serial: GPU-…, uuid: …, name: …, slot: 9, health: Warning}
          - {model: NVIDIA-A100-40GB, machine: node-0}                # attached from the start
    machines:
      - {name: node-0, uuid: …, fabric: 1}           # uuid: by default made from the name
      - {name: node-1, fabric: 1, tenant: …}         # of another tenant
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ..dialects.managers import MANAGERS, problem_of
from ..faults.rules import Faulty, faults_of
from .fields import Fields, SpecError
from .known_models import KNOWN_MODELS
from .parts import DeviceSpec, MachineSpec, Model, devices_of, machine_uuid, machines_of, models_of, unique
from .topology import Topology, topology_of

DEFAULT_TENANT: t.Final = "7e63fd31-0a5c-4d1b-9a52-c0de00000001"
DEFAULT_CLUSTER: t.Final = "7e63fd31-0a5c-4d1b-9a52-c0de0000c1c1"
DEFAULT_REALM: t.Final = "composable"
DEFAULT_MANAGERS: t.Final = ("fm",)
__all__ = ["FabricSpec", "machine_uuid", "simple_spec"]
_TOP: t.Final = (
    "tenant", "realm", "client", "users", "token_lifetime", "timing", "concurrency", "managers", "models",
    "fabrics", "machines", "settings", "cluster", "faults", "boxes", "switches", "links",
)


@dataclass(frozen=True, slots=True)
class FabricSpec:
    """A checked document. Without users, the server generates one.

    ``attach`` and ``detach``: seconds. ``settings``: of the dialects, by manager. ``faults``: seed
    and rules from the start.
    """

    tenant: str
    realm: str
    users: tuple[tuple[str, str], ...]
    client: tuple[str, str] | None
    token_lifetime: float
    attach: float
    detach: float
    per_machine: int
    managers: tuple[str, ...]
    models: Mapping[str, Model]
    devices: tuple[DeviceSpec, ...]
    machines: tuple[MachineSpec, ...]
    topology: Topology = field(default_factory=Topology)
    settings: Mapping[str, Mapping[str, t.Any]] = field(default_factory=dict)
    cluster: str = DEFAULT_CLUSTER
    faults: Faulty = field(default_factory=Faulty)

    @classmethod
    def load(cls, path: Path) -> FabricSpec:
        """Read a file of YAML, or of JSON if its name ends with .json. Raises SpecError.

        PyYAML takes minutes for a large file.
        """
        read = json.loads if path.suffix == ".json" else yaml.safe_load
        try:
            document = read(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SpecError(str(path), error.strerror or "it cannot be read") from None
        except (yaml.YAMLError, ValueError) as error:
            kind = "JSON" if read is json.loads else "YAML"
            raise SpecError(str(path), f"it is not {kind}: {' '.join(str(error).split())}") from None
        return cls.parse(document)

    @classmethod
    def parse(cls, document: t.Any) -> FabricSpec:
        """Check a document. Raises SpecError with the name of the field."""
        top = Fields(document, "the fabric", _TOP)
        timing = top.fields("timing", ("attach", "detach"))
        models = models_of(top)
        fabrics = top.list_of("fabrics", ("id", "devices"))
        numbers = unique([entry.integer("id") for entry in fabrics], "fabrics", "id")
        machines = machines_of(top, numbers)
        devices = devices_of(fabrics, models, machines)
        return cls(
            tenant=top.uuid("tenant", DEFAULT_TENANT),
            realm=top.text("realm", DEFAULT_REALM),
            users=tuple((u.text("username"), u.text("password")) for u in top.list_of("users", _USER)),
            client=_client(top),
            token_lifetime=top.number("token_lifetime", 300.0, least=0.001),
            attach=timing.number("attach", 2.0),
            detach=timing.number("detach", 1.0),
            per_machine=top.fields("concurrency", ("per_machine",)).integer("per_machine", 0),
            managers=_managers(top),
            models=models,
            devices=devices,
            machines=machines,
            topology=topology_of(top, numbers, machines, devices),
            settings=_settings(top),
            cluster=top.uuid("cluster", DEFAULT_CLUSTER),
            faults=faults_of(top),
        )


_USER: t.Final = ("username", "password")


def simple_spec(
    nodes: list[str], models: dict[str, int], fabrics: int = 1, attach: float = 2.0, detach: float = 1.0,
    **more: t.Any,
) -> dict[str, t.Any]:
    """Return a document for a lab, with ``models`` devices of each model on every fabric.

    The nodes are distributed over the fabrics. ``more``: further fields as they are
    (``token_lifetime``, ``users``, ``concurrency``, …).
    """
    devices = [{"model": model, "count": count} for model, count in models.items()]
    return {
        "timing": {"attach": attach, "detach": detach},
        "models": [{"name": model, **KNOWN_MODELS.get(model, {})} for model in models],
        "fabrics": [{"id": number, "devices": devices} for number in range(1, fabrics + 1)],
        "machines": [{"name": name, "fabric": index % fabrics + 1} for index, name in enumerate(nodes)],
        **more,
    }


def _client(top: Fields) -> tuple[str, str] | None:
    if not top.has("client"):
        return None
    client = top.fields("client", ("id", "secret"))
    return client.text("id"), client.text("secret")


def _managers(top: Fields) -> tuple[str, ...]:
    names = unique(top.texts("managers", list(DEFAULT_MANAGERS)), "managers", "manager")
    for name in names:
        if problem := problem_of(name):
            raise SpecError("managers", problem)
    return tuple(names)


def _settings(top: Fields) -> dict[str, Mapping[str, t.Any]]:
    given = top.fields("settings", tuple(MANAGERS))
    return {
        name: {key: below.value(key) for key in row.settings if below.has(key)}
        for name, row in MANAGERS.items()
        for below in [given.fields(name, row.settings)]
    }
