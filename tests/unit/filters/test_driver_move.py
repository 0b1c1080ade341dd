# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node waits for on its way to another driver, and what keeps a cluster from being moved."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter.driver_move import FilterModule

Json = dict[str, t.Any]
LABEL, MARK = "composable.infra/dra-driver", "composable.infra/moving-driver"
OLD, NEW = "gpu.nvidia.com", "devices.composable.infra"
driver_move = FilterModule().filters()["driver_move"]


def config(*others: str, driver: str = OLD, **more: t.Any) -> Json:
    """One model with these further drivers."""
    row = {"index": 0, "cdi-model-name": "A100", "k8s-device-name": "a100", "driver-name": driver,
           "dra-attributes": {"productName": "A100"}, "other-driver-names": [*others]}
    return {"device_info": [row], "fabric": {"endpoint": "https://fm"}, **more}


def node(name: str = "n", label: str = "", *, mark: str = "", cordoned: bool = False, fabric: bool = True) -> Json:
    """A node of a fabric."""
    labels = {"kubernetes.io/hostname": name, **({"cohdi.io/fabric": "1"} if fabric else {}),
              **({LABEL: label} if label else {})}
    return {"metadata": {"name": name, "labels": labels, "annotations": {MARK: mark} if mark else {}},
            "spec": {"unschedulable": cordoned}}


def shows(driver: str, *uuids: str, on: str = "n") -> Json:
    """A slice of a node."""
    devices = [{"name": f"gpu-{i}", "attributes": {"uuid": {"string": uuid}}} for i, uuid in enumerate(uuids)]
    return {"metadata": {"name": f"{on}-{driver}"},
            "spec": {"driver": driver, "nodeName": on, "pool": {"name": on, "generation": 1}, "devices": devices}}


def claim(name: str, driver: str = OLD, on: str = "n", **more: t.Any) -> Json:
    """One with a device of a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    result = {"request": "r", "driver": driver, "pool": on, "device": "gpu-0", **more}
    return {"metadata": {"namespace": "default", "name": name},
            "status": {"allocation": {"devices": {"results": [result]},
                                      "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}}


def resource(uuid: str = "", on: str = "n", **meta: t.Any) -> Json:
    """A ComposableResource."""
    return {"metadata": {"name": f"r-{uuid}", **meta}, "spec": {"target_node": on, "model": "A100"},
            "status": {"device_id": uuid} if uuid else {}}


def agents(*args: str) -> Json:
    """The node agents' DaemonSet."""
    labels = {"app.kubernetes.io/name": "composable-infra", "app.kubernetes.io/component": "node-agent"}
    return {"metadata": {"namespace": "composable-infra", "name": "agent"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{"args": [*args]}]}}}}


def plugin(**spec: t.Any) -> Json:
    """The vendor's plugin."""
    labels = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
    return {"metadata": {"namespace": "dra", "name": "plugin"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{}], **spec}}}}


GOOD = agents("--dra-driver", NEW, "--dra-driver-by-label"), plugin(nodeSelector={LABEL: OLD})


class Lazy(dict[str, t.Any]):
    """As Ansible hands mappings to filters."""

    def items(self) -> t.Any:
        return iter([*super().items()])


def lazy(value: t.Any) -> t.Any:
    """The same with such mappings in it."""
    if isinstance(value, dict):
        return Lazy({key: lazy(each) for key, each in value.items()})
    return [lazy(each) for each in value] if isinstance(value, list) else value


def look(*raws: Json, to: str = NEW, settings: Json | None = None, names: list[str] | None = None,
         sets: t.Sequence[Json] = GOOD) -> Json:
    """What the filter says of objects of any kind."""
    def of(*keys: str) -> list[Json]:
        return [raw for raw in raws if all(key in raw.get("spec", {}) or key in raw.get("status", {}) for key in keys)]

    return driver_move(lazy(settings or config(NEW)), to=to, nodes=lazy(of("unschedulable")),
                       slices=lazy(of("nodeName")), claims=lazy(of("allocation")), resources=lazy(of("target_node")),
                       daemon_sets=lazy([*sets]), names=names)


def only(found: Json) -> Json:
    (row,) = found["nodes"]
    return t.cast(Json, row)


@pytest.mark.parametrize(("raws", "said", "done"), [
    ([node(), shows(OLD, "a")], "node n: still shown by gpu.nvidia.com", False),
    ([node(label=OLD), shows(OLD, "a"), claim("c")], "node n: default/c use devices of gpu.nvidia.com", False),
    ([node(label=OLD), claim("c")], "node n: default/c use devices of the old driver", False),
    ([node(label=NEW, mark="opened"), shows(OLD, "a"), shows(NEW), resource("a")],
     "node n: still shown by gpu.nvidia.com; not shown yet: a", False),
    ([node(label=NEW, mark="opened"), shows(NEW), resource("a")], "node n: not shown yet: a", False),
    ([node(label=NEW, mark="opened"), shows(NEW, "a"), resource("a")], "node n: ready to be moved", False),
    ([node(label=NEW), shows(NEW, "a"), resource("a")], "node n is done", True),
    ([node(label=NEW), shows(NEW, "a"), resource("a"), claim("c", NEW)], "node n is done", True),
    ([node(label=NEW), shows(NEW), resource(), resource("b", "other")], "node n is done", True),
    ([node(label=NEW), resource("a", deletionTimestamp="now")], "node n is done", True),
    ([node(label=NEW), resource("a", annotations={"composable.infra/pool-device": "p/d"})], "node n is done", True),
    ([node(label=NEW), shows(OLD, "z", on="other"), claim("c", OLD, "other")], "node n is done", True),
    ([node(label=NEW), shows("nic.example", "z"), claim("c", "nic.example")], "node n is done", True),
    ([node(label=NEW), shows(OLD)], "node n is done", True)])
def test_what_a_node_waits_for(raws: list[Json], said: str, done: bool) -> None:
    row = only(look(*raws))
    assert (row["sentence"], row["done"]) == (said, done)


def test_claim_that_only_looks_on_counts_as_well() -> None:
    assert only(look(node(), claim("c", adminAccess=True)))["users"] == ["default/c"]


@pytest.mark.parametrize(("raws", "adopt"), [
    ([shows(OLD, "a"), resource("a")], True), ([shows(OLD)], True), ([], False),
    ([shows(OLD), shows(NEW, "a")], False), ([shows(OLD), claim("c", NEW)], False)])
def test_node_that_has_the_driver_and_no_label_only_gets_the_label(raws: list[Json], adopt: bool) -> None:
    assert only(look(node(), *raws, to=OLD))["adopt"] is adopt
    assert not only(look(node(), *raws, shows(NEW), to=NEW))["adopt"]
    assert not only(look(node(label=NEW), *raws, to=OLD))["adopt"]


def test_how_the_node_was_found_is_told() -> None:
    row = only(look(node(label=OLD, mark="kept", cordoned=True)))
    assert (row["label"], row["mark"], row["cordoned"]) == (OLD, "kept", True)


def test_nodes_of_a_fabric_are_meant_unless_they_are_named() -> None:
    nodes = node("b"), node("a"), node("c", fabric=False)
    assert [row["name"] for row in look(*nodes)["nodes"]] == ["a", "b"]
    assert [row["name"] for row in look(*nodes, names=["c", "b"])["nodes"]] == ["c", "b"]
    prefixed = config(NEW, label_prefix="gpu.example")
    assert look(*nodes, settings=prefixed)["nodes"] == []


@pytest.mark.parametrize(("sets", "said"), [
    (GOOD, []),
    (GOOD[1:], [f"no node agents run, and they provide the driver {NEW}"]),
    ((agents("--root", "/host"), GOOD[1]),
     [f"the node agents provide no driver, and not {NEW}. Set controllers_agent_dra_driver"]),
    ((agents("--dra-driver", "x.example", "--dra-driver-by-label"), GOOD[1]),
     [f"the node agents provide the driver x.example, and not {NEW}. Set controllers_agent_dra_driver"]),
    ((agents("--dra-driver", NEW), GOOD[1]),
     [f"the node agents would provide the driver {NEW} on all nodes at once. Set "
      "controllers_agent_dra_driver_by_label"]),
    ((GOOD[0], plugin()), [f"the DaemonSet dra/plugin of {OLD} would stay on n. Let it select nodes by the label "
                           f"{LABEL}: {OLD} (nvidia_dra_driver_node_selector)"]),
    ((GOOD[0], plugin(nodeSelector={"elsewhere": "true"})), [])])
def test_what_keeps_nodes_from_being_moved(sets: t.Sequence[Json], said: list[str]) -> None:
    assert look(node(label=OLD), shows(OLD, "a"), sets=sets)["problems"] == said


def test_plugin_by_affinity_is_as_good_as_by_a_selector() -> None:
    rule = {"key": LABEL, "operator": "NotIn", "values": [NEW]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    away = plugin(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    for to in (NEW, OLD):
        assert look(node(label=OLD), sets=(GOOD[0], away), to=to)["problems"] == []


def test_plugin_that_would_not_come_back_is_told() -> None:
    elsewhere = GOOD[0], plugin(nodeSelector={LABEL: "x.example"})
    (said,) = look(node(label=NEW), shows(NEW, "a"), to=OLD, sets=elsewhere)["problems"]
    assert said.startswith(f"the DaemonSet dra/plugin of {OLD} would not come to n. ")


@pytest.mark.parametrize("to", [OLD, NEW])
def test_plugin_of_other_nodes_says_nothing_of_these(to: str) -> None:
    others = plugin(nodeSelector={"elsewhere": "true"})
    for sets in ((*GOOD, others), (GOOD[0], others, GOOD[1])):
        assert look(node(label=OLD if to == NEW else NEW), shows(OLD, "a"), to=to, sets=sets)["problems"] == []


def test_nodes_that_are_done_need_nothing_of_it() -> None:
    assert look(node(label=NEW), shows(NEW, "a"), sets=())["problems"] == []
    assert look(node(), shows(OLD, "a"), sets=(), to=OLD)["problems"] == []
    assert look(node(), names=["gone"])["problems"] == ["the cluster has no node gone"]


def test_configuration_must_have_the_driver() -> None:
    with pytest.raises(AnsibleFilterError, match=f"^no row of device_info has the driver {NEW}. Add it to "):
        look(node(), settings=config())
    with pytest.raises(AnsibleFilterError, match=r"^device_info"):
        look(node(), settings={"device_info": []})
    both = config(NEW)
    both["device_info"].append({**config()["device_info"][0], "index": 1, "cdi-model-name": "H100",
                                "k8s-device-name": "h100"})
    with pytest.raises(AnsibleFilterError, match=f"^other-driver-names of H100 in device_info has no {NEW}, "):
        look(node(), settings=both)


def test_models_with_other_drivers_are_left_alone() -> None:
    table = config(NEW)
    other = config(driver="cxl.example")["device_info"][0]
    table["device_info"].append({**other, "index": 1, "cdi-model-name": "memory", "k8s-device-name": "memory"})
    assert look(node(), settings=table)["drivers"] == [NEW, OLD]
