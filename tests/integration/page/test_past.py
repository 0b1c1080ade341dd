# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page says of the past: Events, log lines, what happened, and the commands that help now."""

from __future__ import annotations

import time

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import EVENTS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.tests.browser.window import Browser
from ansible_collections.composable.infra.tests.integration.page.shown import Json, Shown
from ansible_collections.composable.infra.tests.unit.reconcile import objects


def logged(about: str, reason: str, message: str, kind: str = "Normal", claims: tuple[str, ...] = ()) -> Json:
    """An entry as the reporter of the controllers keeps it."""
    return {"time": time.time(), "reason": reason, "about": about, "message": message, "type": kind,
            "claims": list(claims)}


def more(shown: Shown) -> None:
    """A claim waits."""
    shown.reasons["default/more"] = WaitReason("default/more", "1 x A100 40G", time.time())
    shown.put(objects.claim("more"))


def test_details_have_events_and_the_last_log_lines(browser: Browser, shown: Shown) -> None:
    shown.api.paths[EVENTS.path(namespace="default")] = {"items": [
        {"type": "Warning", "reason": "FailedScheduling", "message": "0/2 nodes are available",
         "involvedObject": {"kind": "Pod"}, "lastTimestamp": format_time(time.time()), "count": 3,
         "source": {"component": "default-scheduler"}}]}
    shown.history.append(logged("default/more", "PodHeld", "waits for devices", claims=("default/more",)))
    more(shown)
    browser.click("#queue-body button")
    browser.until(lambda: "Pod FailedScheduling × 3 0/2 nodes are available (default-scheduler)"
                  in browser.text("#records"))
    assert "PodHeld default/more: waits for devices" in browser.text("#records")
    assert browser.violations() == []


def test_without_the_permission_it_says_what_to_apply(browser: Browser, shown: Shown) -> None:
    shown.api.paths[EVENTS.path(namespace="default")] = Forbidden(403, "Forbidden", "cannot list events")
    browser.click("#rows button.node")
    browser.until(lambda: "deploy/ui/rbac.yaml" in browser.text("#records"))


def commands(browser: Browser) -> list[str]:
    """Those of the details."""
    return [each.text for each in browser.all("#story .command code")]


def test_details_have_the_commands_that_help_now(browser: Browser, shown: Shown) -> None:
    browser.click("#rows button.node")
    browser.until(lambda: commands(browser))
    assert commands(browser)[0] == ("ansible-playbook composable.infra.detach -e composable_config_path=config.yml "
                                    "-e composable_detach_nodes=node-0 --check")
    assert "kubectl describe node node-0" in commands(browser)
    assert "read-only" in browser.text("#story")
    broken = shown.resource(0, 0)
    broken["status"]["error"] = "the device fell off the bus"
    shown.put(broken)
    more(shown)
    browser.click('#troubles [data-key="device/gpu-0-0"]')
    browser.until(lambda: any("node-agent" in each for each in commands(browser)))
    assert not any("detach" in each for each in commands(browser)), "a faulty device is no idle one"
    browser.one("#story-close").click()
    browser.click("#queue-body button")
    browser.until(lambda: "kubectl logs more -n default --all-containers --tail=50" in commands(browser))
    assert commands(browser)[0].startswith("ansible-playbook composable.infra.plan ")


def what_happened(browser: Browser) -> list[list[str]]:
    """The rows of the table, without their times."""
    browser.script("composable.audit.read()")
    rows = browser.all("#audit-body tbody tr")
    return [[cell.text for cell in row.find_elements("css selector", "td")] for row in rows]


def test_what_happened_has_devices_that_are_gone(browser: Browser, shown: Shown) -> None:
    new = objects.resource("gpu-new", state="Attaching", created=0)
    shown.put(new)
    online = objects.resource("gpu-new", device="d", serial="GPU-new", state="Online", created=0)
    shown.put(online)
    browser.until(lambda: [row[0].split()[-1] for row in what_happened(browser)] == ["attached", "requested"])
    shown.history.append(logged("gpu-new", "Releasing", "its hold time has ended"))
    shown.gone(online)
    browser.until(lambda: [row[0].split()[-1] for row in what_happened(browser)] == [
        "returned", "attached", "requested"])
    first = what_happened(browser)[0]
    assert (first[2], first[4], first[5]) == ("GPU-new", "node-0", "its hold time has ended")
    assert browser.violations() == []


def test_what_was_refused_says_to_whom_and_why(browser: Browser, shown: Shown) -> None:
    shown.history.append(logged("mine/train", "GateReleased", "no model of device_info satisfies it",
                                claims=("mine/train",)))
    browser.until(lambda: what_happened(browser))
    assert what_happened(browser)[0] == ["✕ refused", "mine/train", "", "", "", "no model of device_info satisfies it"]
    browser.one("#search").send_keys("nothing of this")
    browser.until(lambda: "No entry matches" in browser.text("#audit-body"))


def test_what_a_claim_waits_for_is_said_beside_its_commands(browser: Browser, shown: Shown) -> None:
    more(shown)
    browser.click("#queue-body button")
    browser.until(lambda: "waits for 1 x A100 40G" in browser.text("#story dl"))
