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


def variables() -> Json:
    """The role's defaults that need no other variable, and a site's."""
    defaults: Json = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    return {**plain, "autoscaler_namespace": "gpus", "autoscaler_image": "registry.example/infra:1",
            "autoscaler_image_pull_secrets": [], "autoscaler_credentials_secret": "credentials",
            "autoscaler_groups": GROUPS}


def rendered(name: str) -> Json:
    """One of the role's templates as Ansible renders it."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.filters.update(FilterModule().filters())
    text = (ROLE / "templates" / f"{name}.yaml.j2").read_text(encoding="utf-8")
    found: Json = yaml.safe_load(environment.from_string(text).render(variables()))
    return found


def test_program_takes_the_arguments_of_the_deployment() -> None:
    (container,) = rendered("deployment")["spec"]["template"]["spec"]["containers"]
    args = parser().parse_args(container["args"])
    assert (args.address, args.listen) == ("0.0.0.0:8086", "0.0.0.0:8087")
    assert not args.insecure
    with pytest.raises(BadConfig, match=r"/etc/composable-infra/tls/tls\.crt"):
        certificates_of(args)
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    for path in (args.config, args.autoscaler_config, args.tls_cert_file, args.client_ca_file):
        assert path.rpartition("/")[0] in mounted


def test_configuration_is_passed_on_as_it_is() -> None:
    (name, text), = rendered("configmap")["data"].items()
    assert name == "groups.yml"
    assert yaml.safe_load(text) == GROUPS


def test_service_finds_the_pod_and_its_ports() -> None:
    service, deployment = rendered("service")["spec"], rendered("deployment")["spec"]
    assert service["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
    (container,) = deployment["template"]["spec"]["containers"]
    assert {port["targetPort"] for port in service["ports"]} == {port["name"] for port in container["ports"]}


def test_one_process_answers_and_has_the_account_of_the_shipped_permissions() -> None:
    spec = rendered("deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    shipped = yaml.safe_load((ROOT / "deploy" / "autoscaler" / "rbac.yaml").read_text(encoding="utf-8"))["items"]
    accounts = [each["metadata"]["name"] for each in shipped if each["kind"] == "ServiceAccount"]
    assert accounts == [spec["template"]["spec"]["serviceAccountName"]]


def test_no_template_has_the_namespace_of_another() -> None:
    for name in ("deployment", "configmap", "service"):
        assert rendered(name)["metadata"]["namespace"] == "gpus"
