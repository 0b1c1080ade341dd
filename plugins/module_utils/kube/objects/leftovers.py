# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find user-owned objects that keep a namespace from being deleted.

Objects that Kubernetes itself made, or that are deleted with their owner, do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..api_resources import Object

# Running processes and controllers write these kinds again.
PASSING_KINDS = frozenset({"Event", "Lease", "GateLease", "Endpoints", "EndpointSlice"})
# Objects that Kubernetes and OpenShift put into every namespace.
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
    """Objects that are deleted with the namespace: by kind and name, by a label, or by Helm
    release.
    """

    label: tuple[str, str] = ("", "")
    objects: frozenset[tuple[str, str]] = frozenset()
    releases: frozenset[str] = frozenset()

    def has(self, obj: Object) -> bool:
        """Return whether the object is one of these. An object that its chart keeps outlives the
        release.
        """
        labels = obj["metadata"].get("labels") or {}
        if (obj["kind"], obj["metadata"]["name"]) in self.objects or self.label in labels.items():
            return True
        annotations = obj["metadata"].get("annotations") or {}
        if annotations.get(_RESOURCE_POLICY) == "keep":
            return False
        return annotations.get(_RELEASE_OF) in self.releases or _release(obj) in self.releases


def left_over(found: Sequence[Object], own: Own, outliving: Collection[str] = ()) -> list[str]:
    """Return kind and name of all objects that keep the namespace, each once.

    ``found``: objects of the namespace, with their kind. ``outliving``: UIDs of live owners outside
    the namespace.
    """
    inside = {obj["metadata"].get("uid") for obj in found}
    return sorted({f"{obj['kind']} {obj['metadata']['name']}" for obj in found
                   if not _given(obj) and not own.has(obj) and not _goes(obj, inside, outliving)})


def outside_owners(found: Sequence[Object]) -> Iterator[Object]:
    """Yield references to owners that are not in the namespace: cluster-scoped, or gone."""
    inside = {obj["metadata"].get("uid") for obj in found}
    return (ref for obj in found for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in inside)


def _given(obj: Object) -> bool:
    if obj["kind"] in PASSING_KINDS or (obj["kind"], obj["metadata"]["name"]) in GIVEN:
        return True
    annotations = obj["metadata"].get("annotations") or {}
    return obj["kind"] == "Secret" and any(name in annotations for name in _TOKEN_OF)


def _goes(obj: Object, inside: Collection[str], outliving: Collection[str]) -> bool:
    """Return whether it is being deleted, or its owner is judged itself or gone."""
    if obj["metadata"].get("deletionTimestamp"):
        return True
    owners = [ref["uid"] for ref in obj["metadata"].get("ownerReferences") or ()]
    return bool(owners) and (any(uid in inside for uid in owners) or not any(uid in outliving for uid in owners))


def _release(obj: Object) -> str:
    """Return the Helm release that a Secret records."""
    if obj.get("type") != _RELEASE_TYPE:
        return ""
    return str((obj["metadata"].get("labels") or {}).get("name", ""))
