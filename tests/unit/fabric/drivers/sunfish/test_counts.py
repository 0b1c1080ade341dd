# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sunfish without agents, without sockets: numbers of GPUs for machines that are told by their names."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.sunfish.counts import Counts
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    ROOT,
    SYSTEMS,
    UUIDS,
    FakeService,
    Json,
    Reaction,
    collection,
    ref,
)


def machines(**gpus: list[str]) -> Json:
    """Systems by name, with GPUs."""
    documents: Json = {ROOT: {"@odata.id": f"{ROOT}/", "Systems": ref(SYSTEMS)}, SYSTEMS: collection(SYSTEMS, gpus)}
    for name, found in gpus.items():
        processors = f"{SYSTEMS}/{name}/Processors"
        documents[f"{SYSTEMS}/{name}"] = {"@odata.id": f"{SYSTEMS}/{name}", "Id": name, "Name": name,
                                          "UUID": UUIDS[name], "Processors": ref(processors)}
        documents[processors] = collection(processors, found)
        documents |= {f"{processors}/{gpu}": {
            "@odata.id": f"{processors}/{gpu}", "@odata.type": "#Processor.v1_0_0.Processor", "Id": gpu,
            "ProcessorType": "GPU", "Model": "A100", "Status": {"Health": "OK"}} for gpu in found}
    return documents


def counts(documents: Json, react: Reaction, **options: t.Any) -> tuple[Counts, FakeService]:
    config = FabricConfig(manager="sunfish", endpoint="http://x.example", auth="none", **options)
    found, fake = Counts(config), FakeService(documents, react)
    found._session, found._service = fake.as_session(), Service(fake.as_session())
    return found, fake


@pytest.mark.parametrize("then", [Refused("no"), Missing("what"), Unauthorized("who"), Unavailable("away")])
def test_after_a_lost_reply_a_failed_repeat_does_not_say_that_nothing_was_done(then: FabricError) -> None:
    answers: list[FabricError] = [Uncertain("no reply"), then]

    def react(fake: FakeService, call: Request) -> JsonResponse:
        raise answers.pop(0)

    found, _fake = counts(machines(m0=[]), react)
    with pytest.raises(Uncertain, match="no reply"):
        found.attach(UUIDS["m0"], "A100")
    assert answers == []


def test_repeats_after_lost_replies_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Request] = []
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def react(fake: FakeService, call: Request) -> JsonResponse:
        sent.append(call)
        clock[0] += call.timeout or 0.0  # as long as the client waits
        raise Uncertain("no reply")

    found, _fake = counts(machines(m0=[]), react, attach_timeout=5.0)
    with pytest.raises(Uncertain, match="no reply"):
        found.attach(UUIDS["m0"], "A100")
    assert [call.timeout for call in sent] == [5.0]


@pytest.mark.parametrize("name", ["m0", None])
def test_a_machine_whose_name_is_not_its_own_gets_no_number(name: str | None) -> None:
    def never(fake: FakeService, call: Request) -> JsonResponse:
        raise AssertionError(call)

    documents = machines(m0=["a1", "a2"], m1=["b1"])
    documents[f"{SYSTEMS}/m1"]["Name"] = name
    found, _fake = counts(documents, never)
    with pytest.raises(Refused, match="Give each machine its own name"):
        found.detach(UUIDS["m1"], f"{SYSTEMS}/m1/Processors/b1")
    with pytest.raises(Refused, match="Give each machine its own name"):
        found.attach(UUIDS["m1"], "A100")
