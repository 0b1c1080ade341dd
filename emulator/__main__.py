# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: ``python -m ansible_collections.composable.infra.emulator up|check|status|fault|log|down``."""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

from .faults import command as fault_command
from .pool.fabric_spec import FabricSpec
from .pool.fields import SpecError
from .process import START_SECONDS, STOP_SECONDS, EmulatorError, ask_admin
from .state_dir import OtherFabric, StateDir, Taken

DEFAULT_STATE_DIR: t.Final = "~/.local/state/composable-infra/emulator"


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Return the exit status, 0 for success and 1 for failure."""
    options = _parser().parse_args(arguments)
    state = StateDir(Path(options.state_dir).expanduser().resolve())
    try:
        return t.cast(int, options.work(options, state))
    except (SpecError, EmulatorError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    except ModuleNotFoundError as error:
        print(f"error: the Python package {error.name} is missing. Install it with: {sys.executable} -m pip install "
              f"{error.name}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emulator",
        description="Emulate CDI Managers as stateful servers over one pool of devices, with faults on request.",
        epilog="A fabric is a YAML document. The head of emulator/pool/fabric_spec.py shows all of it.",
    )
    commands = parser.add_subparsers(required=True, metavar="up|check|status|fault|log|down")
    up = commands.add_parser("up", help="start the emulator in the foreground, or in the background with --detach")
    up.add_argument("--fabric", metavar="FILE", help="YAML file with the fabric (default: the fabric of the last run)")
    up.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    up.add_argument("--port", type=int, default=0, help="port (default: the port of the last run, or a free port)")
    up.add_argument("--plain-port", type=int, default=0,
                    help="port for managers that use http, which are nec and sunfish (default: as for --port)")
    up.add_argument("--detach", action="store_true", help="run in the background")
    up.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    up.add_argument("--parent-fd", type=int, help=argparse.SUPPRESS)
    up.set_defaults(work=_up)
    check = commands.add_parser("check", help="check the fabric, and whether an emulator can run it, without a start")
    check.add_argument("--fabric", metavar="FILE",
                       help="YAML file with the fabric (default: the fabric of the last run)")
    check.set_defaults(work=_check)
    commands.add_parser("status", help="print the emulator's addresses and its free devices").set_defaults(work=_status)
    fault_command.add_to(commands)
    log = commands.add_parser("log", help="print the requests with their times and effects")
    log.add_argument("--since", type=int, default=0, metavar="N", help="print only requests with a number above N")
    log.set_defaults(work=_log)
    commands.add_parser("down", help="stop the emulator and keep its state").set_defaults(work=_down)
    for command in commands.choices.values():
        command.add_argument("--state-dir", metavar="DIR", default=DEFAULT_STATE_DIR,
                             help="folder of the emulator's state (default: %(default)s)")
    return parser


def _up(options: argparse.Namespace, state: StateDir) -> int:
    if running := state.pid():
        raise Taken(f"an emulator already runs in {state.path} as process {running}: {state.endpoint()}")
    state.prepare()
    spec = _fabric(options.fabric, state)
    if options.detach:
        return _detached(options, state)
    from .server import Options, run

    fds = {"ready_fd": options.ready_fd, "parent_fd": options.parent_fd}
    run(Options(spec, state, options.host, options.port, options.plain_port, **fds))
    return 0


def _check(options: argparse.Namespace, state: StateDir) -> int:
    from .server import DIALECTS

    spec = FabricSpec.load(Path(options.fabric)) if options.fabric else state.fabric()
    if options.fabric and (running := state.pid()) and not state.keeps(_document(options.fabric)):
        raise OtherFabric(f"an emulator with another fabric runs in {state.path} as process {running}. Stop it first")
    names = ", ".join(sorted(spec.managers, key=[*DIALECTS, *spec.managers].index))
    print(f"machines: {len(spec.machines)}, devices: {len(spec.devices)}, CDI Managers: {names}")
    return 0


def _document(path: str) -> t.Any:
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def _fabric(path: str | None, state: StateDir) -> FabricSpec:
    if path is None:
        return state.fabric()
    spec = FabricSpec.load(Path(path))
    state.keep_fabric(_document(path))
    return spec


def _detached(options: argparse.Namespace, state: StateDir) -> int:
    ready, tell = os.pipe()
    command = [
        sys.executable, "-m", f"{__package__}", "up", "--state-dir", str(state.path), "--host", options.host,
        "--port", str(options.port), "--plain-port", str(options.plain_port), "--ready-fd", str(tell),
    ]
    log = state.file("output.log")
    with log.open("wb") as output:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(tell,), start_new_session=True
        )
    os.close(tell)
    found, _unused, _unused = select.select([ready], [], [], START_SECONDS)
    if not (found and os.read(ready, 16)):
        raise EmulatorError(f"the emulator did not start: {log.read_text(encoding='utf-8').strip()}")
    print(log.read_text(encoding="utf-8"), end="")
    return 0


def _status(options: argparse.Namespace, state: StateDir) -> int:
    pid = state.pid()
    if pid is None:
        print(f"no emulator runs in {state.path}")
        return 1
    pool = ask_admin(state.endpoint() or "", state.trust(), "/admin/state")
    faults = ask_admin(state.endpoint() or "", state.trust(), "/admin/faults")
    plain = state.endpoint(plain=True)
    print(f"process {pid} at {state.endpoint()}" + (f" and {plain}" if plain else ""))
    for model in pool["models"]:
        states = [device["state"] for device in pool["devices"] if device["model"] == model]
        print(f"{model}: {states.count('free')} of {len(states)} free")
    for rule in faults["rules"]:
        print(f"fault {fault_command.words(rule)}")
    return 0


def _log(options: argparse.Namespace, state: StateDir) -> int:
    found = ask_admin(state.endpoint() or "", state.trust(), f"/admin/log?since={options.since}")
    for entry in found:
        took = f"{entry['time_replied'] - entry['time_received']:.3f} s" if entry["time_replied"] else "no reply"
        words = [entry["time_received"], entry["method"], entry["path"], entry["status"], took]
        faults = f"faults: {', '.join(entry['faults'])}" if entry["faults"] else None
        print(entry["n"], *words, *(word for word in (faults, entry["effect"]) if word))
    return 0


def _down(options: argparse.Namespace, state: StateDir) -> int:
    pid = state.pid()
    if pid is None:
        print(f"no emulator runs in {state.path}")
        return 0
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], STOP_SECONDS)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)
    return 0


if __name__ == "__main__":
    sys.exit(main())
