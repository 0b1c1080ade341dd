# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both inventories as Ansible's own programs read them: graph, variables, cache, texts that look like templates."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, SLICES
from ansible_collections.composable.infra.tests.bench.modules import measured
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi
from ansible_collections.composable.infra.tests.integration.modules.conftest import A100, L40S, Json, mark, run
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.reconcile import objects

EVIL = "{{ lookup('ansible.builtin.pipe', 'echo pwned') }}"


def graph(text: str) -> dict[str, list[str]]:
    """Hosts by group of ``ansible-inventory --graph``."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name = line.strip(" |-")
        if name.startswith("@"):
            group = name.strip("@:")
            found[group] = []
        elif name:
            found[group].append(name)
    return found


def source(folder: Path, name: str, **options: t.Any) -> str:
    path = folder / name
    path.write_text(json.dumps(options), encoding="utf-8")
    return str(path)


def inventory(folder: Path, path: str, *options: str) -> str:
    done = run(folder, "ansible-inventory", "-i", path, *options, ANSIBLE_INVENTORY_UNPARSED_FAILED="1")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def refused(folder: Path, path: str, **variables: str) -> str:
    done = run(folder, "ansible-inventory", "-i", path, "--list", ANSIBLE_INVENTORY_UNPARSED_FAILED="1",
               ANSIBLE_INVENTORY_ENABLED="auto", **variables)
    assert done.returncode != 0
    return done.stderr


def among(words: str, told: str) -> bool:
    """Whether the words are told, wherever lines were broken: before ansible-core 2.19 also within words."""
    return "".join(words.split()) in "".join(told.split())


@pytest.fixture(scope="module")
def attached(emulator: Emulator) -> Emulator:
    """One device on node-0."""
    with closing(connect(FabricConfig.from_dict(emulator.fabric_config()))) as fabric:
        fabric.attach(machine_uuid("node-0"), A100)
    return emulator


def test_graph_of_a_fabric(attached: Emulator, folder: Path) -> None:
    path = source(folder, "demo.fabric.yml", plugin="composable.infra.fabric", models=[A100, L40S],
                  keyed_groups=[{"key": "composable_health", "prefix": "health"}],
                  compose={"gpus": "composable_devices|length"}, groups={"full": "gpus | int > 0"},
                  **attached.fabric_config())
    assert graph(inventory(folder, path, "--graph")) == {
        "all": [], "ungrouped": [], "no_fabric": ["apart"], "without_devices": ["apart", "node-1", "node-2"],
        "fabric_1": ["node-0", "node-2"], "fabric_2": ["node-1"], "has_devices": ["node-0"],
        "model_nvidia_a100_pcie_40gb": ["node-0"], "free_nvidia_a100_pcie_40gb": ["node-0", "node-1", "node-2"],
        "free_nvidia_l40s": ["node-0", "node-1", "node-2"], "health_OK": ["apart", "node-0", "node-1", "node-2"],
        "full": ["node-0"]}
    host = json.loads(inventory(folder, path, "--host", "node-0"))
    # before ansible-core 2.19 an expression gives text
    assert (int(host["gpus"]), host["composable_machine"], host["composable_free"]) == (
        1, machine_uuid("node-0"), {A100: 3, L40S: 2})


def test_connection_from_the_environment_and_no_secret_in_the_output(attached: Emulator, folder: Path) -> None:
    path = source(folder, "env.fabric.yml", plugin="composable.infra.fabric")
    config = attached.fabric_config()
    variables = {f"COMPOSABLE_{name.upper()}": value for name, value in config.items()}
    done = run(folder, "ansible-inventory", "-i", path, "--list", "-vvv", **variables)
    assert set(json.loads(done.stdout[done.stdout.index("{"):])["_meta"]["hostvars"]) == {
        "apart", "node-0", "node-1", "node-2"}
    assert config["password"] not in done.stdout + done.stderr
    assert config["client_secret"] not in done.stdout + done.stderr


def test_cache_spares_the_manager(attached: Emulator, folder: Path) -> None:
    path = source(folder, "cached.fabric.yml", plugin="composable.infra.fabric", cache=True, cache_timeout=600,
                  cache_plugin="ansible.builtin.jsonfile", cache_connection=str(folder / "cache"),
                  keyed_groups=[{"key": "composable_fabric | string", "prefix": "on"}], **attached.fabric_config())
    first = inventory(folder, path, "--list")
    since = mark(attached)
    assert json.loads(inventory(folder, path, "--list")) == json.loads(first)
    assert mark(attached) == since
    # ansible-inventory has had that option since ansible-core 2.17
    book = folder / "nothing.json"
    book.write_text(json.dumps([{"name": "Nothing", "hosts": "all", "gather_facts": False}]), encoding="utf-8")
    assert run(folder, "ansible-playbook", "-i", path, "--flush-cache", str(book)).returncode == 0
    assert mark(attached) > since
    assert attached.fabric_config()["password"] not in "".join(
        p.read_text(encoding="utf-8") for p in (folder / "cache").iterdir())


@pytest.mark.parametrize(("change", "said"), [
    ({"endpoint": "http://x"}, "endpoint: 'http://x' is not allowed"), ({"manager": "xm"}, "xm"),
    ({"password": "wrong-one"}, "Invalid user credentials"), ({"tenant": machine_uuid("nobody")}, "not found"),
    ({"password": "{{ lookup('env', 'HOME') }}"}, "password: a template is not evaluated in an inventory file"),
    ({"endpont": "x"}, "endpont: is not an option of this plugin. Did you mean endpoint?")])
def test_unusable_source_is_named(emulator: Emulator, folder: Path, change: Json, said: str) -> None:
    path = source(folder, "bad.fabric.yml", plugin="composable.infra.fabric", **{**emulator.fabric_config(), **change})
    error = refused(folder, path)
    assert among(said, error)
    assert "Traceback" not in error
    assert "wrong-one" not in error


@pytest.mark.parametrize(("variable", "value", "said"), [
    ("COMPOSABLE_READ_TIMEOUT", "soon", "COMPOSABLE_READ_TIMEOUT: 'soon' is not allowed. It must be a number"),
    ("COMPOSABLE_MANAGER", "xm", "COMPOSABLE_MANAGER: 'xm' is not allowed. Allowed are fm, cm, nec, sunfish, redfish"),
    ("COMPOSABLE_MACHINES", "node-0", "COMPOSABLE_MACHINES: 'node-0' is not allowed. It must be a mapping as JSON"),
    ("COMPOSABLE_DRIVER_OPTIONS", '{"rack": "r1"}',
     "COMPOSABLE_DRIVER_OPTIONS: {'rack': 'r1'} is not allowed. Manager fm with auth password_grant does not use it"),
    ("COMPOSABLE_TENANT", "x", "COMPOSABLE_TENANT: 'x' is not allowed. It must be a UUID")])
def test_a_wrong_variable_is_named(emulator: Emulator, folder: Path, variable: str, value: str, said: str) -> None:
    given = {name: text for name, text in emulator.fabric_config().items() if name not in ("manager", "tenant")}
    path = source(folder, "env.fabric.yml", plugin="composable.infra.fabric", **given)
    error = refused(folder, path, **{variable: value})
    assert among(said, error)
    assert "Traceback" not in error


def test_file_of_another_name_is_for_another_plugin(emulator: Emulator, folder: Path) -> None:
    path = source(folder, "hosts.yml", plugin="composable.infra.fabric", **emulator.fabric_config())
    assert among("could not be verified by inventory plugin", refused(folder, path))


def test_text_of_a_manager_is_never_a_template(folder: Path, tmp_path: Path) -> None:
    spec: Json = {"models": [{"name": EVIL}], "timing": {"attach": 0.0, "detach": 0.0},
                  "fabrics": [{"id": 1, "devices": [{"model": EVIL, "machine": "node-0"}]}],
                  "machines": [{"name": "node-0", "fabric": 1}]}
    with Emulator.run(spec, tmp_path / "evil") as emulator:
        path = source(folder, "evil.fabric.yml", plugin="composable.infra.fabric", **emulator.fabric_config())
        book = folder / "show.json"
        book.write_text(json.dumps([{"name": "Show", "hosts": "node-0", "connection": "local", "gather_facts": False,
                                     "tasks": [{"name": "Show", "ansible.builtin.debug": {
                                         "msg": "{{ composable_devices[0].model }}"}}]}]), encoding="utf-8")
        done = run(folder, "ansible-playbook", "-i", path, str(book))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pwned" not in done.stdout.replace(EVIL, "").replace("echo pwned", "")
    assert "lookup(" in done.stdout


@pytest.fixture
def kubeconfig(attached: Emulator, tmp_path: Path) -> Iterator[str]:
    """Of an API server with three nodes: one has an idle GPU, one waits for one, one is cordoned."""
    (device,) = (d for d in attached.state()["devices"] if d["state"] == "attached")
    nodes = [objects.node(n, machine_uuid(n)) for n in ("node-0", "node-1", "node-2")]
    nodes[2]["spec"]["unschedulable"] = True
    nodes[2]["metadata"].setdefault("labels", {})["node-role.kubernetes.io/control-plane"] = ""
    waiting = objects.claim("train", objects.pool_result(), node="node-1")
    server = FakeApi(None)
    for kind, items in ((NODES, nodes), (SLICES, [objects.local_slice(device["serial"])]), (CLAIMS, [waiting])):
        server.on(f"GET {kind.path()}", {"items": items, "metadata": {"resourceVersion": "1"}})
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}), encoding="utf-8")
    yield str(path)
    server.stop()


def test_graph_of_a_cluster(attached: Emulator, kubeconfig: str, folder: Path) -> None:
    """The API server does not serve CoHDI's objects; they are not needed where a manager is asked."""
    path = source(folder, "demo.cluster.yml", plugin="composable.infra.cluster", kubeconfig=kubeconfig,
                  keyed_groups=[{"key": "composable_machine", "prefix": "machine"}], **attached.fabric_config())
    found = graph(inventory(folder, path, "--graph"))
    assert {name: hosts for name, hosts in found.items() if not name.startswith("machine_")} == {
        "all": [], "ungrouped": [], "has_devices": ["node-0"], "has_idle_gpu": ["node-0"], "waiting": ["node-1"],
        "cordoned": ["node-2"], "not_ready": ["node-0", "node-1", "node-2"], "fabric_1": ["node-0", "node-2"],
        "fabric_2": ["node-1"], "model_nvidia_a100_pcie_40gb": ["node-0"]}
    assert len([name for name in found if name.startswith("machine_")]) == 3
    host = json.loads(inventory(folder, path, "--host", "node-1"))
    assert [c["state"] for c in host["composable_claims"]] == ["preparing"]


def test_cluster_without_a_manager(kubeconfig: str, folder: Path) -> None:
    path = source(folder, "alone.cluster.yml", plugin="composable.infra.cluster", kubeconfig=kubeconfig)
    assert graph(inventory(folder, path, "--graph")) == {
        "all": [], "ungrouped": [], "waiting": ["node-1"], "cordoned": ["node-2"],
        "not_ready": ["node-0", "node-1", "node-2"]}


def test_shipped_inventory_makes_the_group_that_the_playbooks_prepare(kubeconfig: str, folder: Path) -> None:
    shipped = yaml.safe_load((ROOT / "inventories" / "cluster.yml").read_text(encoding="utf-8"))
    path = source(folder, "shipped.cluster.yml", **shipped, kubeconfig=kubeconfig)
    assert graph(inventory(folder, path, "--graph"))["gpu_nodes"] == ["node-0", "node-1"]


def test_cluster_that_cannot_be_reached(emulator: Emulator, folder: Path) -> None:
    path = source(folder, "gone.cluster.yml", plugin="composable.infra.cluster", kubeconfig="/nowhere/kubeconfig")
    assert among("/nowhere/kubeconfig: cannot be read: No such file or directory", refused(folder, path))


def test_large_fabric_stays_small(tmp_path: Path) -> None:
    """2,000 machines with 40,000 devices are read within 300 MiB, by module and by inventory."""
    names = [f"node-{n}" for n in range(2000)]
    spec: Json = {"models": [{"name": A100}], "machines": [{"name": n, "fabric": 1} for n in names],
                  "fabrics": [{"id": 1, "devices": [{"model": A100, "count": 20, "machine": n} for n in names]}]}
    with Emulator.run(spec, tmp_path / "large") as emulator:
        options = emulator.fabric_config()
        path = source(tmp_path, "large.fabric.yml", plugin="composable.infra.fabric", **options)
        (tmp_path / "play.json").write_text(json.dumps([{
            "name": "All", "hosts": "localhost", "connection": "local", "gather_facts": False,
            "tasks": [{"name": "All", "composable.infra.fabric_info": options}]}]), encoding="utf-8")
        found = [measured(tmp_path, "ansible-inventory", "-i", path, "--list"),
                 measured(tmp_path, "ansible-playbook", "-i", "localhost,", "play.json")]
    assert [f for f in found if not 0 < f["mib"] < 300] == []
