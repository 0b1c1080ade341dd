# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords, client secrets and tokens change without a restart, and never show where somebody might read them."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.tests.e2e.support.launch import begin, with_fabric, write_config
from ansible_collections.composable.infra.tests.e2e.support.modules import Json, play
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, PATIENCE, await_served, wait_for

STAGE: dict[str, t.Any] = {"devices": {A100: 2}}
NEW_PASSWORD = "a-renewed-password-of-the-test"
WRONG_PASSWORD, WRONG_SECRET = "a-wrong-password-of-the-test", "a-wrong-secret-of-the-test"
FILES = ("username", "password", "realm", "client_id", "client_secret")
JWT = re.compile(r"eyJ[\w-]+\.eyJ[\w-]+")
KINDS = (CLAIMS, EVENTS, LEASES, NODES, PODS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, SLICES)


@pytest.fixture(scope="module")
def old(stage: Stage) -> dict[str, str]:
    """Credentials from before the password is changed."""
    return dict(stage.emulator.credentials)


def assert_keeps(stage: Stage, old: dict[str, str], text: str) -> None:
    """No secret of the stage is in a text."""
    assert text
    token = yaml.safe_load(stage.kubeconfig.read_text())["users"][0]["user"]["token"]
    secrets = {"password": old["password"], "client secret": old["client_secret"], "kubeconfig's token": token,
               "new password": NEW_PASSWORD, "wrong password": WRONG_PASSWORD, "wrong client secret": WRONG_SECRET}
    assert [name for name, secret in secrets.items() if secret in text] == []
    assert not JWT.search(text), "there is a token in it"


def change_password(stage: Stage, username: str, password: str) -> None:
    """Restart the emulator with another password; tokens of the old one are void."""
    folder = stage.folder / "emulator"
    spec = json.loads((folder / "fabric.json").read_text(encoding="utf-8"))
    user = {"username": username, "password": password}
    (folder / "fabric.json").write_text(json.dumps({**spec, "users": [user]}), encoding="utf-8")
    stage.emulator.restart()
    stage.emulator.set_tokens(revoke=True)


def test_modules_show_no_secret_at_the_highest_verbosity(stage: Stage, old: dict[str, str]) -> None:
    base = stage.emulator.fabric_config()
    machine = machine_uuid("node-0")
    tasks: list[Json] = [
        {"composable.infra.fabric_info": {**base, "models": [A100]}},
        {"composable.infra.fabric_info": {**base, "password": WRONG_PASSWORD}},
        {"composable.infra.fabric_info": {**base, "client_secret": WRONG_SECRET}},
        {"composable.infra.fabric_device": {**base, "machine": machine, "model": A100}, "check_mode": True},
        {"composable.infra.claim_info": {}},
        {"composable.infra.scale": {"timeout": 60}},
    ]
    played = play(stage, tasks, "-vvv", "--diff")
    assert [bool(r.get("failed")) for r in played.results] == [False, True, True, False, False, False]
    assert_keeps(stage, old, json.dumps(played.results))
    # The task's own text is the user's: only what Ansible and the modules print is judged.
    assert_keeps(stage, old, played.output)


def test_configuration_given_inline_shows_no_secret(stage: Stage, old: dict[str, str]) -> None:
    wrong = with_fabric(stage, password=WRONG_PASSWORD)
    tasks: list[Json] = [{"composable.infra.claim_info": {"config": stage.config()}},
                         {"composable.infra.scale": {"config": wrong, "ready_timeout": 1}}]
    played = play(stage, tasks, "-vvv")
    assert [bool(r.get("failed")) for r in played.results] == [False, True]
    assert "Invalid user credentials" in played.results[1]["msg"]
    assert_keeps(stage, old, json.dumps(played.results))
    assert_keeps(stage, old, played.output)


def test_password_changes_while_the_controller_runs(stage: Stage, old: dict[str, str], timeline: Timeline) -> None:
    """The identity service gets another password first, the mounted Secret later."""
    folder = stage.folder / "credentials"
    folder.mkdir()
    for key in FILES:
        (folder / key).write_text(old[key], encoding="utf-8")
    mounted = with_fabric(stage, **dict.fromkeys(FILES), credentials_dir=str(folder))
    controller = begin(stage, "mounted", "--log-level", "debug", config=write_config(stage, "mounted", mounted))
    controller.wait_for("leading as", PATIENCE)
    stage.pod("before", A100)
    await_served(stage, timeline, "before")
    change_password(stage, old["username"], NEW_PASSWORD)
    controller.wait_for("Check username, password", PATIENCE)
    stage.pod("locked", A100)
    controller.wait_for("AttachFailed", PATIENCE)
    (folder / "password").write_text(NEW_PASSWORD, encoding="utf-8")
    await_served(stage, timeline, "locked")
    wait_for("it says that this is over", lambda: "Recovered fabric" in controller.text())
    objects = json.dumps([stage.client.list(kind).items for kind in KINDS])
    assert OPENED.stop(controller) == 0
    assert "Traceback" not in controller.text()
    assert_keeps(stage, old, controller.text())
    assert_keeps(stage, old, objects)
