# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a namespace: whatever is somebody's, and nothing that Kubernetes makes or that goes by itself."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.leftovers import (
    Own,
    left_over,
    outside_owners,
)

Json = dict[str, t.Any]


def thing(kind: str, name: str, **meta: t.Any) -> Json:
    return {"kind": kind, "metadata": {"name": name, "uid": f"uid-{name}", **meta}}


def owned(kind: str, name: str, *owners: str) -> Json:
    return thing(kind, name, ownerReferences=[{"apiVersion": "v1", "kind": "K", "name": o, "uid": o} for o in owners])


@pytest.mark.parametrize("given", [
    thing("ConfigMap", "kube-root-ca.crt"),
    thing("ConfigMap", "openshift-service-ca.crt"),
    thing("ServiceAccount", "default"),
    thing("RoleBinding", "system:image-pullers"),
    thing("Event", "e"),
    thing("Lease", "nfd-master"),
    thing("GateLease", "scaler"),
    thing("Endpoints", "metrics"),
    thing("EndpointSlice", "metrics-x"),
    thing("Secret", "default-token", annotations={"kubernetes.io/service-account.name": "default"}),
    thing("Secret", "s", annotations={"openshift.io/internal-registry-auth-token.service-account": "default"}),
    thing("Pod", "p", deletionTimestamp="2026-01-01T00:00:00Z"),
    owned("Pod", "p", "uid-of-a-replica-set-that-is-gone"),
], ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_what_is_nobodys(given: Json) -> None:
    assert left_over([given], Own()) == []


@pytest.mark.parametrize("kept", [
    thing("ConfigMap", "settings"),
    thing("ServiceAccount", "kube-root-ca.crt"),
    thing("ConfigMap", "s", annotations={"kubernetes.io/service-account.name": "default"}),
    thing("Secret", "pull"),
    thing("ConfigMap", "c", labels={"app.kubernetes.io/managed-by": "composable.infra"}),
], ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_what_is_somebodys(kept: Json) -> None:
    assert left_over([kept], Own()) == [f"{kept['kind']} {kept['metadata']['name']}"]


def test_what_has_an_owner_is_judged_by_it() -> None:
    found = [thing("Deployment", "web"), owned("ReplicaSet", "web-1", "uid-web"), owned("Pod", "web-1-a", "uid-web-1")]
    assert left_over(found, Own()) == ["Deployment web"]
    assert left_over(found, Own(objects=frozenset({("Deployment", "web")}))) == []


def test_an_owner_outside_keeps_what_it_owns_as_long_as_it_lives() -> None:
    found = [owned("DaemonSet", "driver", "policy")]
    assert [ref["uid"] for ref in outside_owners(found)] == ["policy"]
    assert left_over(found, Own(), {"policy"}) == ["DaemonSet driver"]
    assert left_over(found, Own(), {"another"}) == []
    both = [owned("DaemonSet", "driver", "policy", "another")]
    assert left_over(both, Own(), {"another"}) == ["DaemonSet driver"]


def test_own_objects_are_told_by_kind_and_name() -> None:
    own = Own(objects=frozenset({("ConfigMap", "ours")}))
    found = [thing("ConfigMap", "ours"), thing("Secret", "ours"), thing("ConfigMap", "theirs")]
    assert left_over(found, own) == ["ConfigMap theirs", "Secret ours"]


def test_own_objects_are_told_by_a_label() -> None:
    found = [thing("ConfigMap", "ours", labels={"owner": "us"}), thing("ConfigMap", "theirs", labels={"owner": "them"})]
    assert left_over(found, Own(label=("owner", "us"))) == ["ConfigMap theirs"]


def test_a_release_has_its_objects_and_its_record() -> None:
    def of(release: str, **more: str) -> Json:
        return thing("ConfigMap", f"of-{release}", annotations={"meta.helm.sh/release-name": release, **more})

    record = {**thing("Secret", "sh.helm.release.v1.nfd.v1", labels={"name": "nfd"}), "type": "helm.sh/release.v1"}
    found = [of("nfd"), of("other"), record]
    assert left_over(found, Own(releases=frozenset({"nfd"}))) == ["ConfigMap of-other"]
    assert left_over(found, Own()) == ["ConfigMap of-nfd", "ConfigMap of-other", "Secret sh.helm.release.v1.nfd.v1"]
    kept = of("nfd", **{"helm.sh/resource-policy": "keep"})
    assert left_over([kept], Own(releases=frozenset({"nfd"}))) == ["ConfigMap of-nfd"]


def test_one_that_is_served_twice_is_told_once() -> None:
    assert left_over([thing("RoleBinding", "r"), thing("RoleBinding", "r")], Own()) == ["RoleBinding r"]
