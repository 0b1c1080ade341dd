# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways of a hostile tenant on a real kubelet, with the rights and the settings of docs/guides/tenants.md.

The node agents are the DRA driver. A pod of others has a device on the same node throughout, and
whatever red does, another pod of others gets a device beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    GATE_LEASES,
    LEASES,
    NODES,
    PODS,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import (
    Connection,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.impersonation import (
    Impersonation,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    Forbidden,
    Invalid,
    NotFound,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import (
    claims,
    cohdi,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import CLAIM
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import OPEN_ON_NODE, READY
from ansible_collections.composable.infra.plugins.module_utils.node.kernel_log import (
    KernelLog,
    faults,
)
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support import real_hardware
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for
from ansible_collections.composable.infra.tests.e2e.trouble.accounts_support import (
    lease,
)
from ansible_collections.composable.infra.tests.e2e.trouble.hostile_pods import (
    DEVICE,
    NODE,
    OTHERS,
    SECONDS,
    VICTIM,
    Json,
    TwoTenants,
    claim_body,
    pod_body,
    shared_volume,
    with_volume,
)
from ansible_collections.composable.infra.tests.e2e.trouble.hostile_tenant_support import (
    OURS,
    RED,
    body,
)

Try = t.Callable[[Client], object]
QUOTAS = ApiResource("v1", "resourcequotas", "ResourceQuota", True)
ACCOUNTS = ApiResource("v1", "serviceaccounts", "ServiceAccount", True)
# Each pod's command lines, as the node sees them.
STAYS = ("stay", DEVICE)


@pytest.fixture(scope="module")
def both(stage_factory: StageFactory) -> TwoTenants:
    """Red, who may have one device, and others, of whom one has a device of NODE."""
    stage = stage_factory(nodes=0, real_nodes=2, devices={A100: 4}, attach=0.1, detach=0.1, hold=2.0,
                          handover="gated", driver=OWN_DRIVER,
                          extra={"namespace_quotas": {RED: {A100: 1}}})
    made = TwoTenants(stage, Installed(stage))
    made.other_runs(VICTIM)
    return made


@pytest.fixture(autouse=True)
def unharmed(both: TwoTenants) -> Iterator[None]:
    """The pod of others has had its device all along."""
    device, before = both.device(VICTIM, OTHERS), container(both)
    yield
    assert (both.device(VICTIM, OTHERS), container(both)) == (device, before)
    both.clear()


def container(both: TwoTenants) -> tuple[str, int]:
    """Id and restarts of the container of others."""
    (found,) = both.admin.get(PODS, VICTIM, OTHERS)["status"]["containerStatuses"]
    return found["containerID"], found["restartCount"]


def refused(both: TwoTenants, attempt: Try) -> None:
    """The attempt is forbidden, and not only impossible."""
    with pytest.raises(Forbidden):
        attempt(both.red)


def assert_quota_holds(both: TwoTenants) -> None:
    """Red's device still counts: it gets no second one, and others get theirs."""
    mine = both.device("evil")
    assert mine
    both.asks("more")
    assert both.other_runs("late") != mine
    assert both.is_held("more")
    assert both.device("evil") == mine


def protected(finalizers: object) -> Try:
    """Write the finalizers of red's claim."""
    return lambda red: red.merge_patch(CLAIMS, "evil", {"metadata": {"finalizers": finalizers}}, RED)


def test_way_31_deletes_its_claim_under_its_running_pod(both: TwoTenants) -> None:
    both.asks("evil")
    both.says("evil", "holds")
    remove = [{"op": "remove", "path": "/metadata/finalizers"}]
    for attempt in (protected(None), protected([]), protected(["red.example/mine"]),
                    lambda red: red.json_patch(CLAIMS, "evil", remove, RED)):
        refused(both, attempt)
    both.red.delete(CLAIMS, "evil", RED)
    assert_quota_holds(both)


def at_once(path: str) -> Try:
    """Delete what is at the path without waiting for a kubelet."""
    return lambda red: red.raw("DELETE", path, {"gracePeriodSeconds": 0})


def test_way_32_ends_its_pod_by_force(both: TwoTenants) -> None:
    both.asks("evil", *STAYS, terminationGracePeriodSeconds=3600)
    both.says("evil", "holds")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", **body("evil", {"metadata": {}}),
                "deleteOptions": {"gracePeriodSeconds": 0}}
    path = PODS.path("evil", RED)
    for attempt in (at_once(path), at_once(PODS.path(namespace=RED)),
                    lambda red: red.raw("DELETE", f"{path}?gracePeriodSeconds=0"),
                    lambda red: red.raw("POST", f"{path}/eviction", eviction)):
        refused(both, attempt)
    both.red.delete(PODS, "evil", RED)
    refused(both, at_once(path))
    assert_quota_holds(both)
    both.kill(*STAYS)


def test_way_33_passes_its_open_device_to_another_pod(both: TwoTenants) -> None:
    """By a socket in a volume that both have. The name of the taker is cut within a letter."""
    source, socket = shared_volume(both), "/shared/socket"
    both.red.create(CLAIMS, claim_body("giver"))
    giver = pod_body("giver", "give", DEVICE, socket, claim="giver")
    both.red.create(PODS, with_volume(giver, source, "/shared"))
    taker = pod_body("taker", "act", "обучение-модели", "workload", "take", socket)
    both.red.create(PODS, with_volume(taker, source, "/shared"))
    both.says("taker", "took the device")
    mine = both.device("giver")
    both.red.delete(PODS, "giver", RED)
    wait_for("the agent tells what keeps the claim", lambda: both.agents_said(
        f"the claim {RED}/giver keeps its devices"), SECONDS)
    assert both.other_runs("late") != mine
    assert both.device("giver") == mine
    both.red.delete(PODS, "taker", RED)
    wait_for("the first pod ends after the second", lambda: not both.phase("giver"), SECONDS)


def test_way_34_names_the_claim_of_another_namespace(both: TwoTenants) -> None:
    for name in (f"{OTHERS}/{VICTIM}", f"../{OTHERS}/{VICTIM}"):
        with pytest.raises(Invalid):
            both.red.create(PODS, pod_body("evil", claim=name))
    both.red.create(PODS, pod_body("evil", claim=VICTIM))
    wait_for("its gate is removed", lambda: not both.is_held("evil"), SECONDS)
    both.other_runs("late")
    assert (both.phase("evil"), both.device(VICTIM)) == ("Pending", "")
    found = claims.consumers(both.admin.get(CLAIMS, VICTIM, OTHERS))
    assert [each["name"] for each in found] == [VICTIM]


def test_way_35_leaves_a_process_behind(both: TwoTenants) -> None:
    both.asks("evil", "leave", DEVICE)
    both.says("evil", "left a process that holds")
    wait_for("the pod is over", lambda: both.phase("evil") == "Succeeded", SECONDS)
    assert both.processes(*STAYS) == []
    wait_for("its device is returned", lambda: len(both.resources()) == 1, SECONDS)


def test_way_36_never_ends_its_pod(both: TwoTenants) -> None:
    both.asks("evil", *STAYS, terminationGracePeriodSeconds=2**31)
    both.says("evil", "holds")
    both.red.delete(PODS, "evil", RED)
    assert_quota_holds(both)
    assert both.processes(*STAYS)
    both.kill(*STAYS)


def test_way_37_acts_as_a_removal_that_hangs(both: TwoTenants) -> None:
    address = both.evidence(both.other_runs("short")).address
    words = ("nvidia-smi", "drain", "-p", address, "-r")
    both.red.create(PODS, pod_body("evil", "act", *words[:1], *words))
    both.says("evil", "acts")
    assert both.processes(*words[1:])
    for kind in (PODS, CLAIMS):
        both.admin.delete(kind, "short", OTHERS)
    wait_for("the device is returned", lambda: len(both.resources()) == 1, SECONDS)
    assert both.processes(*words[1:])


def test_way_38_has_the_kernel_log_tell_of_a_fault(both: TwoTenants) -> None:
    """The kernel begins a line with a name that the program chose, and ends it with another one."""
    address = both.evidence(both.device(VICTIM, OTHERS)).address
    forged = f"NVRM: Xid (PCI:{address.partition('.')[0]}): 79, GPU has fallen off the bus."
    with KernelLog(Path("/")) as log:
        crash = pod_body("evil", "crash", f"/tmp/{forged}")
        both.red.create(PODS, with_volume(crash, {"emptyDir": {}}, "/tmp"))
        wait_for("it crashes", lambda: both.phase("evil") == "Failed", SECONDS)
        lines = [line for line in log.new_lines() if line.startswith("NVRM: Xid (PCI:")]
    assert lines
    assert forged[:60] in lines[0]
    assert faults(lines, address) == []
    with (both.node.hardware / "dev/kmsg").open("a", encoding="utf-8") as kmsg:
        kmsg.writelines(f"4,1,1,-;{line}\n" for line in lines)
    both.other_runs("late")
    assert both.evidence(both.device(VICTIM, OTHERS)).trouble is None


def test_way_39_asks_the_container_runtime_for_anothers_device(both: TwoTenants) -> None:
    (path,) = (both.node.folder / "devices").glob(f"{OWN_DRIVER}*.json")
    spec = json.loads(path.read_text("utf-8"))
    pod = pod_body("evil", "show")
    pod["metadata"]["annotations"] = {
        f"cdi.k8s.io/{n}": f"{spec['kind']}={each['name']}" for n, each in enumerate(spec["devices"])}
    assert pod["metadata"]["annotations"]
    pod["spec"]["containers"][0]["env"] = [
        {"name": name, "value": "all"} for name in ("NVIDIA_VISIBLE_DEVICES", "CDI_DEVICES")]
    both.red.create(PODS, pod)
    both.says("evil", "/dev: ")
    assert "nvidia" not in both.printed("evil")


def test_way_40_binds_its_pod_to_the_node_itself(both: TwoTenants) -> None:
    before = sorted(path.name for path in (both.node.folder / "devices").iterdir())
    both.asks("evil", nodeName=NODE)
    wait_for("the kubelet refuses", lambda: both.told("evil", "FailedPrepareDynamicResources"),
             SECONDS)
    assert both.device("evil") == ""
    assert sorted(path.name for path in (both.node.folder / "devices").iterdir()) == before


def test_way_41_gives_its_objects_the_names_of_anothers(both: TwoTenants) -> None:
    both.asks(VICTIM)
    both.says(VICTIM, "holds")
    assert both.device(VICTIM) not in ("", both.device(VICTIM, OTHERS))
    both.red.delete(PODS, VICTIM, RED)
    both.red.delete(CLAIMS, VICTIM, RED)
    wait_for("its own device is returned", lambda: len(both.resources()) == 1, SECONDS)


FOLDERS = ("/", "/dev", HARDWARE, "/var/lib/kubelet/plugins", "/var/run/cdi")
MORE: Json = {"hostPID": True, "hostNetwork": True, "hostIPC": True}


@pytest.mark.parametrize("pod", [
    *(with_volume(pod_body("evil"), {"hostPath": {"path": path}}, "/host") for path in FOLDERS),
    *(pod_body("evil", **{name: value}) for name, value in MORE.items()),
    *(pod_body("evil", containers=[{"name": "c", "image": "i", "securityContext": context}])
      for context in ({"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}},
                      {"capabilities": {"add": ["SYS_PTRACE"]}})),
], ids=[*FOLDERS, *MORE, "privileged", "SYS_ADMIN", "SYS_PTRACE"])
def test_way_42_mounts_what_is_the_nodes(both: TwoTenants, pod: Json) -> None:
    with pytest.raises(Forbidden, match="PodSecurity"):
        both.red.create(PODS, pod)


def test_way_43_tolerates_the_taint_of_a_device_that_leaves(both: TwoTenants) -> None:
    """The administrator's monitoring has it open, so that it cannot leave. The scheduler may give it to red."""
    leaving = both.other_runs("short")
    file = both.printed("short", OTHERS).split()[-1]
    monitor = with_volume(pod_body("monitor", "hold", file),
                          {"hostPath": {"path": HARDWARE + file, "type": "File"}}, file)
    monitor["metadata"]["namespace"] = OTHERS
    both.admin.create(PODS, monitor)
    both.says("monitor", "holds", OTHERS)
    for kind in (PODS, CLAIMS):
        both.admin.delete(kind, "short", OTHERS)
    wait_for("the device cannot leave", lambda: is_stuck(both, leaving), SECONDS)
    both.asks("evil", claim=claim_body("evil", tolerations=[{"operator": "Exists"}]))
    both.says("evil", "holds")
    if both.device("evil") == leaving:
        wait_for("its release is taken back", lambda: both.evidence(leaving).phase == READY, SECONDS)
    assert_quota_holds(both)


def is_stuck(both: TwoTenants, device: str) -> bool:
    trouble = both.evidence(device).trouble
    return trouble is not None and trouble.reason == OPEN_ON_NODE


def test_way_44_marks_its_claim_as_the_schedulers(both: TwoTenants) -> None:
    marked = claim_body("evil")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": VICTIM, "uid": "x y"}
    marked["metadata"] |= {"annotations": {claims.SPECIAL: "true"}, "ownerReferences": [owner]}
    refused(both, lambda red: red.create(CLAIMS, marked))
    both.red.create(CLAIMS, claim_body("evil"))
    mark = {"metadata": {"annotations": {claims.SPECIAL: "true"}}}
    refused(both, lambda red: red.merge_patch(CLAIMS, "evil", mark, RED))


def at_version(version: str) -> ApiResource:
    return ApiResource(f"resource.k8s.io/{version}", "resourceclaims", "ResourceClaim", True)


FOR_RED = {"reservedFor": [{"resource": "pods", "name": "evil", "uid": "x"}]}
STATUSES: list[Json] = [{"phase": "Succeeded"}, {"extendedResourceClaimStatus": {}},
                        {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": VICTIM}]}]
CONTAINER = {"name": "late", "image": "i", "targetContainerName": "main"}


@pytest.mark.parametrize("attempt", [
    *(lambda red, version=version: red.merge_patch(
        at_version(version), "evil", {"status": FOR_RED}, RED, "status")
      for version in ("v1", "v1beta1", "v1beta2")),
    lambda red: red.apply(CLAIMS, "evil", {**claim_body("evil"), "status": FOR_RED}, RED, "status",
                          field_manager="kube-scheduler"),
    lambda red: red.replace(CLAIMS, "evil", {**claim_body("evil"), "status": FOR_RED}, RED, "status"),
    *(lambda red, part=part: red.merge_patch(CLAIMS, "evil", {"status": FOR_RED}, RED, part)
      for part in ("binding", "driver")),
    *(lambda red, status=status: red.merge_patch(PODS, "evil", {"status": status}, RED, "status")
      for status in STATUSES),
    lambda red: red.strategic_patch(PODS, "evil", {"spec": {"ephemeralContainers": [CONTAINER]}},
                                    RED, "ephemeralcontainers"),
], ids=["v1", "v1beta1", "v1beta2", "apply", "replace", "binding", "driver", "a phase",
        "an extended resource", "another claim", "a further container"])
def test_way_45_writes_statuses_by_other_ways(both: TwoTenants, attempt: Try) -> None:
    both.red.create(CLAIMS, claim_body("evil"))
    both.red.create(PODS, pod_body("evil"))
    refused(both, attempt)


def test_way_46_takes_our_names_in_its_own_namespace(both: TwoTenants) -> None:
    for name in ("composable-infra-scaler", f"node-agent-{NODE}"):
        held = {**lease(name), "metadata": {"name": name, "namespace": RED}}
        both.red.create(LEASES, held)
    both.red.create(ACCOUNTS, body("composable-infra", {"metadata": {}}))
    lab = both.stage.lab
    with contextlib.closing(Client(Connection.load(str(
            lab.service_account_kubeconfig(RED, "composable-infra"))))) as namesake:
        for kind in (COMPOSABLE_RESOURCES, NODES):
            with pytest.raises(Forbidden):
                namesake.list(kind)
    before = both.admin.get(GATE_LEASES, "composable-infra-gates", OURS)["spec"]["renewTime"]
    wait_for("the controllers go on", lambda: both.admin.get(
        GATE_LEASES, "composable-infra-gates", OURS)["spec"]["renewTime"] != before, SECONDS)
    both.other_runs("late")


@pytest.mark.parametrize(("user", "groups"), [
    (f"system:serviceaccount:{OURS}:composable-infra", ()),
    (f"system:serviceaccount:{OURS}:composable-infra-agent", ()),
    (f"system:node:{NODE}", ("system:nodes",)), ("system:kube-scheduler", ()),
    (f"system:serviceaccount:{RED}:default", ("system:masters",))])
def test_red_is_nobody_else(both: TwoTenants, user: str, groups: tuple[str, ...]) -> None:
    path = str(both.stage.lab.service_account_kubeconfig(RED, "tenant"))
    connection = Connection.load(path)
    pretending = replace(connection, impersonation=Impersonation(user, groups))
    with contextlib.closing(Client(pretending)) as other, pytest.raises(Forbidden):
        other.list(COMPOSABLE_RESOURCES)


def test_way_47_writes_our_labels_and_annotations_on_its_objects(both: TwoTenants) -> None:
    victim = both.admin.get(CLAIMS, VICTIM, OTHERS)["metadata"]["uid"]
    device = both.device(VICTIM, OTHERS)
    notes = {cohdi.HELD_FOR: f"{victim} 2026-01-01T00:00:00.000000Z", cohdi.IN_USE: "false",
             cohdi.NODE: both.evidence(device).to_json(), cohdi.RELEASE: "now", cohdi.CLAIMS: victim,
             cohdi.POOL_DEVICE: f"{NODE}/{device}", CLAIM: f"{OTHERS}/{VICTIM} {victim}",
             "cohdi.io/last-used-time": "2026-01-01T00:00:00Z", "cohdi.io/delete-device": "true"}
    labels = {cohdi.TARGET_NODE: NODE, cohdi.MANAGED_BY: "composable.infra",
              "app.kubernetes.io/name": "dra-driver-nvidia-gpu",
              "app.kubernetes.io/component": "node-agent"}
    marked = {"annotations": notes, "labels": labels}
    claim, pod = claim_body("evil"), pod_body("evil", "hold", DEVICE, claim="evil")
    claim["metadata"] |= marked
    pod["metadata"] |= marked
    both.red.create(CLAIMS, claim)
    both.red.create(PODS, pod)
    both.red.create(EVENTS, {**body("forged", {"metadata": {}}), "reason": "GateOpened",
                             "involvedObject": {"kind": "Pod", "name": "evil", "namespace": RED},
                             "reportingComponent": "composable-infra"})
    both.says("evil", "holds")
    assert both.device("evil") != device
    assert_quota_holds(both)


NESTED = "".join(f"[1,2,3,4,5,6,7,8].all(x{n}, " for n in range(9)) + "true" + ")" * 9
ODD: dict[str, Json] = {
    "a count": {"count": 2**31}, "more than a claim may have": {"count": 33},
    "all": {"allocationMode": "All", "adminAccess": True}, "an administrator": {"adminAccess": True},
    **{f"the selector {text[:24]}": {"selectors": [{"cel": {"expression": text}}]} for text in (
        f'device.attributes["{OWN_DRIVER}"].nothing == "x"', "1 / 0 == 1", NESTED,
        '"a".matches("' + "(a|aa)+" * 40 + '$")', "device." + "a." * 200 + "b",
        f'device.capacity["{OWN_DRIVER}"].memory.compareTo(quantity("9e99")) > 0')},
    "a capacity": {"capacity": {"requests": {"memory": "9e18"}}},
}


def test_way_48_asks_for_what_nobody_can_read(both: TwoTenants) -> None:
    created = []
    for number, exactly in enumerate(ODD.values()):
        with contextlib.suppress(Invalid, Forbidden):
            both.asks(f"evil-{number}", claim=claim_body(f"evil-{number}", **exactly))
            created.append(f"evil-{number}")
    opaque = claim_body("opaque")
    opaque["spec"]["devices"]["config"] = [{"opaque": {
        "driver": OWN_DRIVER, "parameters": {"devices": "/dev/*", "privileged": True}}}]
    both.asks("opaque", claim=opaque)
    both.other_runs("late")
    assert len(created) >= 3
    wait_for("none is held", lambda: not [name for name in created if both.is_held(name)], SECONDS)
    assert {both.phase(name) for name in created} == {"Pending"}
    wait_for("parameters are refused", lambda: both.told("opaque", "which accepts none"), SECONDS)


def test_way_49_floods_with_claims_and_pods(both: TwoTenants) -> None:
    for number in range(60):
        both.asks(f"evil-{number}")
    both.other_runs("late")
    having = [name for name in (f"evil-{number}" for number in range(60)) if both.device(name)]
    assert len(having) <= 1


def test_way_50_repels_the_pods_of_others(both: TwoTenants) -> None:
    """Kubernetes lets any pod do so, unless a ResourceQuota says otherwise."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    pod = pod_body("evil", affinity={"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    both.red.create(PODS, pod, dry_run=True)
    hard = {"hard": {"pods": "0"}}
    quota = body("no-cross-namespace-affinity", {"metadata": {}})
    both.admin.create(QUOTAS, {**quota, "spec": {**hard, "scopes": ["CrossNamespacePodAffinity"]}})
    both.admin.merge_patch(QUOTAS, quota["metadata"]["name"], {
        "status": {**hard, "used": {"pods": "0"}}}, RED, "status")
    wait_for("the API server knows the quota", lambda: not may_create(both, pod), SECONDS)
    refused(both, lambda red: red.create(PODS, pod))
    both.red.create(PODS, pod_body("evil"))


def may_create(both: TwoTenants, pod: Json) -> bool:
    try:
        both.red.create(PODS, pod, dry_run=True)
    except Forbidden:
        return False
    return True


def test_device_of_a_pod_that_an_administrator_took_away_is_withheld(both: TwoTenants) -> None:
    """The kubelet does not answer, and pod and claim are gone, while the container runs."""
    both.asks("evil", *STAYS)
    both.says("evil", "holds")
    device = both.device("evil")
    (kubelet,) = real_hardware.programs(both.node, "kubelet")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        at_once(PODS.path("evil", RED))(both.admin)
        with contextlib.suppress(NotFound):
            protected(None)(both.admin)
            both.admin.delete(CLAIMS, "evil", RED)
        wait_for("the device is withheld", lambda: device not in both.shown(), SECONDS)
        name = next(raw["metadata"]["name"] for raw in both.resources()
                    if device.removeprefix("gpu-") in json.dumps(raw).lower())
        wait_for("that is reported", lambda: both.told(name, "DeviceWithheld", OTHERS), SECONDS)
        assert both.processes(*STAYS)
    finally:
        os.kill(kubelet, signal.SIGCONT)
    wait_for("the container ends", lambda: not both.processes(*STAYS), SECONDS)
