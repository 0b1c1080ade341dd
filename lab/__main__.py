# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab: `python -m ansible_collections.composable.infra.lab --help`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries.finder import FOLDER_VARIABLE
from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, RELEASES
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabError, LabOptions
from ansible_collections.composable.infra.lab.hardware.node.faults import KINDS
from ansible_collections.composable.infra.lab.names import default_state_dir
from ansible_collections.composable.infra.lab.real_nodes.ledger import Ledger

_DESCRIPTION = """A real Kubernetes control plane as plain processes on loopback, with simulated nodes and real ones.

etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok of one release. The lab takes binaries
from the folder named by --binaries or LAB_BINARIES, from PATH, from the cache or from the official releases, or
builds them from Go modules (the first time only).

A real node (--real-nodes) is a kubelet and a containerd in namespaces of their own. It needs root on Linux, and changes
kernel settings, addresses and control groups of this machine while it is up."""
_EXAMPLES = """examples:
  lab up --nodes 4
  eval "$(lab env)" && kubectl get nodes
  lab up --nodes 0 --real-nodes 2
  lab logs kube-scheduler
  lab fault node-0 removal-hangs
  lab down
  lab up --name second --kubernetes 1.35.x --binding-timeout 30   (several labs run side by side)"""


def parser() -> argparse.ArgumentParser:
    """Parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="lab",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="up|status|env|logs|fault|down")
    _add_up(_add(commands, "up", "start a lab and wait until pods can be scheduled", run_up))
    _add(commands, "status", "show the lab's processes. The exit status is 3 if a process does not run", run_status)
    _add(commands, "env", "print shell commands that set KUBECONFIG", run_env)
    logs = _add(commands, "logs", "print the end of the logs", run_logs)
    logs.add_argument("component", nargs="?", help="one component (default: all)")
    logs.add_argument("--lines", type=int, default=20, help="lines per component (default: 20)")
    fault = _add(commands, "fault", "make a node's simulated hardware fail, or repair it", run_fault)
    fault.description = f"{fault.description}\n\n" + "\n".join(f"{kind:<15}{what}" for kind, what in KINDS.items())
    fault.formatter_class = argparse.RawDescriptionHelpFormatter
    fault.add_argument("node", help="which node")
    fault.add_argument("kind", help="what goes wrong, see above")
    fault.add_argument("switch", nargs="?", choices=("on", "off"), default="on", help="default: on")
    _add(commands, "down", "stop the lab and remove its state", run_down)
    return top


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("--name", default="lab", help="which lab, when there are several (default: lab)")
    command.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="the lab's folder (default: by --name, in $XDG_STATE_HOME/composable-infra/labs)",
    )
    command.set_defaults(run=run)
    return command


def _add_up(command: argparse.ArgumentParser) -> None:
    versions = ", ".join(release.kubernetes for release in RELEASES.values())
    command.add_argument("--nodes", type=int, default=2, metavar="N", help="number of simulated nodes (default: 2)")
    command.add_argument(
        "--real-nodes",
        type=int,
        default=0,
        metavar="N",
        help="number of nodes with a kubelet and a containerd of their own. They need root on Linux (default: 0)",
    )
    command.add_argument(
        "--plugin-start",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long a start of the vendor's DRA plugin, a stand-in, takes on real nodes (default: 0)",
    )
    command.add_argument(
        "--kubernetes",
        default=DEFAULT_SERIES,
        metavar="VERSION",
        help=f"1.NN.x or an exact version. Known: {versions} (default: {DEFAULT_SERIES}.x)",
    )
    command.add_argument(
        "--binding-timeout",
        type=float,
        metavar="SECONDS",
        help="how long the scheduler waits for binding conditions, from 1.35 on (default: 600)",
    )
    command.add_argument(
        "--no-feature-gates",
        dest="feature_gates",
        action="store_false",
        help="leave every feature gate as the release has it (default: what binding conditions and taint rules need)",
    )
    command.add_argument(
        "--binaries", type=Path, metavar="DIR", help=f"folder with binaries (default: ${FOLDER_VARIABLE})"
    )
    command.add_argument(
        "--foreground",
        action="store_true",
        help="stay, and stop the lab on Ctrl-C, SIGTERM or when this process dies",
    )


def state_dir(arguments: argparse.Namespace) -> Path:
    """Return the folder of the lab that the command line names."""
    return arguments.state_dir.absolute() if arguments.state_dir else default_state_dir(arguments.name)


def run_up(arguments: argparse.Namespace) -> int:
    """`lab up`."""
    options = LabOptions(
        nodes=arguments.nodes,
        kubernetes=arguments.kubernetes,
        binding_timeout=arguments.binding_timeout,
        feature_gates=arguments.feature_gates,
        state_dir=state_dir(arguments),
        name=arguments.name,
        binaries=arguments.binaries,
        foreground=arguments.foreground,
        real_nodes=arguments.real_nodes,
        plugin_start=arguments.plugin_start,
    )
    began = time.monotonic()
    signal.signal(signal.SIGTERM, _interrupt)
    lab = Lab.up(options, lambda line: print(line, file=sys.stderr, flush=True))
    print(
        f"lab {options.name}: Kubernetes {lab.description.kubernetes} with {_nodes(lab)} is up after "
        f"{time.monotonic() - began:.1f} s\nKUBECONFIG={lab.kubeconfig}",
        flush=True,
    )
    return _stay(lab) if options.foreground else 0


def _nodes(lab: Lab) -> str:
    real = lab.description.real_nodes
    return f"{lab.description.nodes} nodes" + (f" and {real} real nodes" if real else "")


def _stay(lab: Lab) -> int:
    try:
        while all(record.alive for record in lab.processes.records()):
            time.sleep(0.5)
        ended = [record.name for record in lab.processes.records() if not record.alive]
        print(f"lab: {', '.join(ended)} ended:\n{lab.processes.tail(ended[0])}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        lab.down()


def run_status(arguments: argparse.Namespace) -> int:
    """`lab status`."""
    lab = Lab.load(state_dir(arguments))
    description, found = lab.description, lab.status()
    print(
        f"lab {description.name}: Kubernetes {description.kubernetes}, {_nodes(lab)}, "
        f"{description.server}, {lab.state_dir}"
    )
    for part in found:
        print(
            f"  {part.name:<26}{'running' if part.alive else 'not running':<13}pid {part.pid:<9}"
            f"{part.rss / 2**20:6.0f} MiB"
        )
    for node, kinds in lab.faults().items():
        print(f"  {node:<26}faults: {', '.join(sorted(kinds))}")
    ready = True
    try:
        lab.api.ready()
    except LabError as error:
        ready = False
        print(f"  {error}")
    print(f"  API server {'ready' if ready else 'not ready'}")
    return 0 if ready and all(part.alive for part in found) else 3


def run_fault(arguments: argparse.Namespace) -> int:
    """`lab fault`."""
    lab = Lab.load(state_dir(arguments))
    on = lab.switch_fault(arguments.node, arguments.kind, arguments.switch == "on")
    print(f"{arguments.node}: faults on: {', '.join(sorted(on)) or 'none'}")
    return 0


def run_env(arguments: argparse.Namespace) -> int:
    """`lab env`."""
    print(f"export KUBECONFIG={shlex.quote(str(Lab.load(state_dir(arguments)).kubeconfig))}")
    return 0


def run_logs(arguments: argparse.Namespace) -> int:
    """`lab logs`."""
    lab = Lab.load(state_dir(arguments))
    names = [arguments.component] if arguments.component else [part.name for part in lab.status()]
    for name in names:
        print(f"==> {lab.log(name)} <==\n{lab.processes.tail(name, arguments.lines)}")
    return 0


def run_down(arguments: argparse.Namespace) -> int:
    """`lab down`: also succeed if no lab is up, so that it can be repeated."""
    folder = state_dir(arguments)
    # Also remove what real nodes of a killed lab have left on this machine.
    Ledger().sweep()
    if not folder.exists():
        print(f"no lab in {folder}")
        return 0
    Lab.load(folder).down()
    print(f"lab in {folder} is down")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit status: 1 for an error with an explanation, 130 after
    Ctrl-C."""
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
