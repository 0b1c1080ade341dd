# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restart the vendor's plugin so that it detects devices, and note in the evidence what its slice
shows.

Devices that arrive together need one restart.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    NOT_ANNOUNCED,
    ON_BUS,
    PLUGIN_RESTARTED,
    PREPARING,
    READY,
    REMOVED,
    REMOVED_FROM_BUS,
    TOUCHED,
    WITHDRAWN,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.node.release import NotRestarted

from ..device_request import DeviceRequest
from ..device_work import DeviceWork
from ..evidence_book import EvidenceBook
from ..node_operations import NodeOperations, Plugin
from ..node_state import NodeState
from .device_moments import DeviceMoments
from .plugin_control import PluginControl
from .plugin_pods import began_after, is_starting, run_of
from .restart_policy import RestartPolicy, Situation

log = logging.getLogger("composable.infra")
ANNOUNCE_SECONDS = 120.0
RETRY_SECONDS = 2.0
# Seconds between two checks whether a dead device has left the bus. The plugin would not start
# beside it.
DEAD_SECONDS = 5.0
# Seconds after the deletion of a pod in which its successor is expected.
SUCCESSOR_SECONDS = 60.0
# If a plugin does not show a device, restart it after this share of the allowed time, at most so
# many times.
AGAIN_SHARE, AGAIN_TIMES = 1 / 3, 2


class PluginWork:
    """The work for the vendors' plugins. One thread calls ``attend``."""

    def __init__(self, client: Client, state: NodeState, book: EvidenceBook, operations: NodeOperations,
                 devices: DeviceWork, control: PluginControl, moments: DeviceMoments,
                 announce_seconds: float = ANNOUNCE_SECONDS) -> None:
        self._client, self._state, self._book, self._operations = client, state, book, operations
        self._devices, self._control, self._moments = devices, control, moments
        self._announce_seconds = announce_seconds
        self._policies = {plugin.driver: RestartPolicy() for plugin in operations.plugins()}
        self._again: dict[str, int] = {}
        self._kept: dict[str, float] = {}
        self._unshown: dict[str, float] = {}

    def attend(self) -> float | None:
        """Do the work that is due. Return in how many seconds to call again, None for never."""
        while self._state.gone:
            self._forget(self._state.gone.popleft())
        shown, requests = self._state.shown(), self._devices.requests()
        self._moments.arrived(requests)
        due = [self._settle(request) for request in requests]
        self._moments.forget_hidden(shown)
        due += [self._attend_plugin(plugin) for plugin in self._operations.plugins()]
        due += [self._look_again(plugin, requests) for plugin in self._operations.plugins()]
        first = min((moment for moment in due if moment is not None), default=None)
        return None if first is None else first - time.monotonic()

    def _forget(self, uid: str) -> None:
        """Forget the ComposableResource with this uid, which is gone."""
        self._devices.forget(uid)
        self._moments.forget(uid)
        for known in (self._again, self._kept, self._unshown):
            known.pop(uid, None)

    def _settle(self, request: DeviceRequest) -> float | None:
        """Note in the evidence whether the slices show the device."""
        evidence = request.evidence
        if evidence is None:
            return None
        if evidence.phase == REMOVED:
            if evidence.has(REMOVED_FROM_BUS) and not self._state.shows(evidence):
                self._book.note(request, evidence.with_step(WITHDRAWN, time.time()))
            return None
        if evidence.phase not in (PREPARING, READY) or not evidence.has(TOUCHED):
            return None
        if evidence.has(ANNOUNCED):
            return self._settle_announced(request, evidence)
        if request.pool_device:
            self._settle_kept(request, evidence)
            return None
        if self._is_announced(request, evidence) and self._is_fresh(request):
            self._book.note(request, _announced(evidence, time.time()))
            return None
        if evidence.phase == PREPARING and self._operations.is_own(evidence) and self._is_fresh(request):
            evidence = evidence.with_phase(READY)
            self._book.note(request, evidence)
        return self._overdue(request, evidence)

    def _settle_announced(self, request: DeviceRequest, evidence: Evidence) -> float | None:
        """Schedule a restart of the plugin for a device that its slice no longer shows.

        The plugin leaves out a device that was drained.
        """
        plugin = self._operations.plugin(evidence)
        is_missing = (evidence.phase == READY and not request.pool_device and not request.release and plugin is not None
                      and self._control.live(plugin) and not self._state.shows(evidence))
        if not is_missing:
            self._unshown.pop(request.uid, None)
            return None
        due = self._unshown.setdefault(request.uid, time.monotonic()) + AGAIN_SHARE * self._announce_seconds
        if time.monotonic() < due:
            return due
        self._unshown.pop(request.uid)
        self._book.note(request, _undelivered(evidence))
        return None

    def _settle_kept(self, request: DeviceRequest, evidence: Evidence) -> None:
        """Note that a pool device of a claim is ready after its first use.

        No slice of the node shows it.
        """
        self._kept[request.uid] = time.monotonic()
        if evidence.phase == PREPARING and self._is_fresh(request):
            self._book.note(request, evidence.with_phase(READY))

    def _is_fresh(self, request: DeviceRequest) -> bool:
        """Return False until the bus worker has seen the device.

        A slice may be older than the last boot.
        """
        return not self._devices.pending(request)

    def _is_announced(self, request: DeviceRequest, evidence: Evidence) -> bool:
        """Return whether a slice shows the device, by a plugin that began after the device's first
        use.

        A plugin announces each device with a driver. But if the device had no file when the plugin
        began, the plugin cannot give it to a container.
        """
        if not self._state.shows(evidence):
            return False
        plugin = self._operations.plugin(evidence)
        if plugin is None:
            return True
        found = self._control.live(plugin)
        if not found:  # The plugin has no pod here, or the agent has just deleted it.
            return evidence.phase == READY and not self._was_deleted(plugin, [request])
        return all(self._began_after_use(pod, request, evidence) for pod in found)

    def _began_after_use(self, pod: Json, request: DeviceRequest, evidence: Evidence) -> bool:
        """Return whether the plugin began after the first use of the device."""
        use, told = self._moments.first_use(request.uid), evidence.has(PLUGIN_RESTARTED)
        if use is None:
            return began_after(pod, _moment(evidence, TOUCHED), is_successor=told)
        # The kubelet wrote the start of the containers by the node's clock, so convert the moment
        # to that clock.
        moment = time.time() - (time.monotonic() - use.at)
        return run_of(pod) not in use.ran and began_after(pod, moment, is_successor=told)

    def _was_deleted(self, plugin: Plugin, up: list[DeviceRequest]) -> bool:
        """Return whether the plugin's pod was deleted after the first use of these devices, and a
        successor is expected.
        """
        uses = (use.at for request in up if (use := self._moments.first_use(request.uid)))
        used = max(uses, default=self._moments.began)
        deleted = self._control.deleted_at(plugin)
        return deleted is not None and deleted > max(used, time.monotonic() - SUCCESSOR_SECONDS)

    def _overdue(self, request: DeviceRequest, evidence: Evidence) -> float | None:
        own = self._operations.is_own(evidence)
        if evidence.phase != READY or (not own and self._operations.plugin(evidence) is None):
            return None
        kept = self._kept.get(request.uid, self._moments.began)
        due = max(self._moments.last_step_of([request]), kept) + self._announce_seconds
        if time.monotonic() < due:
            return due
        if evidence.trouble is None or evidence.trouble.reason != NOT_ANNOUNCED:
            where = "/status and the log of this node's agent" if own else "the log of the vendor's DRA plugin"
            message = (f"no ResourceSlice of node {self._state.node} shows {evidence.uuid or evidence.address} "
                       f"{self._announce_seconds:g} s after it was ready. Check {where}")
            self._book.note(request, evidence.with_trouble(NOT_ANNOUNCED, message, time.time()))
        return None

    def _attend_plugin(self, plugin: Plugin) -> float | None:
        up, leaving = self._waiting(plugin), self._leaving_of(plugin)
        decision = self._policies[plugin.driver].decide(
            time.monotonic(), self._situation(bool(up or leaving), up), lambda: self._is_preparing(plugin))
        if not decision.restart:
            return decision.until
        if self._operations.dead_device():
            return time.monotonic() + DEAD_SECONDS
        if (until := self._unsaid_until(plugin, up)) > time.monotonic():
            return until
        try:
            told = self._restart(plugin, up, leaving)
        except NotRestarted as why:
            self._note_kept(up, str(why))
            return None
        except ApiError as error:
            log.warning("cannot restart the plugin of the DRA driver %s: %s", plugin.driver, error)
            return time.monotonic() + RETRY_SECONDS
        if told is None:
            return time.monotonic() + RETRY_SECONDS
        self._note_restart(up, leaving, told)
        return None

    def _unsaid_until(self, plugin: Plugin, up: list[DeviceRequest]) -> float:
        """Return until when to wait for a pod's status to show when the pod began, 0.0 for no wait.

        Before that the agent does not know which devices the plugin has seen. If no pod runs, but a
        pod still ends or a slice shows a device, then another client has deleted the pod, and a
        successor comes.
        """
        found = self._control.live(plugin)
        coming = any(map(is_starting, found)) if found else bool(self._state.plugin_pods(plugin)) or any(
            request.evidence and self._state.shows(request.evidence) for request in up)
        return self._moments.last_step_of(up) + AGAIN_SHARE * self._announce_seconds if coming else 0.0

    def _look_again(self, plugin: Plugin, requests: list[DeviceRequest]) -> float | None:
        """Restart a plugin again if it does not show a device.

        It may have read the devices before its pod's status showed that it runs.
        """
        due, overdue = [], list[DeviceRequest]()
        for request in requests:
            evidence, times = request.evidence, self._again.get(request.uid, 0)
            if times >= AGAIN_TIMES or not (evidence and _waits_for_slice(evidence)):
                continue
            if self._is_announced(request, evidence) or self._operations.plugin(evidence) != plugin:
                continue
            due.append(self._moments.last_step_of([request]) + (times + 1) * AGAIN_SHARE * self._announce_seconds)
            if due[-1] <= time.monotonic():
                overdue.append(request)
        if not overdue:
            return min(due, default=None)
        try:
            for pod in self._control.live(plugin) if not self._operations.dead_device() else ():
                self._control.delete(plugin, pod, self._devices.leaving())
        except NotRestarted as why:
            self._note_kept(overdue, str(why))
            return None
        for request in overdue:
            self._again[request.uid] = self._again.get(request.uid, 0) + 1
        return min(due, default=None)

    def _waiting(self, plugin: Plugin) -> list[DeviceRequest]:
        """Return the devices for which the plugin must be restarted.

        A device may have been touched since ``_settle`` checked it.
        """
        has_pod = bool(self._control.live(plugin))
        return [request for request in self._devices.requests()
                if (e := request.evidence) and _is_undelivered(e, has_pod)
                and not request.pool_device and not self._devices.pending(request)
                and self._operations.plugin(e) == plugin and not self._is_announced(request, e)]

    def _leaving_of(self, plugin: Plugin) -> list[str]:
        """Return the removed devices that the plugin still shows, and for which it was not
        restarted recently.

        They are given by UUID or address.
        """
        shown, now = self._state.shown(), time.monotonic()
        return [name for name, told in self._moments.leaving().items() if name in shown
                and shown[name][0] == plugin.driver and (told is None or now - told > self._announce_seconds)]

    def _situation(self, waiting: bool, up: list[DeviceRequest]) -> Situation:
        done = {request.uid for request in up}
        others = [a for a in self._devices.requests() if a.uid not in done]
        pending = [a for a in others if self._devices.pending(a)]
        shown = [a for a in pending if a.evidence and a.evidence.phase == PREPARING and a.evidence.has(ON_BUS)]
        coming = len(pending) > len(shown) or any(a.coming for a in others)
        step, arrival = self._moments.last_step, self._moments.last_arrival
        return Situation(waiting, bool(shown), coming, step, max(arrival, step))

    def _is_preparing(self, plugin: Plugin) -> bool:
        """Return whether the kubelet may be asking this plugin to prepare a claim now."""
        for pod in self._state.preparing():
            for name in pods.claim_names(pod).values():
                if name and self._is_of_driver(name, pod["metadata"]["namespace"], plugin.driver):
                    return True
        return False

    def _is_of_driver(self, name: str, namespace: str, driver: str) -> bool:
        try:
            claim = self._client.get(CLAIMS, name, namespace)
        except ApiError:
            return False
        return any(key[0] == driver for key in claims.device_keys(claim))

    def _restart(self, plugin: Plugin, up: list[DeviceRequest], leaving: list[str]) -> bool | None:
        """Delete the plugin's pod unless it began after the first use of the last of these devices.

        Return True if the plugin detects the devices, because its pod was deleted, or began later.
        Return False if it has no pod. Return None if the watch is late, because a pod in it has
        been replaced.
        """
        found = self._control.live(plugin)
        stale = [pod for pod in found if leaving or not all(
            self._began_after_use(pod, request, request.evidence) for request in up if request.evidence)]
        deleted = [self._control.delete(plugin, pod, self._devices.leaving()) for pod in stale]
        if not all(deleted):
            return None
        return bool(found) or self._was_deleted(plugin, up)

    def _note_kept(self, up: list[DeviceRequest], why: str) -> None:
        """Note for these devices that their plugin is not restarted, because it would forget an
        unhealthy device.
        """
        for request in up:
            assert request.evidence is not None
            ready = request.evidence.with_phase(READY)
            if not (ready.trouble and ready.trouble.message == why):
                self._book.note(request, ready.with_trouble(NOT_ANNOUNCED, why, time.time()))

    def _note_restart(self, up: list[DeviceRequest], leaving: list[str], told: bool) -> None:
        now = time.time()
        self._moments.told(leaving)
        for request in up:
            assert request.evidence is not None
            ready = request.evidence.with_phase(READY)
            self._book.note(request, ready.with_step(PLUGIN_RESTARTED, now) if told else ready)
        for request in self._devices.requests():
            if told and request.evidence and request.evidence.phase == REMOVED and request.evidence.uuid in leaving:
                self._book.note(request, request.evidence.with_step(PLUGIN_RESTARTED, now))


def _announced(evidence: Evidence, now: float) -> Evidence:
    over = evidence.trouble and evidence.trouble.reason == NOT_ANNOUNCED
    ready = evidence.with_phase(READY).with_step(ANNOUNCED, now)
    return ready.without_trouble() if over else ready


def _undelivered(evidence: Evidence) -> Evidence:
    """Return the evidence without the steps of the plugin, so that the plugin is restarted for the
    device.
    """
    kept = tuple(done for done in evidence.steps if done.step not in (PLUGIN_RESTARTED, ANNOUNCED))
    return replace(evidence, steps=kept)


def _moment(evidence: Evidence, step: str) -> float:
    """Return when the step was done, in seconds since the epoch, 0.0 if it was not."""
    return max((parse_time(done.at) for done in evidence.steps if done.step == step), default=0.0)


def _is_undelivered(evidence: Evidence, has_pod: bool) -> bool:
    """Return whether the plugin has still to detect the device.

    A device that became ready without a plugin waits for the first plugin.
    """
    if not evidence.has(TOUCHED) or evidence.has(PLUGIN_RESTARTED) or evidence.has(ANNOUNCED):
        return False
    return evidence.phase == PREPARING or (evidence.phase == READY and has_pod)


def _waits_for_slice(evidence: Evidence) -> bool:
    return evidence.phase == READY and evidence.has(PLUGIN_RESTARTED) and not evidence.has(ANNOUNCED)
