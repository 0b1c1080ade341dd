# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strangers wait for any device of a node while claims get theirs by the handover direct: nobody takes any.

A stranger's claim is for a device that a node shows itself. So it gets idle devices, which are anybody's, and never one
that a claim keeps. It may be given one that has just left: the scheduler decides by the slices that it has seen. Such a
stranger has no device; it is counted and told (docs/limits.md).
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from functools import partial

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.keys import version_of
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.e2e.support.front_doors import FrontDoor
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for

Json = dict[str, t.Any]
AT_ONCE = 10
# THEFT_ROUNDS=200 takes about an hour.
ROUNDS = int(os.environ.get("THEFT_ROUNDS", "20"))
STAGE = {"nodes": 4, "devices": {A100: AT_ONCE}, "handover": "direct", "attach": 0.05, "detach": 0.05, "hold": 0.0,
         "scan_interval": 0.5}
FRONT_DOOR = "controller"


class Shown:
    """Which devices nodes have shown since they were asked for, by the order of the API server's writes.

    A slice may go on showing a device for a moment after it went back to the fabric. So times of this process say
    nothing: the resourceVersions of the slice and of the ComposableResource do (KEP-5504).
    """

    def __init__(self, stage: Stage) -> None:
        self._slices: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._items: dict[str, Json] = {}
        self._reflectors = [Reflector(stage.client, SLICES, Store({}), self._note_slice),
                            Reflector(stage.client, COMPOSABLE_RESOURCES, Store({}), self._note_resource)]
        for reflector in self._reflectors:
            reflector.start()
            reflector.synced.wait(10)

    def stop(self) -> None:
        """End the watches."""
        for reflector in self._reflectors:
            reflector.stop()

    def of(self, resource: Json | None) -> Json:
        """The last slice that had the device of a ComposableResource."""
        return self._items.get(str(((resource or {}).get("status") or {}).get("device_id")), {})

    def while_kept(self, resource: Json) -> bool:
        """Whether a node has shown the device of a ComposableResource after that was made."""
        shown = self._slices.get(resource["status"]["device_id"], 0)
        return shown > self._asked.get(resource["metadata"]["uid"], 0)

    def _note_slice(self, kind: str, item: Json, _old: object) -> None:
        if kind != "DELETED" and slices.node(item):
            self._slices.update({uuid: version_of(item) for uuid, _key in slices.uuids(item)})
            self._items.update({uuid: item for uuid, _key in slices.uuids(item)})

    def _note_resource(self, _kind: str, item: Json, _old: object) -> None:
        self._asked.setdefault(item["metadata"]["uid"], version_of(item))


def kept_resources(stage: Stage) -> dict[str, Json]:
    """The ComposableResource that each claim keeps, by the name of its pool device."""
    return {name.partition("/")[2]: raw for raw in stage.client.list(COMPOSABLE_RESOURCES).items
            if (name := cohdi.annotation(raw, cohdi.POOL_DEVICE))}


def theft(result: Json, kept: dict[str, Json], shown: Shown) -> str:
    """How a claim has lost the device that was attached for it; empty when it has not."""
    if not result.get("bindingConditions"):
        return "it has a device that is not of a pool"
    resource = kept.get(result["device"])
    if resource is None:
        return "no device is kept under the name that it was given"
    return "a node shows the device that it keeps" if shown.while_kept(resource) else ""


def test_no_stranger_takes_a_device_that_a_claim_waits_for(
        stage: Stage, front_door: FrontDoor, timeline: Timeline) -> None:
    for number in range(AT_ONCE):
        stage.claim(f"stranger-{number}", A100, local=True)
        stage.pod_only(f"stranger-{number}")
    thefts, late, shown, served = [], 0, Shown(stage), 0
    for turn in range(ROUNDS):
        names = [f"mine-{turn}-{number}" for number in range(AT_ONCE)]
        for name in names:
            stage.pod(name, A100)
        assert timeline.wait(partial(timeline.running, *names), 60), f"round {turn}"
        kept = kept_resources(stage)
        for name in names:
            (result,) = claims.results(stage.client.get(CLAIMS, name, "default"))
            if how := theft(result, kept, shown):
                thefts.append((name, how, result, kept.get(result["device"])))
                print(thefts[-1], shown.of(kept.get(result["device"])), strangers(stage), flush=True)
            served += 1
        there = devices_in_slices(stage)
        found = strangers(stage)
        assert not [name for name, keys in found.items() if keys & there], f"round {turn}"
        late += len(found)
        end(stage, names)
        print(f"{turn + 1} rounds: {served} claims, {len(thefts)} thefts, {late} allocated too late", flush=True)
    shown.stop()
    print(f"{served} claims served beside {AT_ONCE} strangers, {len(thefts)} thefts, {late} allocated too late")
    assert not thefts


def strangers(stage: Stage) -> dict[str, set[claims.DeviceKey]]:
    """Those that the scheduler gave a device, with which."""
    return {claim["metadata"]["name"]: {*claims.device_keys(claim)}
            for claim in stage.client.list(CLAIMS, "default").items
            if claim["metadata"]["name"].startswith("stranger") and claims.results(claim)}


def devices_in_slices(stage: Stage) -> set[claims.DeviceKey]:
    """What nodes show, so that somebody may have it."""
    return {key for item in stage.client.list(SLICES).items if slices.node(item) for _uuid, key in slices.uuids(item)}


def end(stage: Stage, names: list[str]) -> None:
    """The claims of a round are over; their devices are the strangers' for a while, and then go back."""
    for name in names:
        stage.delete_pod(name)
    wait_for("all devices are free", lambda: went_back(stage), 60)
    there = {claim["metadata"]["name"] for claim in stage.client.list(CLAIMS, "default").items}
    for name in (f"stranger-{number}" for number in range(AT_ONCE)):
        if name not in there:
            stage.claim(name, A100, local=True)
            stage.pod_only(name)


def went_back(stage: Stage) -> bool:
    """Whether all devices are free; strangers that got one end."""
    for name in strangers(stage):
        with contextlib.suppress(NotFound):
            stage.delete_pod(name)
    return all(device["state"] == "free" for device in stage.emulator.state()["devices"])
