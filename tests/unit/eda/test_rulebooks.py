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

from ansible_collections.composable.infra.controller.autoscaler.providers import awx
from ansible_collections.composable.infra.controller.autoscaler.providers.http import Endpoint
from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims, nodes
from ansible_collections.composable.infra.plugins.module_utils import event_source
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import VARIABLES
from ansible_collections.composable.infra.tests.unit.eda.documentation import options as documented_options
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
SOURCES = {"claim_attach": claims, "claim_job": claims, "node_scale": nodes}
# a job takes seconds before it begins
SLOWER: Json = {"claim_job": {"settle": "2", "gather": "30", "interval": "30", "retry": "60"}}
# its job template has the configuration
UNUSED: dict[str, tuple[str, ...]] = {"claim_job": ("config_path",)}


def options(name: str) -> dict[str, Json]:
    """The options of a rulebook's source that are variables of the rulebook.

    The rest of the connection comes from the variables of kubernetes.core: no secret is a variable of a rulebook.
    """
    documented = documented_options(SOURCES[name])
    return {option: spec for option, spec in documented.items() if option not in (*VARIABLES, *UNUSED.get(name, ()))}


def rulesets(name: str) -> list[Json]:
    """The rulesets of a shipped rulebook."""
    path = ROOT / "extensions" / "eda" / "rulebooks" / f"{name}.yml"
    found: list[Json] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def given(name: str, **variables: t.Any) -> dict[str, str]:
    """What the source is given, as ansible-rulebook renders it with these variables."""
    (ruleset,) = rulesets(name)
    ((only,),) = (ruleset["sources"],)
    (arguments,) = (value for key, value in only.items() if key != "name")
    return {key: jinja2.Template(text).render(variables) for key, text in arguments.items()}


@pytest.mark.parametrize("name", SOURCES)
class TestEveryRulebook:
    def test_every_option_of_the_source_is_handed_on(self, name: str) -> None:
        values = {option: f"a {option}" for option in options(name)}
        assert given(name, **values) == values

    def test_what_is_not_given_is_as_the_source_has_it(self, name: str) -> None:
        expected = {option: str(spec.get("default", "")) for option, spec in options(name).items()}
        assert given(name) == {**expected, **SLOWER.get(name, {})}

    def test_ansible_rulebook_takes_it(self, name: str) -> None:
        schema = Path(ansible_rulebook.__file__).parent / "schema" / "ruleset_schema.json"
        jsonschema.validate(rulesets(name), json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["claim_attach", "claim_job"])
def test_the_source_of_claims_takes_it(name: str) -> None:
    assert claims._numbers(given(name))["settle"] == float(SLOWER.get(name, {}).get("settle", 0.05))
    assert claims._gates(given(name))


def test_the_source_of_nodes_takes_it() -> None:
    assert event_source.seconds(given("node_scale"), nodes.DEFAULTS, nodes.OTHERS) == nodes.DEFAULTS
    assert event_source.counts(given("node_scale"), nodes.COUNTS) == nodes.COUNTS


def test_jobs_that_order_nodes_get_the_variables_of_the_provider_awx() -> None:
    asked: list[Json] = []
    provider = awx._Template(t.cast(Endpoint, Launches(asked)), "/api/v2/job_templates/7", 7, "gpu", list)
    provider.grow(1)
    provider.shrink("node-7")
    event = {"node_unneeded": {"nodes": [{"name": "node-7"}, {"name": "node-8"}]}}
    (ruleset,) = rulesets("node_scale")
    jobs = [rule["action"]["run_job_template"]["job_args"]["extra_vars"] for rule in ruleset["rules"]]
    assert [{key: jinja2.Template(str(value)).render(node_group="gpu", event=event) for key, value in job.items()}
            for job in jobs] == [{key: str(value) for key, value in job.items()} for job in asked]


class Launches:
    """Notes the variables of jobs."""

    def __init__(self, asked: list[Json]) -> None:
        self.asked = asked

    def call(self, method: str, _path: str, body: Json | None = None) -> Json:
        """Nothing runs; what is launched is noted."""
        if method == "POST" and body:
            self.asked.append(body["extra_vars"])
        return {}


def test_the_module_works_where_the_source_watches() -> None:
    (ruleset,) = rulesets("claim_attach")
    module: Json = ruleset["rules"][0]["action"]["run_module"]["module_args"]
    for option in ("kubeconfig", "context"):
        assert module[option] == ruleset["sources"][0]["composable.infra.claims"][option]
