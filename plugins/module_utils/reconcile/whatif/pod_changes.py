# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add pods to a capture, like an existing pod or with a claim for some devices of a model."""

from __future__ import annotations

import itertools
import json
import typing as t
from dataclasses import dataclass

from ...kube.api_resources import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS
from ...kube.objects import pods
from ...kube.times import format_time
from ...model.value import Json
from ...planning.device_info import DeviceModel
from ...planning.scheduling.cel.parser import UnsupportedExpression
from ...planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ...planning.scheduling.filters.dynamic_resources.claims import MAX_DEVICES_PER_CLAIM
from ...planning.scheduling.framework.quantity import BadQuantity, quantity
from ...planning.settings import Settings
from .capture import Capture
from .evictions import Gate, pending, unallocated
from .options import Options

PREFIX: t.Final = "what-if"
MOST_PODS: t.Final = 20_000
FIELDS: t.Final = ("count", "like", "namespace", "model", "devices_each", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class MorePods:
    """Adds ``count`` pods like ``pod``, each with its own ``claims``, which are by their entry in
    the pod."""

    count: int
    pod: Json
    claims: t.Mapping[str, Json]

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change. The new pods are the youngest, and gated where new
        pods are."""
        gate, names = Gate(capture), _free_names(capture)
        made = [self.one(name, capture.taken) for name in itertools.islice(names, self.count)]
        return capture.with_objects(
            pods=[*capture.of(PODS.plural), *(gate.over(pod) for pod, _claims in made)],
            resourceclaims=[*capture.of(CLAIMS.plural), *(claim for _pod, claims in made for claim in claims)])

    def one(self, name: str, now: float) -> tuple[Json, list[Json]]:
        """Return a pod with this name, created at ``now``, and its claims."""
        namespace = self.pod["metadata"]["namespace"]
        own = {entry: f"{name}-{entry}" for entry in self.claims}
        claims = [unallocated({**claim, "metadata": _metadata(own[entry], namespace, now)})
                  for entry, claim in self.claims.items()]
        meta = {**self.pod["metadata"], **_metadata(name, namespace, now)}
        entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in own.items()]
        return {**self.pod, "metadata": meta, "spec": {**self.pod["spec"], "resourceClaims": entries},
                "status": {"phase": "Pending"}}, claims


def _metadata(name: str, namespace: str, now: float) -> Json:
    return {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "resourceVersion": "1",
            "creationTimestamp": format_time(now)}


def _free_names(capture: Capture) -> t.Iterator[str]:
    """Yield names that no pod in any namespace has: what-if-1, what-if-2 and so on."""
    taken = {raw["metadata"]["name"] for raw in capture.of(PODS.plural)}
    return (name for number in itertools.count(1) if (name := f"{PREFIX}-{number}") not in taken)


def read_add_pods(options: Options, capture: Capture) -> MorePods:
    """Return the change. Raise BadChange."""
    options.only("add_pods", FIELDS)
    if "like" in options.given:
        options.only("add_pods with like", ("count", "like"))
        return _like(options, capture)
    settings = Settings.from_dict(capture.settings)
    model = settings.model(options.one_of("model", [m.cdi_model_name for m in settings.models]))
    namespace = options.one_of("namespace", _namespaces(capture), "default")
    request = _request(capture, settings, model, options.count("devices_each", 1, MAX_DEVICES_PER_CLAIM))
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [request]}}}
    return MorePods(options.count(most=MOST_PODS), _plain_pod(namespace, _requested(options)), {"devices": claim})


def _namespaces(capture: Capture) -> list[str]:
    return sorted(raw["metadata"]["name"] for raw in capture.of(NAMESPACES.plural))


def _plain_pod(namespace: str, requests: dict[str, str]) -> Json:
    container = {"name": "main", "resources": {"requests": requests}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace},
            "spec": {"containers": [container], "schedulerName": "default-scheduler"}}


def _requested(options: Options) -> dict[str, str]:
    """Return the requests of the pod's container, except devices."""
    found: dict[str, str] = {}
    for name in ("cpu", "memory"):
        if name in options.given:
            found[name] = str(options.given[name])
            try:
                quantity(found[name])
            except BadQuantity:
                raise options.bad(name, "must be an amount such as 500m, 4 or 16Gi") from None
    return found


def _request(capture: Capture, settings: Settings, model: DeviceModel | None, count: int) -> Json:
    """Return a device request by productName.

    Pool devices and plugins of drivers agree on this attribute. Other attributes may differ.
    """
    if model is None:
        return {}
    known = {str(raw["metadata"]["name"]): raw for raw in capture.of(DEVICE_CLASSES.plural)}
    served = [name for name in (*model.drivers, *settings.device_classes)
              if name in settings.device_classes and name in known]
    chosen = max(served, key=lambda name: _drivers_of(known[name], model), default=model.driver_name)
    domain = "device.driver" if model.other_driver_names else json.dumps(model.driver_name)
    said = f'device.attributes[{domain}].productName == {json.dumps(model.attributes["productName"])}'
    return {"name": "devices", "exactly": {"deviceClassName": chosen, "allocationMode": "ExactCount", "count": count,
                                           "selectors": [{"cel": {"expression": said}}]}}


def _drivers_of(device_class: Json, model: DeviceModel) -> int:
    """Return for how many drivers of the model the class may accept a device."""
    selectors = (device_class.get("spec") or {}).get("selectors") or ()
    expressions = tuple((each.get("cel") or {}).get("expression") or "" for each in selectors)
    try:
        answers = Catalogue((model,), {}).satisfies_by_driver(model.cdi_model_name, expressions)
    except UnsupportedExpression:
        return 0
    return sum(answer is not False for answer in answers.values())


def _like(options: Options, capture: Capture) -> MorePods:
    """Return pods like a captured pod, with claims like its own."""
    known = {f"{raw['metadata']['namespace']}/{raw['metadata']['name']}": raw for raw in capture.of(PODS.plural)
             if (raw.get("spec") or {}).get("resourceClaims")}
    pod = known[options.one_of("like", sorted(known))]
    namespace = pod["metadata"]["namespace"]
    claims = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in capture.of(CLAIMS.plural)}
    found = {entry: claims.get((namespace, name or "")) for entry, name in pods.claim_names(pod).items()}
    missing = [entry for entry, claim in found.items() if claim is None]
    if missing:
        raise options.bad("like", f"its claim {missing[0]} was not captured. Name a pod with captured claims")
    return MorePods(options.count(most=MOST_PODS), pending(pod, capture.taken),
                    {entry: claim for entry, claim in found.items() if claim is not None})
