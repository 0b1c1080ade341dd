# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ComposableResource as its object says, read once when the object comes.

It leaves out what the process remembers and what other objects show.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The recorded node operations on one device.

    ``asked``: the removal was requested. ``prepared``: driver bound, device touched, plugin
    notified. ``removed``: off the bus. ``last_step``: the last step, as evidence.py names it.
    ``trouble``: the problem, in a sentence. ``reason``: its name in evidence.py. ``fatal``: the
    device cannot be used on this node. ``warning``: the device is used in spite of the problem.
    """

    asked: bool = False
    prepared: bool = False
    removed: bool = False
    last_step: str = ""
    trouble: str = ""
    fatal: bool = False
    warning: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """The spec, the status and the annotations of a ComposableResource. Times are epoch seconds.

    - ``device_uid``: the device at the CDI Manager. ``serial``, ``address``: the UUID and the PCI
      address by which the node knows it. Each is empty if unknown.
    - ``operation``: handle of its attach at an asynchronous CDI Manager.
    - ``hold``: the claim (its UID) that it is reserved for by its annotation, and since when.
    - ``doubt``: why it is unknown whether the device was requested, else empty.
    - ``reclaims``: the device for which CoHDI's upstream syncer made it.
    - ``pool_device``: the pool device that it is, or will be, for one claim. No ResourceSlice of
      the node shows it then.
    """

    name: str
    uid: str
    request: str
    model: str
    node: str
    state: str
    created: float
    device_uid: str = ""
    serial: str = ""
    error: str = ""
    deleting: bool = False
    force_detach: bool = False
    delete_first: bool = False
    last_used: float = 0.0
    in_use: bool = False
    machine: str = ""
    asked: float = 0.0
    present: frozenset[str] = frozenset()
    operation: str = ""
    node_work: NodeWork = NodeWork()
    doubt: str = ""
    reclaims: str = ""
    pool_device: str = ""
    address: str = ""
    hold: tuple[str, float] = ("", 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names by which the node's ResourceSlices may show the device."""
        return tuple(name for name in (self.serial, self.address.lower()) if name)
