# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write results as the tables of docs/contributors/benchmarks.md. The text around the tables does
not change.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (_DOCS / "contributors" / "benchmarks.md",)

# CoHDI's measured medians, and the lower bound of the handover ``reschedule``: same scenarios, same
# kind of stage, other run.
COHDI = {
    "1 claim, F=0": (61.5, 6.6), "1 claim, F=10": (61.6, 16.4),
    "1 claim of 4 GPUs, F=0": (61.5, None), "1 claim of 4 GPUs, F=10": (121.9, 16.4),
    "8 pods over 4 nodes, F=0": (46.5, None), "8 pods over 4 nodes, F=10": (87.2, 17.1),
}


_WATCHED = ("composableresources", "pods", "resourceslices")


def hops_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the table of the two steps of the controllers, in milliseconds."""
    lines = ["| Scenario | runs | allocation written → attach asked p50 / p99 / max (ms) | device visible → condition "
             "written p50 / p99 / max (ms) | one write of the scheduler p50 / p99 / max (ms) | last pod bound (s) | "
             "scheduler after the condition (s) | CPU (s) | RSS (MiB) |", "|---|---|---|---|---|---|---|---|---|"]
    lines += [f"| {row['name']} | {row['runs']} | {_hop(row['allocation_to_asked_ms'])} | "
              f"{_hop(row['visible_to_condition_ms'])} | "
              f"{_hop(row['scheduler_write_ms']) if 'scheduler_write_ms' in row else '–'} | "
              f"{row['total_seconds']['median']:.1f} | {row['scheduler_after_condition_seconds']:.2f} | "
              f"{row['cpu_seconds']:.2f} | {row['rss_mib']:.0f} |" for row in rows]
    return "\n".join(lines)


def baseline_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the totals beside CoHDI's and the lower bound, in seconds."""
    lines = ["| Scenario | runs | CoHDI, median (s) | lower bound (s) | composable.infra, median [min..max] (s) | "
             "pods on the node attached for |", "|---|---|---|---|---|---|"]
    for row in rows:
        cohdi, floor = COHDI[row["name"]]
        total = row["total_seconds"]
        lines.append(f"| {row['name']} | {row['runs']} | {cohdi} | {floor or '–'} | {total['median']:.1f} "
                     f"[{total['min']:.1f}..{total['max']:.1f}] | {row['pods_on_their_node']} |")
    return "\n".join(lines)


def _hop(values: dict[str, float]) -> str:
    return f"{values['p50']:.0f} / {values['p99']:.0f} / {values['max']:.0f}"


def gated_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the totals of the handover ``gated`` beside CoHDI's, each also without F and the
    simulated node time, in seconds.
    """
    lines = ["| Scenario | runs | CoHDI, median (s) | CoHDI − F − node (s) | gated, median [min..max] (s) | "
             "node: found, bound, used (s) | node: plugin restarted, in the slice (s) | "
             "gated − F − node (s) | the same, first burst (s) | scheduler alone, devices attached (s) | "
             "device visible → Running p50 / p99 / max (ms) | pods on the node attached for | loop (s) |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        cohdi, total = COHDI[row["name"]][0], row["total_seconds"]
        rest = cohdi - row["scenario"]["attach"] - row["scenario"]["announce"]
        lines.append(f"| {row['name']} | {row['runs']} | {cohdi} | {rest:.1f} | {total['median']:.2f} "
                     f"[{total['min']:.2f}..{total['max']:.2f}] | {row['node_found_seconds']:.2f} | "
                     f"{row['plugin_restart_seconds']:.2f} | **{row['overhead_seconds']:.2f}** | "
                     f"{row['first_overhead_seconds']:.2f} | {row['scheduler_alone_seconds']:.2f} | "
                     f"{_hop(row['visible_to_running_ms'])} | {row['pods_on_their_node']} | "
                     f"{row['loop_seconds']:.2f} |")
    return "\n".join(lines)


def direct_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the totals of the handover ``direct``, and of the same pods with attached idle
    devices, in seconds.
    """
    lines = ["| Scenario | runs | direct, median [min..max] (s) | node: found, bound, used (s) | touched → condition "
             "p50 / p99 / max (ms) | scheduler after the condition (s) | direct − F − node (s) | devices attached and "
             "idle (s) | pods on the node attached for | loop (s) |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        total = row["total_seconds"]
        told = f"{total['median']:.2f} [{total['min']:.2f}..{total['max']:.2f}]"
        lines.append(f"| {row['name']} | {row['runs']} | {told} | {row['node_found_seconds']:.2f} | "
                     f"{_hop(row['visible_to_condition_ms'])} | {row['scheduler_after_condition_seconds']:.2f} | "
                     f"**{row['overhead_seconds']:.2f}** | **{row['scheduler_alone_seconds']:.2f}** | "
                     f"{row['pods_on_their_node']} | {row['loop_seconds']:.2f} |")
    return "\n".join(lines)


def scale_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the throughput beside kube-scheduler's own."""
    lines = ["| Scenario | runs | gated (pods/s) | scheduler alone, devices attached (pods/s) | device visible → "
             "Running p50 / p99 / max (ms) | last pod Running (s) | CPU of the controller per pod (ms) | of others per "
             "pod (ms) | RSS (MiB) |",
             "|---|---|---|---|---|---|---|---|---|"]
    lines += [f"| {row['name']} | {row['runs']} | {row['pods_per_second']:.1f} | "
              f"{row['scheduler_alone_pods_per_second']:.1f} | {_hop(row['visible_to_running_ms'])} | "
              f"{row['total_seconds']['median']:.1f} | {1000 * row['cpu_seconds'] / row['scenario']['pods']:.1f} | "
              f"{_others_per_pod(row)} | {row['rss_mib']:.0f} |" for row in rows]
    return "\n".join(lines)


def _others_per_pod(row: dict[str, t.Any]) -> str:
    """Return the milliseconds of processor time of the lab's processes, largest first, without
    values below 0.1 ms.
    """
    found = {name: 1000 * seconds / row["scenario"]["pods"]
             for name, seconds in row["others_cpu_seconds"].items()}
    return ", ".join(f"{name} {found[name]:.1f}" for name in sorted(found, key=found.__getitem__, reverse=True)
                     if found[name] >= 0.1)


def client_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the table of the HTTP client of this project and urllib3."""
    lines = ["| Request | runs, calls | ours (calls/s) | urllib3 (calls/s) | factor | ours, CPU per call (µs) | "
             "urllib3, CPU per call (µs) | factor |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        ours, other = row["ours"], row["urllib3"]
        lines.append(
            f"| {row['name']} | {row['runs']} of {row['calls']:,} | {ours['calls_per_second']:,.0f} | "
            f"{other['calls_per_second']:,.0f} | **{ours['calls_per_second'] / other['calls_per_second']:.1f}** | "
            f"{ours['cpu_microseconds']:.0f} | {other['cpu_microseconds']:.0f} | "
            f"**{other['cpu_microseconds'] / ours['cpu_microseconds']:.1f}** |")
    return "\n".join(lines)


def agents_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the requests of node agents to the API server, for a device without those that all
    agents send anyway.
    """
    lines = ["| When | for each | requests | of these | all agents beside it | CPU (ms) |", "|---|---|---|---|---|---|"]
    for row in rows:
        kinds = sorted(row["requests"].items(), key=lambda pair: (-pair[1], pair[0]))
        beside = [pair for pair in kinds if row["per"] == "device" and _anyhow(pair[0])]
        own = [pair for pair in kinds if pair not in beside and pair[1] >= 0.005]
        told = ", ".join(f"{count:.2f} {kind}" for kind, count in own)
        others = ", ".join(f"{count * row['devices']:.0f} {kind}" for kind, count in beside)
        others = f"{others} in {row['seconds']:.0f} s" if others else "–"
        cpu = f"{row['cpu_ms']:.1f}" if row["cpu_ms"] else "–"
        total = sum(count for _kind, count in own)
        lines.append(f"| {row['name']} | {row['per']} | **{total:.2f}** | {told} | {others} | {cpu} |")
    return "\n".join(lines)


def _anyhow(kind: str) -> bool:
    """Return whether requests are sent without a device change too: for Leases, and for watches."""
    verb, _space, resource = kind.partition(" ")
    return resource == "leases" or verb == "watch" or (verb == "list" and resource in _WATCHED)


def large_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the cost of an engine by the size of its cluster, one column for each size."""
    lines = [f"| | {' | '.join(_size(row) for row in rows)} |", "|---|" + "---|" * len(rows)]
    for name, key, form in _LARGE:
        lines.append(f"| {name} | {' | '.join(form.format(row[key]) for row in rows)} |")
    for event in rows[0]["events_ms"]:
        times = " | ".join(f"{row['events_ms'][event]:.2f}" for row in rows)
        lines.append(f"| event: {event} (ms) | {times} |")
    return "\n".join(lines)


def _size(row: dict[str, t.Any]) -> str:
    return f"{row['nodes']:,} nodes, {row['devices']:,} devices"


_LARGE = (
    ("memory once all is watched, RSS (MiB)", "rss_mib", "{:.0f}"),
    ("memory after all the work below, RSS (MiB)", "worked_mib", "{:.0f}"),
    ("all lists read (s)", "list_seconds", "{:.2f}"),
    ("first pass over all nodes and pools (s)", "first_pass_seconds", "{:.2f}"),
    ("a poll of the fabric (s)", "look_seconds", "{:.2f}"),
    ("what plans need, read ahead in the background (s)", "read_ahead_seconds", "{:.2f}"),
    ("first plan of a gated pod (s)", "plan_first_seconds", "{:.2f}"),
    ("next plan of a gated pod (s)", "plan_again_seconds", "{:.3f}"),
    ("plan of 100 gated pods at once (s)", "plan_burst_seconds", "{:.3f}"),
)


def autoscaler_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the work of the provider of Cluster Autoscaler by the size of its cluster."""
    sizes = " | ".join(f"{row['nodes']:,} nodes, {row['pods']:,} pods" for row in rows)
    lines = [f"| | {sizes} |", "|---|" + "---|" * len(rows)]
    for name, key in _AUTOSCALER:
        figures = " | ".join(f"{row[key]:.2f}" for row in rows)
        lines.append(f"| {name} | {figures} |")
    return "\n".join(lines)


_AUTOSCALER = (
    ("all nodes read, once at the start (s)", "start_seconds"),
    ("first decision for 50 pods (s)", "decision_first_seconds"), ("next decision for 50 pods (s)", "decision_seconds"),
    ("`Refresh` (s)", "refresh_seconds"), ("all questions of a loop, with who asks (s)", "loop_seconds"))


def soak_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the table of the values that stay the same and those that do not, over a long time."""
    lines = ["| | |", "|---|---|"]
    for row in rows:
        kinds = ", ".join(f"{count:.2f} {kind}" for kind, count in row["requests_per_pod"].items() if count >= 0.05)
        lines += [
            f"| pods in {row['minutes']:g} minutes | {row['pods']:,}, of which {row['ran']:,} ran |",
            f"| claim created → Running p50 / p99 / max (ms) | {_hop(row['created_to_running_ms'])} |",
            f"| RSS of the controller, median of each tenth (MiB) | {', '.join(map(str, row['rss_mib']))} |",
            f"| pods that waited at a time: most, mean of the last minute | {row['most_waiting']}, "
            f"{row['waiting_at_end']:.1f} |",
            f"| CPU of the controller per pod (ms) | {row['cpu_ms_per_pod']:.1f} |",
            f"| requests to the API server per pod | **{sum(row['requests_per_pod'].values()):.1f}**: {kinds} |",
            f"| read and written by the controller per pod (KiB) | {row['read_kib_per_pod']:.0f}, "
            f"{row['written_kib_per_pod']:.0f} |"]
    return "\n".join(lines)


def real_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the table of each handover on real nodes, in seconds since the claim was created."""
    names = {"asked": "asked", "attached": "attached", "touched": "used on the node", "visible": "in its slice",
             "told": "told", "bound_at": "bound", "running": "Running"}
    lines = [f"| | runs | {' | '.join(names.values())} | first line of the container, median [min..max] | allowed | "
             "within |", "|---" * (len(names) + 5) + "|"]
    for row in rows:
        seconds = " | ".join(f"{row['seconds'][name]:.2f}" if name in row["seconds"] else "–" for name in names)
        out, limit = row["output_seconds"], row["limit_seconds"]
        told = f"**{out['median']:.2f}** [{out['min']:.2f}..{out['max']:.2f}]"
        judged = f"{limit:.2f} | {row['within']} of {row['runs']}" if limit is not None else "– | –"
        lines.append(f"| {row['name']} | {row['runs']} | {seconds} | {told} | {judged} |")
    return "\n".join(lines)


_AGREEMENT = (("wait_p50", "wait, half of the pods (s)"), ("wait_p90", "wait, 90% of the pods (s)"),
              ("wait_mean", "wait, mean (s)"), ("utilisation", "devices in use (%)"), ("attaches", "attaches"))


def whatif_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the results of the lab beside those of replays of the same arrivals."""
    lines = ["| run | | lab | replay, steps of these minutes | may differ by | within | replay, steps of the capture |",
             "|---|---|---|---|---|---|---|"]
    spread = "{median:g} ({low:g} to {high:g})"
    for number, row in enumerate(rows, start=1):
        for name, words in _AGREEMENT:
            found = row["figures"][name]
            lines.append(f"| {number} | {words} | {found['lab']:g} | {spread.format(**found['minutes'])} | "
                         f"{found['minutes']['bound']:g} | {'yes' if found['minutes']['within'] else '**no**'} | "
                         f"{spread.format(**found['capture'])} |")
    return "\n".join(lines)


def policies_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the cost of the policies for the API server."""
    lines = ["| Write of another | writes | without policies, CPU of the API server (µs) | with them (µs) |",
             "|---|---|---|---|"]
    lines += [f"| {row['write']} | {row['writes']:,} | {row['without_us']:,} | {row['with_us']:,} |" for row in rows]
    return "\n".join(lines)


def page_table(rows: list[dict[str, t.Any]]) -> str:
    """Return the cost of the page."""
    return "\n".join(["| What | Measured |", "|---|---|", *(f"| {row['what']} | {row['measured']} |" for row in rows)])


TABLES = {
    "real": real_table, "whatif": whatif_table, "page": page_table,
    "agents": agents_table, "soak": soak_table, "client": client_table, "hops": hops_table, "baseline": baseline_table,
    "gated": gated_table, "direct": direct_table, "scale": scale_table, "large": large_table,
    "autoscaler": autoscaler_table, "policies": policies_table,
}


def update_pages(results: Path, pages: t.Iterable[Path] = PAGES) -> None:
    """Put the tables between their markers, ``<!-- name -->`` and ``<!-- /name -->``, on the page
    that has them.
    """
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, table in TABLES.items():
            file = results / f"{name}.json"
            if file.exists():
                body = f"<!-- {name} -->\n{table(json.loads(file.read_text(encoding='utf-8')))}\n<!-- /{name} -->"
                text = re.sub(f"<!-- {name} -->.*<!-- /{name} -->", body.replace("\\", r"\\"), text, flags=re.S)
        page.write_text(text, encoding="utf-8")
