# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate of the CDI Manager expires, and a new one replaces it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import certificates
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.tests.chaos.models import cdi_manager
from ansible_collections.composable.infra.tests.integration.fabric.scripted import (
    ScriptedManager,
    login,
)
from ansible_collections.composable.infra.tests.stories.ground import telling


@contextmanager
def expired_manager(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedManager]:
    """Start a CDI Manager with real TLS and a certificate that expired yesterday."""
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "_EARLIER", datetime.timedelta(days=30))
        patch.setattr(certificates, "_DAYS", -1)
        certificates.make(folder, [])
    manager = ScriptedManager(folder, login)
    try:
        yield manager
    finally:
        manager.close()


def sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the message of the shipped client about an expired certificate."""
    with expired_manager(folder, monkeypatch) as manager:
        fabric = connect(FabricConfig.from_dict(manager.options()))
        try:
            with pytest.raises(Unavailable) as caught:
                fabric.machines()
            assert manager.asked == [], "no login is sent to a manager that cannot prove who it is"
        finally:
            fabric.close()
    assert caught.value.code == "certificate"
    return str(caught.value)


def test_pods_keep_their_devices_until_the_certificate_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = sentence(tmp_path, monkeypatch)
    assert "certificate has expired" in said
    with telling() as story:
        # A pod computes, and another pod is needed when the certificate expires.
        story.start("train")
        asked = len(story.world.manager.log)

        def refuse(driver: cdi_manager.Driver) -> None:
            raise Unavailable(said, code="certificate")

        monkeypatch.setattr(cdi_manager.Driver, "_way", refuse)
        monkeypatch.setattr(cdi_manager.Driver, "_sent", lambda driver, what: refuse(driver))
        story.submit("second")

        # The administrator gets a report within a poll or two (alert ComposableManagerDown).
        took = story.wait("the problem is reported", story.problems)
        assert took <= 3 * story.world.scenario.scan
        assert any("certificate has expired" in problem for problem in story.problems())

        # Running pods are not affected, and the CDI Manager gets no request.
        story.let_pass(60.0)
        assert story.runs("train")
        assert len(story.world.manager.log) == asked

        # The administrator renews the certificate. No restart is needed.
        monkeypatch.undo()
        story.wait("the problem is over", lambda: not story.problems())
        story.start("third")
        assert story.runs("train")
