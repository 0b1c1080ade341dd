# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process remembers of nodes and devices, and the API server does not have: it may be lost in a crash."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ...kube.objects.shown_devices import Shown, read
from ...planning.fairness import MINUTE

Json = dict[str, t.Any]
# How long another operator is told of after it has created an object.
RIVAL_SECONDS = 600.0


class OperationsUnderWay:
    """Names of ComposableResources for which a request to the CDI Manager is under way. Thread-safe."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self._names = set(names)
        self._lock = threading.Lock()

    def begin(self, name: str) -> bool:
        """Mark one as under way; False when it already is."""
        with self._lock:
            if name in self._names:
                return False
            self._names.add(name)
            return True

    def end(self, name: str) -> None:
        """It is over."""
        with self._lock:
            self._names.discard(name)

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._names

    def names(self) -> frozenset[str]:
        """All of them."""
        with self._lock:
            return frozenset(self._names)

    def __len__(self) -> int:
        with self._lock:
            return len(self._names)

    def copy(self) -> OperationsUnderWay:
        """What is under way now."""
        with self._lock:
            return OperationsUnderWay(frozenset(self._names))


class Rival:
    """Whether another operator works beside this one, such as CoHDI's after an upgrade of its chart. Thread-safe.

    ``clock``: the API server's time, in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began, self._seen = clock, float("inf"), ("", 0.0)

    def began(self) -> None:
        """This process leads from now on."""
        self._began = self._clock()

    def created(self, resource: str, when: float) -> None:
        """Somebody else has created a ComposableResource at that time."""
        if when > self._began:
            self._seen = (resource, self._clock())

    def problem(self) -> str:
        """Return in a sentence what was seen of it lately; empty for nothing."""
        resource, when = self._seen
        return (f"another operator has created {resource} while this one leads, and each returns what the other "
                "attaches; if it is CoHDI's, pause it by the role cohdi with cohdi_state: paused"
                ) if resource and self._clock() - when < RIVAL_SECONDS else ""


class AttachBlocks:
    """Models that a node cannot be given for a while, since the CDI Manager refused them. Thread-safe."""

    def __init__(self, until: Mapping[tuple[str, str], tuple[float, str]] | None = None,
                 clock: Callable[[], float] = time.time) -> None:
        self._clock, self._until = clock, dict(until or {})
        self._lock = threading.Lock()

    def block(self, node: str, model: str, seconds: float, reason: str) -> None:
        """Attach no device of a model to a node for so many seconds."""
        with self._lock:
            self._until[node, model] = (self._clock() + seconds, reason)

    def of(self, node: str, now: float) -> dict[str, str]:
        """Models that cannot be attached to a node now, with the reason."""
        with self._lock:
            return {model: why for (name, model), (until, why) in self._until.items() if name == node and until > now}

    def copy(self) -> AttachBlocks:
        """The blocks of now."""
        with self._lock:
            return AttachBlocks(self._until, self._clock)


class LastUses:
    """When a claim was last seen to use the device of a ComposableResource, in seconds since the epoch. Thread-safe."""

    def __init__(self, seen: Mapping[str, float] | None = None) -> None:
        self._seen = dict(seen or {})
        self._lock = threading.Lock()

    def note(self, name: str, when: float) -> None:
        """A claim uses it."""
        with self._lock:
            self._seen[name] = when

    def of(self, name: str) -> float:
        """When that was, 0.0 for never."""
        with self._lock:
            return self._seen.get(name, 0.0)

    def forget(self, name: str) -> None:
        """The ComposableResource is gone."""
        with self._lock:
            self._seen.pop(name, None)

    def copy(self) -> LastUses:
        """What was seen until now."""
        with self._lock:
            return LastUses(self._seen)


@dataclass(frozen=True, slots=True)
class HeldPod:
    """What this process has seen of a held pod. Times of other clocks, as its creation, are not compared.

    ``seen``: when it was first seen held, in seconds since the epoch, 0.0 for never. ``spent``: seconds that it had
    nodes on which its devices did not come; ``failures``: how many nodes those were.
    """

    seen: float = 0.0
    spent: float = 0.0
    failures: int = 0


class HeldPods:
    """By pod uid. Thread-safe."""

    def __init__(self, pods: Mapping[str, HeldPod] | None = None) -> None:
        self._pods = dict(pods or {})
        self._lock = threading.Lock()

    def note(self, pods: Iterable[str], now: float) -> None:
        """These pods are held, and no others are."""
        with self._lock:
            self._pods = {uid: self._pods.get(uid) or HeldPod(now) for uid in pods}

    def of(self, pod: str) -> HeldPod:
        """What was seen of one."""
        with self._lock:
            return self._pods.get(pod) or HeldPod()

    def failed(self, pod: str, seconds: float) -> None:
        """Its devices did not come to the node that it had for so many seconds."""
        with self._lock:
            if old := self._pods.get(pod):
                self._pods[pod] = replace(old, spent=old.spent + max(0.0, seconds), failures=old.failures + 1)

    def copy(self) -> HeldPods:
        """What was seen until now."""
        with self._lock:
            return HeldPods(self._pods)


class Releases:
    """Why pods were released without devices, by the pod's uid: the newest KEPT of them. Thread-safe."""

    KEPT: t.Final = 1024

    def __init__(self, reasons: Mapping[str, str] | None = None) -> None:
        self._reasons = dict(reasons or {})
        self._lock = threading.Lock()

    def note(self, pod: str, reason: str) -> None:
        """A pod (its uid) was released."""
        with self._lock:
            self._reasons.pop(pod, None)
            self._reasons[pod] = reason
            if len(self._reasons) > self.KEPT:
                del self._reasons[next(iter(self._reasons))]

    def of(self, pod: str) -> str:
        """Return the reason for a pod (its uid), empty if none is known."""
        with self._lock:
            return self._reasons.get(pod, "")

    def copy(self) -> Releases:
        """Return what is known now, with a memory of its own."""
        with self._lock:
            return Releases(self._reasons)


@dataclass(frozen=True, slots=True)
class Return:
    """A device of a model that came back from a node. ``when``: in seconds since the epoch; ``gone``: its
    ComposableResource is, too."""

    model: str
    node: str
    when: float
    gone: bool = False


class Returns:
    """Devices that were given back to the fabric, by the uid of their ComposableResource. Thread-safe.

    Each is kept until that is gone, and for a minute more: a plan that began before the newest look at the fabric needs
    what the look before it does not show.
    """

    KEPT_SECONDS: t.Final = 60.0

    def __init__(self, returned: Mapping[str, Return] | None = None) -> None:
        self._returned = dict(returned or {})
        self._lock = threading.Lock()

    def note(self, uid: str, model: str, node: str, when: float) -> None:
        """One is back; what was noted of it first stays."""
        with self._lock:
            self._returned.setdefault(uid, Return(model, node, when))

    def gone(self, uid: str) -> None:
        """Its ComposableResource is gone."""
        with self._lock:
            if known := self._returned.get(uid):
                self._returned[uid] = replace(known, gone=True)

    def __contains__(self, uid: str) -> bool:
        with self._lock:
            return uid in self._returned

    def since(self, taken: float) -> dict[str, Return]:
        """Those that a look at the fabric which began then may not show, by uid."""
        with self._lock:
            self._returned = {uid: each for uid, each in self._returned.items()
                              if not each.gone or each.when >= taken - self.KEPT_SECONDS}
            return {uid: each for uid, each in self._returned.items() if each.when >= taken}

    def copy(self) -> Returns:
        """Those of now."""
        with self._lock:
            return Returns(self._returned)


class FirstSeen:
    """Since when something is so, as this process has seen it, in seconds since the epoch. Thread-safe."""

    def __init__(self, seen: Mapping[str, float] | None = None) -> None:
        self._seen = dict(seen or {})
        self._lock = threading.Lock()

    def note(self, name: str, now: float) -> None:
        """It is so now; the first time counts."""
        with self._lock:
            self._seen.setdefault(name, now)

    def end(self, name: str) -> None:
        """It is so no more."""
        with self._lock:
            self._seen.pop(name, None)

    def of(self, name: str) -> float | None:
        """Since when, None when it is not so."""
        with self._lock:
            return self._seen.get(name)

    def names(self) -> list[str]:
        """Of what it is so now."""
        with self._lock:
            return sorted(self._seen)

    def copy(self) -> FirstSeen:
        """What was seen until now."""
        with self._lock:
            return FirstSeen(self._seen)


class ShownDevices:
    """What slices of nodes show, each read once as long as it is the same object. Only those asked for lately are kept:
    to read one again takes little, and all of them fill memory. Thread-safe."""

    MOST = 256

    def __init__(self) -> None:
        self._known: dict[str, tuple[Json, Shown]] = {}

    def of(self, node_slice: Json) -> Shown:
        """What a slice shows."""
        name = node_slice["metadata"]["name"]
        known = self._known.get(name)
        if known is None or known[0] is not node_slice:
            if len(self._known) >= self.MOST:
                self._known = {}
            known = self._known[name] = (node_slice, read(node_slice))
        return known[1]

    def forget(self, name: str) -> None:
        """A slice is gone; a kubelet plugin that starts again gives the next one another name (``generateName``)."""
        self._known.pop(name, None)


class Handovers:
    """Devices that were handed to claims: one that the scheduler leaves idle again and again does not fit, whatever we
    judge. Thread-safe; forgotten ``FORGET_SECONDS`` after the last."""

    MOST_OF_ONE, MOST_DEVICES, FORGET_SECONDS = 2, 3, 600.0

    def __init__(self, made: Mapping[str, tuple[float, tuple[str, ...]]] | None = None) -> None:
        self._made = dict(made or {})
        self._lock = threading.Lock()

    def note(self, claim: str, resources: Iterable[str], now: float) -> None:
        """Devices (their ComposableResources) are handed to a claim (its uid)."""
        with self._lock:
            self._made = {uid: (at, names) for uid, (at, names) in self._made.items() if now - at < self.FORGET_SECONDS}
            self._made[claim] = (now, (*self._made.get(claim, (0.0, ()))[1], *resources))

    def forget(self, resource: str) -> None:
        """A ComposableResource is gone; its name may come again."""
        with self._lock:
            self._made = {uid: (at, tuple(name for name in names if name != resource))
                          for uid, (at, names) in self._made.items()}

    def vain(self, claim: str) -> dict[str, str]:
        """Which of them the scheduler did not take, and how often."""
        names = self._made.get(claim, (0.0, ()))[1]
        return {name: f"was handed to it {n} times and not taken" for name in set(names)
                if (n := names.count(name)) >= self.MOST_OF_ONE}

    def copy(self) -> Handovers:
        """What was done until now."""
        with self._lock:
            return Handovers(self._made)


class RecentAttaches:
    """When devices were attached for a namespace in the last minute. Thread-safe; times in seconds since the epoch."""

    def __init__(self, moments: Mapping[str, tuple[float, ...]] | None = None) -> None:
        self._moments = dict(moments or {})
        self._lock = threading.Lock()

    def note(self, namespace: str, count: int, when: float) -> None:
        """So many are attached."""
        with self._lock:
            self._moments[namespace] = (*self._moments.get(namespace, ()), *[when] * count)

    def recent(self, now: float) -> dict[str, tuple[float, ...]]:
        """Those of the last minute, by namespace."""
        with self._lock:
            kept = {name: tuple(m for m in moments if now - m < MINUTE) for name, moments in self._moments.items()}
            self._moments = {name: moments for name, moments in kept.items() if moments}
            return dict(self._moments)

    def copy(self) -> RecentAttaches:
        """Those of now."""
        with self._lock:
            return RecentAttaches(self._moments)
