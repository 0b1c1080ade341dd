# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role autoscaler deploys is what the program takes, and what its permissions are for."""

from __future__ import annotations

import typing as t

import jinja2
import pytest
import yaml
from ansible.plugins.filter.core import FilterModule

from ansible_collections.composable.infra.controller.autoscaler.main import certificates_of, parser
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ROLE = ROOT / "roles" / "autoscaler"
Json = dict[str, t.Any]
GROUPS: Json = {"vertical": [{"id": "vertical", "devices": {"nvidia.com/gpu": 8}}]}
READERS = [{"name": "prometheus-k8s", "namespace": "watching"}]
TEMPLATES = ("configmap", "deployment", "networkpolicy", "service", "servicemonitor")
PAGE = (ROOT / "docs" / "autoscaling.md").read_text(encoding="utf-8")


def values() -> Json:
    found: Json = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
    return found


def variables(**more: t.Any) -> Json:
    """The role's defaults that need no other variable, and a site's."""
    defaults: Json = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    return {**plain, "autoscaler_namespace": "gpus", "autoscaler_image": "registry.example/infra:1",
            "autoscaler_image_pull_secrets": ["pull"], "autoscaler_credentials_secret": "credentials",
            "autoscaler_groups": GROUPS, "autoscaler_known_config": {"device_info": []},
            "autoscaler_metrics_readers": READERS, "autoscaler_folder": values()["autoscaler_folder"], **more}


def rendered(name: str, **more: t.Any) -> Json:
    """One of the role's templates as Ansible renders it."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.filters.update(FilterModule().filters())
    text = (ROLE / "templates" / f"{name}.yaml.j2").read_text(encoding="utf-8")
    found: Json = yaml.safe_load(environment.from_string(text).render(variables(**more)))
    return found


def pod(**more: t.Any) -> Json:
    found: Json = rendered("deployment", **more)["spec"]["template"]
    return found


def test_program_takes_the_arguments_of_the_deployment() -> None:
    (container,) = pod()["spec"]["containers"]
    args = parser().parse_args(container["args"])
    assert (args.address, args.listen) == ("0.0.0.0:8086", "0.0.0.0:8087")
    assert not args.insecure
    with pytest.raises(BadConfig, match=r"/etc/composable-infra/tls/tls\.crt"):
        certificates_of(args)
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    for path in (args.config, args.autoscaler_config, args.tls_cert_file, args.client_ca_file):
        assert path.rpartition("/")[0] in mounted


def test_every_mount_has_its_volume_and_every_volume_is_mounted() -> None:
    spec = pod(autoscaler_provider_secrets=["awx", "bmc"])["spec"]
    mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert mounts.keys() == volumes.keys()
    assert {mounts[name]: each["secret"]["secretName"] for name, each in volumes.items() if "secret" in each} == {
        "/etc/composable-infra/tls": "composable-infra-autoscaler-tls",
        "/etc/composable-infra/credentials": "credentials",
        "/etc/composable-infra/secrets/awx": "awx", "/etc/composable-infra/secrets/bmc": "bmc"}


@pytest.mark.parametrize("changed", [
    {"autoscaler_groups": {**GROUPS, "provision_timeout": 30}}, {"autoscaler_known_config": {"device_info": [1]}}])
def test_another_configuration_means_another_pod(changed: Json) -> None:
    assert pod()["metadata"] == pod()["metadata"]
    assert pod(**changed)["metadata"] != pod()["metadata"]


def test_configuration_is_passed_on_as_it_is() -> None:
    (name, text), = rendered("configmap")["data"].items()
    assert name == "groups.yml"
    assert yaml.safe_load(text) == GROUPS


def test_service_monitor_and_policy_find_the_pod_and_its_ports() -> None:
    labels = pod()["metadata"]["labels"]
    (container,) = pod()["spec"]["containers"]
    service = rendered("service")
    names = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == names.keys()
    assert service["spec"]["selector"].items() <= labels.items()
    policy = rendered("networkpolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == set(names.values())
    monitor = rendered("servicemonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["endpoints"]} == {"http"}


@pytest.mark.parametrize(("readers", "namespaces"), [(READERS, ["watching"]), ([], [])])
def test_metrics_are_for_the_namespaces_of_the_readers_only(readers: list[Json], namespaces: list[str]) -> None:
    rules = rendered("networkpolicy", autoscaler_metrics_readers=readers)["spec"]["ingress"]
    asked = [rule for rule in rules if 8087 in [each["port"] for each in rule["ports"]]]
    assert [each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for rule in asked for each in rule["from"]] == namespaces


def test_one_process_answers_and_has_the_account_of_the_shipped_permissions() -> None:
    spec = rendered("deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    shipped = yaml.safe_load((ROOT / "deploy" / "autoscaler" / "rbac.yaml").read_text(encoding="utf-8"))["items"]
    accounts = [each["metadata"]["name"] for each in shipped if each["kind"] == "ServiceAccount"]
    assert accounts == [spec["template"]["spec"]["serviceAccountName"]]


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_has_the_namespace_of_another(name: str) -> None:
    assert rendered(name)["metadata"]["namespace"] == "gpus"


def test_absent_names_what_present_makes() -> None:
    made = {rendered(name)["kind"] for name in TEMPLATES} - {"ServiceMonitor"}
    named = values()["autoscaler_running"]
    assert {each["kind"] for each in named} == made
    assert {rendered(name)["metadata"]["name"] for name in TEMPLATES} == {values()["autoscaler_name"]["name"]}


def test_cluster_autoscaler_asks_the_provider_by_files_that_are_mounted() -> None:
    chart = values()["autoscaler_chart_values"]
    assert [each["name"] for each in chart["extraVolumes"]] == [each["name"] for each in chart["extraVolumeMounts"]]
    folders = [each["mountPath"] for each in chart["extraVolumeMounts"]]
    config, told = chart["extraArgs"]["cloud-config"], values()["autoscaler_cloud_config"]
    assert [path.rpartition("/")[0] for path in (config, told["cert"])] == folders
    (stored,) = chart["extraObjects"]
    assert config.rpartition("/")[2] in stored["data"]
    assert stored["metadata"]["name"] == chart["extraVolumes"][0]["configMap"]["name"]


def test_flags_are_those_of_the_page() -> None:
    """Of the flags that the page names, two are to be left alone."""
    rows = PAGE.partition("\n## Flags of Cluster Autoscaler")[2].partition("\n## ")[0]
    given = values()["autoscaler_chart_values"]["extraArgs"].keys() - {"cloud-config"}
    assert [flag for flag in given if f"`--{flag}" not in rows] == []
    assert not {"cores-total", "max-nodes-total"} & given


def machine_permissions(*providers: Json) -> list[Json]:
    """What the role permits for the providers of these groups."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.filters.update(FilterModule().filters())
    given = variables(autoscaler_groups={"nodes": [{"provider": each} for each in providers]},
                      autoscaler_machine_labels=values()["autoscaler_machine_labels"])
    for name in ("autoscaler_machines", "autoscaler_machine_permissions"):
        given[name] = yaml.safe_load(environment.from_string(values()[name]).render(given))
    found: list[Json] = given["autoscaler_machine_permissions"]
    return found


def test_machines_are_permitted_with_their_provider_only_and_by_name() -> None:
    assert machine_permissions({"kind": "awx"}, {}) == []
    made = [{"kind": "cluster-api", "namespace": "capi", "machine_deployment": name} for name in ("b", "a")]
    other = {"kind": "cluster-api", "namespace": "more", "machine_deployment": "c"}
    found = machine_permissions(*made, {"kind": "none"}, other)
    roles = {each["metadata"]["namespace"]: each["rules"] for each in found if each["kind"] == "Role"}
    named = {where: rules[0]["resourceNames"] for where, rules in roles.items()}
    assert named == {"capi": ["a", "b"], "more": ["c"]}
    bindings = [each for each in found if each["kind"] == "RoleBinding"]
    assert {each["subjects"][0]["namespace"] for each in bindings} == {"gpus"}
    assert sorted(each["metadata"]["namespace"] for each in bindings) == ["capi", "more"]


def test_role_of_the_whole_cluster_has_no_machines() -> None:
    rules = yaml.safe_load_all((ROOT / "deploy/autoscaler/rbac.yaml").read_text(encoding="utf-8"))
    groups = {group for document in rules for item in document["items"] for rule in item.get("rules", ())
              for group in rule["apiGroups"]}
    assert "cluster.x-k8s.io" not in groups
