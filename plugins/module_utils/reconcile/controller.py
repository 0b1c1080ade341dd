# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what a controller is: which changes concern it, and how it reconciles its keys.

A new controller is a subclass in a folder of its own, and one line in ``manager/engine.py``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..fabric.api import FabricSnapshot
from ..kube.api_resources import ApiResource
from ..kube.watch.keys import key_of
from .keys import Key, Result

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a watched object.

    ``type`` is ADDED, MODIFIED or DELETED, as in the API's watch events. ``new`` is what the store
    keeps of the object, raw JSON or a value. For an object that is gone, it is the last content.
    ``old`` is what was known before, if anything.
    """

    type: str
    resource: ApiResource
    new: t.Any
    old: t.Any = None

    @property
    def gone(self) -> bool:
        """Return whether the object is gone."""
        return self.type == DELETED

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return key_of(self.new)[1]

    @property
    def versions(self) -> tuple[t.Any, ...]:
        """Return the object as it is and as it was. An object that moved concerns both places."""
        return (self.new,) if self.old is None else (self.new, self.old)


class Controller:
    """Base of all controllers.

    ``reconcilers`` has a function for each type of its keys. ``kinds``: it may be concerned by
    changes of objects of these kinds, None for all.
    """

    reconcilers: Mapping[type, Callable[[t.Any], Result]]
    kinds: t.ClassVar[frozenset[ApiResource] | None] = None

    def concerned(self, change: Change) -> Iterable[Key]:
        """Return the keys that a change of an object of its ``kinds`` concerns.

        Called once for each change, on the thread of the watch. A controller may also update what
        it remembers, or queue keys for later by itself.
        """
        return ()

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterable[Key]:
        """Return the keys that a poll of the CDI Manager concerns. ``old`` is the poll before."""
        return ()

    def all_keys(self) -> Iterable[Key]:
        """Return all keys, to repair what changes may have missed."""
        return ()
