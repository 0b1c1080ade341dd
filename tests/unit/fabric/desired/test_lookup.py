# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was named is found; what is not there, or is there twice, is answered with what there is."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import lookup
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration, Missing, Refused
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import ABLE, A, B, FakeManager, devices

NAMED = [Machine("u1", "node-0", 1), Machine("u2", "node-1", 1), Machine("u3", "twin", 1), Machine("u4", "twin", 2)]


@pytest.mark.parametrize(("wanted", "uid"), [("u1", "u1"), ("node-1", "u2"), ("u4", "u4")])
def test_machine_by_uid_or_name(wanted: str, uid: str) -> None:
    assert lookup.pick(NAMED, wanted).uid == uid


def test_uid_comes_before_a_name_that_looks_like_it() -> None:
    assert lookup.pick([Machine("x", "u1", 1), Machine("u1", "x", 1)], "u1").uid == "u1"


def test_unknown_machine_names_option_value_and_what_there_is() -> None:
    with pytest.raises(Missing, match=r"^attachments\[2\]\.machine: the CDI Manager knows no machine node-9. Allowed "
                       r"are node-0 \(u1\), node-1 \(u2\), twin \(u3\), twin \(u4\)$"):
        lookup.pick(NAMED, "node-9", "attachments[2].machine")


def test_name_of_several_machines_asks_for_a_uid() -> None:
    with pytest.raises(BadConfiguration, match=r"machine: 'twin' is not allowed\. 2 machines have this name\. "
                       r"Give the uid of one: u3, u4"):
        lookup.pick(NAMED, "twin")


def test_of_many_only_some_are_named() -> None:
    assert lookup.several(str(n) for n in range(2000)).endswith("6, 7 and 1992 more")
    assert lookup.several([]) == "none, there are none"


def test_uid_costs_one_question_and_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeManager.of({"node-0": 1})
    assert lookup.machine(fake, "node-0").uid == "uid-node-0"
    monkeypatch.setattr(fake, "machine", lambda uid: Machine(uid, "x", 1))
    monkeypatch.setattr(fake, "machines", None)
    assert lookup.machine(fake, "u").uid == "u"


EXHAUSTED = Refused("insufficient", exhausted=True)


def test_refusal_stays_where_free_devices_are_not_listed() -> None:
    assert lookup.not_enough(FakeManager.of({"n": 1}), "A100", EXHAUSTED) is EXHAUSTED


@pytest.mark.parametrize(("model", "said"), [
    ("A100", "model: 'A100' is not allowed. It may mean A100 40G, A100 80G. Give the whole name"),
    ("40g", "model: '40g' is not allowed. Allowed are A100 40G"),
    ("H100", "model: 'H100' is not allowed. Allowed are A100 40G, A100 80G")])
def test_model_that_the_fabric_does_not_have(model: str, said: str) -> None:
    fake = FakeManager.of({"n": 1}, devices(A, 1), devices(B, 1), able=dataclasses.replace(ABLE, lists_free=True))
    assert str(lookup.not_enough(fake, model, EXHAUSTED)) == said
    assert lookup.not_enough(fake, A, EXHAUSTED) is EXHAUSTED
