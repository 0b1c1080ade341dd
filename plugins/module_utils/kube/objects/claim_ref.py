# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceClaim of an object or message, as logs, traces and annotations name it."""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass

from ...model.value import Json

CLAIM: t.Final = "composable.infra/claim"
"""Annotation of a ComposableResource: the claim for which its device was attached, or that used it
last.
"""
# Names that the API server allows, so that an annotation can put nothing else into a log line.
_NOTE: t.Final = re.compile(r"([a-z0-9-]{1,63}/[a-z0-9.-]{1,253}) ([0-9A-Za-z-]{1,64})")


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """``key``: namespace/name. ``uid``: UID of the claim."""

    key: str
    uid: str

    @classmethod
    def of(cls, claim: Json) -> ClaimRef:
        """Return the reference of a ResourceClaim."""
        meta = claim["metadata"]
        return cls(f"{meta['namespace']}/{meta['name']}", str(meta["uid"]))

    @property
    def note(self) -> str:
        """Return the text of the annotation CLAIM."""
        return f"{self.key} {self.uid}"


def read_claim(obj: Json) -> ClaimRef | None:
    """Return the claim in the annotation CLAIM of an object, None if it is absent or names no
    claim.
    """
    return claim_of_note((obj["metadata"].get("annotations") or {}).get(CLAIM) or "")


@functools.lru_cache(512)
def claim_of_note(text: str) -> ClaimRef | None:
    """Return the claim in the text of the annotation CLAIM, None if it names no claim."""
    found = _NOTE.fullmatch(text) if isinstance(text, str) else None
    return ClaimRef(found[1], found[2]) if found else None
