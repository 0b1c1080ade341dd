# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine counts, and how it is shown to Prometheus (text format 0.0.4)."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Mapping

PREFIX: t.Final = "composable_"
HELP: t.Final[Mapping[str, tuple[str, str]]] = {
    "gate_opened_total": ("counter", "Pods whose scheduling gate was removed because their devices are on the node."),
    "gate_released_total": ("counter", "Pods that were let go without devices: unserved or not_judged."),
    "gate_misjudged_total": ("counter", "Pods that the scheduler did not place where their devices are."),
    "attach_seconds": ("summary", "Time from asking the CDI Manager to its answer, for each attached device."),
    "detach_seconds": ("summary", "Time from asking the CDI Manager to its answer, for each detached device."),
    "gated_pods": ("gauge", "Pods that the scheduling gate holds now."),
    "claims_waiting": ("gauge", "ResourceClaims that wait for devices now."),
}
Labels = tuple[tuple[str, str], ...]


class Counters:
    """Thread-safe. Names are keys of HELP."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], float] = {}
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Count up."""
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def observe(self, name: str, seconds: float) -> None:
        """One more measurement of a summary."""
        self.add(f"{name}_sum", seconds)
        self.add(f"{name}_count")

    def get(self, name: str, **labels: str) -> float:
        """The value by now."""
        with self._lock:
            return self._values.get((name, tuple(sorted(labels.items()))), 0.0)

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything as Prometheus reads it; ``gauges``: what is true right now."""
        with self._lock:
            values = dict(self._values)
        values.update({(name, ()): value for name, value in gauges.items()})
        lines = []
        for name, (kind, text) in HELP.items():
            lines += [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"]
            parts = (f"{name}_sum", f"{name}_count") if kind == "summary" else (name,)
            shown = {k: v for k, v in sorted(values.items()) if k[0] in parts} or {(p, ()): 0.0 for p in parts}
            lines += [f"{PREFIX}{n}{_labels(labels)} {value:g}" for (n, labels), value in shown.items()]
        return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{k}="{v}"' for k, v in labels) + "}" if labels else ""
