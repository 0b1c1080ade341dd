# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's words: bookings and verdicts that say what for, since when, where, and why not."""

from __future__ import annotations

from collections.abc import Iterable

from ..actions import Verdict
from .judge import Explanation
from .state import NodeState
from .supply import Option
from .units import Member, Unit
from .view import Booking, GatedPod


def booking(member: Member, node: NodeState, option: Option, group: str, now: float) -> Booking:
    """The booking of a pod that was placed."""
    uids, needs, devices = member.case.demand.claims, dict[str, dict[str, int]](), dict[str, tuple[str, ...]]()
    for part in option.parts:
        models = needs.setdefault(uids[part.claim], {})
        for model, take in part.takes:
            models[model] = models.get(model, 0) + take.count
            devices[uids[part.claim]] = devices.get(uids[part.claim], ()) + tuple(d.name for d in take.idle)
    return Booking(member.pod.ref, node.facts.name, needs, now, member.pod.raw,
                   {uid: names for uid, names in devices.items() if names}, group, _chosen(node, option))


def _chosen(node: NodeState, option: Option) -> str:
    parts = []
    for model, take in sorted(option.takes().items()):
        ways = [(len(take.idle), "idle there"), (take.coming, "on the way"), (take.fresh, "to be attached")]
        parts.append(f"{take.count} x {model} ({', '.join(f'{n} {how}' for n, how in ways if n)})")
    return f"node {node.facts.name} has room and {', '.join(parts)}"


def asked(members: Iterable[Member]) -> str:
    """What is asked for, as a reader would say it: ``2 x A100``, or ``1 x A100 or T4``."""
    counts: dict[str, int] = {}
    for member in members:
        for want in member.case.demand.wants:
            first = want.alternatives[0]
            names = " or ".join(dict.fromkeys(m for a in want.alternatives for m in a.models))
            counts[names] = counts.get(names, 0) + first.count
    return ", ".join(f"{n} x {names}" for names, n in sorted(counts.items()))


def unserved(unit: Unit, why: Explanation) -> str:
    """Why pods are let go that were judged."""
    whole = f" for group {unit.group}" if unit.group else ""
    return f"{asked(unit.members)}{whole}: {why.text}"


def waiting(unit: Unit, why: Explanation, position: int, last: int) -> list[Verdict]:
    """A verdict per claim of pods that wait for devices."""
    whole = f" for all {len(unit.members)} pods of group {unit.group}" if unit.group else " on a node"
    text = f"{asked(unit.members)}{whole}, position {position} of {last}: {why.text}"
    return [Verdict(f"{member.pod.ref.namespace}/{claim['metadata']['name']}", text, member.pod.since,
                    {"pod": member.pod.ref.name, "position": position, "of": last, "nodes": dict(why.counts)})
            for member in unit.members for claim in member.pod.claims.values() if claim is not None]


def held(pod: GatedPod, reason: str) -> list[Verdict]:
    """A verdict per claim of a pod that cannot be planned yet; one that is not there is named by the pod."""
    ref = pod.ref
    names = [claim["metadata"]["name"] if claim else f"{ref.name}-{name}" for name, claim in pod.claims.items()]
    return [Verdict(f"{ref.namespace}/{name}", reason, pod.since, {"pod": ref.name}) for name in names]
