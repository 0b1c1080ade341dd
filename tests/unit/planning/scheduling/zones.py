# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes in zones and pods with terms about other pods, for the tests of pod affinity and topology spread."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import node, raw_pod

Json = dict[str, t.Any]
HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}


def term(labels: Json | None, key: str = "zone", **more: t.Any) -> Json:
    selector = None if labels is None else {"matchLabels": labels}
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": selector}), **more}


def requires(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def avoids(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(labels: Json | None, skew: int = 1, key: str = "zone", **more: t.Any) -> list[Json]:
    selector = None if labels is None else {"matchLabels": labels}
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
             **more}]


def old(labels: Json, name: str = "old", **more: t.Any) -> Json:
    """A running pod."""
    return raw_pod(name, labels=labels, cpu="", **more)


def zone(name: str, *pods: Json, of: str = "a", **more: t.Any) -> NodeFacts:
    return node(name, *pods, labels={"zone": of}, **more)


def off(name: str, *pods: Json, of: str = "a") -> NodeFacts:
    """A node of the cluster without a machine."""
    return zone(name, *pods, of=of, machine=None, fabric=None)


ANY_NAMESPACE: Json = {"namespaceSelector": {}}
TEAM_B: Json = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
NAMESPACES = {"default": {"team": "a"}, "other": {"team": "b"}}
ELSEWHERE = old(WEB, namespace="other")
