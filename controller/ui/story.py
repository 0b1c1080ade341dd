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
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import read_claim
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.topology_distance import Place
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import adapters
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import Rows, waits_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import BOUNDS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import TimelineRecorder
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    SHARE_WORDS,
    WORDS,
    Timeline,
    node_steps,
    of_resource,
)

Json = dict[str, t.Any]
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
            raw = self._state.claims.get(name, namespace)
            return self._claim(raw, scope.shown(key, row)) if raw and row else None
        if scope.namespace is not None:
            return None
        if kind == DEVICE:
            return self._device(rest)
        row = view.row(key) if kind in (NODE, MACHINE, BOX, SWITCH) else None
        return {"row": row, "events": self._node_events(row), "objects": self._node_objects(row)} if row else None

    def _claim(self, raw: Json, row: Json) -> Json:
        uid = raw["metadata"]["uid"]
        found = self._recorder.of(uid) or self._written(raw, uid)
        objects = [_named("ResourceClaim", raw), *({"kind": "Pod", "name": name,
                                                    "namespace": raw["metadata"]["namespace"]}
                                                   for name in pods_of(self._state, raw))]
        used = [resource for name in row.get("devices", ()) if (resource := self._state.resources.get(name))]
        steps = [step for resource in used for step in
                 node_steps(adapters.read_evidence(resource), found.began if found else 0.0)]
        return {"row": row, "timeline": told(found, steps) if found else None,
                "objects": [*objects, *(_named("ComposableResource", each) for each in used)]}

    def _written(self, raw: Json, uid: str) -> Timeline | None:
        """Return the timeline that an earlier process wrote on a ComposableResource."""
        node = claims.node(raw)
        kept = (each for resource in self._state.resources.by("node", node) for each in of_resource(resource))
        return next((each for each in kept if each.uid == uid), None)

    def _device(self, name: str) -> Json | None:
        raw = self._state.resources.get(name)
        if raw is None:
            return None
        steps = sorted(_steps(raw), key=lambda step: step["at"])
        return {"steps": steps, "timelines": [told(each) for each in reversed(of_resource(raw))],
                "node": raw["spec"]["target_node"],
                "evidence": {**_evidence(raw), **self._published(raw), **self._linked(raw)},
                "objects": [_named("ComposableResource", raw), {"kind": "Node", "name": raw["spec"]["target_node"]},
                            *({"kind": "ComposabilityRequest", "name": name}
                              for name in [(raw["metadata"].get("labels") or {}).get(cohdi.MANAGED_BY)] if name)]}

    def _node_events(self, row: Json) -> list[Json]:
        """Return the latest events of a node's current devices, the newest first."""
        if not row.get("is_node"):
            return []
        found = (event for raw in self._state.resources.by("node", row["name"]) for event in _events(raw))
        return sorted(found, key=lambda event: (-event["at"], event["device"]))[:MOST_EVENTS]

    def _published(self, raw: Json) -> Json:
        """Return the switch through which the node reaches the device, as the device's driver
        publishes it.
        """
        shown = self._state.shown(raw["spec"]["target_node"], adapters.serial(raw))
        found = Place.of(shown[0].devices[shown[1]].entry).switch if shown else None
        return {"switch": found} if found else {}

    def _linked(self, raw: Json) -> Json:
        """Return the switches of the fabric that the CDI Manager shows between the machine and the
        device.
        """
        seen = self._state.snapshot
        found = seen.switches_of.get((raw.get("status") or {}).get("cdi_device_id") or "") if seen else None
        return {"fabric switch": ", ".join(found)} if found else {}

    def _node_objects(self, row: Json) -> list[Json]:
        if not row.get("is_node"):
            return []
        requests = (_named("ComposabilityRequest", raw) for raw in self._state.requests.by("node", row["name"]))
        resources = (_named("ComposableResource", raw) for raw in self._state.resources.by("node", row["name"]))
        return [{"kind": "Node", "name": row["name"]}, *requests, *resources]

    def waits(self, scope: Scope) -> Json:
        """Return how long claims of the last day waited, by step."""
        shown = waits_of(self._waits_known(), scope.namespace)
        return {"bounds": BOUNDS, "words": WORDS, "waits": [asdict(each) for each in shown]}


def pods_of(state: ClusterState, claim: Json) -> dict[str, str]:
    """Return the UIDs by name of pods that use a claim, or wait for it to be allocated."""
    found = {str(pod["name"]): str(pod["uid"]) for pod in claims.consumers(claim)}
    meta = claim["metadata"]
    if not claims.results(claim):
        waiting = (pod for pod in state.pods.by("waiting", True) if pod["metadata"]["namespace"] == meta["namespace"])
        found |= {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in waiting
                  if meta["name"] in pods.claim_names(pod).values()}
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


def _steps(raw: Json) -> list[Json]:
    """Return all steps of a ComposableResource's device that are noted with a time."""
    evidence, asked = adapters.read_evidence(raw), cohdi.read_intent(raw)[1]
    held, since = cohdi.read_hold(raw)
    noted = [("created", parse_time(raw["metadata"].get("creationTimestamp"))), ("attach requested", asked),
             (_HELD, since if held else 0.0), (_RELEASED, parse_time(cohdi.annotation(raw, cohdi.RELEASE))),
             *((step.step, parse_time(step.at)) for step in (evidence.steps if evidence else ()))]
    return [{"step": name, "at": at} for name, at in noted if at]


def _events(raw: Json) -> list[Json]:
    """Return the steps of a device, and its problem."""
    name, found, steps = raw["metadata"]["name"], adapters.read_evidence(raw), _steps(raw)
    if found and found.trouble and (since := parse_time(found.trouble.since)):
        steps.append({"step": f"problem: {found.trouble.message}", "at": since})
    return [{"device": name, **step} for step in steps]


def _evidence(raw: Json) -> Json:
    """Return facts about the device on its node, as the node reports them."""
    found, meant = adapters.read_evidence(raw), read_claim(raw)
    status = raw.get("status") or {}
    facts: Json = {"ComposableResource": status.get("state"), "error": status.get("error"),
                   "last claim": meant.key if meant else ""}
    if found:
        link = found.link
        facts |= {"phase": found.phase, "PCI address": found.address, "NUMA node": found.numa_node,
                  "PCIe link": f"x{link.width} of x{link.max_width} lanes, {link.speed}" if link else "",
                  "problem on the node": found.trouble.message if found.trouble else ""}
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
