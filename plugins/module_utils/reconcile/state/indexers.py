# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what the stores find objects: a table per kind, so that every lookup of a plan is one step."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable, Iterable, Mapping

from ...kube.objects import claims, cohdi, device_users, nodes, pods, slices

Json = dict[str, t.Any]
Indexes = Mapping[str, Callable[[Json], Iterable[Hashable]]]


def _of_claim_node(claim: Json) -> Iterable[Hashable]:
    name = claims.node(claim)
    return (name,) if name else ()


def _pools(claim: Json) -> Iterable[Hashable]:
    return {r["pool"] for r in claims.binding_results(claim)}


def _target(obj: Json) -> Iterable[Hashable]:
    spec = obj["spec"].get("resource") or obj["spec"]
    return (spec.get("target_node") or "",)


def _managed_by(obj: Json) -> Iterable[Hashable]:
    return ((obj["metadata"].get("labels") or {}).get(cohdi.MANAGED_BY) or "",)


def _device_uid(obj: Json) -> Iterable[Hashable]:
    uid = (obj.get("status") or {}).get("cdi_device_id") or cohdi.reclaimed(obj)
    return (uid,) if uid else ()


def _held_for(obj: Json) -> Iterable[Hashable]:
    uid = cohdi.read_hold(obj)[0]
    return (uid,) if uid else ()


def _slice_node(obj: Json) -> Iterable[Hashable]:
    name = slices.node(obj)
    return (name,) if name else ()


def _slice_pool(obj: Json) -> Iterable[Hashable]:
    return () if slices.node(obj) else (slices.pool(obj),)


def _pod_node(pod: Json) -> Iterable[Hashable]:
    name = pods.node(pod)
    return (name,) if name else ()


def _gated(pod: Json) -> Iterable[Hashable]:
    return (True,) if pods.held(pod) else ()


def _slice_uuids(obj: Json) -> Iterable[Hashable]:
    return {uuid for uuid, _key in slices.uuids(obj)} if slices.node(obj) else ()


def _slice_devices(obj: Json) -> Iterable[Hashable]:
    return set(device_users.identities(obj)) if slices.node(obj) else ()


def _machine(obj: Json) -> Iterable[Hashable]:
    uid = nodes.machine(obj)
    return (uid,) if uid else ()


def _uid(obj: Json) -> Iterable[Hashable]:
    return (obj["metadata"]["uid"],)


CLAIMS: t.Final[Indexes] = {"node": _of_claim_node, "device": claims.device_keys, "pool": _pools, "uid": _uid}
SLICES: t.Final[Indexes] = {"node": _slice_node, "pool": _slice_pool, "uuid": _slice_uuids,
                            "device": _slice_devices}
NODES: t.Final[Indexes] = {"machine": _machine}
REQUESTS: t.Final[Indexes] = {"node": _target}
RESOURCES: t.Final[Indexes] = {"node": _target, "request": _managed_by, "device": _device_uid, "held": _held_for,
                               "model": lambda o: (o["spec"]["model"],)}
PODS: t.Final[Indexes] = {"uid": _uid, "node": _pod_node, "gated": _gated}
