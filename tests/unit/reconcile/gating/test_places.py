# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which idle devices a held pod is planned with, and that those are the ones that are kept for it."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import claim, kept_for, pod

Json = dict[str, t.Any]
ROOT = "resource.kubernetes.io/pcieRoot"


def attach(bench: Bench, **roots: str) -> None:
    """Idle devices by serial, which the slice shows in this order, each below a root complex."""
    shown = objects.local_slice(*roots)
    for entry, root in zip(shown["spec"]["devices"], roots.values(), strict=True):
        entry["attributes"] |= {ROOT: {"string": root}, "productName": {"string": f"NVIDIA {A100}"}}
    bench.put(shown, *[objects.resource(f"gpu-{serial}", device=f"uid-{serial}", serial=serial, state="Online")
                       for serial in sorted(roots)])


def planned(bench: Bench) -> tuple[str, ...]:
    bench.reconcile(GatesKey())
    (reservation,) = bench.state.reservations.all()
    return reservation.placement.devices["uid-train"]


def test_first_device_of_the_slice_is_planned_with_as_the_scheduler_will_choose(held: Bench) -> None:
    attach(held, z="pci0000:00", a="pci0000:00")
    held.put(claim("train"), pod("train"))
    assert planned(held) == ("gpu-z",)
    held.run(1)
    assert kept_for(held, "train") == "z"


def test_devices_that_share_what_the_claim_asks_for_are_kept_for_it(held: Bench) -> None:
    attach(held, a="pci0000:00", b="pci0000:80", c="pci0000:80")
    asks = claim("train", 2)
    asks["spec"]["devices"]["constraints"] = [{"matchAttribute": ROOT}]
    held.put(asks, pod("train"))
    assert planned(held) == ("gpu-b", "gpu-c")
    held.run(1)
    assert {each.serial for each in held.state.holds.kept_for("uid-train")} == {"b", "c"}
