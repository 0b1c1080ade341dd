# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo``: three pods wait for GPUs, get them, one ends and its GPU goes back to the pool."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.composable.infra.controller.signals import asked_to_stop
from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, RELEASES, find_release
from ansible_collections.composable.infra.lab.control_plane.bootstrap import serves_policies
from ansible_collections.composable.infra.lab.demo import autoscale, front_doors, queued
from ansible_collections.composable.infra.lab.demo.autoscale import Autoscaled
from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.picture import show
from ansible_collections.composable.infra.lab.demo.queued import Queued
from ansible_collections.composable.infra.lab.demo.report import table
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, H100, WORK, Stage, StageOptions
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import HANDOVERS

PODS = {"train": (A100, 1), "infer": (H100, 1), "big": (A100, 2)}
OTHER, AGAIN = "ungated", "again"
Running = front_doors.Process | Installed | Autoscaled | Queued
HOLD = 3.0


class Demo:
    """A run of the demo. Every step waits for a condition, with a limit."""

    def __init__(self, front_door: str, mode: str, fabric_seconds: float, kubernetes: str = DEFAULT_SERIES,
                 feature_gates: bool = True, *, real: bool = False,
                 svg: Path | None = None, verbose: bool = False) -> None:
        self.verbose = verbose
        self.front_door, self.mode, self.real, self.began = front_door, mode, real, time.monotonic()
        asked, queue = mode == autoscale.MODE, mode == queued.MODE
        devices = autoscale.DEVICES if asked else queued.DEVICES if queue else {A100: 3, H100: 1}
        self.options = StageOptions(nodes=0 if real else 2, real_nodes=2 if real else 0, devices=devices,
                                    attach=fabric_seconds, hold=autoscale.HOLD if asked else HOLD, scan_interval=1.0,
                                    handover="reschedule" if asked else "gated" if queue else mode,
                                    kubernetes=kubernetes, feature_gates=feature_gates,
                                    extra=queued.EXTRA if queue else {})
        self.failed, self.page, self.svg = False, "", svg

    def say(self, who: str, what: str) -> None:
        """Print a line with the time since the start."""
        # One write for text and end of the line, because several threads report.
        print(f"{time.monotonic() - self.began:6.2f} s  {who:<10} {what}\n", end="", flush=True)

    def run(self, keep: bool) -> int:
        """Run the demo. Return 0 if every pod ran and the GPU was returned."""
        with Stage(self.options, say=lambda line: self.say("lab", line)) as stage:
            nodes = f"{len(stage.lab.nodes)} nodes"
            if self.real:
                nodes = f"{len(stage.lab.real_nodes)} nodes, each with a kubelet and a containerd,"
            self.say("lab", f"Kubernetes {stage.lab.description.kubernetes} with {nodes} is up")
            devices = ", ".join(f"{count} x {model}" for model, count in self.options.devices.items())
            self.say("emulator", f"CDI Manager at {stage.emulator.url}: {devices} free, "
                                 f"an attach takes {self.options.attach:g} s (simulated)")
            timeline = Timeline(stage, self.say, verbose=self.verbose)
            try:
                process = self._open(stage, timeline)
                if isinstance(process, (Autoscaled, Queued)):
                    process.flow(self._expect, lambda: free(stage))
                else:
                    self._flow(stage, timeline)
                self._close(stage, timeline, keep, process)
            finally:
                timeline.stop()
                if process is not None:
                    process.stop()
        return int(self.failed)

    def _open(self, stage: Stage, timeline: Timeline) -> Running | None:
        if self.mode == autoscale.MODE:
            self.say("controller", "starts scaler, operator and the provider of Cluster Autoscaler, and no publisher")
            autoscaled = Autoscaled(stage, timeline, self.say)
            self._show_page(autoscaled.page)
            return autoscaled
        if self.mode == queued.MODE:
            self.say("controller", "starts, and serves ProvisioningRequests. A stand-in for Kueue has the queue")
            queue = Queued(stage, self.say)
            self._show_page(queue.page)
            return queue
        if self.real:
            self.say("role", "composable.infra.controllers installs the controllers and the node agents")
            installed = Installed(stage)
            self.say("role", "a Deployment and a DaemonSet are ready (their image is a stand-in)")
            return installed
        self.say(self.front_door, "starts")
        if self.front_door == "playbook":
            self._play(stage)
            return None
        if self.front_door == "rulebook":
            return front_doors.rulebook(stage)
        process = front_doors.controller(stage, "--ui", "read-only")
        self._show_page(front_doors.page_address(process))
        return process

    def _show_page(self, page: str) -> None:
        self.page = page
        self.say("controller", f"shows the fabric live at {page}")

    def _play(self, stage: Stage) -> None:
        process = front_doors.playbook(stage)
        code = process.process.wait()
        self.say("playbook", "composable.infra.attach ended" if code == 0 else f"failed:\n{process.text()[-3000:]}")
        self.failed = self.failed or code != 0
        process.stop()

    def _flow(self, stage: Stage, timeline: Timeline) -> None:
        if stage.pooled:
            self._expect("pools are published", lambda: bool(pools(stage)), 30)
        for name, (model, count) in PODS.items():
            self.say("user", f"creates pod {name}, which asks for {count} x {model}")
            stage.pod(name, model, count)
        if self.front_door == "playbook":
            self._play(stage)
        with timeline.changed:
            pass
        ran = timeline.wait(lambda: timeline.running(*PODS), 60)
        self._expect("all pods run", lambda: ran, 0)
        if self.real:
            self._show_containers(stage)
        self.say("user", "deletes pod train")
        stage.delete_pod("train")
        if self.front_door == "playbook":
            self._play(stage)  # the first run begins the hold time, the second returns it
            self._expect("idle for the hold time", self._hold_over, HOLD + 2)
            self._play(stage)
        self._expect("its GPU is back in the pool", lambda: free(stage) == 1, 30)
        # no pod stays gated between runs of the playbook, so all pods took pool devices
        if self.mode == "direct" and self.front_door != "playbook":
            self._at_once(stage, timeline)
        if self.mode == "gated" and stage.pooled and self.front_door != "playbook":
            self._other_way(stage, timeline)

    def _other_way(self, stage: Stage, timeline: Timeline) -> None:
        """Create a pod without the gate, so that the table shows both handovers."""
        self.say("user", f"creates pod {OTHER} with the label composable.infra/gated=false: it takes the pool's way")
        stage.pod(OTHER, A100, gated=False)
        ran = timeline.wait(lambda: timeline.running(OTHER), 60)
        self._expect(f"pod {OTHER} runs", lambda: ran, 0)

    def _at_once(self, stage: Stage, timeline: Timeline) -> None:
        """Create a pod for an idle attached device. It needs no attach, and the scheduler waits for
        nothing."""
        node = timeline.claims["infer"].node
        stage.delete_pod("infer")
        # The pool still shows devices of claim infer for a moment, and the scheduler may take them.
        self._expect(f"the device of pod infer is idle on {node}",
                     lambda: local(stage, node) == 1 and not in_pools(stage, H100), 30)
        self.say("user", f"creates pod {AGAIN}, which asks for 1 x {H100}")
        stage.pod(AGAIN, H100)
        ran = timeline.wait(lambda: timeline.running(AGAIN), 30)
        self._expect(f"pod {AGAIN} runs", lambda: ran, 0)

    def _show_containers(self, stage: Stage) -> None:
        """Print the output of each container, with and without devices."""
        for name in PODS:
            for container in (WORK, BESIDE):
                said = stage.first_line(name, container)
                self.failed = self.failed or not said
                self.say(name, f"container {container} prints: {said or 'FAILED: nothing'}")

    def _hold_over(self) -> bool:
        self._idle_since = getattr(self, "_idle_since", time.monotonic())
        return time.monotonic() - self._idle_since > HOLD

    def _expect(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                self.failed = True
                self.say("demo", f"FAILED: not within {seconds:g} s: {what}")
                return
            time.sleep(0.05)
        self.say("demo", what)

    def _close(self, stage: Stage, timeline: Timeline, keep: bool, process: Running | None) -> None:
        claims = [c for c in timeline.finish() if c.name in (*PODS, OTHER, AGAIN)]
        if claims:
            print("\n" + table(claims, verbose=self.verbose))
            show(claims, self.svg)
        if self.failed and process is not None:
            print(f"The end of the log of {process.name}:\n{process.text()[-4000:]}")
        print("To read more: docs/quickstart.md, docs/architecture.md")
        if not keep:
            page = ", with the page that shows it live" if self.page else ""
            print(f"KEEP=1 leaves everything running{page}. VERBOSE=1 prints each step on a node")
        if keep:
            self._keep(stage)

    def _keep(self, stage: Stage) -> None:
        page = f"  the page, live: {self.page}\n" if self.page else ""
        print(f"\nStill running until Ctrl-C:\n{page}  export KUBECONFIG={stage.lab.kubeconfig}\n"
              f"  controller's kubeconfig {stage.kubeconfig}, config {stage.config_path}\n"
              f"  emulator {stage.emulator.url}/ (certificate authority {stage.emulator.ca_path})", flush=True)
        asked_to_stop().wait()


def pools(stage: Stage) -> list[str]:
    """Return the names of published pools."""
    return [s["spec"]["pool"]["name"] for s in stage.client.list(SLICES).items if not s["spec"].get("nodeName")]


def local(stage: Stage, node: str) -> int:
    """Return the number of devices in a node's own slices."""
    return sum(len(s["spec"].get("devices") or ()) for s in stage.client.list(SLICES).items
               if s["spec"].get("nodeName") == node)


def in_pools(stage: Stage, model: str) -> int:
    """Return the number of a model's devices in its pools."""
    return sum(len(s["spec"].get("devices") or ()) for s in stage.client.list(SLICES).items
               if not s["spec"].get("nodeName") and s["spec"]["pool"]["name"].startswith(model.lower()))


def free(stage: Stage) -> int:
    """Return the number of free devices at the emulated CDI Manager."""
    return sum(d["state"] == "free" for d in stage.emulator.state()["devices"])


def check(args: argparse.Namespace) -> None:
    """Raise LabError for options that cannot be combined."""
    if args.mode in (autoscale.MODE, queued.MODE):
        check_simulated(args)
    if args.nodes == "simulated":
        return
    if args.front_door != "controller":
        raise LabError(f"--door {args.front_door} is not usable with --nodes real: only the controller runs in pods")
    if not serves_policies(find_release(args.kubernetes)):
        raise LabError(f"--kubernetes {args.kubernetes} is not usable with --nodes real: the stand-in of the image "
                       "needs 1.36 or later")


def check_simulated(args: argparse.Namespace) -> None:
    """Raise LabError for options that the modes autoscale and kueue do not support."""
    for option, value, allowed in (("--door", args.front_door, "controller"), ("--nodes", args.nodes, "simulated")):
        if value != allowed:
            raise LabError(f"{option} {value} is not usable with --mode {args.mode}: it must be {allowed}")
    if not serves_policies(find_release(args.kubernetes)):
        raise LabError(f"--kubernetes {args.kubernetes} is not usable with --mode {args.mode}: it "
                       "needs 1.36 or later")


def main() -> int:
    """Run the command line."""
    it = argparse.ArgumentParser(prog="demo", description=__doc__)
    it.add_argument("--front-door", "--door", dest="front_door", choices=("controller", "rulebook", "playbook"),
                    default="controller", help="which front door does the work (default: %(default)s)")
    it.add_argument("--mode", choices=(*HANDOVERS, autoscale.MODE, queued.MODE), default="gated",
                    help="handover, or autoscale: Cluster Autoscaler asks for a node, or kueue: Jobs wait in a queue "
                         "(default: %(default)s)")
    it.add_argument("--nodes", choices=("simulated", "real"), default="simulated",
                    help="nodes with a kubelet of their own need root on Linux (default: %(default)s)")
    it.add_argument("--attach", type=float, default=2.0, metavar="SECONDS", help="simulated attach time (default: 2)")
    it.add_argument("--kubernetes", default=DEFAULT_SERIES, metavar="VERSION",
                    help=f"{', '.join(RELEASES)} (default: %(default)s)")
    it.add_argument("--no-feature-gates", dest="feature_gates", action="store_false",
                    help="leave every feature gate as the release has it (before 1.36: no way through the pool)")
    it.add_argument("--svg", type=Path, metavar="FILE", help="write the timelines as a picture, too")
    it.add_argument("--verbose", action="store_true", help="print each step on a node, too")
    it.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    args = it.parse_args()
    try:
        check(args)
        demo = Demo(args.front_door, args.mode, args.attach, args.kubernetes, args.feature_gates,
                    real=args.nodes == "real", svg=args.svg, verbose=args.verbose)
        return demo.run(args.keep)
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: stopped, everything is taken down", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
