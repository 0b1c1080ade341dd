# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every bound of the settings, on both sides; a refusal names the field, the value and what is allowed."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting, Settings
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    H100,
    T4,
    model_of,
    row,
    rows,
    settings,
)
from ansible_collections.composable.infra.tests.unit.planning.settings_support import (
    table,
)

ATTRIBUTES = {f"key{i}": "value" for i in range(31)}

ACCEPTED_ROWS = [
    {"index": 0}, {"index": 10000},
    {"cdi_model_name": "m"}, {"cdi_model_name": "m" * 1000},
    {"k8s_device_name": "a"}, {"k8s_device_name": "a" * 50}, {"k8s_device_name": "0-a-0"},
    {"driver_name": "a" * 63}, {"driver_name": "gpu.nvidia.com"},
    {"dra_attributes": {"productName": "x" * 64}}, {"dra_attributes": {"productName": "", **ATTRIBUTES}},
    {"kind": "gpu"}, {"kind": "memory"},
    {"handover": "gated"}, {"handover": "direct"}, {"handover": "reschedule"},
    {"other_driver_names": []}, {"other_driver_names": ["a.example", "b.example", "c.example"]},
    {"cannot_coexist_with": []}, {"cannot_coexist_with": list(range(100))}, {"cannot_coexist_with": None},
    {"bar_size": "128Gi"}, {"bar_size": "0"},
    {"capacity": {}}, {"capacity": {"memory": "80Gi"}}, {"capacity": {"a.example/memory": "40960Mi", "cores": "100"}},
]

REFUSED_ROWS = [
    ("index", None, "an integer from 0 to 10000"), ("index", -1, "0 to 10000"), ("index", 10001, "0 to 10000"),
    ("index", "1", "an integer"), ("index", True, "an integer"), ("index", 1.0, "an integer"),
    ("cdi_model_name", None, "1 to 1000"), ("cdi_model_name", "", "1 to 1000"),
    ("cdi_model_name", "m" * 1001, "1 to 1000"), ("cdi_model_name", 5, "a text"),
    ("k8s_device_name", None, "DNS label"), ("k8s_device_name", "a" * 51, "at most 50"),
    ("k8s_device_name", "a.b", "DNS label"), ("k8s_device_name", "A100", "DNS label"),
    ("k8s_device_name", "-a", "DNS label"), ("k8s_device_name", "a-", "DNS label"),
    ("k8s_device_name", "", "DNS label"), ("k8s_device_name", 7, "DNS label"),
    ("driver_name", None, "DNS subdomain"), ("driver_name", "a" * 64, "at most 63"),
    ("driver_name", "gpu..com", "DNS subdomain"), ("driver_name", "GPU.nvidia.com", "DNS subdomain"),
    ("dra_attributes", None, "mapping"), ("dra_attributes", [], "mapping"),
    ("dra_attributes", {}, "must contain productName"), ("dra_attributes", {"model": "x"}, "must contain productName"),
    ("dra_attributes", {"productName": "a", "last": "b", **ATTRIBUTES}, "at most 32"),
    ("kind", "fpga", "one of gpu, memory"), ("kind", 5, "one of gpu"),
    ("handover", "at once", "one of gated, direct, reschedule"), ("handover", "", "one of gated"),
    ("handover", ["direct"], "one of gated"),
    ("other_driver_names", "a.example", "a list of at most 3"),
    ("other_driver_names", ["a", "b", "c", "d"], "at most 3"),
    ("other_driver_names", ["GPU.example"], "DNS subdomain"), ("other_driver_names", [5], "DNS subdomain"),
    ("other_driver_names", ["gpu.nvidia.com"], "differ from driver-name"),
    ("other_driver_names", ["a.example", "a.example"], "in the list once"),
    ("bar_size", 128, "a quantity, such as 128Gi"), ("bar_size", "128GB", "a quantity"),
    ("capacity", "80Gi", "a mapping with at most 32 entries"),
    ("capacity", {f"c{n}": "1" for n in range(32)}, "at most 32"),
    ("cannot_coexist_with", "1", "list"), ("cannot_coexist_with", 1, "list"),
    ("cannot_coexist_with", list(range(101)), "at most 100"), ("cannot_coexist_with", ["1"], "integers"),
    ("cannot_coexist_with", [True], "integers"),
]


@pytest.mark.parametrize("changes", ACCEPTED_ROWS, ids="-".join)
def test_row_is_accepted(changes: dict[str, t.Any]) -> None:
    assert len(Settings.from_dict(table(**changes)).models) == 1


@pytest.mark.parametrize(("key", "value", "allowed"), REFUSED_ROWS)
def test_row_is_refused(key: str, value: object, allowed: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.from_dict(table(**{key: value}))
    field = f"device_info[0].{key.replace('_', '-')}"
    assert str(caught.value).startswith(f"{field}: ")
    assert allowed in str(caught.value)
    assert caught.value.field == field


@pytest.mark.parametrize(("value", "allowed"), [("x" * 65, "at most 64"), (5, "a text"), (None, "a text")])
def test_attribute_value_is_refused_by_its_name(value: object, allowed: str) -> None:
    with pytest.raises(BadSetting, match=r"^device_info\[0\]\.dra-attributes\.memory: ") as caught:
        Settings.from_dict(table(dra_attributes={"productName": "a", "memory": value}))
    assert allowed in caught.value.allowed


@pytest.mark.parametrize("amount", [80, "80 Gi", "1.5Gi", "80GB", "80ki", "-1Gi", "", None, "9" * 19])
def test_capacity_that_is_no_amount_is_refused_by_its_name(amount: object) -> None:
    with pytest.raises(BadSetting,
                       match=r"^device_info\[0\]\.capacity\.memory: .* must be a text with a quantity, such as 80Gi"):
        Settings.from_dict(table(capacity={"memory": amount}))


@pytest.mark.parametrize("name", ["bad name", "9lives", "a/b/c", "-a", "x" * 33])
def test_capacity_name_must_be_a_qualified_name(name: str) -> None:
    with pytest.raises(BadSetting, match=r"^device_info\[0\]\.capacity: .* names must be C identifiers"):
        Settings.from_dict(table(capacity={name: "80Gi"}))


@pytest.mark.parametrize("key", ["bad key", "a/b/c", "", "-a", "x" * 64])
def test_attribute_name_must_be_a_qualified_name(key: str) -> None:
    with pytest.raises(BadSetting):
        Settings.from_dict(table(dra_attributes={"productName": "a", key: "b"}))


@pytest.mark.parametrize("changes", [
    {"k8s_device_name": "a100\n"}, {"driver_name": "gpu.nvidia.com\n"}], ids="-".join)
def test_name_with_a_line_break_is_refused(changes: dict[str, t.Any]) -> None:
    with pytest.raises(BadSetting):
        Settings.from_dict(table(**changes))


@pytest.mark.parametrize(("first", "second", "field"), [
    (row(3, "A", "a"), row(3, "B", "b"), "device_info index"),
    (row(1, "A", "a"), row(2, "A", "b"), "device_info cdi-model-name"),
    (row(1, "A", "a"), row(2, "B", "a"), "device_info k8s-device-name"),
])
def test_names_and_indexes_are_unique(first: dict[str, t.Any], second: dict[str, t.Any], field: str) -> None:
    with pytest.raises(BadSetting, match="must be unique") as caught:
        Settings.from_dict({"device_info": [first, second]})
    assert caught.value.field == field


@pytest.mark.parametrize("value", [None, [], {}, "a100", 5])
def test_table_must_hold_a_model(value: object) -> None:
    with pytest.raises(BadSetting, match=r"^device_info: .* must be a list with at least one model"):
        Settings.from_dict({"device_info": value})


def test_row_must_be_a_mapping() -> None:
    with pytest.raises(BadSetting, match=r"^device_info\[1\]: 'a100' .* must be a mapping"):
        Settings.from_dict({"device_info": [row(0, A100, "a100"), "a100"]})


def test_unknown_key_of_a_row_is_refused_with_those_known() -> None:
    with pytest.raises(BadSetting, match=r"^device_info\[0\]\.k8s-name: .* unknown key. Known keys are index, "):
        Settings.from_dict(table(k8s_name="a100"))


def test_unknown_key_is_refused_with_those_known() -> None:
    with pytest.raises(BadSetting, match=r"^scan: 5 is not usable: unknown key. Known keys are allocation_policy, "):
        Settings.from_dict({"device_info": rows(), "scan": 5})


@pytest.mark.parametrize("value", ["cohdi.io", "a", "a" * 100, "x.y-z.0"])
def test_label_prefix_is_accepted(value: str) -> None:
    assert settings(label_prefix=value).label("fabric") == f"{value}/fabric"


@pytest.mark.parametrize("value", ["", "a" * 101, "Cohdi.io", "cohdi.io/", "a b", None, 5])
def test_label_prefix_is_refused(value: object) -> None:
    with pytest.raises(BadSetting, match=r"^label_prefix: .* must be a DNS subdomain of at most 100 characters"):
        settings(label_prefix=value)


@pytest.mark.parametrize("value", ["at once", "", None, [], "Reschedule"])
def test_handover_is_refused(value: object) -> None:
    with pytest.raises(BadSetting, match=r"^handover: .* must be one of gated, direct, reschedule"):
        settings(handover=value)


def test_each_model_may_have_its_own_handover() -> None:
    found = settings(handover="gated", handover_models={A100: "direct", T4: "reschedule"})
    assert found.direct_models == (A100,)
    assert found.ungated_models == {A100, T4}
    assert [found.is_direct(name) for name in (A100, H100, T4)] == [True, False, False]
    assert found.handover_of("any") == "gated"


def test_pods_are_held_where_any_model_is_gated() -> None:
    """That all others are direct does not open the gates of the pods that ask for it."""
    found = settings(handover="direct", handover_models={H100: "gated"})
    assert (found.handover_of("any"), found.gating, found.direct_models) == ("gated", True, (A100, T4))
    assert found.ungated_models == {A100, T4}
    alone = settings(handover="direct", handover_namespaces={"lab": "gated"})
    assert (alone.handover_of("any"), alone.handover_of("lab"), alone.ungated_models) == (
        "direct", "gated", frozenset({A100, H100, T4}))


def test_a_namespace_is_not_direct() -> None:
    with pytest.raises(BadSetting, match=r"^handover_namespaces.lab: 'direct' .* must be one of gated, reschedule"):
        settings(handover_namespaces={"lab": "direct"})


def test_a_row_of_the_table_says_the_handover_of_its_model() -> None:
    found = Settings.from_dict({**table(handover="direct"), "handover": "reschedule"})
    assert (found.handover_models, found.direct_models) == ({A100: "direct"}, (A100,))
    assert Settings.from_dict({**table(handover="gated"), "handover": "direct"}).gating
    assert not Settings.from_dict({**table(), "handover": "direct"}).handover_models


def test_a_row_and_handover_models_may_say_the_same() -> None:
    found = Settings.from_dict({**table(handover="direct"), "handover_models": {A100: "direct"}})
    assert found.handover_models == {A100: "direct"}


def test_a_row_and_handover_models_may_not_say_unlike_things() -> None:
    with pytest.raises(BadSetting) as refused:
        Settings.from_dict({**table(handover="direct"), "handover_models": {A100: "gated"}})
    assert str(refused.value) == ("device_info[0].handover: 'direct' is not usable: handover_models.A100 40G is "
                                  "'gated'. Set one of the two, or the same value in both")


DURATIONS = ["device_no_removal_duration", "device_no_allocation_duration"]
AT_LEAST_ONE = ["max_devices_per_node", "handover_timeout", "hold_timeout", "placement_timeout", "max_group_size"]


@pytest.mark.parametrize("key", DURATIONS + AT_LEAST_ONE)
@pytest.mark.parametrize("value", [1, 86400, 60])
def test_number_is_accepted(key: str, value: float) -> None:
    assert getattr(settings(**{key: value}), key) == value


@pytest.mark.parametrize("key", DURATIONS)
def test_duration_may_be_zero(key: str) -> None:
    assert getattr(settings(**{key: 0}), key) == 0


@pytest.mark.parametrize("key", DURATIONS + AT_LEAST_ONE)
@pytest.mark.parametrize("value", [-1, 86401, "60", True, None, float("nan"), float("inf")])
def test_number_is_refused(key: str, value: object) -> None:
    with pytest.raises(BadSetting, match=f"^{key}: .* must be a number from [01] to 86400") as caught:
        settings(**{key: value})
    assert (caught.value.field, caught.value.allowed[:16]) == (key, "must be a number")


@pytest.mark.parametrize("key", AT_LEAST_ONE)
def test_number_may_not_be_zero(key: str) -> None:
    with pytest.raises(BadSetting, match=f"^{key}: 0 "):
        settings(**{key: 0})


def test_number_of_devices_must_be_whole() -> None:
    with pytest.raises(BadSetting, match=r"^max_devices_per_node: "):
        settings(max_devices_per_node=2.5)


def test_defaults() -> None:
    found = settings()
    assert (found.label_prefix, found.handover, found.max_devices_per_node) == ("cohdi.io", "gated", 50)
    assert (found.unserved, found.allocation_policy, found.device_classes) == ("release", "samenode", found.drivers)
    assert (found.device_no_removal_duration, found.device_no_allocation_duration) == (600.0, 0.0)


def test_pool_names_lead_back_to_model_and_fabric() -> None:
    assert model_of(H100).pool(12) == "h100-fabric12"
    found = settings().of_pool("h100-fabric12")
    assert found is not None
    assert (found[0].cdi_model_name, found[1]) == (H100, 12)


def test_pool_of_a_device_whose_name_looks_like_a_pool() -> None:
    one = Settings.from_dict(table(k8s_device_name="a-fabric3"))
    assert one.of_pool("a-fabric3-fabric4") == (one.models[0], 4)
    assert one.of_pool("a-fabric3") is None


@pytest.mark.parametrize("name", ["node-0", "a100", "a100-fabric", "a100-fabricx", "other-fabric1", "-fabric1", ""])
def test_other_pools_are_none_of_ours(name: str) -> None:
    assert settings().of_pool(name) is None


def test_drivers_are_named_once() -> None:
    table_ = [*rows(), row(3, "X", "x", **{"driver-name": "a.example"})]
    assert Settings.from_dict({"device_info": table_}).drivers == ("a.example", "gpu.nvidia.com")


def test_further_drivers_of_a_row_count_as_in_use() -> None:
    found = Settings.from_dict(table(other_driver_names=["own.example"]))
    assert found.drivers == found.device_classes == ("gpu.nvidia.com", "own.example")
    (model,) = found.models
    assert model.drivers == ("gpu.nvidia.com", "own.example")
    said = {label: model.driver_on(label) for label in ("", "own.example", "gpu.nvidia.com", "strange.example")}
    assert said == {"": "gpu.nvidia.com", "own.example": "own.example", "gpu.nvidia.com": "gpu.nvidia.com",
                    "strange.example": "gpu.nvidia.com"}


def test_handover_by_namespace_and_model() -> None:
    found = settings(handover="reschedule", handover_namespaces={"team": "gated"}, handover_models={A100: "reschedule"})
    assert (found.handover_of("team"), found.handover_of("other"), found.gating) == ("gated", "reschedule", True)
    assert found.ungated_models == {A100}
    assert not settings(handover="reschedule").gating


@pytest.mark.parametrize(("more", "said"), [
    ({"handover_namespaces": {"team": "direct"}}, "handover_namespaces.team: 'direct' .* must be one of gated"),
    ({"handover_namespaces": "team"}, "handover_namespaces: 'team' .* mapping of names"),
    ({"handover_models": {"B300": "gated"}}, "handover_models.B300: 'gated' .* no such name. Known names are"),
    ({"unserved": "drop"}, "unserved: 'drop' .* one of release, wait"),
    ({"allocation_policy": "any"}, "allocation_policy: 'any' .* one of samenode, differentnode, roundrobin"),
    ({"device_classes": "gpu"}, "device_classes: 'gpu' .* a list of names"),
    ({"device_classes": ["GPU!"]}, "device_classes: 'GPU!' .* names of DeviceClasses"),
])
def test_bad_gate_setting_names_it(more: dict[str, object], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        settings(**more)


def test_shares_of_namespaces() -> None:
    found = settings(namespace_quotas={"team": {A100: 4, "*": 0}}, namespace_attaches_per_minute={"*": 20}).shares
    assert (found.quota("team", A100), found.quota("team", "T4"), found.quota("other", A100)) == (4, 0, None)
    assert found.attaches == {"*": 20}


@pytest.mark.parametrize(("data", "said"), [
    ({"namespace_quotas": {"team": {"K80": 1}}}, "namespace_quotas.team.K80: 1 .*no such model"),
    ({"namespace_quotas": {"team": 4}}, "namespace_quotas.team: 4 .*must be a mapping"),
    ({"namespace_quotas": [1]}, "namespace_quotas: .*must be a mapping"),
    ({"namespace_quotas": {"team": {"*": -1}}}, "namespace_quotas.team.*: -1 .*must be a number from 0"),
    ({"namespace_attaches_per_minute": {"team": 0}}, "namespace_attaches_per_minute.team: 0 .*must be a number from 1"),
    ({"max_size_min": -1}, "max_size_min: -1")])
def test_shares_that_cannot_be_used(data: dict[str, object], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        settings(**data)
