# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story of one claim, node or device, with its steps and their times, its facts, and its
objects.

It is read from the stores at each request.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from dataclasses import asdict

from ansible_collections.composable.infra.controller.ui.scope import BOX, CLAIM, MACHINE, NODE, SWITCH, Scope
from ansible_collections.composable.infra.controller.ui.view import View
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.model.resource import Resource
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.topology_distance import Place
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import Rows, waits_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import BOUNDS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import TimelineRecorder
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    SHARE_WORDS,
    WORDS,
    Timeline,
    node_steps,
    parse,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import resource_values

DEVICE: t.Final = "device"
# The most events in a node's story.
MOST_EVENTS: t.Final = 30
# The most pods of a claim that are named.
MOST_PODS: t.Final = 3
# Steps that an annotation of a ComposableResource notes with a time.
_RELEASED, _HELD = "release requested", "reserved for a claim"


class Stories:
    """Build stories. Changes nothing.

    ``recorder``: timelines of claims that this process has watched. ``waits_known``: returns the
    waits of the last day.
    """

    def __init__(self, state: ClusterState, recorder: TimelineRecorder, waits_known: Callable[[], Rows]) -> None:
        self._state, self._recorder, self._waits_known = state, recorder, waits_known

    def of(self, key: str, scope: Scope, view: View) -> Json | None:
        """Return the story behind a row or a device.

        None if there is none, or if this scope does not show it.
        """
        kind, _unused, rest = key.partition("/")
        if kind == CLAIM and scope.shows(key):
            row = view.row(key)
            namespace, _sep, name = rest.partition("/")
            claim = self._state.claims.value(name, namespace)
            return self._claim(claim, scope.shown(key, row)) if claim and row else None
        if scope.namespace is not None:
            return None
        if kind == DEVICE:
            return self._device(rest)
        row = view.row(key) if kind in (NODE, MACHINE, BOX, SWITCH) else None
        return {"row": row, "events": self._node_events(row), "objects": self._node_objects(row)} if row else None

    def _claim(self, claim: ResourceClaim, row: Json) -> Json:
        found = self._recorder.of(claim.uid) or self._written(claim)
        names = [("ResourceClaim", claim.name), *(("Pod", name) for name in pods_of(self._state, claim))]
        objects = [{"kind": kind, "name": name, "namespace": claim.namespace} for kind, name in names]
        used = [resource for name in row.get("devices", ()) if (resource := self._state.resources.value(name))]
        steps = [step for resource in used for step in
                 node_steps(resource_values.read_evidence(resource), found.began if found else 0.0)]
        return {"row": row, "timeline": told(found, steps) if found else None,
                "objects": [*objects, *(_resource(each.name) for each in used)]}

    def _written(self, claim: ResourceClaim) -> Timeline | None:
        """Return the timeline that an earlier process wrote on a ComposableResource."""
        there = self._state.resources.values("node", claim.node) if claim.node else ()
        kept = (each for resource in there for each in _timelines(resource))
        return next((each for each in kept if each.uid == claim.uid), None)

    def _device(self, name: str) -> Json | None:
        found = self._state.resources.value(name)
        if found is None:
            return None
        steps = sorted(_steps(found), key=lambda step: step["at"])
        request = [{"kind": "ComposabilityRequest", "name": found.request}] if found.request else []
        return {"steps": steps, "timelines": [told(each) for each in reversed(_timelines(found))],
                "node": found.node,
                "evidence": {**_evidence(found), **self._published(found), **self._linked(found)},
                "objects": [_resource(name), {"kind": "Node", "name": found.node}, *request]}

    def _node_events(self, row: Json) -> list[Json]:
        """Return the latest events of a node's current devices, the newest first."""
        if not row.get("is_node"):
            return []
        found = (event for each in self._state.resources.values("node", row["name"]) for event in _events(each))
        return sorted(found, key=lambda event: (-event["at"], event["device"]))[:MOST_EVENTS]

    def _published(self, resource: Resource) -> Json:
        """Return the switch through which the node reaches the device, as the device's driver
        publishes it.
        """
        shown = self._state.shown(resource.node, resource.serial)
        found = Place.of(shown[0].devices[shown[1]].entry).switch if shown else None
        return {"switch": found} if found else {}

    def _linked(self, resource: Resource) -> Json:
        """Return the switches of the fabric that the CDI Manager shows between the machine and the
        device.
        """
        seen = self._state.snapshot
        found = seen.switches_of.get(resource.device_uid) if seen else None
        return {"fabric switch": ", ".join(found)} if found else {}

    def _node_objects(self, row: Json) -> list[Json]:
        if not row.get("is_node"):
            return []
        requests = ({"kind": "ComposabilityRequest", "name": name}
                    for name in self._state.requests.names_at("node", row["name"]))
        resources = map(_resource, self._state.resources.names_at("node", row["name"]))
        return [{"kind": "Node", "name": row["name"]}, *requests, *resources]

    def waits(self, scope: Scope) -> Json:
        """Return how long claims of the last day waited, by step."""
        shown = waits_of(self._waits_known(), scope.namespace)
        return {"bounds": BOUNDS, "words": WORDS, "waits": [asdict(each) for each in shown]}


def pods_of(state: ClusterState, claim: ResourceClaim) -> dict[str, str]:
    """Return the UIDs by name of pods that use a claim, or wait for it to be allocated."""
    found = dict(claim.pods)
    if not claim.results:
        waiting = (pod for pod in state.pods.values("waiting", True) if pod.namespace == claim.namespace)
        found |= {pod.name: pod.uid for pod in waiting if claim.name in pod.claims.values()}
    return dict(list(found.items())[:MOST_PODS])


def told(timeline: Timeline, steps: Iterable[tuple[str, float]] = ()) -> Json:
    """Return a timeline as the page draws it."""
    return {"claim": timeline.claim, "node": timeline.node, "created": timeline.created, "began": timeline.began,
            "ended": timeline.ended,
            "spans": [{"step": span.step, "words": WORDS[span.step], "share": span.share,
                       "who": SHARE_WORDS[span.share],
                       "began": span.began, "ended": span.ended} for span in timeline.merged()],
            "steps": [{"step": name, "at": at} for name, at in (timeline.steps or steps)]}


def _named(kind: str, raw: Json) -> Json:
    meta = raw["metadata"]
    return {"kind": kind, "name": meta["name"], **({"namespace": meta["namespace"]} if meta.get("namespace") else {})}


def _resource(name: str) -> Json:
    return {"kind": "ComposableResource", "name": name}


def _timelines(resource: Resource) -> tuple[Timeline, ...]:
    return parse(resource.annotation(ANNOTATION))


def _steps(resource: Resource) -> list[Json]:
    """Return all steps of a ComposableResource's device that are noted with a time."""
    evidence, (held, since) = resource_values.read_evidence(resource), resource.hold
    noted = [("created", resource.created), ("attach requested", resource.asked),
             (_HELD, since if held else 0.0), (_RELEASED, parse_time(resource.annotation(cohdi.RELEASE))),
             *((step.step, parse_time(step.at)) for step in (evidence.steps if evidence else ()))]
    return [{"step": name, "at": at} for name, at in noted if at]


def _events(resource: Resource) -> list[Json]:
    """Return the steps of a device, and its problem."""
    found, steps = resource_values.read_evidence(resource), _steps(resource)
    if found and found.trouble and (since := parse_time(found.trouble.since)):
        steps.append({"step": f"problem: {found.trouble.message}", "at": since})
    return [{"device": resource.name, **step} for step in steps]


def _evidence(resource: Resource) -> Json:
    """Return facts about the device on its node, as the node reports them."""
    found, meant = resource_values.read_evidence(resource), resource_values.noted_claim(resource)
    facts: Json = {"ComposableResource": resource.state, "error": resource.error,
                   "last claim": meant.key if meant else ""}
    if found:
        link = found.link
        facts |= {"phase": found.phase, "PCI address": found.address, "NUMA node": found.numa_node,
                  "PCIe link": f"x{link.width} of x{link.max_width} lanes, {link.speed}" if link else "",
                  "problem on the node": found.trouble.message if found.trouble else ""}
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
