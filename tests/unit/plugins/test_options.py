# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection options have the same names, types, defaults and variables everywhere."""

from __future__ import annotations

import importlib.util
import runpy
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.doc_fragments import cluster, config, environment, fabric
from ansible_collections.composable.infra.plugins.module_utils import cluster_module, engine_module, fabric_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ALIASES, VARIABLES
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

SPECS = [(fabric.ModuleDocFragment.DOCUMENTATION, fabric_module.FABRIC_OPTIONS),
         (cluster.ModuleDocFragment.DOCUMENTATION, cluster_module.API_SERVER_OPTIONS),
         (cluster.ModuleDocFragment.LOGIN, cluster_module.LOGIN_OPTIONS),
         (config.ModuleDocFragment.DOCUMENTATION, engine_module.CONFIG_OPTIONS)]
FRAGMENTS = [(environment.ModuleDocFragment.DOCUMENTATION, fabric_module.FABRIC_OPTIONS),
             (environment.ModuleDocFragment.CLUSTER, cluster_module.API_SERVER_OPTIONS)]


def options(text: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = yaml.safe_load(text)["options"]
    return found


@pytest.mark.parametrize(("text", "spec"), SPECS, ids=["fabric", "cluster", "login", "config"])
def test_documentation_names_what_the_modules_take(text: str, spec: dict[str, dict[str, t.Any]]) -> None:
    documented = options(text)
    assert set(documented) == set(spec)
    for name, option in spec.items():
        assert documented[name]["type"] == option["type"], name
        assert documented[name].get("default") == option.get("default"), name
        assert documented[name].get("choices") == option.get("choices"), name
        assert documented[name].get("aliases") == option.get("aliases"), name


@pytest.mark.parametrize(("text", "spec"), FRAGMENTS, ids=["fabric", "cluster"])
def test_plugins_read_the_variables_that_modules_read(text: str, spec: dict[str, dict[str, t.Any]]) -> None:
    documented = options(text)
    assert {name: [e["name"] for e in option["env"]] for name, option in documented.items()} == {
        name: option["fallback"][1] for name, option in spec.items()}


def test_modules_take_what_the_configuration_takes() -> None:
    """But for what only a file or the engine can give."""
    fields = set(FabricConfig.__dataclass_fields__)
    assert set(fabric_module.FABRIC_OPTIONS) <= fields
    assert fields - set(fabric_module.FABRIC_OPTIONS) <= {"ca_pem", "given"}


def test_secrets_are_kept_out_of_logs() -> None:
    def secret(options: dict[str, dict[str, t.Any]]) -> set[str]:
        return {name for name, option in options.items() if option.get("no_log")}

    assert secret(fabric_module.FABRIC_OPTIONS) == {"password", "client_secret"}
    assert secret(cluster_module.CLUSTER_OPTIONS) == {"password", "api_key"}


def test_names_aliases_and_variables_are_those_of_kubernetes_core() -> None:
    """One block of defaults, and one credential, serves its modules and ours."""
    source = kubernetes_core("plugins/module_utils/args_common.py")
    theirs: dict[str, t.Any] = source["AUTH_ARG_SPEC"]
    for name, option in cluster_module.CLUSTER_OPTIONS.items():
        assert name in theirs, name
        assert set(option.get("aliases", [])) <= set(theirs[name].get("aliases", [])), name
        assert option["type"] == theirs[name].get("type", "str"), name
    # what it reads for an option: the variable with the option's name, then that with the name in the Python library
    variables = {option: list(dict.fromkeys((f"K8S_AUTH_{option.upper()}", f"K8S_AUTH_{name.upper()}")))
                 for name, option in source["AUTH_ARG_MAP"].items()}
    variables |= {name: [f"K8S_AUTH_{name.upper()}"] for name in ("impersonate_user", "impersonate_groups")}
    ours = {name: option["fallback"][1] for name, option in cluster_module.CLUSTER_OPTIONS.items()}
    assert ours == {name: [*variables[name], *(["KUBECONFIG"] if name == "kubeconfig" else [])] for name in ours}


def test_the_whole_connection_of_kubernetes_core_is_there() -> None:
    """But for headers for a proxy, and for storing what a provider of credentials has renewed."""
    theirs = kubernetes_core("plugins/module_utils/args_common.py")["AUTH_ARG_SPEC"]
    assert set(theirs) - set(cluster_module.CLUSTER_OPTIONS) == {"proxy_headers", "persist_config"}


def test_event_source_and_modules_read_the_same_variables() -> None:
    ours = {name: tuple(option["fallback"][1]) for name, option in cluster_module.CLUSTER_OPTIONS.items()
            if name not in ("kubeconfig", "context")}
    assert ours == VARIABLES
    assert {alias: name for name, option in cluster_module.CLUSTER_OPTIONS.items()
            for alias in option.get("aliases", ())} == ALIASES


def test_the_inventory_has_the_login_under_names_of_its_own() -> None:
    documented = options(cluster.ModuleDocFragment.INVENTORY_LOGIN)
    assert set(documented) == {f"kubernetes_{name}" for name in cluster_module.LOGIN_OPTIONS}
    for name, option in cluster_module.LOGIN_OPTIONS.items():
        assert documented[f"kubernetes_{name}"]["type"] == option["type"], name
        assert [e["name"] for e in documented[f"kubernetes_{name}"]["env"]] == option["fallback"][1], name


def kubernetes_core(path: str) -> dict[str, t.Any]:
    """The names of one of its files; the test is skipped where it is not installed."""
    spec = importlib.util.find_spec("ansible_collections.kubernetes.core")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        pytest.skip("the collection kubernetes.core is not installed beside this one")
    return runpy.run_path(str(Path(places[0]) / path))


def test_every_action_plugin_has_a_module() -> None:
    actions = {path.stem for path in (ROOT / "plugins/action").glob("*.py")}
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    assert actions
    assert actions <= modules


FRAGMENT_OF_GROUP = {"fabric": "fabric", "cluster": "cluster", "engine": "config"}


def test_an_action_group_has_the_modules_that_take_its_options() -> None:
    """Sanity's validate-modules holds that a module takes the options of the fragments that it names."""
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    takes = {path.stem: _fragments(path.read_text(encoding="utf-8"))
             for path in (ROOT / "plugins/modules").glob("*.py") if path.stem != "__init__"}
    assert groups == {group: sorted(name for name, found in takes.items() if f"composable.infra.{fragment}" in found)
                      for group, fragment in FRAGMENT_OF_GROUP.items()}


def _fragments(source: str) -> list[str]:
    text = source.split('DOCUMENTATION = r"""', 1)[1].split('"""', 1)[0]
    return list(yaml.safe_load(text).get("extends_documentation_fragment", []))


@pytest.mark.parametrize("given", [{}, {"kubeconfig": "", "context": ""}])
def test_a_blank_kubeconfig_is_none(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A rulebook cannot leave an option out; its source takes the variables then, and its module has to as well."""
    seen: list[tuple[str | None, str | None]] = []
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", "/of/the/variable")
    monkeypatch.setenv("K8S_AUTH_CONTEXT", "theirs")

    def load(kubeconfig: str | None, context: str | None, given: object) -> Connection:
        seen.append((kubeconfig, context))
        return Connection("https://a.test")

    monkeypatch.setattr(Connection, "load", load)
    cluster_module.cluster(given)
    assert seen == [("/of/the/variable", "theirs")]
