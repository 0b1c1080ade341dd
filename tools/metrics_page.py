# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the tables of docs/guides/metrics.md from the code: ``python -m tools.metrics_page``.

A test fails while the page is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.core import Metric as Family

from ansible_collections.composable.infra.controller.agent.metrics import AgentMetrics
from ansible_collections.composable.infra.controller.autoscaler.measurements import GAUGES as GROUP_GAUGES
from ansible_collections.composable.infra.controller.autoscaler.measurements import PREFIX as AUTOSCALER_PREFIX
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.build import BUILD_INFO, HELP
from ansible_collections.composable.infra.controller.ui.insight.metrics import COUNTERS as INSIGHT_COUNTERS
from ansible_collections.composable.infra.controller.ui.insight.metrics import GAUGES as INSIGHT_GAUGES
from ansible_collections.composable.infra.controller.ui.page import UiMetrics
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    CONTROLLERS,
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    PREFIX,
    READ_COUNTERS,
    STEPS,
    WATCHES,
    Metric,
)

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "metrics.md"
BEGIN, END = "<!-- {0}: written by tools/metrics_page.py -->", "<!-- end of {0} -->"
LONG = {tuple(CONTROLLERS["controller"]), tuple(STEPS), tuple(WATCHES["resource"])}
HEAD = ["| Metric | Type | What | Labels |", "|---|---|---|---|"]


def controllers() -> list[str]:
    """Return the table of the controllers' metrics."""
    tables: tuple[tuple[str, Mapping[str, Metric]], ...] = (
        ("gauge", {**GAUGES, **INSIGHT_GAUGES}),
        ("counter", {**COUNTERS, **READ_COUNTERS, **INSIGHT_COUNTERS}), ("histogram", HISTOGRAMS))
    lines = [f"| `{PREFIX}{name}` | {kind} | {metric.help} | {_labels(metric)} |"
             for kind, table in tables for name, metric in sorted(table.items())]
    page = [_row(family) for family in UiMetrics(None).collect()]
    return [*HEAD, f"| `{BUILD_INFO}` | gauge | {HELP} | `version`, `python` |", *lines, *page]


def claim_steps() -> list[str]:
    """Return the table of the steps of a timeline."""
    return ["| `step` | From | Until |", "|---|---|---|",
            *(f"| `{name}` | {begin} | {end} |" for name, (begin, end) in STEPS.items())]


def agents() -> list[str]:
    """Return the table of a node agent's metrics."""
    metrics = AgentMetrics()
    metrics.ask(dict, int)
    return [*HEAD, *sorted(_row(family) for family in metrics.registry.collect())]


def autoscaler() -> list[str]:
    """Return the table of the metrics of Cluster Autoscaler's provider."""
    gauges = [f"| `{AUTOSCALER_PREFIX}{name}` | gauge | {text} | `group` |"
              for name, text in GROUP_GAUGES.items()]
    return [*HEAD, *sorted([*map(_row, Measurements().registry.collect()), *gauges])]


def _row(family: Family) -> str:
    name = family.name + ("_total" if family.type == "counter" else "")
    labels: dict[str, list[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            labels.setdefault(label, []).append(value)
    labels.pop("le", None)
    known = ", ".join(f"`{label}`" + ("" if name == BUILD_INFO else _values(tuple(dict.fromkeys(values))))
                      for label, values in labels.items())
    return f"| `{name}` | {family.type} | {family.documentation} | {known} |"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" + ("" if values in LONG else _values(values))
                     for label, values in metric.labels.items())


def _values(values: tuple[str, ...]) -> str:
    """Return the values of a label in brackets, nothing for values of the configuration."""
    return f" ({', '.join(f'`{value}`' for value in values)})" if values else ""


def page(text: str) -> str:
    """Return the page with updated tables."""
    for name, lines in (("controllers", controllers()), ("steps", claim_steps()), ("agents", agents()),
                        ("autoscaler", autoscaler())):
        begin, end = BEGIN.format(name), END.format(name)
        before, found, rest = text.partition(begin)
        _old, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE} must have the lines {begin} and {end}")
        text = "\n".join([before + begin, "", *lines, "", end + after])
    return text


def names() -> Iterator[str]:
    """Yield the names of all metrics in Prometheus, with the series of histograms."""
    for line in (*controllers(), *agents(), *autoscaler()):
        name, kind = [*line.split("|"), "", ""][1:3]
        if name.strip().startswith("`"):
            base = name.strip().strip("`")
            yield from (base + end for end in (("_sum", "_count", "_bucket") if kind.strip() == "histogram" else ("",)))


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
