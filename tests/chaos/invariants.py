# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants of every run, judged by the CDI Manager's own log and by the state of API server
and nodes.

The engine is not asked, because its own view proves nothing.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter, defaultdict

from ansible_collections.composable.infra.emulator.pool.pool import FREE
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods
from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import Entry
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.models.restored import Restored
from ansible_collections.composable.infra.tests.chaos.world import HOLD_TIMEOUT, PLACEMENT_TIMEOUT, World

DOUBLE, LEAK, LOST, THEFT, HELD, FENCE, BROKEN, OSCILLATION = (
    "double attachment", "leak", "lost claim", "theft", "held too long", "asked without leading", "broken",
    "oscillation")
# docs/gated.md: hold_timeout for what a plan lacks, twice placement_timeout for devices that do not
# come, and 15 s of a Lease until another replica leads. A pass begins at least every 5 s.
HELD_BOUND = HOLD_TIMEOUT + 2 * PLACEMENT_TIMEOUT + 15.0 + 5.0
_UNEXPECTED = re.compile(r"[A-Za-z]+(Error|Exception|Iteration|Killed)\b.*")


class Judge:
    """Listens to a world. Collects ``violations``, sentences that begin with their kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.foreign: set[str] = set()
        # Devices of an administrator that came while a request had no reply, or with a detach that
        # is not recorded yet. They cannot be distinguished from devices of the controllers.
        self.ambiguous: set[str] = set()
        # Number of such devices that were detached instead of one that was attached here, by
        # machine and model.
        self._mistaken: Counter[tuple[str, str]] = Counter()
        self._held: dict[str, float] = {}
        self._led_by = ""
        self.restored = Restored(world)
        world.on_restore.append(self._note_restored)
        world.manager.listeners.append(self._on_entry)
        world.server.on_change.append(self._on_change)

    def say(self, kind: str, text: str) -> None:
        """Record a violation."""
        said = f"{kind}: {text}"
        if said not in self.violations:
            self.violations.append(said)

    def _on_entry(self, entry: Entry) -> None:
        what = {"asked": self._asked, "attached": self._attached, "answered": lambda entry: None,
                "detached": self._detach, "placed": self._placed}
        what[entry.what](entry)

    def _asked(self, entry: Entry) -> None:
        raw = self._resource(entry.token)
        if (raw is None or not cohdi.read_intent(raw)[1]) and not self.restored.asked(entry.token):
            self.say(LEAK, f"{entry.process} asked for a device without an intent on record ({entry.token})")
        if raw and (raw.get("status") or {}).get("cdi_device_id"):
            self.say(DOUBLE, f"asked again for {entry.token}, which has a device")
        self._must_lead(entry)
        present = cohdi.read_intent(raw)[2] if raw else frozenset()
        self.ambiguous |= {uid for uid in self.foreign if self._on(uid) == entry.machine and uid not in present}

    def _must_lead(self, entry: Entry) -> None:
        leading = [r.process.name for r in self._world.controllers.replicas.values()
                   if r.engine and r.engine.fence._held is not None and r.engine.fence.open and not r.process.dead]
        if entry.process not in leading:
            self.say(FENCE, f"{entry.process} asked the CDI Manager, leading are {leading or 'none'}")
        if len(leading) > 1:
            self.say(FENCE, f"{' and '.join(leading)} lead at once")

    def _attached(self, entry: Entry) -> None:
        """Check that every device without a record belongs to a request without a device. There
        must never be more.
        """
        self.restored.attached(entry.device, entry.token)
        pool, listed = self._world.manager.pool, self._world.server.of("composableresources")
        model = pool.devices[entry.device].spec.model
        known = {str((raw.get("status") or {}).get("cdi_device_id") or "") for raw in listed}
        unknown = [d.spec.uid for d in pool.on(entry.machine)
                   if d.spec.model == model and d.spec.uid not in known | self.foreign | self.restored.orphans]
        asked = [raw for raw in listed if raw["spec"]["model"] == model and not (raw.get("status") or {}).get(
            "cdi_device_id") and cohdi.read_intent(raw)[0] == entry.machine]
        adopted = [uid for uid in self.ambiguous & known if pool.devices[uid].spec.model == model]
        if len(unknown) > len(asked) + len(adopted) + self._mistaken[entry.machine, model]:
            self.say(DOUBLE, f"{len(unknown)} devices came to {entry.machine} for {len(asked)} requests: {unknown}")

    def _placed(self, entry: Entry) -> None:
        self.foreign.add(entry.device)
        for raw in self._world.server.of("composableresources"):
            machine, asked, _present = cohdi.read_intent(raw)
            status = raw.get("status") or {}
            device, serial = status.get("cdi_device_id"), self._world.manager.pool.devices[entry.device].spec.serial
            if (asked and machine == entry.machine and not device) or serial == status.get("device_id"):
                self.ambiguous.add(entry.device)

    def _detach(self, entry: Entry) -> None:
        self._must_lead(entry)
        uid = entry.device
        self.restored.orphans.discard(uid)
        uuid = self._world.manager.pool.devices[uid].spec.serial
        if uid in self.ambiguous:
            self._mistaken[entry.machine, self._world.manager.pool.devices[uid].spec.model] += 1
        elif uid in self.foreign:
            self.say(THEFT, f"an administrator's device {uid} was detached")
        for claim in self._world.server.of("resourceclaims"):
            granted = self._world.scheduler.granted.get(claim["metadata"]["uid"], {})
            if any(granted.get(key) == uuid for key in claims.device_keys(claim)):
                self.say(THEFT, f"{uid} was detached, claim {claim['metadata']['name']} has it")
        for node in self._world.nodes:
            if uuid in node.open:
                self.say(THEFT, f"{uid} was detached, a pod on {node.name} uses it")
            if uuid in node.bus and uid not in self.ambiguous:
                self.say(THEFT, f"{uid} was detached, {node.name} had not let it go")

    def _on_change(self, plural: str, kind: str, obj: Json, old: Json | None) -> None:
        if plural == "pods" and kind == "DELETED":
            self._held.pop(obj["metadata"]["uid"], None)
        if plural != "composableresources" or kind == "DELETED":
            return
        self._note_unseen(obj)
        device = (obj.get("status") or {}).get("cdi_device_id")
        if not device:
            return
        owners = [r["metadata"]["name"] for r in self._world.server.of(plural)
                  if (r.get("status") or {}).get("cdi_device_id") == device and self.restored.has(r)]
        if len(owners) > 1:
            self.say(DOUBLE, f"device {device} belongs to {' and '.join(sorted(owners))}")
        if device in self.foreign and device not in self.ambiguous:
            self.say(THEFT, f"{obj['metadata']['name']} adopted an administrator's device {device}")

    def _note_unseen(self, raw: Json) -> None:
        """Note ambiguous devices of an intent. It may be written by the last poll while the CDI
        Manager does not answer.
        """
        machine, asked, present = cohdi.read_intent(raw)
        if asked and not (raw.get("status") or {}).get("cdi_device_id"):
            self.ambiguous |= {uid for uid in self.foreign if self._on(uid) == machine and uid not in present}

    def _note_restored(self) -> None:
        """Note ambiguous devices after a restore.

        A restored ComposableResource requests a device again, or has one that was attached by hand
        in the meantime.
        """
        for raw in self._world.server.of("composableresources"):
            self._note_unseen(raw)
            self.ambiguous |= self.foreign & {str((raw.get("status") or {}).get("cdi_device_id"))}

    def usable(self, model: str) -> int:
        """Return the devices of a model that belong to no administrator and were not orphaned by a
        restore.
        """
        others = self.foreign | self.restored.orphans
        return sum(device.spec.model == model and uid not in others
                   for uid, device in self._world.manager.pool.devices.items())

    def count_attaches(self) -> None:
        """Check that no more devices were attached than pods and Jobs have requested.

        A run without faults must not attach a device, detach it unused, and attach it again. A Job that
        Kueue preempts needs its devices twice. So does a Job that gets its nodes afterwards.
        """
        steps = self._world.scenario.steps
        wanted = self._world.kueue.evicted + sum(job.size for job in self._world.kueue.jobs if job.topology)
        wanted += sum(int(step.with_["count"]) * int(step.with_.get("devices", 1)) + ("second" in step.with_)
                     for step in steps if step.kind in ("pod", "job"))
        attached = sum(entry.what == "attached" for entry in self._world.manager.log)
        if attached > wanted:
            self.say(OSCILLATION, f"{attached} devices were attached for {wanted} that were requested")

    def look(self) -> None:
        """Check the invariants that depend on time: how long pods are gated, and devices that nodes
        lost.
        """
        world = self._world
        leader = world.controllers.leader()
        led_by = leader.process.name if leader and not leader.process.frozen and not world.network.down else ""
        if led_by != self._led_by:
            self._held.clear()
        self._led_by = led_by
        for pod in world.server.of("pods"):
            uid = pod["metadata"]["uid"]
            if not pods.held(pod):
                self._held.pop(uid, None)
                continue
            since = self._held.setdefault(uid, world.simulation.now)
            if world.simulation.now - since > HELD_BOUND:
                self.say(HELD, f"pod {pod['metadata']['name']} is held for more than {HELD_BOUND:g} s")
        for node in world.nodes:
            for uuid in node.pulled:
                if uuid not in self._ambiguous_serials():
                    self.say(THEFT, f"{uuid} was pulled from the bus of {node.name}")

    def held(self) -> list[str]:
        """Return the gated pods."""
        return [pod["metadata"]["name"] for pod in self._world.server.of("pods") if pods.held(pod)]

    def waiting(self) -> list[str]:
        """Return the pods that do not run, and could."""
        return [pod["metadata"]["name"] for pod in self._world.server.of("pods")
                if pods.phase(pod) != "Running" and pod["metadata"]["uid"] not in self.restored.pods
                and self._servable(pod)]

    def _servable(self, pod: Json) -> bool:
        """Return whether some node can have all devices of the pod, idle ones and free ones."""
        return any(self._serves(node.name, node.machine, pod) for node in self._world.nodes)

    def _serves(self, name: str, machine: str, pod: Json) -> bool:
        labels = (self._world.server.find("nodes", name) or {"metadata": {}})["metadata"].get("labels") or {}
        if any(labels.get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
            return False
        need: defaultdict[str, int] = defaultdict(int)
        for claim_name in pods.claim_names(pod).values():
            claim = self._world.server.find("resourceclaims", claim_name or "", pod["metadata"]["namespace"])
            if claim is None:
                return False
            product = claim["metadata"]["annotations"]["chaos/product"].removeprefix("NVIDIA ")
            need[product] += claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
        return all(self._left(machine, model) >= count for model, count in need.items())

    def _left(self, machine: str, model: str) -> int:
        world = self._world
        used = {uuid for claim in world.server.of("resourceclaims")
                for key in claims.device_keys(claim)
                if (uuid := world.scheduler.granted.get(claim["metadata"]["uid"], {}).get(key))}
        others = self.foreign | self.restored.orphans
        idle = [d for d in world.manager.pool.on(machine)
                if d.spec.model == model and d.spec.serial not in used and d.spec.uid not in others]
        return world.manager.pool.free(machine, model, "gpu") + len(idle)

    def left_over(self) -> list[str]:
        """Return what is left when no pod needs anything any more."""
        world = self._world
        mistaken = Counter(self._mistaken)
        found = []
        for uid, device in world.manager.pool.devices.items():
            if device.state == FREE or uid in self.foreign | self.restored.orphans:
                continue
            if mistaken[device.machine or "", device.spec.model]:
                mistaken[device.machine or "", device.spec.model] -= 1
            else:
                found.append(f"device {uid} on {device.machine}")
        found += [f"ComposableResource {raw['metadata']['name']} {raw.get('status')}"
                  for raw in world.server.of("composableresources")
                  if (raw.get("status") or {}).get("device_id") not in self._ambiguous_serials()]
        alive = tuple(raw["metadata"]["name"] for raw in world.server.of("composableresources"))
        rules = [rule["metadata"]["name"] for rule in world.server.of("devicetaintrules")]
        return found + [f"DeviceTaintRule {name}" for name in rules if not (alive and name.startswith(alive))]

    def end(self) -> None:
        """Check the invariants of the end of a run."""
        world = self._world
        for uid in self.foreign - self.ambiguous:
            if not self._on(uid):
                self.say(THEFT, f"an administrator's device {uid} is gone")
        for failure in world.simulation.failures:
            self.say(BROKEN, failure)
        for replica in world.controllers.replicas.values():
            for entry in replica.engine.reporter.history if replica.engine else ():
                if entry["reason"] in ("Trouble", "Failed") and _UNEXPECTED.fullmatch(entry["message"]):
                    self.say(BROKEN, f"{entry['about']}: {entry['message']}")

    def _ambiguous_serials(self) -> set[str]:
        return {self._world.manager.pool.devices[uid].spec.serial for uid in self.ambiguous}

    def _on(self, uid: str) -> str:
        return self._world.manager.pool.devices[uid].machine or ""

    def _resource(self, uid: str) -> Json | None:
        return next((r for r in self._world.server.of("composableresources") if r["metadata"]["uid"] == uid), None)


def kinds(violations: t.Iterable[str]) -> set[str]:
    """Return the kinds of the violations."""
    return {said.partition(":")[0] for said in violations}
