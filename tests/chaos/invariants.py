# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold whatever happens, judged by the CDI Manager's own log and by what the API server and the nodes have.

The engine is not asked: what it believes proves nothing.
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

DOUBLE, LEAK, LOST, THEFT, HELD, FENCE, BROKEN = (
    "double attachment", "leak", "lost claim", "theft", "held too long", "asked without leading", "broken")
# docs/gated.md: hold_timeout for what a plan lacks, placement_timeout twice for what does not come; and until another
# leads, 15 s of a Lease. A pass begins at least each 5 s.
HELD_BOUND = HOLD_TIMEOUT + 2 * PLACEMENT_TIMEOUT + 15.0 + 5.0
_UNEXPECTED = re.compile(r"[A-Za-z]+(Error|Exception|Iteration|Killed)\b.*")


class Judge:
    """Listens to a world, and collects what is wrong: ``violations``, a sentence each that begins with its kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.foreign: set[str] = set()
        # An administrator's device that came while a request had no answer, or that is the very one whose detach nobody
        # has written down yet: nobody can tell it from ours.
        self.ambiguous: set[str] = set()
        # Where such a device went away in place of one that was attached here, by machine and model.
        self._mistaken: Counter[tuple[str, str]] = Counter()
        self._held: dict[str, float] = {}
        self._led_by = ""
        self.restored = Restored(world)
        world.on_restore.append(self._note_restored)
        world.manager.listeners.append(self._on_entry)
        world.server.on_change.append(self._on_change)

    def say(self, kind: str, text: str) -> None:
        """Something is wrong."""
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
        """Every device that nobody has written down yet belongs to a request that has none: there are never more."""
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
        """An intent may be written while the CDI Manager does not answer, by the last look at it."""
        machine, asked, present = cohdi.read_intent(raw)
        if asked and not (raw.get("status") or {}).get("cdi_device_id"):
            self.ambiguous |= {uid for uid in self.foreign if self._on(uid) == machine and uid not in present}

    def _note_restored(self) -> None:
        """A restored ComposableResource asks for a device anew, or has one that came back by hand meanwhile."""
        for raw in self._world.server.of("composableresources"):
            self._note_unseen(raw)
            self.ambiguous |= self.foreign & {str((raw.get("status") or {}).get("cdi_device_id"))}

    def look(self) -> None:
        """What is judged by time, now and then: how long pods are held, and what nodes lost."""
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
        """Pods that our gate holds."""
        return [pod["metadata"]["name"] for pod in self._world.server.of("pods") if pods.held(pod)]

    def waiting(self) -> list[str]:
        """Pods that do not run, and could."""
        return [pod["metadata"]["name"] for pod in self._world.server.of("pods")
                if pods.phase(pod) != "Running" and pod["metadata"]["uid"] not in self.restored.pods
                and self._servable(pod)]

    def _servable(self, pod: Json) -> bool:
        """Whether some node can have all that the pod asks for: what it has idle there, and what is free for it."""
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
        """What is still there when nobody wants anything any more."""
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
        """What is judged once, at the end."""
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
    """Which kinds of violations there are."""
    return {said.partition(":")[0] for said in violations}
