# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attached device with the claims that have it, and its form on a ComposableResource.

The annotation ``composable.infra/uses`` has the claims since the last stored sums. A new leader
counts from it the uses that ended before it came. It is written together with the stamp of the
begin or end of a use, so it costs no request.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...planning.accounting.sums import NO_NAMESPACE, Counted, Place, Sum, hours

ANNOTATION: t.Final = "composable.infra/uses"
VERSION: t.Final = 1
MOST: t.Final = 16
"""Uses in an annotation. Sums are stored once a minute, so a device has few uses between."""


@dataclass(frozen=True, slots=True)
class Use:
    """A claim that has a device or a part of it.

    Times are in seconds since the epoch, ``ended`` is 0.0 while the claim has it. ``name`` is the
    claim's. ``label`` is the value of the pod's label that the setting usage_label names.
    """

    uid: str
    namespace: str
    name: str
    label: str
    began: float
    ended: float = 0.0

    def end(self, when: float) -> Use:
        """Return the use with an end, not before its begin."""
        return replace(self, ended=max(when, self.began))


@dataclass(frozen=True, slots=True)
class Attachment:
    """A ComposableResource with its device.

    ``attached`` is 0.0 before the device is there, ``ended`` while it is. ``meant`` is the namespace of
    the claim that it was attached for, empty for none. The uses are in their order. ``key`` names the
    attach, and ``counted`` says whether the stored sums have it.
    """

    model: str
    attached: float = 0.0
    meant: str = ""
    uses: tuple[Use, ...] = ()
    ended: float = 0.0
    key: str = ""
    counted: bool = False

    @property
    def current(self) -> Use | None:
        """The claim that has the device now, or None."""
        return self.uses[-1] if self.uses and not self.uses[-1].ended else None

    def rows(self, since: float, until: float) -> Iterator[tuple[Place, Sum]]:
        """Yield the sums of the time after ``since`` up to ``until``, in seconds since the epoch, and the
        attach if it is not counted yet."""
        if self.attached and not self.counted:
            yield self._place(self.attached, self.meant, ""), Sum(attaches=1)
        yield from self.times(since, until)

    def times(self, since: float, until: float) -> Iterator[tuple[Place, Sum]]:
        """Yield the same sums without the attach."""
        if not self.attached or self.attached > until:
            return
        began, last = max(self.attached, since), min(self.ended or until, until)
        for use in self.uses:
            begin, end = max(use.began, began), min(use.ended or until, last)
            for hour, seconds in hours(began, min(begin, last)):
                yield self._place(hour, NO_NAMESPACE, ""), Sum(idle=seconds)
            for hour, seconds in hours(begin, end):
                yield self._place(hour, use.namespace, use.label), Sum(used=seconds)
            began = max(began, end)
        for hour, seconds in hours(began, last):
            yield self._place(hour, NO_NAMESPACE, ""), Sum(idle=seconds)

    def _place(self, moment: float, namespace: str, label: str) -> Place:
        return Place(int(moment // 3600) * 3600, 3600, namespace, self.model, label)

    def settled(self, until: float, counted: Counted) -> Attachment:
        """Return it without what is in the stored sums: uses that ended by ``until``, and the attach."""
        left = tuple(use for use in self.uses if not 0.0 < use.ended <= until)
        known = bool(self.attached) and counted.has(self.key, self.attached) if until else self.counted
        if len(left) == len(self.uses) and known is self.counted:
            return self
        return replace(self, uses=left, counted=known)

    def text(self) -> str:
        """Return the annotation's text, with the last MOST uses."""
        uses = [[use.uid, use.namespace, use.name, use.label, use.began, use.ended]
                for use in self.uses[-MOST:]]
        return json.dumps({"version": VERSION, "attached": self.attached, "key": self.key, "uses": uses},
                          separators=(",", ":"))


def parse(text: str, model: str) -> Attachment | None:
    """Return what the annotation of a ComposableResource says, None if there is none or it cannot be
    read. ``model``: of its device."""
    try:
        told = json.loads(text or "{}")
        if told.get("version") != VERSION:
            return None
        uses = tuple(Use(str(uid), str(namespace), str(name), str(label), float(began), float(ended))
                     for uid, namespace, name, label, began, ended in told["uses"])
        return Attachment(model, float(told["attached"]), uses=uses[-MOST:],
                          key=str(told.get("key") or ""))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
