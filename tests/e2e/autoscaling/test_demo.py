# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=autoscale`` as a user starts it, with the stand-in: devices come by a call and go by the next."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ansible_collections.composable.infra.lab.autoscaling.processes import VARIABLE

pytestmark = pytest.mark.e2e
PACKAGE = "ansible_collections.composable.infra"
LIMIT = 600.0


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints; it must end well."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", f"{PACKAGE}.lab.demo", "--mode", "autoscale", "--svg", str(folder / "demo.svg")]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "<svg" in (folder / "demo.svg").read_text(encoding="utf-8")
    return done.stdout


def moments(printed: str, *texts: str) -> list[int]:
    """Where each text is first printed."""
    assert [text for text in texts if text not in printed] == [], printed
    return [printed.index(text) for text in texts]


def test_it_tells_the_way_of_the_devices_in_its_order(printed: str) -> None:
    order = moments(printed, "controller shows the fabric live at http",
                    "user       creates pod train, which asks for 1 x nvidia.com/gpu",
                    "provider   AttachDecided pod default/train", "train      pod runs on node-", "all pods run",
                    "user       deletes pods", "the devices are back in the fabric",
                    "the nodes stay, and Cluster Autoscaler is told")
    assert order == sorted(order)
    after = printed[order[5]:order[6]]
    assert "provider   IdleDevicesReturn node node-" in after, "that the node is not needed is what returns them"
    assert "FAILED" not in printed


def test_it_says_who_asks(printed: str) -> None:
    assert ("a stand-in for Cluster Autoscaler asks" in printed) != ("cluster-autoscaler asks the provider" in printed)


@pytest.mark.parametrize(("pod", "devices"), [("train", 1), ("big", 2)])
def test_the_table_has_the_call_and_what_came_of_it(printed: str, pod: str, devices: int) -> None:
    head, rule, *rows = printed[printed.index("claim  "):].splitlines()
    starts = [found.start() for found in re.finditer(r"-+", rule)]
    ends = [found.end() for found in re.finditer(r"-+", rule)]
    names = [head[a:b].strip() for a, b in zip(starts, ends, strict=True)]
    row = next(dict(zip(names, [line[a:b].strip() for a, b in zip(starts, ends, strict=True)], strict=True))
               for line in rows if line.startswith(f"{pod} "))
    assert row["handover"] == "autoscaler"
    seconds = [float(row[name]) for name in ("called", "asked", "attached", "visible", "allocated", "running")]
    assert seconds == sorted(seconds), row
    assert printed.count(f"AttachDecided pod default/{pod}:") == 1, "one decision"
    found = re.search(rf"{pod} +allocated (.+) on node", printed)
    assert found
    assert len(found[1].split(", ")) == devices
