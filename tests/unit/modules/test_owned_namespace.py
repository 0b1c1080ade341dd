# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""owned_namespace: what it makes, and that nothing of anybody else ever goes with it."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    NAMESPACES,
    SECRETS,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client import object_applier
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Unavailable, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.module_base import TaskContext
from ansible_collections.composable.infra.plugins.modules import owned_namespace
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi, answered_by_a_proxy

Json = dict[str, t.Any]
RunModule = Callable[..., Json]
LABELS = {"app.kubernetes.io/managed-by": "composable.infra"}
CONFIG_MAPS = ApiResource("v1", "configmaps", "ConfigMap", True)
DAEMON_SETS = ApiResource("apps/v1", "daemonsets", "DaemonSet", True)
POLICIES = ApiResource("nvidia.com/v1", "clusterpolicies", "ClusterPolicy", False)
ALL = ["create", "delete", "get", "list"]


@pytest.fixture(autouse=True)
def served(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of every sort: of the cluster, subresources, what is only a view, and one group in two versions."""
    monkeypatch.setattr(object_applier, "POLL_SECONDS", 0.0)

    def kinds(*rows: tuple[str, str, bool, list[str]]) -> Json:
        return {"resources": [{"name": n, "kind": k, "namespaced": of, "verbs": v} for n, k, of, v in rows]}

    groups = {"apps": ["apps/v1", "apps/v1beta1"], "nvidia.com": ["nvidia.com/v1"],
              "metrics.k8s.io": ["metrics.k8s.io/v1beta1"]}
    api.paths["/apis"] = {"groups": [{"name": name, "versions": [{"groupVersion": v} for v in versions]}
                                     for name, versions in groups.items()]}
    api.paths["/api/v1"] = kinds(("configmaps", "ConfigMap", True, ALL), ("secrets", "Secret", True, ALL),
                                 ("events", "Event", True, ALL), ("namespaces", "Namespace", False, ALL),
                                 ("pods/log", "Pod", True, ["get"]), ("bindings", "Binding", True, ["create"]))
    daemon_sets = kinds(("daemonsets", "DaemonSet", True, ALL), ("daemonsets/status", "DaemonSet", True, ["get"]))
    api.paths["/apis/apps/v1"] = api.paths["/apis/apps/v1beta1"] = daemon_sets
    api.paths["/apis/nvidia.com/v1"] = kinds(("clusterpolicies", "ClusterPolicy", False, ALL))
    api.paths["/apis/metrics.k8s.io/v1beta1"] = kinds(("pods", "PodMetrics", True, ["get", "list"]))


@pytest.fixture
def ours(run_module: RunModule, api: FakeApi) -> None:
    """The namespace was made by the module."""
    assert run(run_module)["changed"]
    api.calls.clear()


def run(run_module: RunModule, check: bool = False, **args: t.Any) -> Json:
    return run_module(owned_namespace, check=check, **{"name": "gpu", **args})


def absent(run_module: RunModule, check: bool = False, **args: t.Any) -> Json:
    return run(run_module, check, state="absent", **args)


def put(api: FakeApi, kind: ApiResource, name: str, namespace: str = "gpu", **meta: t.Any) -> Json:
    where = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return api.put(kind, {"kind": kind.kind, "metadata": {**where, **meta}})


def names(api: FakeApi) -> list[str]:
    return [item["metadata"]["name"] for item in api.of(NAMESPACES)]


def test_it_is_made_once_with_the_label(run_module: RunModule, api: FakeApi) -> None:
    check = run(run_module, check=True)
    assert (check["changed"], names(api)) == (True, [])
    apply, again = run(run_module), run(run_module)
    assert [apply["changed"], again["changed"]] == [True, False]
    assert check["diff"] == apply["diff"] == {"before": {}, "after": {"name": "gpu", "labels": LABELS}}
    assert again["diff"]["before"] == again["diff"]["after"]
    (stored,) = api.of(NAMESPACES)
    assert stored["metadata"]["labels"] == LABELS
    assert [c.verb for c in api.writes()] == ["create"]


def test_one_of_others_is_used_and_never_ours(run_module: RunModule, api: FakeApi) -> None:
    api.put(NAMESPACES, {"metadata": {"name": "gpu", "uid": "u", "labels": {"team": "training"}}})
    assert run(run_module)["changed"] is False
    found = absent(run_module)
    assert (found["changed"], found["left"], found["failed"]) == (False, [], False)
    assert found["msg"] == ("namespace gpu stays: it has no label "
                            "app.kubernetes.io/managed-by=composable.infra, so another user created it")
    assert found["namespace"]["metadata"]["labels"] == {"team": "training"}
    assert api.writes() == []


def test_that_it_stays_is_a_warning(api: FakeApi) -> None:
    """Nobody reads the results of tasks that change nothing."""
    told: list[str] = []
    given = {"name": "gpu", "state": "absent", "own_objects": [], "own_releases": [], "wait": True, "wait_timeout": 1}
    assert owned_namespace.work(TaskContext(given, False, warn=told.append))["changed"] is False
    assert told == []
    api.put(NAMESPACES, {"metadata": {"name": "gpu", "uid": "u"}})
    assert owned_namespace.work(TaskContext(given, False, warn=told.append))["msg"] == told[0]


@pytest.mark.usefixtures("ours")
def test_an_empty_one_of_ours_goes_once(run_module: RunModule, api: FakeApi) -> None:
    put(api, CONFIG_MAPS, "kube-root-ca.crt")
    put(api, CONFIG_MAPS, "settings", namespace="another")
    check = absent(run_module, check=True)
    assert (check["changed"], names(api)) == (True, ["gpu"])
    apply, again = absent(run_module), absent(run_module)
    assert [apply["changed"], again["changed"]] == [True, False]
    assert (check["diff"], apply["namespace"], names(api)) == (apply["diff"], None, [])
    assert [c.verb for c in api.writes()] == ["delete"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.usefixtures("ours")
def test_it_stays_while_something_of_others_is_in_it(run_module: RunModule, api: FakeApi, check: bool) -> None:
    put(api, CONFIG_MAPS, "settings")
    put(api, SECRETS, "pull")
    put(api, DAEMON_SETS, "exporter", annotations={"meta.helm.sh/release-name": "another"})
    found = absent(run_module, check, own_objects=[{"kind": "ConfigMap", "name": "ours"}], own_releases=["nfd"])
    assert (found["changed"], found["left"]) == (False, ["ConfigMap settings", "DaemonSet exporter", "Secret pull"])
    assert found["msg"] == "namespace gpu stays: it still has ConfigMap settings, DaemonSet exporter, Secret pull"
    assert (api.writes(), names(api)) == ([], ["gpu"])


@pytest.mark.usefixtures("ours")
def test_what_belongs_to_the_caller_goes_with_it(run_module: RunModule, api: FakeApi) -> None:
    put(api, CONFIG_MAPS, "ours")
    put(api, SECRETS, "sent-by-definition")
    put(api, DAEMON_SETS, "exporter", annotations={"meta.helm.sh/release-name": "dcgm"})
    put(api, CONFIG_MAPS, "of-another-role", labels=LABELS)
    own = [{"kind": "ConfigMap", "name": "ours"}, {"kind": "Secret", "metadata": {"name": "sent-by-definition"}}]
    assert absent(run_module, own_objects=own, own_releases=["dcgm"])["changed"] is True


@pytest.mark.usefixtures("ours")
def test_an_owner_of_the_cluster_counts_while_it_lives(run_module: RunModule, api: FakeApi) -> None:
    ref = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "policy", "uid": "uid-policy"}
    put(api, DAEMON_SETS, "driver", ownerReferences=[ref])
    api.put(POLICIES, {"metadata": {"name": "policy", "uid": "uid-policy"}})
    assert absent(run_module)["left"] == ["DaemonSet driver"]
    api.put(POLICIES, {"metadata": {"name": "policy", "uid": "made-anew"}})
    assert absent(run_module, check=True)["changed"] is True
    api.remove(POLICIES, "policy")
    assert absent(run_module)["changed"] is True


@pytest.mark.usefixtures("ours")
def test_an_owner_whose_kind_is_not_served_any_more_is_gone(run_module: RunModule, api: FakeApi) -> None:
    ref = {"apiVersion": "gone.example/v1", "kind": "Thing", "name": "t", "uid": "u"}
    put(api, DAEMON_SETS, "driver", ownerReferences=[ref])
    assert absent(run_module)["changed"] is True


@pytest.mark.usefixtures("ours")
def test_what_cannot_be_read_keeps_it(run_module: RunModule, api: FakeApi) -> None:
    api.fail("list", SECRETS, Forbidden(403, "Forbidden", "secrets is forbidden"))
    api.paths["/apis/metrics.k8s.io/v1beta1"] = Unavailable(503, "ServiceUnavailable", "no answer")
    assert absent(run_module)["left"] == ["metrics.k8s.io/v1beta1, which could not be read (no answer)",
                                          "secrets, which could not be read (secrets is forbidden)"]
    assert names(api) == ["gpu"]


@pytest.mark.usefixtures("ours")
def test_404_of_a_load_balancer_keeps_it(run_module: RunModule, api: FakeApi) -> None:
    api.fail("list", SECRETS, answered_by_a_proxy())
    (left,) = absent(run_module)["left"]
    assert left.startswith("secrets, which could not be read (")
    assert names(api) == ["gpu"]


@pytest.mark.usefixtures("ours")
def test_an_api_server_that_does_not_answer_is_a_failure(run_module: RunModule, api: FakeApi) -> None:
    api.fail("list", SECRETS, Unreachable("the API server does not answer"))
    found = absent(run_module)
    assert (found["failed"], found["error"], names(api)) == (True, "Unreachable", ["gpu"])


@pytest.mark.usefixtures("ours")
def test_many_are_told_in_few_words(run_module: RunModule, api: FakeApi) -> None:
    for number in range(14):
        put(api, CONFIG_MAPS, f"c{number:02}")
    found = absent(run_module)
    assert (len(found["left"]), found["msg"][-24:]) == (14, "ConfigMap c09 and 4 more")


@pytest.mark.usefixtures("ours")
def test_waiting_says_what_the_namespace_waits_for(run_module: RunModule, api: FakeApi) -> None:
    api.put(NAMESPACES, {**api.one(NAMESPACES, "gpu"), "status": {"conditions": [
        {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "a finalizer remains: example.com/f"},
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all is well"}]}})
    hold(api)
    found = absent(run_module, wait_timeout=0)
    assert found["msg"] == "Namespace gpu after 0 s: a finalizer remains: example.com/f"
    assert absent(run_module, wait=False)["changed"] is False


@pytest.mark.usefixtures("ours")
def test_one_that_is_leaving_is_waited_for_before_it_is_made_anew(run_module: RunModule, api: FakeApi) -> None:
    hold(api)
    absent(run_module, wait=False)
    assert run(run_module, wait_timeout=0)["msg"] == "Namespace gpu after 0 s: it is still being deleted"
    api.before = lambda call: api.remove(NAMESPACES, "gpu") if names(api) and call.verb == "get" else None
    assert run(run_module)["changed"] is True


def hold(api: FakeApi) -> None:
    """Its deletion takes as long as the test wants."""
    found = api.one(NAMESPACES, "gpu")
    api.put(NAMESPACES, {**found, "metadata": {**found["metadata"], "finalizers": ["kubernetes"]}})


@pytest.mark.parametrize("item", [{"name": "x"}, {"kind": "Secret"}, {"kind": "Secret", "metadata": {}}])
def test_an_object_needs_kind_and_name(run_module: RunModule, api: FakeApi, item: Json) -> None:
    found = absent(run_module, own_objects=[item])
    assert "Each needs a kind, and a name or metadata.name" in found["msg"]
    assert api.writes() == []
