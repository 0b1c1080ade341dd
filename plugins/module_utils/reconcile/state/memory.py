# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process remembers of nodes and devices, and the API server does not have: it may be lost in a crash."""

from __future__ import annotations

import copy
import threading
import time
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ...kube.objects.shown_devices import Shown, read
from ...planning.fairness import MINUTE

Json = dict[str, t.Any]
V = t.TypeVar("V")
# How long another operator is told of after it has created an object.
RIVAL_SECONDS = 600.0


class Memory(t.Generic[V]):
    """What is remembered by name, behind one lock. Values are replaced, never changed."""

    def __init__(self, known: Mapping[str, V] | None = None) -> None:
        self._known, self._lock = dict(known or {}), threading.Lock()

    def copy(self) -> t.Self:
        """Return what is known now, with a memory of its own."""
        made = copy.copy(self)
        with self._lock:
            made._known, made._lock = dict(self._known), threading.Lock()
        return made

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._known

    def __len__(self) -> int:
        with self._lock:
            return len(self._known)

    def forget(self, name: str) -> None:
        """Forget what is known of a name, if anything is."""
        with self._lock:
            self._known.pop(name, None)


class OperationsUnderWay(Memory[None]):
    """Names of ComposableResources for which a request to the CDI Manager is under way."""

    def begin(self, name: str) -> bool:
        """Mark one as under way; False when it already is."""
        with self._lock:
            known = len(self._known)
            self._known[name] = None
            return len(self._known) > known

    def end(self, name: str) -> None:
        """It is over."""
        self.forget(name)

    def names(self) -> frozenset[str]:
        """All of them."""
        with self._lock:
            return frozenset(self._known)


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


class AttachBlocks(Memory[dict[str, tuple[float, str]]]):
    """Models that a node cannot be given for a while, since the CDI Manager refused them: by node and model until when,
    and why."""

    def __init__(self, known: Mapping[str, dict[str, tuple[float, str]]] | None = None,
                 clock: Callable[[], float] = time.time) -> None:
        super().__init__(known)
        self._clock = clock

    def block(self, node: str, model: str, seconds: float, reason: str) -> None:
        """Attach no device of a model to a node for so many seconds."""
        with self._lock:
            self._known[node] = {**self._known.get(node, {}), model: (self._clock() + seconds, reason)}

    def of(self, node: str, now: float) -> dict[str, str]:
        """Models that cannot be attached to a node now, with the reason."""
        with self._lock:
            return {model: why for model, (until, why) in self._known.get(node, {}).items() if until > now}


class LastUses(Memory[float]):
    """When a claim was last seen to use the device of a ComposableResource, in seconds since the epoch."""

    def note(self, name: str, when: float) -> None:
        """A claim uses it."""
        with self._lock:
            self._known[name] = when

    def of(self, name: str) -> float:
        """When that was, 0.0 for never."""
        with self._lock:
            return self._known.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class HeldPod:
    """What this process has seen of a held pod. Times of other clocks, as its creation, are not compared.

    ``seen``: when it was first seen held, in seconds since the epoch, 0.0 for never. ``spent``: seconds that it had
    nodes on which its devices did not come; ``failures``: how many nodes those were.
    """

    seen: float = 0.0
    spent: float = 0.0
    failures: int = 0


class HeldPods(Memory[HeldPod]):
    """By pod uid."""

    def note(self, pods: Iterable[str], now: float) -> None:
        """These pods are held, and no others are."""
        with self._lock:
            self._known = {uid: self._known.get(uid) or HeldPod(now) for uid in pods}

    def of(self, pod: str) -> HeldPod:
        """What was seen of one."""
        with self._lock:
            return self._known.get(pod) or HeldPod()

    def failed(self, pod: str, seconds: float) -> None:
        """Its devices did not come to the node that it had for so many seconds."""
        with self._lock:
            if old := self._known.get(pod):
                self._known[pod] = replace(old, spent=old.spent + max(0.0, seconds), failures=old.failures + 1)


@dataclass(frozen=True, slots=True)
class Return:
    """A device of a model that came back from a node. ``when``: in seconds since the epoch; ``gone``: its
    ComposableResource is, too."""

    model: str
    node: str
    when: float
    gone: bool = False


class Returns(Memory[Return]):
    """Devices that were given back to the fabric, by the uid of their ComposableResource.

    Each is kept until that is gone, and for a minute more: a plan that began before the newest look at the fabric needs
    what the look before it does not show.
    """

    KEPT_SECONDS: t.Final = 60.0

    def note(self, uid: str, model: str, node: str, when: float) -> None:
        """One is back; what was noted of it first stays."""
        with self._lock:
            self._known.setdefault(uid, Return(model, node, when))

    def gone(self, uid: str) -> None:
        """Its ComposableResource is gone."""
        with self._lock:
            if known := self._known.get(uid):
                self._known[uid] = replace(known, gone=True)

    def since(self, taken: float) -> dict[str, Return]:
        """Those that a look at the fabric which began then may not show, by uid."""
        with self._lock:
            self._known = {uid: each for uid, each in self._known.items()
                           if not each.gone or each.when >= taken - self.KEPT_SECONDS}
            return {uid: each for uid, each in self._known.items() if each.when >= taken}


class FirstSeen(Memory[float]):
    """Since when something is so, as this process has seen it, in seconds since the epoch."""

    def note(self, name: str, now: float) -> None:
        """It is so now; the first time counts."""
        with self._lock:
            self._known.setdefault(name, now)

    def end(self, name: str) -> None:
        """It is so no more."""
        self.forget(name)

    def of(self, name: str) -> float | None:
        """Since when, None when it is not so."""
        with self._lock:
            return self._known.get(name)

    def names(self) -> list[str]:
        """Of what it is so now."""
        with self._lock:
            return sorted(self._known)


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


class Handovers(Memory[tuple[float, tuple[str, ...]]]):
    """Devices that were handed to claims: one that the scheduler leaves idle again and again does not fit, whatever we
    judge. Forgotten ``FORGET_SECONDS`` after the last."""

    MOST_OF_ONE, MOST_DEVICES, FORGET_SECONDS = 2, 3, 600.0

    def note(self, claim: str, resources: Iterable[str], now: float) -> None:
        """Devices (their ComposableResources) are handed to a claim (its uid)."""
        with self._lock:
            self._known = {uid: made for uid, made in self._known.items() if now - made[0] < self.FORGET_SECONDS}
            self._known[claim] = (now, (*self._known.get(claim, (0.0, ()))[1], *resources))

    def forget(self, name: str) -> None:
        """A ComposableResource is gone; its name may come again."""
        with self._lock:
            self._known = {uid: (at, tuple(each for each in names if each != name))
                           for uid, (at, names) in self._known.items()}

    def vain(self, claim: str) -> dict[str, str]:
        """Which of them the scheduler did not take, and how often."""
        names = self._known.get(claim, (0.0, ()))[1]
        return {name: f"was handed to it {n} times and not taken" for name in set(names)
                if (n := names.count(name)) >= self.MOST_OF_ONE}


class RecentAttaches(Memory[tuple[float, ...]]):
    """When devices were attached for a namespace in the last minute; times in seconds since the epoch."""

    def note(self, namespace: str, count: int, when: float) -> None:
        """So many are attached."""
        with self._lock:
            self._known[namespace] = (*self._known.get(namespace, ()), *[when] * count)

    def recent(self, now: float) -> dict[str, tuple[float, ...]]:
        """Those of the last minute, by namespace."""
        with self._lock:
            kept = {name: tuple(m for m in moments if now - m < MINUTE) for name, moments in self._known.items()}
            self._known = {name: moments for name, moments in kept.items() if moments}
            return dict(self._known)
