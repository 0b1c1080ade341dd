# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events for the owner of a fabric: nodes are renamed, CDI Managers lose their data, boards are
swapped.
"""

from __future__ import annotations

import types
import typing as t
from dataclasses import replace

from ansible_collections.composable.infra.emulator import machine_uuid
from ansible_collections.composable.infra.emulator.pool.pool import FREE
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.chaos.models import cdi_manager
from ansible_collections.composable.infra.tests.chaos.models.node import Node
from ansible_collections.composable.infra.tests.chaos.world import World
from ansible_collections.composable.infra.tests.stories.ground import Ground
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER


def _node(world: World, name: str) -> Node:
    return next(node for node in world.nodes if node.name == name)


def take_node_away(ground: Ground, name: str) -> t.Callable[[str], Node]:
    """Stop the kubelet and the agent of a node. Delete its Node object and its ResourceSlices.

    Return a function that lets the machine join again under a name. Its devices and processes stay.
    """
    world, old = ground.world, _node(ground.world, name)
    world.simulation.kill(old.process)
    raw = world.server.find("nodes", name)
    assert raw is not None
    world.server.delete("nodes", name)
    for raw_slice in list(world.server.of("resourceslices")):
        if raw_slice["spec"].get("nodeName") == name:
            world.server.delete("resourceslices", raw_slice["metadata"]["name"])

    def join(new_name: str) -> Node:
        meta = {"name": new_name, "labels": raw["metadata"]["labels"]}
        world.server.create(
            "nodes", {"metadata": meta, "spec": raw["spec"], "status": raw["status"]}
        )
        new = Node(
            world.simulation,
            world.network,
            old.manager,
            DRIVER,
            new_name,
            old.machine,
            bus=old.bus,
            open=old.open,
            reads_claims=old.reads_claims,
        )
        new._minors = old._minors
        world.nodes[world.nodes.index(old)] = new
        new.start()
        new.restart_plugin()
        return new

    return join


def collect_pods(ground: Ground, node: str) -> None:
    """Delete the pods of a node that is gone, as kube-controller-manager does."""
    for raw in list(ground.world.server.of("pods")):
        if pods.bound(raw) == node:
            ground.world.server.remove(
                "pods", raw["metadata"]["name"], raw["metadata"]["namespace"]
            )


def _new_pool(ground: Ground) -> None:
    """Give the CDI Manager a new database. The hardware of the nodes does not change."""
    world, scenario = ground.world, ground.world.scenario
    hardware = types.SimpleNamespace(pool=world.manager.pool)
    for node in world.nodes:
        node.manager = t.cast(cdi_manager.CdiManager, hardware)
    names = [f"node-{number}" for number in range(scenario.nodes)]
    world.manager.pool = cdi_manager.fabric(
        names, dict(scenario.devices), scenario.fabrics, scenario.attach, scenario.detach
    )


def empty_manager(ground: Ground) -> None:
    """Restart the CDI Manager without its data. It then lists all devices as free."""
    _new_pool(ground)
    assert all(device.state == FREE for device in ground.world.manager.pool.devices.values())


def replace_manager(ground: Ground) -> None:
    """Replace the CDI Manager by one that reads the hardware and has its own identifiers."""
    pool, old = ground.world.manager.pool, dict(ground.world.manager.pool.devices)
    pool.devices = {f"new-{uid}": device for uid, device in old.items()}
    hardware = types.SimpleNamespace(devices={**old, **pool.devices}, shown=pool.shown)
    for node in ground.world.nodes:
        node.manager = t.cast(cdi_manager.CdiManager, types.SimpleNamespace(pool=hardware))
    for uid, device in pool.devices.items():
        device.spec = replace(device.spec, uid=uid)


def swap_board(ground: Ground, uid: str, serial: str) -> None:
    """Replace the board in a slot by another one."""
    device = ground.world.manager.pool.devices[uid]
    old = device.spec.serial
    device.spec = replace(device.spec, serial=serial)
    for node in ground.world.nodes:
        node.bus.pop(old, None)
        node.open.pop(old, None)


def detach_by_hand(ground: Ground, uid: str) -> None:
    """Detach a device with the module ``fabric_device``, as an administrator does."""
    manager = ground.world.manager
    manager.carry_through(
        manager.pool.begin_detach(manager.pool.devices[uid].machine or "", uid), 0.1
    )


def second_cluster(ground: Ground) -> Ground:
    """Start another cluster on the fabric, with its own machines and controllers."""
    first = ground.world
    size = first.scenario.nodes
    names = [f"node-{number}" for number in range(2 * size)]
    scenario = first.scenario
    first.manager.pool = cdi_manager.fabric(
        names, dict(scenario.devices), scenario.fabrics, scenario.attach, scenario.detach
    )
    world = World(first.simulation, scenario)
    world.manager.close()
    world.manager = world.controllers.manager = first.manager
    world.nodes = [
        Node(first.simulation, world.network, first.manager, DRIVER, name, machine_uuid(name))
        for name in names[size:]
    ]
    ground.beside.append(world)
    other = Ground(world)
    # A judge knows one cluster. It would report the requests of the other cluster as thefts.
    first.manager.listeners.clear()
    world.start()
    other.wait("a controller leads in the second cluster", world.controllers.leader)
    return other
