# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's configuration: what may be said, and the one clear error for what may not."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.autoscaler.main import certificates_of, main, parser
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings

Json = dict[str, t.Any]
VERTICAL: Json = {"id": "vertical", "devices": {"nvidia.com/gpu": 8}}


def read(**more: t.Any) -> AutoscalerConfig:
    return AutoscalerConfig.from_dict({"vertical": [VERTICAL], **more}, settings(), "groups.yml")


def test_little_is_needed() -> None:
    found = read()
    assert found.vertical[0].shape.devices == {"nvidia.com/gpu": 8}
    assert found.nodes == ()
    assert (found.provision_timeout, found.scale_down.policy, found.scale_down.reserve_nodes) == (600.0, "reserve", 1)


def test_everything_can_be_said() -> None:
    found = read(
        nodes=[{"id": "gpu", "selector": {"pool": "gpu"}, "min_size": 1, "max_size": 9, "cost": 5, "fabric": 2,
                "devices": {A100: 4}, "template": {"cpu": "64", "memory": "1Ti", "labels": {"a": "b"}},
                "provider": {"kind": "cluster-api", "name": "md"}}],
        attach_costs={A100: 2}, not_attached=["T4"], provision_timeout=30,
        scale_down={"policy": "power", "reserve_nodes": 0, "node_watts": 300, "device_watts": {A100: 45.5}})
    (group,) = found.nodes
    assert (group.min_size, group.max_size, group.fabric, group.provider["name"]) == (1, 9, 2, "md")
    assert found.scale_up.attach_costs == {A100: 2.0}
    assert found.scale_down.device_watts == {A100: 45.5}


@pytest.mark.parametrize(("more", "said"), [
    ({"vertical": []}, "vertical: [] is not usable: must list at least one group"),
    ({"vertical": [{"id": "v", "devices": {}}]},
     "vertical[0].devices: {} is not usable: must map each extended resource"),
    ({"nodes": [{"id": "n", "watts": -1}]}, "nodes[0].watts: -1 is not usable: must be a number"),
    ({"vertical": [{"id": "V", "devices": {"a": 1}}]}, "vertical[0].id: 'V' is not usable: must be a lower case name"),
    ({"vertical": [{**VERTICAL, "devices": {"a": 0}}]}, "vertical[0].devices.a: 0 is not usable: must be a number"),
    ({"vertical": [{**VERTICAL, "cpu": "many"}]}, "vertical[0].cpu: 'many' is not usable: must be a Kubernetes"),
    ({"vertical": [VERTICAL, VERTICAL]}, "id: 'vertical' is not usable: each group needs an id of its own"),
    ({"vertical": [{**VERTICAL, "size": 1}]}, "vertical[0].size: 1 is not usable: unknown key"),
    ({"nodes": [{"id": "n", "provider": {"kind": "ec2"}}]}, "nodes[0].provider.kind: 'ec2' is not usable: must be"),
    ({"nodes": [{"id": "n", "min_size": -1}]}, "nodes[0].min_size: -1 is not usable"),
    ({"nodes": [{"id": "n", "max_size": 1.5}]}, "nodes[0].max_size: 1.5 is not usable: must be a whole number"),
    ({"nodes": [{"id": "n", "selector": {"a": 1}}]}, "nodes[0].selector: {'a': 1} is not usable: must be a"),
    ({"nodes": {}}, ""),
    ({"nodes": "n"}, "nodes: 'n' is not usable: must be a list"),
    ({"attach_costs": {"X": 1}}, "attach_costs.X: 1 is not usable: no such model"),
    ({"methods": {"X": ["node"]}}, "methods.X: ['node'] is not usable: no such model"),
    ({"methods": {A100: ["node", "share"]}},
     f"methods.{A100}: ['node', 'share'] is not usable: must be a list with some of"),
    ({"methods": {A100: []}},
     f"methods.{A100}: [] is not usable: must be a list with some of share, attach, node. share comes first"),
    ({"methods": {A100: ["buy"]}}, f"methods.{A100}: ['buy'] is not usable"),
    ({"not_attached": ["X"]}, "not_attached: 'X' is not usable: no such model"),
    ({"scale_down": {"policy": "never"}}, "scale_down.policy: 'never' is not usable: must be one of reserve, power"),
    ({"scale_down": {"device_watts": {"X": 1}}}, "scale_down.device_watts.X: 1 is not usable: no such model"),
    ({"provision_timeout": 0}, "provision_timeout: 0 is not usable: must be a number from 1 to 86400"),
    ({"other": 1}, "config.other: 1 is not usable: unknown key"),
])
def test_bad_values_are_named(more: Json, said: str) -> None:
    if not said:
        assert read(**more).nodes == ()
        return
    with pytest.raises(BadConfig) as raised:
        read(**more)
    assert str(raised.value).startswith(f"groups.yml: {said}")


@pytest.mark.parametrize(("text", "said"), [
    (None, "cannot be read"), ("a: [", "is not valid YAML"), ("- a", "must be a mapping")])
def test_bad_files_are_named(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "groups.yml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=f"groups.yml: .*{said}"):
        AutoscalerConfig.load(str(path), settings())


ARGUMENTS = ["--config", "c", "--autoscaler-config", "a"]


@pytest.mark.parametrize(("more", "said"), [
    ([], "and --client-ca-file, or --insecure"), (["--tls-cert-file", "x"], "and --client-ca-file, or --insecure"),
    (["--insecure", "--tls-cert-file", "x"], "--insecure cannot be used together with certificates")])
def test_tls_is_left_out_only_where_that_is_said(more: list[str], said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        certificates_of(parser().parse_args([*ARGUMENTS, *more]))
    assert certificates_of(parser().parse_args([*ARGUMENTS, "--insecure"])) is None


def test_bad_input_ends_with_status_2() -> None:
    assert main([*ARGUMENTS, "--insecure"]) == 2
