# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is built from Go modules, and how the go.mod for it is derived."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import gobuild
from ansible_collections.composable.infra.lab.binaries.releases import NODE_COMPONENTS, RELEASES
from ansible_collections.composable.infra.lab.errors import LabError

GO_MOD = """module k8s.io/kubernetes

go 1.26.0

require (
    k8s.io/api v0.0.0
    github.com/example/other v1.0.0
)

replace k8s.io/single => ./staging/src/k8s.io/single

replace (
    k8s.io/apimachinery => ./staging/src/k8s.io/apimachinery
    k8s.io/api => ./staging/src/k8s.io/api
    k8s.io/elsewhere => ../elsewhere
    github.com/example/other => github.com/example/fork v1.0.1
)
"""


def test_staging_modules_are_those_replaced_by_staging_folders() -> None:
    assert gobuild.staging_modules(GO_MOD) == ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/single"]


def test_consumer_go_mod_pins_the_staging_modules() -> None:
    what = gobuild.recipe(RELEASES["1.36"], "kube-scheduler")
    text = gobuild.consumer_go_mod(what, [("k8s.io/api", "0.36.3"), ("k8s.io/kms", "0.36.3")])
    assert "go 1.26.0\n" in text
    assert "require k8s.io/kubernetes v1.36.3\n" in text
    assert "replace (\n\tk8s.io/api => k8s.io/api v0.36.3\n\tk8s.io/kms => k8s.io/kms v0.36.3\n)\n" in text


def test_consumer_go_mod_without_replaces_has_no_replace_block() -> None:
    text = gobuild.consumer_go_mod(gobuild.recipe(RELEASES["1.36"], "kwok"), [])
    assert "replace" not in text
    assert "require sigs.k8s.io/kwok v0.8.0\n" in text


def test_one_recipe_builds_the_three_kubernetes_binaries() -> None:
    release = RELEASES["1.35"]
    recipes = {gobuild.recipe(release, name) for name in ("kube-apiserver", "kube-controller-manager")}
    (what,) = recipes
    assert [name for _package, name in what.mains] == ["kube-apiserver", "kube-scheduler", "kube-controller-manager"]
    assert what.go == "1.25.0"


def test_etcd_and_kwok_have_modules_of_their_own() -> None:
    release = RELEASES["1.36"]
    assert gobuild.recipe(release, "etcd").mains == (("go.etcd.io/etcd/server/v3", "etcd"),)
    assert gobuild.recipe(release, "kwok").mains == (("sigs.k8s.io/kwok/cmd/kwok", "kwok"),)


@pytest.mark.parametrize("component", NODE_COMPONENTS)
def test_every_program_of_a_real_node_has_a_recipe(component: str) -> None:
    release = RELEASES["1.36"]
    what = gobuild.recipe(release, component)
    assert component in [name for _package, name in what.mains]
    assert what.version == release.version_of(component)
    assert what.cgo == (component == "runc")


def test_linker_flags_carry_the_exact_version() -> None:
    flags = gobuild.kubernetes_ldflags(RELEASES["1.34"])
    assert f"-X k8s.io/component-base/version.gitVersion=v{RELEASES['1.34'].kubernetes}" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=34" in flags


def fake_go(folder: Path, body: str) -> str:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def test_build_derives_replaces_and_names_the_binaries(tmp_path: Path) -> None:
    (tmp_path / "upstream.mod").write_text(GO_MOD)
    answer = json.dumps({"GoMod": str(tmp_path / "upstream.mod")})
    build = 'while [ "$1" != -o ]; do shift; done; cp go.mod "$2"'
    go = fake_go(tmp_path, f"case $1 in mod) echo '{answer}';; build) {build};; esac")
    built = gobuild.build(go, RELEASES["1.36"], "kube-apiserver", tmp_path / "work")
    assert set(built) == {"kube-apiserver", "kube-scheduler", "kube-controller-manager"}
    assert "k8s.io/single => k8s.io/single v0.36.3" in built["kube-scheduler"].read_text()


def test_failed_build_shows_the_end_of_what_go_says(tmp_path: Path) -> None:
    go = fake_go(tmp_path, "echo 'dial tcp: lookup proxy: no such host' >&2; exit 1")
    with pytest.raises(LabError, match="no such host"):
        gobuild.build(go, RELEASES["1.36"], "etcd", tmp_path / "work")


def test_release_without_staging_modules_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "upstream.mod").write_text("module k8s.io/kubernetes\n")
    go = fake_go(tmp_path, f"echo '{json.dumps({'GoMod': str(tmp_path / 'upstream.mod')})}'")
    with pytest.raises(LabError, match="replaces no staging modules"):
        gobuild.build(go, RELEASES["1.36"], "kube-apiserver", tmp_path / "work")
