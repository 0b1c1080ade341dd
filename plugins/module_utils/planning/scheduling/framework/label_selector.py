# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors of Kubernetes, as affinity terms and spread constraints use them.

Source: ``LabelSelector`` of meta/v1 and ``labels.Requirement.Matches`` of apimachinery.
"""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..snapshot import Json

Labels = Mapping[str, str]


def requirement_matches(requirement: Json, labels: Labels) -> bool:
    """Return whether labels meet one requirement of a label selector or of a node selector."""
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return operator in ("Gt", "Lt") and _compares(labels.get(key), operator, values)


def _compares(label: str | None, operator: str, values: t.Sequence[str]) -> bool:
    try:
        number, limit = int(label or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit


def selects(selector: Json | None, labels: Labels) -> bool:
    """Return whether a raw LabelSelector selects labels. None selects nothing, an empty selector
    everything.
    """
    if selector is None:
        return False
    required: Labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in required.items()):
        return False
    return all(requirement_matches(each, labels) for each in selector.get("matchExpressions") or ())


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector that can be compared and hashed. Two are equal if their JSON is equal."""

    text: str

    @classmethod
    def from_raw(cls, raw: Json | None) -> LabelSelector:
        """Build a selector from raw JSON."""
        return cls(json.dumps(raw, sort_keys=True))

    def selects(self, labels: Labels) -> bool:
        """Return whether it selects these labels."""
        return selects(_parsed(self.text), labels)

    @property
    def selects_everything(self) -> bool:
        """Return whether it exists and has no requirement."""
        raw = _parsed(self.text)
        return raw is not None and not raw.get("matchLabels") and not raw.get("matchExpressions")


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> t.Any:
    return json.loads(text)
