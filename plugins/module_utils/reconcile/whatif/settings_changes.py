# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change settings that the planners read, such as handover, hold time or policy."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...kube.api_resources import CLAIMS, PODS
from ...kube.objects import claims, pods
from ...planning.settings import KNOWN, BadSetting, Settings
from ..state.node_agents import AGENT
from .capture import Capture
from .evictions import Gate
from .options import BadChange, Options

# Another device table would not fit the captured objects.
FIXED: t.Final = ("device_info", "label_prefix")
CHANGEABLE: t.Final = tuple(sorted(KNOWN - {*FIXED}))
HANDOVERS: t.Final = ("handover", "handover_models", "handover_namespaces")


@dataclass(frozen=True, slots=True)
class OtherSettings:
    """New values of some keys of the configuration.

    If the handover changes, pods that wait for the scheduler without an allocation count as created
    after the change.
    """

    values: Mapping[str, t.Any]

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
        after = replace(capture, settings={**capture.settings, **self.values})
        if not self.values.keys() & {*HANDOVERS}:
            return after
        gate, allocated = Gate(after), _allocated(after)
        return after.with_objects(pods=[raw if _begun(raw, allocated) else gate.over(raw)
                                        for raw in after.of(PODS.plural)])


def _allocated(capture: Capture) -> set[tuple[str, str]]:
    return {(raw["metadata"]["namespace"], raw["metadata"]["name"]) for raw in capture.of(CLAIMS.plural)
            if claims.results(raw)}


def _begun(pod: dict[str, t.Any], allocated: set[tuple[str, str]]) -> bool:
    """Return whether the scheduler has already handled the pod, so that it is no longer gated."""
    names = {(pod["metadata"]["namespace"], name) for name in pods.claim_names(pod).values() if name}
    return bool(pods.bound(pod)) or pods.ended(pod) or bool(names & allocated)


def read_settings(options: Options, capture: Capture) -> OtherSettings:
    """Return the change. Raise BadChange."""
    options.only("settings", ("settings",))
    given = options.given.get("settings")
    if not isinstance(given, Mapping) or not given:
        raise options.bad("settings", f"must be a mapping with some of {', '.join(CHANGEABLE)}")
    for key, value in given.items():
        if key not in CHANGEABLE:
            raise BadChange(f"{options.where}.settings.{key}", value,
                            f"it cannot be changed. Allowed are {', '.join(CHANGEABLE)}")
    try:
        made = Settings.from_dict({**capture.settings, **given})
    except BadSetting as error:
        raise BadChange(f"{options.where}.settings.{error.field}", error.value, error.allowed) from None
    if made.direct_models and capture.node_operations != AGENT:
        raise BadChange(f"{options.where}.settings", dict(given), f"{made.direct_models[0]} would have the handover "
                        f"direct, which needs node_operations {AGENT}. The capture has {capture.node_operations}")
    return OtherSettings(dict(given))
