# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source: tells a rulebook that pods find no node, and that nodes are not needed, for jobs that order nodes.

One order at a time: what an event told of is not told again, nor anything else of its kind, before it is done or a
node must have come. So a job that adds a node is not started for each pod that the one node serves.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: Watch pods that find no node, and nodes that are not needed
description:
  - Watches pods that the scheduler could place nowhere and that ask for devices, by a ResourceClaim or by an extended
    resource that a DeviceClass serves. Emits an event C(unschedulable) for those that have waited for a while. Pods
    that a gate holds or that have a nominated node do not count.
  - Watches nodes with the soft taint C(DeletionCandidateOfClusterAutoscaler) of Cluster Autoscaler. Emits an event
    C(node_unneeded) for those that have had it for a while, the one that had it first at the beginning. A node that
    Cluster Autoscaler deletes itself does not count.
  - Emits no further event C(unschedulable) until all pods of the last one have a node or are gone, and no further event
    C(node_unneeded) until the first node of the last one is gone or needed. After O(retry) it speaks again.
  - Reads only. Never returns.
options:
  kubeconfig:
    description:
      - Path of a kubeconfig, or what such a file holds as a dictionary. If not set, E(K8S_AUTH_KUBECONFIG) or
        E(KUBECONFIG) is used, then ~/.kube/config, then the service account of the pod.
      - When it is set, only the options count, and none of the other variables.
    type: raw
  context:
    description: Context of the kubeconfig. If not set, E(K8S_AUTH_CONTEXT) is used.
    type: str
  host:
    description:
      - URL of the API server. If not set, E(K8S_AUTH_HOST) is used. Together with a login (O(api_key), O(username) and
        O(password), or O(client_cert) and O(client_key)) it replaces the kubeconfig.
    type: str
  api_key:
    description: Bearer token for the API server. If not set, E(K8S_AUTH_API_KEY) is used.
    type: str
  username:
    description: User of the API server, where it takes passwords. If not set, E(K8S_AUTH_USERNAME) is used.
    type: str
  password:
    description: Password of the user. If not set, E(K8S_AUTH_PASSWORD) is used.
    type: str
  ca_cert:
    description:
      - Path of the certificate authority of the API server, in PEM format. If not set, E(K8S_AUTH_CA_CERT) or
        E(K8S_AUTH_SSL_CA_CERT) is used.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a client certificate in PEM format. If not set, E(K8S_AUTH_CLIENT_CERT) or E(K8S_AUTH_CERT_FILE) is
        used.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of the key of the client certificate. If not set, E(K8S_AUTH_CLIENT_KEY) or E(K8S_AUTH_KEY_FILE) is used.
    type: path
    aliases: [key_file]
  validate_certs:
    description:
      - Whether the certificate of the API server is checked. If not set, E(K8S_AUTH_VALIDATE_CERTS) or
        E(K8S_AUTH_VERIFY_SSL) is used, then what the kubeconfig says.
    type: bool
    aliases: [verify_ssl]
  proxy:
    description: URL of a proxy on the way to the API server. If not set, E(K8S_AUTH_PROXY) is used.
    type: str
  no_proxy:
    description:
      - Hosts, domains, addresses and ranges of addresses, separated by commas, that are reached without a proxy.
      - If not set, E(K8S_AUTH_NO_PROXY) is used.
    type: str
  impersonate_user:
    description:
      - User in whose name the API server is asked, which needs the right to impersonate. If not set,
        E(K8S_AUTH_IMPERSONATE_USER) is used, then what the kubeconfig says.
    type: str
  impersonate_groups:
    description: Groups of that user. If not set, E(K8S_AUTH_IMPERSONATE_GROUPS) is used, separated by commas.
    type: list
    elements: str
  unschedulable_after:
    description:
      - Seconds for which a pod must have waited. It should be longer than an attach takes, so that no node is ordered
        for a pod that a device serves.
    type: float
    default: 60
  unneeded_after:
    description:
      - Seconds for which a node must have been unneeded. It should be shorter than C(--scale-down-unneeded-time) of
        Cluster Autoscaler, unless that cannot delete the nodes.
    type: float
    default: 300
  retry:
    description: Seconds after which what was told is told again. It should be longer than a node takes to come.
    type: float
    default: 1800
  node_selector:
    description: Label selector of the nodes that are watched, such as those of one group. If not set, all are.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Order nodes
  hosts: localhost
  sources:
    - composable.infra.nodes:
        kubeconfig: /etc/composable-infra/kubeconfig
        node_selector: node-role.example.com/gpu=true
  rules:
    - name: Add a node
      condition: event.unschedulable is defined
      action:
        run_job_template:
          name: Composable nodes
          organization: Composable infrastructure
          job_args:
            extra_vars: {node_action: add, node_group: gpu, node_count: 1}
"""

DEFAULTS = {"unschedulable_after": 60.0, "unneeded_after": 300.0, "retry": 1800.0}
UNSCHEDULABLE, NODE_UNNEEDED = "unschedulable", "node_unneeded"
# Source: Cluster Autoscaler 1.36.1, utils/taints/taints.go; the value is when it was set, in seconds since the epoch.
CANDIDATE, DELETED = "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"
_KUBE = "ansible_collections.composable.infra.plugins.module_utils.kube"
_SHARED = "ansible_collections.composable.infra.plugins.module_utils.event_source"
_SCALE_UP = "ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up"
Json = dict[str, t.Any]


def _load(name: str) -> t.Any:
    """A module of the collection; sources are run by path, so the collection root is found here."""
    try:
        return importlib.import_module(name)
    except ImportError:
        here = Path(__file__)
        roots = [path.parents[7] for path in (here.absolute(), here.resolve()) if len(path.parents) > 7]
        sys.path += [str(root) for root in roots if (root / "ansible_collections" / "composable").is_dir()]
        return importlib.import_module(name)


@dataclass(slots=True)
class Pending:
    """What waits for an order, by uid. ``after``: seconds before it is told; ``retry``: before it is told again.

    ``first_only``: an order is for the first of those that are told; otherwise it is for all.
    """

    after: float
    retry: float
    first_only: bool = False
    _since: dict[str, float] = field(default_factory=dict)
    _found: dict[str, Json] = field(default_factory=dict)
    _ordered: set[str] = field(default_factory=set)
    _told: float = 0.0

    def put(self, uid: str, found: Json, now: float) -> None:
        """It waits."""
        self._since.setdefault(uid, now)
        self._found[uid] = found

    def drop(self, uid: str) -> None:
        """It does not, or no longer."""
        self._since.pop(uid, None)
        self._found.pop(uid, None)
        self._ordered.discard(uid)

    def next_time(self) -> float:
        """When it is told."""
        ripe = min(self._since.values(), default=float("inf")) + self.after
        return max(ripe, self._told + self.retry) if self._ordered else ripe

    def tell(self, now: float, order: t.Callable[[Json], t.Any]) -> list[Json]:
        """All that have waited long enough, in an order; an order for them is under way from now on."""
        uids = sorted((uid for uid, since in self._since.items() if since + self.after <= now),
                      key=lambda uid: order(self._found[uid]))
        self._ordered, self._told = set(uids[:1] if self.first_only else uids), now
        return [self._found[uid] for uid in uids]


class Watcher:
    """Keeps what waits and when to speak. Changes come from the reflectors' threads, reads from the event loop.

    ``waits``: whether a raw pod waits for a node; ``asks``: whether it asks for devices.
    """

    def __init__(self, times: dict[str, float], wake: t.Callable[[], object], waits: t.Callable[[Json], bool],
                 asks: t.Callable[[Json], bool]) -> None:
        self._wake, self._waits, self._asks, self._lock = wake, waits, asks, threading.RLock()
        self._unplaced: dict[str, Json] = {}
        self._pending = {
            UNSCHEDULABLE: Pending(times["unschedulable_after"], times["retry"]),
            NODE_UNNEEDED: Pending(times["unneeded_after"], times["retry"], first_only=True)}

    def pod_changed(self, kind: str, pod: Json, _old: Json | None) -> None:
        """A pod changed: it found no node, or has one, or is gone."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            self._unplaced.pop(uid, None)
            if kind != "DELETED" and self._waits(pod):
                self._unplaced[uid] = pod
            self._judge(uid)
        self._wake()

    def classes_changed(self, _kind: str, _device_class: Json, _old: Json | None) -> None:
        """A DeviceClass changed: what pods ask for may be devices now."""
        with self._lock:
            for uid in self._unplaced:
                self._judge(uid)
        self._wake()

    def _judge(self, uid: str) -> None:
        pending, pod = self._pending[UNSCHEDULABLE], self._unplaced.get(uid)
        if pod is None or not self._asks(pod):
            pending.drop(uid)
            return
        meta = pod["metadata"]
        pending.put(uid, {"uid": uid, "namespace": meta["namespace"], "name": meta["name"]}, time.monotonic())

    def node_changed(self, kind: str, node: Json, _old: Json | None) -> None:
        """A node changed: it is not needed, or is, or is gone."""
        meta, pending = node["metadata"], self._pending[NODE_UNNEEDED]
        taints = {taint.get("key"): taint for taint in (node.get("spec") or {}).get("taints") or ()}
        with self._lock:
            if kind == "DELETED" or CANDIDATE not in taints or DELETED in taints:
                pending.drop(meta["uid"])
            else:
                found = {"uid": meta["uid"], "name": meta["name"], "since": _since(taints[CANDIDATE])}
                pending.put(meta["uid"], found, time.monotonic())
        self._wake()

    def due(self, now: float) -> str:
        """Which event is due now, empty when none is."""
        with self._lock:
            return next((name for name, each in self._pending.items() if each.next_time() <= now), "")

    def next_time(self) -> float:
        """When, by the monotonic clock, an event is due without a change."""
        with self._lock:
            return min(each.next_time() for each in self._pending.values())

    def event(self, reason: str, now: float) -> Json:
        """The event, and a note of what it told; empty when nothing of it waits any more."""
        with self._lock:
            told = self._pending[reason].tell(now, _by_name if reason == UNSCHEDULABLE else _by_age)
        return {reason: {"waiting" if reason == UNSCHEDULABLE else "nodes": told}} if told else {}


def _by_name(pod: Json) -> tuple[str, str]:
    return pod["namespace"], pod["name"]


def _by_age(node: Json) -> tuple[int, str]:
    return node["since"], node["name"]


def _since(taint: Json) -> int:
    """When it was set, in seconds since the epoch; 0 when it does not say."""
    value = str(taint.get("value") or "")
    return int(value) if value.isascii() and value.isdigit() else 0


async def main(queue: asyncio.Queue[t.Any], args: Json) -> None:
    """Watch for ever; ends only when cancelled. Raises ValueError for unusable options."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    shared = _load(_SHARED)
    times = shared.seconds(args, DEFAULTS, ("node_selector",))
    client = _load(f"{_KUBE}.client.verbs").Client(shared.connection(args, os.environ), pool=4)
    classes = _load(f"{_KUBE}.watch.store").Store({})
    watcher = Watcher(times, lambda: loop.call_soon_threadsafe(woken.set), _waits, lambda pod: _asks(pod, classes))
    watches = _watches(client, watcher, classes, str(args.get("node_selector") or "") or None)
    await shared.run(queue, watcher, woken, watches, [each.synced for each in watches])


def _watches(client: t.Any, watcher: Watcher, classes: t.Any, selector: str | None) -> list[t.Any]:
    """The watches of DeviceClasses, of pods without a node, and of nodes."""
    resource, reflector = _load(f"{_KUBE}.api_resources"), _load(f"{_KUBE}.watch.reflector").Reflector
    store = _load(f"{_KUBE}.watch.store").Store
    pods, nodes = _load(f"{_KUBE}.objects.pods"), _load(f"{_KUBE}.objects.nodes")
    return [reflector(client, resource.DEVICE_CLASSES, classes, watcher.classes_changed),
            reflector(client, resource.PODS, store({}, trim=pods.trimmed), watcher.pod_changed,
                      field_selector="spec.nodeName="),
            reflector(client, resource.NODES, store({}, trim=nodes.trimmed), watcher.node_changed, selector)]


def _waits(pod: Json) -> bool:
    """Whether the scheduler found no node for it, and nothing else holds it or has a node for it."""
    pods = _load(f"{_KUBE}.objects.pods")
    gated = (pod.get("spec") or {}).get("schedulingGates")
    return bool(pods.unschedulable(pod)) and not (gated or pods.node(pod) or pods.ended(pod))


def _asks(pod: Json, classes: t.Any) -> bool:
    """Whether it asks for devices, as the provider of Cluster Autoscaler judges it."""
    scale_up = _load(_SCALE_UP)
    return bool(scale_up.asks_for_devices(pod, {each["metadata"]["name"]: each for each in classes.list()}))
