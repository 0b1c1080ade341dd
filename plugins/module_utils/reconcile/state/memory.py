# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of a process about nodes and devices. It is not in the API server, so a crash loses it."""

from __future__ import annotations

import copy
import threading
import time
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ...planning.fairness import MINUTE

V = t.TypeVar("V")
# Seconds for which another operator is reported after it created an object.
RIVAL_SECONDS = 600.0


class Remembered:
    """Base of what a process remembers. A forecast works on a copy of it."""

    def copy(self) -> t.Self:
        """Return an independent copy."""
        raise NotImplementedError


class Memory(Remembered, t.Generic[V]):
    """Values by name behind one lock. Values are replaced, never changed."""

    def __init__(self, known: Mapping[str, V] | None = None) -> None:
        self._known, self._lock = dict(known or {}), threading.Lock()

    def copy(self) -> t.Self:
        """Return an independent copy."""
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
        """Forget a name, if it is known."""
        with self._lock:
            self._known.pop(name, None)


class OperationsUnderWay(Memory[None]):
    """Names of ComposableResources with a request to the CDI Manager in flight."""

    def begin(self, name: str) -> bool:
        """Mark a name as in flight. Return False if it already is."""
        with self._lock:
            known = len(self._known)
            self._known[name] = None
            return len(self._known) > known

    def end(self, name: str) -> None:
        """Remove the mark."""
        self.forget(name)

    def names(self) -> frozenset[str]:
        """Return all marked names."""
        with self._lock:
            return frozenset(self._known)


class Rival:
    """Detects another operator beside this one, such as CoHDI's after an upgrade of its chart.
    Thread-safe.

    ``clock`` is the API server's time in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began, self._seen = clock, float("inf"), ("", 0.0)

    def began(self) -> None:
        """Record that this process leads from now on."""
        self._began = self._clock()

    def created(self, resource: str, when: float) -> None:
        """Record that another operator created a ComposableResource at ``when``."""
        if when > self._began:
            self._seen = (resource, self._clock())

    def problem(self) -> str:
        """Return in a sentence what was seen lately, or an empty string."""
        resource, when = self._seen
        return (f"another operator has created {resource} while this process leads, and each detaches what the "
                "other attaches. If it is CoHDI's operator, pause it with the role cohdi and cohdi_state: paused"
                ) if resource and self._clock() - when < RIVAL_SECONDS else ""


class AttachBlocks(Memory[dict[str, tuple[float, str]]]):
    """Models that a node cannot get for a while after the CDI Manager refused them.

    Each has an end and a reason, by node and model.
    """

    def __init__(self, known: Mapping[str, dict[str, tuple[float, str]]] | None = None,
                 clock: Callable[[], float] = time.time) -> None:
        super().__init__(known)
        self._clock = clock

    def block(self, node: str, model: str, seconds: float, reason: str) -> None:
        """Attach no device of a model to a node for ``seconds``."""
        with self._lock:
            self._known[node] = {**self._known.get(node, {}), model: (self._clock() + seconds, reason)}

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes with such a model, now or earlier."""
        with self._lock:
            return tuple(self._known)

    def of(self, node: str, now: float) -> dict[str, str]:
        """Return the models that cannot be attached to a node now, each with the reason."""
        with self._lock:
            return {model: why for model, (until, why) in self._known.get(node, {}).items() if until > now}


class LastUses(Memory[float]):
    """When a claim was last seen to use the device of a ComposableResource, in seconds since the
    epoch."""

    def note(self, name: str, when: float) -> None:
        """Record that a claim uses the device."""
        with self._lock:
            self._known[name] = when

    def of(self, name: str) -> float:
        """Return the last use, or 0.0 if there was none."""
        with self._lock:
            return self._known.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class PodHistory:
    """History of a gated pod in this process. Times of other clocks, such as its creation, are not
    used.

    ``seen`` is when the process first saw the gate, in seconds since the epoch, or 0.0. ``spent``
    is how many seconds the pod had nodes on which its devices did not arrive. ``failures`` is the
    number of such nodes.
    """

    seen: float = 0.0
    spent: float = 0.0
    failures: int = 0


class PodHistories(Memory[PodHistory]):
    """Histories by pod UID."""

    def note(self, pods: Iterable[str], now: float) -> None:
        """Record the gated pods of now, and forget all others."""
        with self._lock:
            self._known = {uid: self._known.get(uid) or PodHistory(now) for uid in pods}

    def of(self, pod: str) -> PodHistory:
        """Return the history of a pod."""
        with self._lock:
            return self._known.get(pod) or PodHistory()

    def failed(self, pod: str, seconds: float) -> None:
        """Record that the devices of a pod did not arrive on a node that it had for ``seconds``."""
        with self._lock:
            if old := self._known.get(pod):
                self._known[pod] = replace(old, spent=old.spent + max(0.0, seconds), failures=old.failures + 1)


@dataclass(frozen=True, slots=True)
class Return:
    """A device that came back from a node.

    ``when`` is in seconds since the epoch. ``gone`` says whether its ComposableResource is gone,
    too.
    """

    model: str
    node: str
    when: float
    gone: bool = False


class Returns(Memory[Return]):
    """Devices that were returned to the fabric, by the UID of their ComposableResource.

    A record stays until the ComposableResource is gone, plus a minute. A plan that began before the
    newest poll needs returns that the poll before it does not show.
    """

    KEPT_SECONDS: t.Final = 60.0

    def note(self, uid: str, model: str, node: str, when: float) -> None:
        """Record a return. The first record stays."""
        with self._lock:
            self._known.setdefault(uid, Return(model, node, when))

    def gone(self, uid: str) -> None:
        """Record that the ComposableResource is gone."""
        with self._lock:
            if known := self._known.get(uid):
                self._known[uid] = replace(known, gone=True)

    def since(self, taken: float) -> dict[str, Return]:
        """Return by UID the devices that came back and that a poll begun at ``taken`` may not
        show."""
        with self._lock:
            self._known = {uid: each for uid, each in self._known.items()
                           if not each.gone or each.when >= taken - self.KEPT_SECONDS}
            return {uid: each for uid, each in self._known.items() if each.when >= taken}


class FirstSeen(Memory[float]):
    """When this process first saw that a condition is true of a name, in seconds since the
    epoch."""

    def note(self, name: str, now: float) -> None:
        """Record a name at ``now``, unless already recorded."""
        with self._lock:
            self._known.setdefault(name, now)

    def end(self, name: str) -> None:
        """Record that the condition is no longer true."""
        self.forget(name)

    def of(self, name: str) -> float | None:
        """Return since when the condition is true, or None."""
        with self._lock:
            return self._known.get(name)

    def names(self) -> list[str]:
        """Return the sorted names with the condition."""
        with self._lock:
            return sorted(self._known)


class Handovers(Memory[tuple[float, tuple[str, ...]]]):
    """Devices that were handed to claims.

    A device that the scheduler leaves idle several times does not fit. Records end
    ``FORGET_SECONDS`` after the last handover.
    """

    MOST_OF_ONE, MOST_DEVICES, FORGET_SECONDS = 2, 3, 600.0

    def note(self, claim: str, resources: Iterable[str], now: float) -> None:
        """Record that devices (their ComposableResources) are handed to a claim (its UID)."""
        with self._lock:
            self._known = {uid: made for uid, made in self._known.items() if now - made[0] < self.FORGET_SECONDS}
            self._known[claim] = (now, (*self._known.get(claim, (0.0, ()))[1], *resources))

    def forget(self, name: str) -> None:
        """Forget a ComposableResource that is gone, because its name may be used again."""
        with self._lock:
            self._known = {uid: (at, tuple(each for each in names if each != name))
                           for uid, (at, names) in self._known.items()}

    def vain(self, claim: str) -> dict[str, str]:
        """Return the devices that the scheduler repeatedly did not take, each with a reason."""
        names = self._known.get(claim, (0.0, ()))[1]
        return {name: f"was offered {n} times and not allocated" for name in set(names)
                if (n := names.count(name)) >= self.MOST_OF_ONE}


class RecentAttaches(Memory[tuple[float, ...]]):
    """When devices were attached for a namespace in the last minute, in seconds since the epoch."""

    def note(self, namespace: str, count: int, when: float) -> None:
        """Record ``count`` attaches."""
        with self._lock:
            self._known[namespace] = (*self._known.get(namespace, ()), *[when] * count)

    def recent(self, now: float) -> dict[str, tuple[float, ...]]:
        """Return the attaches of the last minute, by namespace."""
        with self._lock:
            kept = {name: tuple(m for m in moments if now - m < MINUTE) for name, moments in self._known.items()}
            self._known = {name: moments for name, moments in kept.items() if moments}
            return dict(self._known)
