# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the plugin beside the agent, if requested. The agent notifies the plugin of changes."""

from __future__ import annotations

import argparse
import contextlib
import typing as t
from collections.abc import Callable, Collection, Iterator

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host

from ..agent import NodeAgent
from .device_view import Kept
from .options import shares

Status = Callable[[], dict[str, t.Any]]


@contextlib.contextmanager
def kubelet_plugin(args: argparse.Namespace, client: Client, agent: NodeAgent) -> Iterator[Status]:
    """Run the plugin. Yield a function that returns its part of the agent's status.

    The function returns an empty dictionary if the driver has no name.
    """
    if not args.dra_driver:
        yield dict
        return
    # Import it only here, because an agent without the plugin needs no grpcio.
    from ansible_collections.composable.infra.controller.agent.kubelet_plugin.plugin import (
        Agent,
        KubeletPlugin,
        PluginOptions,
    )

    def evidences() -> Iterator[Evidence]:
        return (request.evidence for request in agent.devices.requests() if request.evidence)

    def kept() -> Kept:
        wanted = [each for each in agent.devices.requests() if each.pool_device]
        wanted.sort(key=lambda request: not request.release)
        return {request.pool_device: request.evidence for request in wanted}

    def claims(but: Collection[tuple[str, str]]) -> Iterator[dict[str, t.Any]]:
        for namespace, name in sorted(agent.state.claim_names() - set(but)):
            with contextlib.suppress(NotFound):
                yield client.get(CLAIMS, name, namespace)

    def synced() -> bool:
        return all(reflector.synced.is_set() for reflector in agent.state.reflectors)

    options = PluginOptions(args.dra_driver, tuple(args.dra_kinds), args.kubelet_folder, args.cdi_folder,
                            shares(args), tuple(args.unsanitized_memory))
    mine = Agent(args.node_name, Host(args.root), agent.state.slices, evidences, synced, kept, claims,
                 agent.driver.other, agent.state.pods.list, agent.report_withheld)
    plugin = KubeletPlugin(client, options, mine)
    agent.state.own_plugin = plugin
    plugin.start()
    try:
        yield lambda: {"kubelet_plugin": {**plugin.status(), "troubles": plugin.problems()}}
    finally:
        plugin.stop()
