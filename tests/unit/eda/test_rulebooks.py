# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped rulebooks hand every option of the source on, with the source's own defaults."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import ansible_rulebook
import jinja2
import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims as source
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import VARIABLES
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
RULEBOOKS = ("claim_attach", "claim_job")
# the rest of the connection comes from the variables of kubernetes.core: no secret is a variable of a rulebook
OPTIONS: dict[str, Json] = {name: option for name, option in yaml.safe_load(source.DOCUMENTATION)["options"].items()
                            if name not in VARIABLES}
# a job takes seconds before it begins
SLOWER: Json = {"claim_job": {"retry": "60"}}


def rulesets(name: str) -> list[Json]:
    """The rulesets of a shipped rulebook."""
    path = ROOT / "extensions" / "eda" / "rulebooks" / f"{name}.yml"
    found: list[Json] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def given(name: str, **variables: t.Any) -> dict[str, str]:
    """What the source is given, as ansible-rulebook renders it with these variables."""
    (ruleset,) = rulesets(name)
    ((only,),) = (ruleset["sources"],)
    arguments: dict[str, str] = only["composable.infra.claims"]
    return {key: jinja2.Template(text).render(variables) for key, text in arguments.items()}


@pytest.mark.parametrize("name", RULEBOOKS)
class TestEveryRulebook:
    def test_every_option_of_the_source_is_handed_on(self, name: str) -> None:
        values = {option: f"a {option}" for option in OPTIONS}
        assert given(name, **values) == values

    def test_what_is_not_given_is_as_the_source_has_it(self, name: str) -> None:
        expected = {option: str(spec.get("default", "")) for option, spec in OPTIONS.items()}
        assert given(name) == {**expected, **SLOWER.get(name, {})}

    def test_the_source_takes_it(self, name: str) -> None:
        assert source._numbers(given(name))["settle"] == 0.05
        assert source._gates(given(name))

    def test_ansible_rulebook_takes_it(self, name: str) -> None:
        schema = Path(ansible_rulebook.__file__).parent / "schema" / "ruleset_schema.json"
        jsonschema.validate(rulesets(name), json.loads(schema.read_text(encoding="utf-8")))


def test_the_module_works_where_the_source_watches() -> None:
    (ruleset,) = rulesets("claim_attach")
    module: Json = ruleset["rules"][0]["action"]["run_module"]["module_args"]
    for option in ("kubeconfig", "context"):
        assert module[option] == ruleset["sources"][0]["composable.infra.claims"][option]
