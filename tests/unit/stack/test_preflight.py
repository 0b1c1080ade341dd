# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every combination that cannot work is refused with the sentence that says what to change, and nothing else is."""

from __future__ import annotations

import random
import re
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.plugin_utils.stack.findings import OK, STOP, WARN, Finding
from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import FILE, matrix
from ansible_collections.composable.infra.plugins.plugin_utils.stack.preflight import judge, preflight
from ansible_collections.composable.infra.tests.unit.stack.cases import CLAIMS, RULES, cluster, host, node, plan
from ansible_collections.composable.infra.tests.unit.stack.combinations import (
    COHDI,
    REFUSED,
    ROW,
    TYPED,
    VENDORS,
    Changes,
)

ASKED = [{"object": "team-a/gpu", "class": "gpu.nvidia.com", "selectors": ["true"]}]
BOTH: Changes = {**TYPED, "other-driver-names": ["own.example"]}
EITHER = "device.driver in ['gpu.nvidia.com', 'own.example']"
NEWER: Changes = {"served": [CLAIMS, RULES["v1"]], "gates": {}}
WARNED: list[tuple[str, Changes, Changes, str]] = [
    ("plugin that has every GPU open", {}, {"dra_feature_gates": {"DynamicMIG": True}},
     "feature gates of the DRA driver"),
    ("manager out of reach", {}, {"login": {"problem": "nobody answers", "reached": False, "said": ""}}, "CDI Manager"),
    ("nobody brings the runtime class", {}, {"gpu_operator_toolkit": False}, "container toolkit"),
    ("direct beside the vendor's driver", {}, {"handover": "direct", "dra_driver": True}, "handover and DRA driver"),
    ("a release that nobody tried", {"kubernetes": "v1.38.0", **NEWER}, {}, "kubernetes version"),
    ("taint rules that are off by default", {"served": [CLAIMS], "gates": {}}, {}, "device taint rules"),
    ("class of others that a pool breaks", {"class_selectors": {"others": [VENDORS]}},
     {"config": {"device_info": [ROW]}}, "selectors and pools"),
    ("claim that a pool breaks", {
        "class_selectors": {"gpu.nvidia.com": [VENDORS]},
        "requests": [{"object": "team/train", "class": "gpu.nvidia.com",
                      "selectors": ["device.attributes['gpu.nvidia.com'].architecture == 'Ampere'"]}]},
     {"config": {"device_info": [TYPED]}}, "selectors and pools"),
    ("no class for both", {"class_selectors": {"gpu.nvidia.com": [VENDORS]}}, {"config": {"device_info": [BOTH]}},
     "selectors and drivers"),
    ("driver container", {}, {"driver_shape": "container", "gpu_operator_driver": True}, "driver"),
    ("operator on 1.37", {"kubernetes": "v1.37.0", **NEWER}, {}, "GPU Operator and Kubernetes"),
    ("branch that does not let go", {}, {"driver_branch": 595}, "driver branch"),
    (
        "K3s on SLES",
        {"nodes": [node("a", os_image="SUSE Linux Enterprise Server 15 SP6")]},
        {"platform": "k3s"},
        "GPU Operator and K3s",
    ),
    ("DRA on an early 1.34", {"kubernetes": "v1.34.1"}, {}, "DRA driver and Kubernetes"),
    ("not ready", {"nodes": [node("a", ready=False)]}, {}, "node ready"),
    ("no realloc", {"hosts": [host("a", cmdline="quiet")]}, {}, "PCI windows"),
    ("nouveau", {"hosts": [host("a", nouveau=True)]}, {}, "nouveau"),
    ("modeset", {"hosts": [host("a", modeset="Y")]}, {}, "nvidia-drm"),
    ("persistenced", {"hosts": [host("a", persistenced=True)]}, {}, "nvidia-persistenced"),
    ("Kueue without the publisher", {"crds": ["clusterqueues.kueue.x-k8s.io"], "requests": ASKED},
     {"components": ["scaler", "operator"]}, "quota of Kueue"),
]


def of(level: str, found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.level == level]


def test_what_is_well_is_only_well() -> None:
    found = judge(cluster(), plan())
    assert [finding for finding in found if finding.level != OK] == []
    assert len(found) >= 4


def test_control_node_that_has_and_reaches_all_is_well() -> None:
    well = {"problem": "", "reached": True, "said": "https://manager.example.com has 2 machines"}
    found = {f.check: f for f in judge(cluster(), plan(helm="/usr/bin/helm", login=well))}
    assert (found["helm"].level, found["CDI Manager"].level) == (OK, OK)
    assert found["CDI Manager"].found == well["said"]
    without = {"nfd": False, "gpu_operator": False, "dra_driver": False, "helm": ""}
    assert "helm" not in {f.check for f in judge(cluster(), plan(**without))}


def test_cohdi_that_is_well_is_only_well() -> None:
    assert [finding for finding in judge(cluster(), plan(**COHDI)) if finding.level != OK] == []


@pytest.mark.parametrize(
    ("in_cluster", "in_plan", "check", "change"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_it_is_refused_with_what_to_change(in_cluster: Changes, in_plan: Changes, check: str, change: str) -> None:
    stops = of(STOP, judge(cluster(**in_cluster), plan(**in_plan)))
    assert (check, change) in [(finding.check, finding.change) for finding in stops]


@pytest.mark.parametrize(
    ("in_cluster", "in_plan", "check"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED]
)
def test_it_is_told_but_does_not_stop(in_cluster: Changes, in_plan: Changes, check: str) -> None:
    found = judge(cluster(**in_cluster), plan(**in_plan))
    assert check in [finding.check for finding in of(WARN, found)]
    assert of(STOP, found) == []


def test_provisioning_requests_need_their_definition() -> None:
    wanted = plan(config={"provisioning_requests": True})
    there = judge(cluster(crds=["provisioningrequests.autoscaling.x-k8s.io"]), wanted)
    assert [each.level for each in there if each.check == "provisioning requests"] == [OK]
    assert "provisioning requests" not in {each.check for each in judge(cluster(), plan())}


@pytest.mark.parametrize(("crds", "components", "requests", "told"), [
    (["clusterqueues.kueue.x-k8s.io"], ["scaler", "operator"], ASKED, 1),
    ([], ["scaler", "operator"], ASKED, 0),
    (["clusterqueues.kueue.x-k8s.io"], ["publisher", "scaler", "operator"], ASKED, 0),
    (["clusterqueues.kueue.x-k8s.io"], ["scaler", "operator"], [{**ASKED[0], "selectors": []}], 0),
])
def test_kueue_needs_the_publisher_for_claims_with_selectors(
        crds: list[str], components: list[str], requests: list[dict[str, t.Any]], told: int) -> None:
    found = judge(cluster(crds=crds, requests=requests), plan(components=components))
    assert sum(each.check == "quota of Kueue" and "team-a/gpu" in each.found for each in found) == told


GATES = "--feature-gates={} to kube-apiserver, kube-scheduler and kube-controller-manager"
CONFIG = "--runtime-config=resource.k8s.io/{}=true to kube-apiserver"


@pytest.mark.parametrize(("version", "served", "gates", "level", "change"), [
    ("v1.34.4", [], {}, WARN, f"Add {CONFIG.format('v1alpha3')}, and {GATES.format('DRADeviceTaints=true')}"),
    ("v1.35.4", ["v1alpha3"], {"DRADeviceTaints": True}, WARN,
     f"Add {GATES.format('DRADeviceTaintRules=true')}"),
    ("v1.35.4", ["v1alpha3"], {"DRADeviceTaints": True, "DRADeviceTaintRules": True}, OK, ""),
    ("v1.36.3", [], {}, WARN, f"Add {CONFIG.format('v1beta2')}, and {GATES.format('DRADeviceTaintRules=true')}"),
    ("v1.36.3", ["v1alpha3", "v1beta2"], {"DRADeviceTaintRules": False}, WARN,
     f"Add {GATES.format('DRADeviceTaintRules=true')}"),
    ("v1.36.3", ["v1alpha3"], {"DRADeviceTaintRules": True}, STOP, f"Add {CONFIG.format('v1beta2')}"),
    ("v1.37.2", ["v1"], {}, OK, ""),
    ("v1.37.2", ["v1"], {"DRADeviceTaints": False}, WARN, f"Add {GATES.format('DRADeviceTaints=true')}"),
    ("v1.38.0", ["v1"], {}, OK, ""),
])
def test_preflight_asks_for_what_the_scheduler_needs_to_heed_taint_rules(
        version: str, served: list[str], gates: dict[str, bool], level: str, change: str) -> None:
    """Without it the scheduler can allocate a device between its removal and the plugin's next ResourceSlice."""
    found = judge(cluster(kubernetes=version, served=[CLAIMS, *(RULES[each] for each in served)], gates=gates), plan())
    assert [(f.level, f.change) for f in found if f.check == "device taint rules"] == [(level, change)]


def test_cohdi_on_1_37_needs_its_own_version_and_no_gate() -> None:
    told = cluster(kubernetes="v1.37.2", **NEWER)
    assert [f.change for f in of(STOP, judge(told, plan(**COHDI)))] == [
        f"Add {CONFIG.format('v1alpha3')}, or set composable_controllers to ours"]


def test_selectors_that_can_judge_the_pools_are_well() -> None:
    asked = [{"object": "team/train", "class": name, "selectors": ["device.attributes['x'].y == 1"]}
             for name in ("unheard-of", "narrow")]
    found = judge(cluster(class_selectors={"gpu.nvidia.com": [VENDORS], "narrow": ["false"]}, requests=asked),
                  plan(config={"device_info": [TYPED]}))
    assert [f.level for f in found if f.check == "selectors and pools"] == [OK]
    assert not [f for f in judge(cluster(), plan(config={"device_info": "nonsense"})) if f.level != OK]


@pytest.mark.parametrize(("selector", "said"), [
    ("device.attributes[device.driver].productName == 'A100'", []),
    ("device.attributes[device.driver].productName == 'H100'", []),
    ("device.attributes[device.driver].rack == 'r'", []), ("nonsense(", []),
    ("device.attributes['gpu.nvidia.com'].productName == 'A100'",
     ["A request of team/train accepts A100, but not by own.example"]),
    ("device.driver == 'own.example'", ["A request of team/train accepts A100, but not by gpu.nvidia.com"])])
def test_request_that_finds_devices_of_one_driver_only_is_told(selector: str, said: list[str]) -> None:
    asked = [{"object": "team/train", "class": "either", "selectors": [selector]},
             {"object": "team/vendors", "class": "gpu.nvidia.com", "selectors": []}]
    found = judge(cluster(class_selectors={"gpu.nvidia.com": [VENDORS], "either": [EITHER]}, requests=asked),
                  plan(config={"device_info": [BOTH], "device_classes": ["gpu.nvidia.com", "either"]}))
    told = [f for f in found if f.check == "selectors and drivers"]
    assert [f.found for f in told if f.level == WARN] == said
    assert "DeviceClass either accepts A100 by gpu.nvidia.com and own.example" in [f.found for f in told]


def test_one_driver_needs_no_class_for_several() -> None:
    found = judge(cluster(class_selectors={"gpu.nvidia.com": [VENDORS]}), plan(config={"device_info": [TYPED]}))
    assert [f for f in found if f.check == "selectors and drivers"] == []


def test_every_stop_says_what_is_there_and_what_to_do(rng: random.Random) -> None:
    stopped = 0
    for _round in range(60):
        chosen = rng.sample(REFUSED, 3)
        found = judge(
            cluster(**{k: v for row in chosen for k, v in row[1].items()}),
            plan(**{k: v for row in chosen for k, v in row[2].items()}),
        )
        stopped += len(of(STOP, found))
        assert [
            finding for finding in of(STOP, found) + of(WARN, found) if not finding.found or not finding.change
        ] == []
    assert stopped > 60


def test_every_sentence_of_the_rules_is_in_a_table() -> None:
    stops, warns = set(), set()
    for path in FILE.parent.glob("*_rules.py"):
        source = path.read_text(encoding="utf-8")
        stops |= set(re.findall(r'stop\(\s*"([^"]+)"', source))
        warns |= set(re.findall(r'warn\(\s*"([^"]+)"', source))
    assert len(stops) > 12
    assert stops == {row[3] for row in REFUSED} - {"plan"}
    assert warns == {row[3] for row in WARNED}


def test_only_the_planned_nodes_are_judged() -> None:
    nodes = [node("a"), node("no-gpu", machine="")]
    assert of(STOP, judge(cluster(nodes=nodes), plan(nodes=["a"]))) == []
    assert of(STOP, judge(cluster(nodes=nodes), plan())) != []


def test_the_report_begins_with_what_stops() -> None:
    found = preflight(cluster(served=[CLAIMS], gates={}, hosts=[host("a", nouveau=True)]), plan(**COHDI))
    lines = found["report"].splitlines()
    assert lines[0].startswith("preflight: 1 to fix, 1 to know, ")
    assert lines[1].startswith("  [STOP] device taint rules: ")
    assert lines[2].startswith("         -> Add --runtime-config")
    assert lines[3].startswith("  [warn] nouveau: ")
    assert found["stop"] == [f"{found['findings'][0]['found']}: {found['findings'][0]['change']}"]


def test_a_gate_that_the_api_server_tells_wins_over_the_default() -> None:
    told = cluster(kubernetes="v1.35.2", gates={"DRADeviceBindingConditions": True})
    assert of(STOP, judge(told, plan(handover="reschedule"))) == []


def test_direct_without_the_vendors_driver_is_well() -> None:
    assert [f for f in judge(cluster(), plan(handover="direct", dra_driver=False)) if f.level != OK] == []


def test_the_matrix_of_the_caller_counts() -> None:
    older = matrix()
    older["kubernetes"]["minimum"] = "1.40"
    assert [f.check for f in of(STOP, judge(cluster(), plan(), older))] == ["kubernetes version"]
