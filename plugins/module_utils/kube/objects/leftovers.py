# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What in a namespace is somebody's: neither put there by Kubernetes itself, nor gone with what it belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..api_resources import Object

# Whoever writes these writes them anew: marks of running processes, and what follows from other objects.
PASSING_KINDS = frozenset({"Event", "Lease", "GateLease", "Endpoints", "EndpointSlice"})
# What Kubernetes, and OpenShift, put into every namespace.
GIVEN = frozenset({
    ("ConfigMap", "kube-root-ca.crt"),
    ("ConfigMap", "openshift-service-ca.crt"),
    ("ServiceAccount", "default"),
    ("ServiceAccount", "builder"),
    ("ServiceAccount", "deployer"),
    ("RoleBinding", "system:deployers"),
    ("RoleBinding", "system:image-builders"),
    ("RoleBinding", "system:image-pullers"),
})
_TOKEN_OF = ("kubernetes.io/service-account.name", "openshift.io/internal-registry-auth-token.service-account")
_RELEASE_OF = "meta.helm.sh/release-name"
_RELEASE_TYPE = "helm.sh/release.v1"
_RESOURCE_POLICY = "helm.sh/resource-policy"


@dataclass(frozen=True, slots=True)
class Own:
    """What goes together with the namespace: objects by kind and name, by a label, and Helm releases by name."""

    label: tuple[str, str] = ("", "")
    objects: frozenset[tuple[str, str]] = frozenset()
    releases: frozenset[str] = frozenset()

    def has(self, obj: Object) -> bool:
        """Whether the object is one of these. What a chart wants kept outlives its release."""
        labels = obj["metadata"].get("labels") or {}
        if (obj["kind"], obj["metadata"]["name"]) in self.objects or self.label in labels.items():
            return True
        annotations = obj["metadata"].get("annotations") or {}
        if annotations.get(_RESOURCE_POLICY) == "keep":
            return False
        return annotations.get(_RELEASE_OF) in self.releases or _release(obj) in self.releases


def left_over(found: Sequence[Object], own: Own, outliving: Collection[str] = ()) -> list[str]:
    """Kind and name of all that keeps a namespace, each once.

    ``found``: the objects of the namespace, with their kind. ``outliving``: uids of owners outside that are alive.
    """
    inside = {obj["metadata"].get("uid") for obj in found}
    return sorted({f"{obj['kind']} {obj['metadata']['name']}" for obj in found
                   if not _given(obj) and not own.has(obj) and not _goes(obj, inside, outliving)})


def outside_owners(found: Sequence[Object]) -> Iterator[Object]:
    """References to owners that are not among the objects of the namespace: of the cluster, or gone."""
    inside = {obj["metadata"].get("uid") for obj in found}
    return (ref for obj in found for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in inside)


def _given(obj: Object) -> bool:
    if obj["kind"] in PASSING_KINDS or (obj["kind"], obj["metadata"]["name"]) in GIVEN:
        return True
    annotations = obj["metadata"].get("annotations") or {}
    return obj["kind"] == "Secret" and any(name in annotations for name in _TOKEN_OF)


def _goes(obj: Object, inside: Collection[str], outliving: Collection[str]) -> bool:
    """Whether it is being deleted, or stands or falls with an owner that is judged itself or is gone."""
    if obj["metadata"].get("deletionTimestamp"):
        return True
    owners = [ref["uid"] for ref in obj["metadata"].get("ownerReferences") or ()]
    return bool(owners) and (any(uid in inside for uid in owners) or not any(uid in outliving for uid in owners))


def _release(obj: Object) -> str:
    """The Helm release that a Secret records."""
    if obj.get("type") != _RELEASE_TYPE:
        return ""
    return str((obj["metadata"].get("labels") or {}).get("name", ""))
