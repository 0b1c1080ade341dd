# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``device_info`` table: how models of the CDI Manager appear in Kubernetes, checked row by
row.

The keys are those of CoHDI (composable-dra-driver, ConfigMap ``composable-dra-dds``), so a table
that was written for CoHDI is valid here. ``kind``, ``handover``, ``other-driver-names``,
``capacity`` and ``bar-size`` are additions of this collection.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .scheduling.framework.quantity import quantity

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
ATTRIBUTE = re.compile(rf"({DNS_SUBDOMAIN.pattern}/)?[A-Za-z_][A-Za-z0-9_]{{0,31}}")

AMOUNT = re.compile(r"[0-9]{1,18}([kMGTPE]|[KMGTPE]i)?")

MODEL_KEYS = ("index", "cdi-model-name", "dra-attributes", "driver-name", "k8s-device-name", "cannot-coexist-with",
              "kind", "handover", "other-driver-names", "capacity", "bar-size")
# Label of a node with the name of the DRA driver that publishes its devices, for models with
# several drivers.
DRIVER_LABEL = "composable.infra/dra-driver"
MOST_OTHER_DRIVERS = 3
GATED, DIRECT, RESCHEDULE = "gated", "direct", "reschedule"
HANDOVERS = (GATED, DIRECT, RESCHEDULE)
# Kinds of devices of a CDI Manager, with their names in CoHDI's custom resources.
KINDS = {"gpu": "gpu", "memory": "cxlmemory"}


class BadSetting(ValueError):
    """A setting is invalid. The message has its name, its value and what is allowed."""

    def __init__(self, field_name: str, value: object, allowed: str) -> None:
        super().__init__(f"{field_name}: {value!r} is not usable: {allowed}")
        self.field, self.value, self.allowed = field_name, value, allowed


def known_keys(data: Mapping[str, object], known: Collection[str], where: str = "") -> None:
    """Raise BadSetting for the first key of ``data`` that is not in ``known``.

    ``where``: name of the mapping for the message.
    """
    for key in data:
        if key not in known:
            name = f"{where}.{key}" if where else key
            raise BadSetting(name, data[key], f"unknown key. Known keys are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """One row of ``device_info``.

    - ``cdi_model_name``: name of the model at the CDI Manager.
    - ``k8s_device_name``: name of the model in the names of pools.
    - ``driver_name``: DRA driver of its devices.
    - ``attributes``, ``capacity``: those of its devices in pools. A claim for a part of a capacity
      can get such a device.
    - ``cannot_coexist_with``: indexes of models that a machine with this model cannot have.
    - ``kind``: kind of its devices at the CDI Manager.
    - ``handover``: handover of the model, empty if its row sets none.
    - ``other_driver_names``: drivers that publish its devices instead on nodes with the label
      ``composable.infra/dra-driver``.
    - ``bar_size``: bytes of the memory windows (BARs) of one device, 0 if unknown.
    """

    index: int
    cdi_model_name: str
    k8s_device_name: str
    driver_name: str
    attributes: Mapping[str, str]
    cannot_coexist_with: frozenset[int] = frozenset()
    kind: str = "gpu"
    handover: str = ""
    other_driver_names: tuple[str, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    bar_size: int = 0

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return all DRA drivers that may publish its devices, the driver of its pools first."""
        return self.driver_name, *self.other_driver_names

    def driver_on(self, label: str) -> str:
        """Return the driver that publishes its devices on a node with this value of the label.

        Return ``driver_name`` for an empty or unknown value.
        """
        return label if label in self.other_driver_names else self.driver_name

    @property
    def type(self) -> str:
        """Return CoHDI's name of its kind."""
        return KINDS[self.kind]

    def pool(self, fabric: int) -> str:
        """Return the name of the model's pool on one fabric, as CoHDI's publisher names it."""
        return f"{self.k8s_device_name}-fabric{fabric}"


def kind_of(type_: str) -> str:
    """Return the kind of device with the name ``type_`` in CoHDI."""
    return next((kind for kind, name in KINDS.items() if name == type_), type_)


def device_info(rows: object) -> tuple[DeviceModel, ...]:
    """Check and read the ``device_info`` table.

    ``rows``: a list of mappings with the keys of ``MODEL_KEYS``. The limits are those of
    composable-dra-driver. Raise BadSetting for the first invalid field.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise BadSetting("device_info", rows, "must be a list with at least one model")
    models = tuple(_model(row, f"device_info[{i}]") for i, row in enumerate(rows))
    for name in ("index", "cdi_model_name", "k8s_device_name"):
        values = [getattr(m, name) for m in models]
        twice = next((v for v in values if values.count(v) > 1), None)
        if twice is not None:
            raise BadSetting(f"device_info {name.replace('_', '-')}", twice, "must be unique in the table")
    return models


def _model(row: object, where: str) -> DeviceModel:
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, "must be a mapping")
    known_keys(row, MODEL_KEYS, where)
    index = row.get("index")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= 10000:
        raise BadSetting(f"{where}.index", index, "must be an integer from 0 to 10000")
    if row.get("kind", "gpu") not in KINDS:
        raise BadSetting(f"{where}.kind", row["kind"], f"must be one of {', '.join(KINDS)}")
    if "handover" in row and row["handover"] not in HANDOVERS:
        raise BadSetting(f"{where}.handover", row["handover"], f"must be one of {', '.join(HANDOVERS)}")
    name = row.get("cdi-model-name")
    if not isinstance(name, str) or not 0 < len(name) <= 1000:
        raise BadSetting(f"{where}.cdi-model-name", name, "must be a text of 1 to 1000 characters")
    return DeviceModel(
        index=index,
        cdi_model_name=name,
        k8s_device_name=dns_text(row, "k8s-device-name", None, DNS_LABEL, 50, where),
        driver_name=dns_text(row, "driver-name", None, DNS_SUBDOMAIN, 63, where),
        attributes=_attributes(row.get("dra-attributes"), f"{where}.dra-attributes"),
        cannot_coexist_with=_indexes(row.get("cannot-coexist-with", []), f"{where}.cannot-coexist-with"),
        kind=row.get("kind", "gpu"),
        handover=row.get("handover", ""),
        other_driver_names=_other_drivers(row, f"{where}.other-driver-names"),
        capacity=_capacity(row, f"{where}.capacity"),
        bar_size=_bytes(row, "bar-size", where),
    )


def _other_drivers(row: Mapping[str, t.Any], where: str) -> tuple[str, ...]:
    value = row.get("other-driver-names", [])
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_OTHER_DRIVERS:
        raise BadSetting(where, value, f"must be a list of at most {MOST_OTHER_DRIVERS} drivers")
    for number, name in enumerate(value):
        dns_text({where: name}, where, None, DNS_SUBDOMAIN, 63)
        if name in (row.get("driver-name"), *value[:number]):
            raise BadSetting(where, name, "must be in the list once and differ from driver-name")
    return tuple(value)


def _bytes(row: Mapping[str, t.Any], key: str, where: str) -> int:
    value = row.get(key, "0")
    if not isinstance(value, str) or not AMOUNT.fullmatch(value):
        raise BadSetting(f"{where}.{key}", value, "must be a text with a quantity, such as 128Gi")
    return int(quantity(value))


def _capacity(row: Mapping[str, t.Any], where: str) -> dict[str, str]:
    value = row.get("capacity", {})
    if not isinstance(value, Mapping) or len(value) + len(row.get("dra-attributes") or ()) > 32:
        raise BadSetting(where, value, "must be a mapping with at most 32 entries, including those of dra-attributes")
    for name, text in value.items():
        if not isinstance(name, str) or not ATTRIBUTE.fullmatch(name) or len(name.rpartition("/")[0]) > 63:
            raise BadSetting(where, name,
                             "names must be C identifiers of at most 32 characters, with or without a domain")
        if not isinstance(text, str) or not AMOUNT.fullmatch(text):
            raise BadSetting(f"{where}.{name}", text, "must be a text with a quantity, such as 80Gi")
    return {str(name): str(text) for name, text in value.items()}


def _attributes(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > 32:
        raise BadSetting(where, value, "must be a mapping of at most 32 attributes")
    for key, text in value.items():
        if not isinstance(key, str) or not ATTRIBUTE.fullmatch(key) or len(key.rpartition("/")[0]) > 63:
            raise BadSetting(where, key,
                             "names must be C identifiers of at most 32 characters, with or without a domain")
        if not isinstance(text, str) or len(text) > 64:
            raise BadSetting(f"{where}.{key}", text, "must be a text of at most 64 characters")
    if "productName" not in value:
        raise BadSetting(where, dict(value), "must contain productName")
    return {str(k): v for k, v in value.items()}


def _indexes(value: object, where: str) -> frozenset[int]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > 100:
        raise BadSetting(where, value, "must be a list of at most 100 indexes")
    for item in value:
        if not isinstance(item, int) or isinstance(item, bool):
            raise BadSetting(where, item, "must contain only integers")
    return frozenset(value)


def dns_text(data: Mapping[str, t.Any], key: str, default: str | None, pattern: re.Pattern[str], max_length: int,
             where: str = "") -> str:
    """Read a setting that is a DNS label or subdomain. Raise BadSetting if it is not."""
    value = data.get(key, default)
    name = f"{where}.{key}" if where else key
    if not isinstance(value, str) or not pattern.fullmatch(value) or len(value) > max_length:
        kind = "DNS label" if pattern is DNS_LABEL else "DNS subdomain"
        raise BadSetting(name, value, f"must be a {kind} of at most {max_length} characters")
    return value
