# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ComposabilityRequest as its object says, read once when the object comes."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """The spec and the annotations of a ComposabilityRequest.

    ``type``: the kind of devices in CoHDI's terms. ``return_idle``: devices that have been idle
    since before this moment, in epoch seconds, need not stay. ``claims``: recorded UIDs of the
    claims for which its size was set. ``other_spec``: what else its node must have, in CoHDI's
    terms.
    """

    name: str
    uid: str
    model: str
    size: int
    deleting: bool = False
    force_detach: bool = False
    type: str = "gpu"
    return_idle: float = 0.0
    claims: tuple[str, ...] = ()
    other_spec: Mapping[str, t.Any] = field(default_factory=dict)
