# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file: every trouble is one sentence that names the file, the field and what is allowed."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.reconcile import config as module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import (
    BadConfig,
    EngineConfig,
    settings_of,
)
from ansible_collections.composable.infra.tests.unit.reconcile.config_support import (
    FABRIC,
    document,
    refused,
)


def test_defaults() -> None:
    found = EngineConfig.from_dict(document())
    assert (found.scan_interval, found.workers, found.parallel_attaches) == (5.0, 32, 256)
    assert (found.lease_namespace, found.node_operations) == ("composable-infra", "agent")
    assert found.fabric.endpoint == "https://manager.example"
    assert len(found.settings.models) == 3


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(yaml.safe_dump(document(scan_interval=2, node_operations="ssh")), encoding="utf-8")
    found = EngineConfig.load(str(path))
    assert (found.scan_interval, found.node_operations) == (2, "ssh")


@pytest.mark.parametrize(("content", "said"), [
    (b"a: [1", "is not valid YAML at line 1"), (b"a: b\nc: d: e\n", "is not valid YAML at line 2"),
    (b"\xff\xfe\xfa", "is not valid YAML"), (b"a: !!python/name:os.system\n", "is not valid YAML at line 1"),
    (b"", "must be a mapping of settings, is NoneType"), (b"- a\n", "must be a mapping of settings, is list"),
    (b"just text", "must be a mapping of settings, is str"),
])
def test_file_that_is_no_mapping(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.yml"
    path.write_bytes(content)
    with pytest.raises(BadConfig) as caught:
        EngineConfig.load(str(path))
    assert str(caught.value) == f"{path}: {said}"


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"none\.yml: cannot be read: No such file or directory$"):
        EngineConfig.load(str(tmp_path / "none.yml"))


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"cannot be read: Is a directory$"):
        EngineConfig.load(str(tmp_path))


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAS_YAML", False)
    with pytest.raises(BadConfig, match=r"PyYAML is needed to read a configuration file\. Install pyyaml"):
        EngineConfig.load("config.yml")


@pytest.mark.parametrize(("changes", "said"), [
    ({"scan": 5}, "scan: 5 is not usable: unknown key"),
    ({"device_info": None}, "device_info: None is not usable"),
    ({"device_info": [{"index": -1}]}, "device_info[0].index: -1 is not usable"),
    ({"label_prefix": "Not A Prefix"}, "label_prefix: 'Not A Prefix' is not usable"),
    ({"fabric": None}, "fabric: None is not usable: must be a mapping with the connection to the CDI Manager"),
    ({"fabric": "https://x"}, "fabric: 'https://x' is not usable"),
    ({"fabric": {**FABRIC, "endpoint": "http://x"}}, "endpoint: 'http://x' is not allowed"),
    ({"fabric": {**FABRIC, "tenant": "x"}}, "tenant: 'x' is not allowed"),
    ({"fabric": {**FABRIC, "password": 5}}, "password: '…' is not allowed"),
    ({"fabric": {**FABRIC, "port": 5}}, "port: "),
    ({"fabric": {k: v for k, v in FABRIC.items() if k != "realm"}}, "realm is not set. It is required"),
])
def test_bad_field_is_named(changes: dict[str, t.Any], said: str) -> None:
    assert refused(document() | changes | ({"device_info": None} if "device_info" in changes
                                           and changes["device_info"] is None else {})).startswith(said)


@pytest.mark.parametrize(
    ("key", "low", "high"), [("scan_interval", 0.1, 86400), ("workers", 1, 64), ("parallel_attaches", 1, 1024),
                             ("kube_api_qps", 1, 100000), ("kube_api_burst", 1, 100000)])
def test_bounds(key: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(EngineConfig.from_dict(document(**{key: value})), key) == value
    unusable: tuple[object, ...] = (low - 0.05, high + 1, 0, -1, "5", True, [], float("nan"))
    for bad in unusable:
        kind = "whole number" if key in ("workers", "parallel_attaches", "kube_api_burst") else "number"
        assert refused(document(**{key: bad})).startswith(f"{key}: {bad!r} is not usable: must be a {kind} from ")
    assert refused({**document(), key: None}).startswith(f"{key}: None ")


def test_former_name_of_a_key_works_with_a_deprecation() -> None:
    found = EngineConfig.from_dict(document(node_hands="ssh"), "c.yml")
    assert (found.node_operations, found.deprecations) == (
        "ssh", ("c.yml: node_hands is deprecated. Use node_operations.",))
    both = EngineConfig.from_dict(document(node_hands="none", node_operations="ssh"))
    assert (both.node_operations, len(both.deprecations)) == ("ssh", 1)
    assert refused({**document(), "node_hands": "x"}).startswith("node_operations: 'x' is not usable")
    assert EngineConfig.from_dict(document(node_operations="ssh")).deprecations == ()
    assert settings_of(document(node_hands="ssh")) == settings_of(document())


@pytest.mark.parametrize("hands", ["agent", "ssh", "none"])
def test_hands_are_one_of_three(hands: str) -> None:
    assert EngineConfig.from_dict(document(node_operations=hands)).node_operations == hands


@pytest.mark.parametrize("hands", ["ssh", "none"])
def test_direct_needs_the_node_agents(hands: str) -> None:
    said = refused({**document(), "node_operations": hands, "handover": "direct"})
    assert said.startswith(f"node_operations: {hands!r} is not usable: must be agent: ")
    assert EngineConfig.from_dict(document(handover="direct")).settings.direct_models


@pytest.mark.parametrize("hands", ["Agent", "", None, 5, ["agent"]])
def test_other_hands_are_refused(hands: object) -> None:
    said = refused({**document(), "node_operations": hands})
    assert said == f"node_operations: {hands!r} is not usable: must be one of agent, ssh, none"


@pytest.mark.parametrize("name", [5, "", "Not A Namespace", None])
def test_bad_namespace_is_refused(name: object) -> None:
    refused({**document(), "lease_namespace": name})


@pytest.mark.parametrize("key", ["workers", "parallel_attaches", "kube_api_burst"])
def test_whole_numbers(key: str) -> None:
    refused(document(**{key: 2.5}))
