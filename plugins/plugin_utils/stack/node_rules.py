# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about nodes: their machine on the fabric, their kubelet and their host."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from .findings import Case, Finding, ok, stop, warn
from .matrix import at_least, numbers

Node = Mapping[str, t.Any]


def chosen(case: Case) -> list[Node]:
    """Return the nodes in the plan, or all nodes."""
    names = case.plan.get("nodes") or [node["name"] for node in case.listed("nodes")]
    return [node for node in case.listed("nodes") if node["name"] in names]


def known(case: Case) -> Iterator[Finding]:
    """Check that every node in the plan exists."""
    there = {node["name"] for node in case.listed("nodes")}
    for name in case.plan.get("nodes") or ():
        if name not in there:
            yield stop(
                "nodes",
                f"the cluster has no node {name}",
                "Correct preflight_nodes or the inventory's group of GPU nodes",
            )


def machines(case: Case) -> Iterator[Finding]:
    """Check that every node names its machine, and that no two name the same."""
    seen: dict[str, str] = {}
    for node in chosen(case):
        name, machine = str(node["name"]), str(node.get("machine") or "")
        if not machine:
            yield stop("machine of a node", f"node {name} does not say which machine of the fabric it is", _how(case))
        elif machine in seen:
            yield stop(
                "machine of a node",
                f"nodes {seen[machine]} and {name} both name the machine {machine}",
                "Give each node the UUID of its own machine",
            )
        seen.setdefault(machine, name)
    if seen and "" not in seen:
        yield ok("machine of a node", f"{len(seen)} nodes name their machine")


def _how(case: Case) -> str:
    if case.wants("mapping", "bare_metal_host"):
        return "Set the annotation cluster-manager.cdi.io/machine on its BareMetalHost"
    return (
        "Start its kubelet with --provider-id=fsas-cdi://<machine UUID> before it registers (providerID cannot be "
        "changed), or set preflight_mapping to bare_metal_host"
    )


def kubelets(case: Case) -> Iterator[Finding]:
    """Check that kubelets support the protocol of the DRA plugin."""
    floor = case.matrix["kubernetes"]["oldest_kubelet"]
    for node in chosen(case):
        if not at_least(node.get("kubelet"), floor):
            yield stop(
                "kubelet",
                f"the kubelet of node {node['name']} is {node.get('kubelet')}",
                f"Upgrade it to {floor} or later",
            )
        if not node.get("ready"):
            yield warn("node ready", f"node {node['name']} is not Ready", "Repair it before you attach devices")


def systems(case: Case) -> Iterator[Finding]:
    """Check that the driver can be installed on the system."""
    supported = case.matrix["driver"]["systems"]
    for host in case.listed("hosts") if case.wants("driver_shape", "host") else ():
        system, version = str(host.get("system")), str(host.get("system_version"))
        if not any(_same_release(version, listed) for listed in supported.get(system, ())):
            wanted = "; ".join(f"{name} {', '.join(versions)}" for name, versions in supported.items())
            yield stop(
                "operating system",
                f"host {host['name']} runs {system} {version}, on which no driver is installed by node_prepare",
                f"Use one of {wanted}, or set composable_driver_shape to container",
            )


def _same_release(version: str, listed: str) -> bool:
    return numbers(version)[: len(numbers(listed))] == numbers(listed)


def windows(case: Case) -> Iterator[Finding]:
    """Warn about hosts without reserved PCI windows, which may not have room for a large BAR.

    Firmware may have reserved the room.
    """
    for host in case.listed("hosts"):
        if "realloc" not in str(host.get("cmdline", "")):
            yield warn(
                "PCI windows",
                f"host {host['name']} runs without pci=realloc",
                "If a device comes up without its BARs, set node_prepare_kernel_parameters as the fabric's vendor "
                "says, e.g. pci=realloc=on,hpmmioprefsize=64G",
            )


def holders(case: Case) -> Iterator[Finding]:
    """Check for software on the host that uses GPUs. The role node_prepare removes it."""
    for host in case.listed("hosts"):
        if host.get("nouveau"):
            yield warn("nouveau", f"host {host['name']} has nouveau loaded", "Run node_prepare and reboot it")
        if host.get("modeset") == "Y":
            yield warn(
                "nvidia-drm",
                f"host {host['name']} runs nvidia-drm with modeset, which holds every GPU",
                "Run node_prepare and reboot it",
            )
        if host.get("persistenced"):
            yield warn(
                "nvidia-persistenced",
                f"host {host['name']} runs nvidia-persistenced, which does not release GPUs",
                "Run node_prepare, which stops and masks it",
            )


RULES = (known, machines, kubelets, systems, windows, holders)
