# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module of the fabric, in both forms: check, apply, apply, check. The second time changes nothing, check mode
asks for nothing and says what apply then does."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.tests.integration.modules.conftest import (
    A100,
    L40S,
    Json,
    Play,
    changes,
    mark,
)

NODE_0, NODE_1 = machine_uuid("node-0"), machine_uuid("node-1")
ROOT = Path(__file__).resolve().parents[3]
# A task with an environment of its own is run as a module, any other within Ansible's process.
FORMS = {"in process": {}, "module": {"environment": {"FORM": "module"}}}
# What apply knows and check mode cannot: which devices the manager chooses, and how long it takes.
ONLY_APPLY = ("devices", "seconds", "results", "_ansible_verbose_always")


@dataclass(frozen=True)
class Case:
    """A module with arguments that change something once; ``undo`` brings back what was there before."""

    module: str
    args: Json
    changes: bool = True
    undo: list[Json] = field(default_factory=list)


def _layout(**wanted: dict[str, int]) -> Json:
    return {"fabric_plan": {"layout": wanted}}


EMPTY = _layout(**{"node-0": {}, "node-1": {}, "node-2": {}})
CASES = {
    "info": Case("fabric_info", {"models": [A100, L40S], "gather": ["machines", "devices", "free", "links"]}, False),
    "info with query": Case("fabric_info", {"query": "machines[].name"}, False),
    "attach": Case("fabric_device", {"machine": "node-0", "model": A100, "count": 2}, undo=[EMPTY]),
    "attach many": Case("fabric_device", {"attachments": [
        {"machine": "node-0", "model": A100, "count": 2}, {"machine": "node-0", "model": L40S},
        {"machine": NODE_1, "model": A100}, {"machine": "node-2", "model": L40S, "count": 1}]}, undo=[EMPTY]),
    "exact": Case("fabric_device", {"attachments": [{"machine": "node-0", "model": A100, "count": 2, "exact": True},
                                                    {"machine": "node-1", "model": L40S, "count": 1}]}, undo=[
        {"fabric_device": {"attachments": [{"machine": "node-0", "model": A100, "count": 1, "exact": True},
                                           {"machine": "node-1", "model": L40S, "state": "detached"}]}},
        {"fabric_device": {"machine": "node-0", "model": A100, "state": "detached"}}]),
    "layout": Case("fabric_plan", {"layout": {"node-0": {A100: 2, L40S: 1}, "node-1": {A100: 4}}}, undo=[EMPTY]),
    "layout for all": Case("fabric_plan", {"layout": {"node-2": {L40S: 1}}, "unlisted": "empty"}, undo=[EMPTY]),
    "plan only": Case("fabric_plan", {"layout": {"node-2": {L40S: 1}}, "state": "planned"}, False),
}
CHECK: Json = {"check_mode": True, "diff": True}


def tasks(base: Json, case: Case, form: Json) -> list[Json]:
    """Check, apply, apply, check; then everything back."""
    task = {f"composable.infra.{case.module}": {**base, **case.args}, **form}
    undo = [{f"composable.infra.{name}": {**base, **args}} for step in case.undo for name, args in step.items()]
    return [{**task, **CHECK}, {**task, "diff": True}, {**task, "diff": True}, {**task, **CHECK}, *undo]


def told(result: Json) -> Json:
    """What check mode and apply must say alike."""
    return {key: value for key, value in result.items() if key not in ONLY_APPLY}


@pytest.mark.parametrize("form", FORMS)
def test_check_apply_apply_check(emulator: Emulator, play: Play, form: str) -> None:
    steps = {name: tasks(emulator.fabric_config(), case, FORMS[form]) for name, case in CASES.items()}
    played = play([task for group in steps.values() for task in group])
    assert not [r["msg"] for r in played.results if r.get("failed")]
    results = iter(played.results)
    for name, group in steps.items():
        check, apply, again, last, *_undone = [next(results) for _unused in group]
        expected = [CASES[name].changes, CASES[name].changes, False, False]
        assert [r["changed"] for r in (check, apply, again, last)] == expected, name
        assert told(check) == told(apply), name
        assert told(again) == told(last), name
        for result in (again, last) if CASES[name].changes else ():
            assert result.get("diff", {}).get("before") == result.get("diff", {}).get("after"), name
    assert {d["state"] for d in emulator.state()["devices"]} == {"free"}


def test_both_forms_say_the_same_and_check_mode_asks_for_no_change(emulator: Emulator, play: Play) -> None:
    base, since = emulator.fabric_config(), mark(emulator)
    every = [*CASES.values(), Case("fabric_device", {"machine": "node-9", "model": A100}, False),
             Case("fabric_device", {"machine": "node-0"}, False), Case("fabric_info", {"gather": ["all"]}, False),
             Case("fabric_plan", {"layout": {"node-0": {A100: 9}}}, False)]
    played = play([{f"composable.infra.{c.module}": {**base, **c.args}, **form} for c in every
                   for form in FORMS.values()], "--check", "--diff")
    here, modules = played.results[::2], played.results[1::2]
    assert [bool(r["changed"]) for r in here] == [c.changes for c in every]
    for one, other in zip(here, modules, strict=True):
        assert told(one) | {"devices": one.get("devices")} == told(other) | {"devices": other.get("devices")}
    assert changes(emulator, since) == []


def test_module_forms_are_really_two(emulator: Emulator, play: Play) -> None:
    """A copy of the module travels in one form only."""
    task = {"composable.infra.fabric_info": emulator.fabric_config()}
    here = play([task], "-vvv").output
    module = play([{**task, **FORMS["module"]}], "-vvv").output
    assert ("AnsiballZ_fabric_info" in here, "AnsiballZ_fabric_info" in module) == (False, True)


def test_bulk_form_tells_each_result_and_the_failures(emulator: Emulator, play: Play) -> None:
    base, since = emulator.fabric_config(), mark(emulator)
    items = [{"machine": "node-0", "model": A100}, {"machine": "node-9", "model": A100},
             {"machine": "apart", "model": A100}, {"machine": "node-1", "model": L40S}]
    back: Json = {"composable.infra.fabric_plan": {**base, **EMPTY["fabric_plan"]}}
    found, _back = play([{"composable.infra.fabric_device": {**base, "attachments": items}}, back]).results
    assert (found["failed"], found["changed"]) == (True, True)
    assert [r["failed"] for r in found["results"]] == [False, True, True, False]
    assert "attachments[1].machine: the CDI Manager knows no machine node-9. Allowed are" in found["msg"]
    assert found["msg"].endswith("(2 of 4 attachments failed)")
    assert sorted(e["machine"] for e in changes(emulator, since) if e["method"] == "PATCH" and e["status"] == 200) == (
        sorted([NODE_0, NODE_1]))
    assert [len(r["devices"]) for r in found["results"]] == [1, 0, 0, 1]


def test_progress_is_shown_while_a_local_task_waits(emulator: Emulator, play: Play) -> None:
    base = emulator.fabric_config()
    items = [{"machine": "node-0", "model": A100}, {"machine": "node-1", "model": A100}]
    output = play([{"composable.infra.fabric_device": {**base, "attachments": items}},
                   {"composable.infra.fabric_plan": {**base, **EMPTY["fabric_plan"]}}], "-v").output
    assert re.findall(r"(composable\.infra\.fabric_\w+: \d of \d \w+)", output) == [
        "composable.infra.fabric_device: 1 of 2 done", "composable.infra.fabric_device: 2 of 2 done",
        "composable.infra.fabric_plan: 1 of 2 steps", "composable.infra.fabric_plan: 2 of 2 steps"]


def test_task_in_the_background(emulator: Emulator, play: Play) -> None:
    base = emulator.fabric_config()
    task = {"composable.infra.fabric_device": {**base, "machine": "node-0", "model": A100}, "async": 60, "poll": 1}
    found, back = play([task, {"composable.infra.fabric_plan": {**base, **EMPTY["fabric_plan"]}}]).results
    assert (found["changed"], found["finished"], len(found.get("devices", ()))) == (True, 1, 1), found
    assert back["changed"]


def test_one_block_of_defaults_serves_every_form(emulator: Emulator, play: Play) -> None:
    defaults = {"module_defaults": {"group/composable.infra.fabric": emulator.fabric_config()}}
    played = play([{"composable.infra.fabric_info": {}, **defaults, **form} for form in FORMS.values()])
    assert [len(r["machines"]) for r in played.results] == [4, 4]


def test_connection_from_the_environment(emulator: Emulator, play: Play) -> None:
    variables = {f"COMPOSABLE_{name.upper()}": value for name, value in emulator.fabric_config().items()}
    played = play([{"composable.infra.fabric_info": {}, **form} for form in FORMS.values()], **variables)
    assert [len(r["machines"]) for r in played.results] == [4, 4]


def test_secrets_are_in_no_output(emulator: Emulator, play: Play) -> None:
    base = emulator.fabric_config()
    secrets = [base["password"], base["client_secret"]]
    wrong = {**base, "realm": base["password"]}
    played = play([{"composable.infra.fabric_info": {**args, "surprise": surprise}, **form}
                   for args in (base, wrong) for surprise in ({}, {"a": 1}) for form in FORMS.values()]
                  + [{"composable.infra.fabric_info": wrong, **form} for form in FORMS.values()], "-vvv")
    assert all(r["failed"] for r in played.results)
    assert [s for s in secrets if s in played.output or s in str(played.results)] == []


@pytest.fixture
def many(tmp_path: Path) -> t.Iterator[Emulator]:
    """200 devices and 50 machines on two fabrics."""
    names = [f"m{n}" for n in range(50)]
    spec: Json = {"timing": {"attach": 0.0, "detach": 0.0}, "models": [{"name": A100}],
                  "fabrics": [{"id": n, "devices": [{"model": A100, "count": 100}]} for n in (1, 2)],
                  "machines": [{"name": name, "fabric": i % 2 + 1} for i, name in enumerate(names)]}
    with Emulator.run(spec, tmp_path / "many") as running:
        yield running


def test_layout_of_200_devices(many: Emulator, play: Play, tmp_path: Path) -> None:
    """Plan, apply, plan again: empty. Then another layout, of which only the difference moves."""
    first = {f"m{n}": {A100: 4} for n in range(50)}
    second = {**first, "m0": {}, "m2": {A100: 8}, "m1": {A100: 3}}
    kept = tmp_path / "layout.yml"
    kept.write_text(yaml.safe_dump(first), encoding="utf-8")
    base, since = many.fabric_config(), mark(many)
    from_file = "{{ lookup('ansible.builtin.file', '" + str(kept) + "') | from_yaml }}"
    plan, apply, again, other = play([
        {"composable.infra.fabric_plan": {**base, "layout": from_file, "state": "planned"}},
        {"composable.infra.fabric_plan": {**base, "layout": from_file}},
        {"composable.infra.fabric_plan": {**base, "layout": first, "state": "planned"}},
        {"composable.infra.fabric_plan": {**base, "layout": second}}]).results
    assert (plan["changed"], apply["changed"], again["changed"]) == (False, True, False)
    assert plan["plan"] == apply["plan"]
    assert sum(step["count"] for step in plan["plan"]) == 200
    assert plan["predicted_seconds"] == 40.0
    assert (again["plan"], again["predicted_seconds"], again["diff"]["before"]) == ([], 0.0, first)
    assert sorted((s["action"], s["name"], s["count"]) for s in other["plan"]) == (
        [("attach", "m2", 4), ("detach", "m0", 1), ("detach", "m0", 1), ("detach", "m0", 1), ("detach", "m0", 1),
         ("detach", "m1", 1)])
    asked = [(e["method"], e["status"]) for e in changes(many, since)]
    assert sorted(asked) == [("DELETE", 200)] * 5 + [("PATCH", 200)] * 204
    assert sum(d["state"] == "attached" for d in many.state()["devices"]) == 199
