# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the node agents of all simulated nodes in one process, which `Lab.start_agents` starts.

Each agent is like an agent of a DaemonSet, with its own token that is bound to a pod of its node.
They share a process, because five hundred processes would be too many for one machine.
"""

from __future__ import annotations

import sys
import threading
from argparse import Namespace
from pathlib import Path

from ansible_collections.composable.infra.controller.agent.agent import AgentOptions, NodeAgent
from ansible_collections.composable.infra.controller.agent.device_work import Patience
from ansible_collections.composable.infra.controller.agent.host_files import only_agent
from ansible_collections.composable.infra.controller.agent.host_operations import HostOperations
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.beside_agent import kubelet_plugin
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import DEFAULT_KINDS
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.options import own_kinds
from ansible_collections.composable.infra.controller.agent.main import COMPONENT
from ansible_collections.composable.infra.controller.agent.metrics import AgentMetrics
from ansible_collections.composable.infra.controller.logs import set_up_logging
from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.controller.tracing.start import start_tracer
from ansible_collections.composable.infra.lab.hardware.agents_options import AgentsOptions
from ansible_collections.composable.infra.lab.hardware.registration import register_always
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import Tracer

_STACK_BYTES = 512 * 1024
_POLL_SECONDS = 0.05


class _One:
    """The agent of one node, in a thread that first waits until it is the only agent there."""

    def __init__(self, node: str, options: AgentsOptions, stop: threading.Event, tracer: Tracer | None) -> None:
        folder = Path(options.state_dir)
        self._root, self._stop = folder / "nodes" / node, stop
        self._client = Client(Connection.load(str(folder / "kubeconfigs" / f"agent-{node}.yaml")), pool=4)
        self._recorder = Recorder(self._client, COMPONENT, node)
        settings = Options(event_patience=options.event_patience, search_patience=options.search_patience,
                           patience=options.patience, rescan=options.rescan)
        mine = AgentOptions(node, patience=Patience(options.event_patience, options.search_patience),
                            announce_seconds=options.announce_patience, own_driver=options.dra_driver)
        # A path that is short enough for a socket.
        self._kubelet = folder / "kubelets" / node
        self._plugin = Namespace(dra_driver=options.dra_driver, dra_driver_by_label=False,
                                 dra_kinds=DEFAULT_KINDS, dra_shares=(), unsanitized_memory=(), node_name=node,
                                 kubelet_folder=self._kubelet, cdi_folder=self._root / "run/cdi", root=self._root)
        self._operations = HostOperations(Host(self._root), settings, own_kinds(self._plugin))
        self.agent = NodeAgent(self._client, self._operations, mine, AgentMetrics(), self._recorder, tracer=tracer)
        self.thread = threading.Thread(target=self._run, name=f"only-{node}", daemon=True)

    def _run(self) -> None:
        with only_agent(self._root, self._stop) as alone:
            if alone:
                self._operations.take_stock()
                with kubelet_plugin(self._plugin, self._client, self.agent):
                    if self._plugin.dra_driver:
                        register_always(self._kubelet, self._plugin.dra_driver, self._stop)
                    self.agent.start()
                    self._stop.wait()
                    self.agent.stop()
        self._recorder.close()
        self._client.close()


def main() -> None:
    """Run the agents of the options file that the command line names, until SIGTERM."""
    options, stop = AgentsOptions.from_file(Path(sys.argv[1])), asked_to_stop()
    set_up_logging("text", "info")
    threading.stack_size(_STACK_BYTES)
    tracer = start_tracer(None, COMPONENT)
    agents = [_One(node, options, stop, tracer) for node in options.nodes]
    for one in agents:
        one.thread.start()
    while not stop.wait(_POLL_SECONDS):
        if all(one.agent.ready() for one in agents):
            options.ready.touch()
            break
    stop.wait()
    for one in agents:
        one.thread.join()
    if tracer:
        tracer.stop()


if __name__ == "__main__":
    main()
