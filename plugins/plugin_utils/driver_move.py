# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress of each node from one DRA driver to another, and problems that concern all nodes."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from ..module_utils.kube.objects import claims, cohdi, slices
from ..module_utils.kube.objects.device_users import DeviceName, whole
from ..module_utils.model.value import Json
from ..module_utils.node.vendors import DRA_DRIVERS, VENDORS
from ..module_utils.planning.device_info import DRIVER_LABEL
from ..module_utils.planning.scheduling.filters.node_affinity import filter_node_affinity
from ..module_utils.planning.settings import Settings

MARK: t.Final = "composable.infra/moving-driver"
"""Annotation of a node during the move: it was cordoned before (``kept``) or for the move
(``opened``).
"""
AGENT: t.Final = {"app.kubernetes.io/name": "composable-infra", "app.kubernetes.io/component": "node-agent"}


@dataclass(frozen=True, slots=True)
class Objects:
    """Raw objects of the cluster."""

    nodes: Sequence[Json]
    slices: Sequence[Json]
    claims: Sequence[Json]
    resources: Sequence[Json]
    daemon_sets: Sequence[Json]


@dataclass(frozen=True, slots=True)
class NodeMove:
    """The progress of one node.

    ``label`` is the driver in its label. ``others`` are the former drivers that still show devices
    of the node. ``users`` are the claims with a device of such a driver. ``missing`` are attached
    devices that the new driver does not show yet. ``adopt`` means that the node already has the
    driver and lacks only the label. ``mark`` is the value of MARK. ``done`` means that nothing is
    left to do.
    """

    name: str
    label: str
    others: tuple[str, ...]
    users: tuple[str, ...]
    missing: tuple[str, ...]
    adopt: bool
    cordoned: bool
    mark: str
    done: bool

    @property
    def sentence(self) -> str:
        """A sentence about the condition for which the node waits."""
        if self.done:
            return f"node {self.name} is done"
        if self.users:
            old = ", ".join(self.others) or "the old driver"
            return f"node {self.name}: {', '.join(self.users)} use devices of {old}"
        parts = [f"still shown by {', '.join(self.others)}" if self.others else "",
                 f"not shown yet: {', '.join(self.missing)}" if self.missing else ""]
        return f"node {self.name}: {'; '.join(filter(None, parts)) or 'ready to be moved'}"

    def row(self) -> Json:
        """Return the row for a playbook."""
        lists = {name: [*value] for name, value in asdict(self).items() if isinstance(value, tuple)}
        return {**asdict(self), **lists, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Way:
    """A move to a driver.

    ``drivers`` are all drivers of the models that have ``to``. ``without_label`` means that nodes
    without the label have ``to``.
    """

    to: str
    drivers: tuple[str, ...]
    without_label: bool


def way(settings: Settings, to: str) -> Way:
    """Return the move to a driver. Raise ValueError if a model cannot be moved."""
    moving = {driver for model in settings.models if to in model.drivers for driver in model.drivers}
    if not moving:
        raise ValueError(f"no row of device_info has the driver {to}. Add it to other-driver-names of each model "
                         "that the driver serves")
    left = [m.cdi_model_name for m in settings.models if to not in m.drivers and moving & {*m.drivers}]
    if left:
        raise ValueError(f"other-driver-names of {', '.join(left)} in device_info has no {to}, and the model has a "
                         "driver that the move removes")
    return Way(to, tuple(sorted(moving)), all(m.driver_name == to for m in settings.models if to in m.drivers))


def moves(found: Objects, wanted: Way, names: Sequence[str]) -> list[NodeMove]:
    """Return the progress of the nodes with these names, in this order."""
    by_name = {raw["metadata"]["name"]: raw for raw in found.nodes}
    return [_move(by_name[name], found, wanted) for name in names if name in by_name]


def _move(raw: Json, found: Objects, wanted: Way) -> NodeMove:
    to, leaving = wanted.to, [driver for driver in wanted.drivers if driver != wanted.to]
    name, meta = raw["metadata"]["name"], raw["metadata"]
    label = str((meta.get("labels") or {}).get(DRIVER_LABEL) or "")
    mine = [item for item in found.slices if slices.node(item) == name]
    shown = {slices.driver(item) for item in mine if slices.devices(item)}
    others = tuple(sorted(shown & {*leaving}))
    new = [item for item in mine if slices.driver(item) == to]
    users, missing = tuple(_users(found.claims, name, leaving)), tuple(_missing(found.resources, name, new))
    mark = str((meta.get("annotations") or {}).get(MARK) or "")
    at_rest = not (others or users or missing)
    return NodeMove(name, label, others, users, missing, mark=mark,
                    adopt=not label and wanted.without_label and at_rest and bool(new),
                    cordoned=bool((raw.get("spec") or {}).get("unschedulable")),
                    done=label == to and at_rest and not mark)


def _users(items: Sequence[Json], node: str, drivers: Sequence[str]) -> Iterator[str]:
    """Yield the claims with a device of one of the drivers on the node."""
    for claim in items:
        if claims.node(claim) == node and any(result["driver"] in drivers for result in claims.results(claim)):
            yield f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _missing(resources: Sequence[Json], node: str, shown: Sequence[Json]) -> Iterator[str]:
    """Yield the UUIDs of attached devices that these slices do not show.

    Leave out pool devices, which no slice of a node shows.
    """
    for raw in resources:
        uuid, leaves = (raw.get("status") or {}).get("device_id"), raw["metadata"].get("deletionTimestamp")
        meant = raw["spec"]["target_node"] == node and not (leaves or cohdi.annotation(raw, cohdi.POOL_DEVICE))
        if meant and uuid and whole(shown, DeviceName(str(uuid))) is None:
            yield str(uuid)


def problems(found: Objects, wanted: Way, names: Sequence[str]) -> list[str]:
    """Return a sentence for each problem that prevents the move of these nodes."""
    by_name = {raw["metadata"]["name"]: raw for raw in found.nodes}
    said = [f"the cluster has no node {name}" for name in names if name not in by_name]
    here = [by_name[name] for name in names if name in by_name]
    said += [problem for driver in wanted.drivers if driver not in DRA_DRIVERS for problem in _of_agents(found, driver)]
    return [*said, *_of_plugins(found, wanted, here)]


def _of_agents(found: Objects, driver: str) -> Iterator[str]:
    agents = [item for item in found.daemon_sets if AGENT.items() <= _labels(item).items()]
    if not agents:
        yield f"no node agents run, and they provide the driver {driver}"
    for item in agents:
        args = [str(word) for container in _pod(item)["containers"] for word in container.get("args") or ()]
        own = args[args.index("--dra-driver") + 1] if "--dra-driver" in args[:-1] else ""
        if own != driver:
            have = f"the driver {own}" if own else "no driver"
            yield f"the node agents provide {have}, and not {driver}. Set controllers_agent_dra_driver"
        elif "--dra-driver-by-label" not in args:
            yield (f"the node agents would provide the driver {driver} on all nodes at once. Set "
                   "controllers_agent_dra_driver_by_label")


def _of_plugins(found: Objects, wanted: Way, nodes: Sequence[Json]) -> Iterator[str]:
    """Yield the vendor plugins that the label does not move away or back."""
    for own in wanted.drivers:
        plugins = [item for item in found.daemon_sets if _is_of(item, own)]
        if own == wanted.to:
            away = [raw for raw in nodes if not any(_runs_on(item, raw, own) for item in plugins)]
            yield from (_told(item, own, "would not come to", away) for item in plugins[:1] if away)
        else:
            staying = ((item, [raw for raw in nodes if _runs_on(item, raw, own) and _runs_on(item, raw, wanted.to)])
                       for item in plugins)
            yield from (_told(item, own, "would stay on", raws) for item, raws in staying if raws)


def _is_of(item: Json, driver: str) -> bool:
    """Return whether a DaemonSet runs the plugin of a vendor's driver."""
    return any(labels.items() <= _labels(item).items()
               for vendor in VENDORS if vendor.dra_driver == driver for labels in vendor.plugin_selectors)


def _told(item: Json, driver: str, verb: str, nodes: Sequence[Json]) -> str:
    meta, names = item["metadata"], ", ".join(raw["metadata"]["name"] for raw in nodes)
    return (f"the DaemonSet {meta['namespace']}/{meta['name']} of {driver} {verb} {names}. Let it select nodes by the "
            f"label {DRIVER_LABEL}: {driver} (nvidia_dra_driver_node_selector)")


def _runs_on(item: Json, node: Json, label: str) -> bool:
    """Return whether the node would have the pods with this value of the label."""
    labels = {**(node["metadata"].get("labels") or {}), DRIVER_LABEL: label}
    return not filter_node_affinity(_pod(item), node["metadata"]["name"], labels)


def _pod(item: Json) -> Json:
    return t.cast(Json, item["spec"]["template"]["spec"])


def _labels(item: Json) -> Mapping[str, str]:
    # Ansible's own mappings have items that cannot be compared.
    labels = (item["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return {str(name): str(value) for name, value in labels.items()}
