# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that blocks of commands name: who runs them, in which folder, with which files and variables.

A setting is one of SETTINGS, or the name of a file: the block of YAML that a page marks with this name. Several are
joined by "and".
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ansible_collections.composable.infra.tests.archive import installed
from ansible_collections.composable.infra.tests.archive.galaxy import serving
from ansible_collections.composable.infra.tests.archive.installed import User
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.roles.guides import Block, blocks
from ansible_collections.composable.infra.tools.gates.workspace import sources
from ansible_collections.composable.infra.tools.setup import collections as others

# what pages put in other folders than the working folder
ELSEWHERE = {"/etc/composable-infra/config.yml": "config.yml", "/etc/kubernetes/admin.conf": "kubeconfig"}
CLAIM = ("claim.yml", "pod.yml")
EXAMPLE = ROOT / "examples" / "acme" / "toy"
# Namespaces of CoHDI's components, by their images.
COHDI = {"composable-dra-driver": "composable-dra", "dynamic-device-scaler": "composable-dra",
         "composable-resource-operator": "composable-resource-operator-system"}


@dataclass(frozen=True)
class World:
    """What all settings are made from. `cluster` starts it at the first call, and returns the folder of its files.
    `cluster_of_cohdi` is another one, in which controllers come and go. `toy_user_of` returns a user who has the
    example of a driver's collection too, and `cluster_of_toy` the cluster whose CDI Manager has this driver."""

    archive: Path
    user_of: Callable[[str, str], User]
    cluster: Callable[[], Path]
    cluster_of_cohdi: Callable[[], Path]
    toy_user_of: Callable[[str, str], User]
    cluster_of_toy: Callable[[], Path]


@dataclass
class Prepared:
    """One block's place: its user, working folder and variables. `ends` are undone afterwards."""

    world: World
    user: User
    pair: tuple[str, str]
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    ends: ExitStack = field(default_factory=ExitStack)


def prepare(block: Block, world: World, pair: tuple[str, str], folder: Path) -> Prepared:
    """Prepare everything that the setting of a block names."""
    place = Prepared(world, world.user_of(*pair), pair, folder)
    for name in block.setting.split(" and "):
        if name in SETTINGS:
            SETTINGS[name](place)
        else:
            write(name, block.page, place.folder)
    return place


def collection(place: Prepared) -> None:
    """Leave everything as it is: the collection is installed, and the working folder is empty."""


def galaxy(place: Prepared) -> None:
    """Take a home without the collection, and a Galaxy that has it."""
    home = place.folder.with_name("home")
    place.user = installed.new_user(home, *place.pair)
    versions = {name: installed.version_of(others.place(others.home(), name)) for name in others.NAMES}
    server: AbstractContextManager[str] = serving(place.world.archive, versions)
    place.variables["ANSIBLE_GALAXY_SERVER"] = place.ends.enter_context(server)


def archive(place: Prepared) -> None:
    """Take a home without the collection, and have the archive in the working folder."""
    galaxy(place)
    shutil.copy(place.world.archive, place.folder)


def checkout(place: Prepared) -> None:
    """Work in a copy of the checkout, without the collection in the home."""
    galaxy(place)
    shutil.copytree(sources(), place.folder, dirs_exist_ok=True, symlinks=True)


def cluster(place: Prepared) -> None:
    """Have a cluster with simulated nodes."""
    shutil.copyfile(place.world.cluster() / "kubeconfig", place.folder / "kubeconfig")
    place.variables["KUBECONFIG"] = str(place.folder / "kubeconfig")


def config(place: Prepared) -> None:
    """Have a cluster, the configuration of its CDI Manager, and a pod that waits for a device."""
    cluster(place)
    shutil.copyfile(place.world.cluster() / "config.yml", place.folder / "config.yml")
    wait(place, "train", "default")


def cohdi(place: Prepared) -> None:
    """Have CoHDI in a cluster, whose pods only seem to run, and a configuration without secrets."""
    files = place.world.cluster_of_cohdi()
    shutil.copyfile(files / "kubeconfig", place.folder / "kubeconfig")
    place.variables["KUBECONFIG"] = str(place.folder / "kubeconfig")
    found = yaml.safe_load((files / "config.yml").read_text(encoding="utf-8"))
    found["fabric"] = {key: found["fabric"][key] for key in ("manager", "endpoint", "tenant", "cluster")
                       if key in found["fabric"]}
    (place.folder / "config.yml").write_text(yaml.safe_dump(found), encoding="utf-8")
    if not (files / "cohdi.yml").exists():
        (files / "cohdi.yml").write_text(yaml.safe_dump_all(cohdi_objects()), encoding="utf-8")
        place.user.run(f"kubectl apply -f {files / 'cohdi.yml'}", place.folder, **place.variables)


def cohdi_objects() -> Iterator[dict[str, object]]:
    """What CoHDI's chart makes, as far as our roles look at it."""
    for namespace in sorted(set(COHDI.values())):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    for image, namespace in COHDI.items():
        labels = {"app": image}
        pod = {"containers": [{"name": "manager", "image": f"ghcr.io/cohdi/{image}:v0.2.1"}]}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": image, "namespace": namespace},
               "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": pod}}}
    secrets = {"username": "gpu", "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}
    yield {"apiVersion": "v1", "kind": "Secret", "stringData": secrets,
           "metadata": {"name": "composable-dra-secret", "namespace": "composable-dra"}}


def large_claim(place: Prepared) -> None:
    """Have a claim `training/large` that waits, in the cluster of another setting.

    A block before may have left idle devices, which the claim would get at once. They are returned. One that a pod uses
    stays, and the playbook says so.
    """
    nodes = json.dumps({"composable_detach_nodes": ["node-0", "node-1"]})
    place.user.run("kubectl create namespace training --dry-run=client -o yaml | kubectl apply -f -\n"
                   "kubectl delete pods,resourceclaims -n training --all --force\n"
                   f"ansible-playbook composable.infra.detach -e composable_config_path=config.yml -e '{nodes}' "
                   "|| echo 'a device is used'", place.folder, **place.variables)
    wait(place, "large", "training")


def wait(place: Prepared, name: str, namespace: str) -> None:
    """Create the claim and the pod of the quickstart under a name."""
    files = place.folder.with_name(name)
    files.mkdir()
    for file in CLAIM:
        write(file, "docs/quickstart.md", files)
        text = (files / file).read_text(encoding="utf-8").replace("train", name)
        (files / file).write_text(text, encoding="utf-8")
    place.user.run(f"kubectl delete -n {namespace} --ignore-not-found --force -f .\n"
                   f"kubectl create -n {namespace} -f .", files, **place.variables)


def toy_sources(place: Prepared) -> None:
    """Have the sources of the example of a driver's collection in the folder `toy`. Only ours is installed."""
    home = place.folder.with_name("home")
    place.user = installed.new_user(home, *place.pair)
    place.user.run(f"ansible-galaxy collection install --offline {place.world.archive}", home)
    shutil.copytree(EXAMPLE, place.folder / "toy", ignore=shutil.ignore_patterns("__pycache__"))


def toy(place: Prepared) -> None:
    """Have the example of a driver's collection installed beside ours."""
    place.user = place.world.toy_user_of(*place.pair)


def toy_cluster(place: Prepared) -> None:
    """Have both collections, a cluster whose CDI Manager has the driver of the example, and its configuration."""
    toy(place)
    for name in ("kubeconfig", "config.yml"):
        shutil.copyfile(place.world.cluster_of_toy() / name, place.folder / name)
    place.variables["KUBECONFIG"] = str(place.folder / "kubeconfig")


def secrets(place: Prepared) -> None:
    """Have a private key, an inventory with the variables that pages take from a vault, and no secret elsewhere."""
    (place.folder / "id_ed25519").write_text("a private key\n", encoding="utf-8")
    vault = {"vault_cdi_password": "secret", "vault_cdi_client_secret": "other"}
    (place.folder / "vault.yml").write_text(yaml.safe_dump({"all": {"vars": vault}}), encoding="utf-8")
    file = place.folder / "config.yml"
    if file.exists():
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
        found["fabric"] = {k: v for k, v in found["fabric"].items() if k not in ("password", "client_secret")}
        file.write_text(yaml.safe_dump(found), encoding="utf-8")
    place.variables["ANSIBLE_INVENTORY"] = "vault.yml"


SETTINGS: dict[str, Callable[[Prepared], None]] = {
    "collection": collection, "Galaxy": galaxy, "archive": archive, "checkout": checkout, "cluster": cluster,
    "config.yml": config, "large claim": large_claim, "secrets": secrets, "CoHDI": cohdi,
    "toy sources": toy_sources, "toy": toy, "toy cluster": toy_cluster}


def write(name: str, page: str, folder: Path) -> None:
    """Write the block of YAML that a page shows. Its files are in the working folder."""
    text = block_of(name, page).text
    for shown, real in ELSEWHERE.items():
        text = text.replace(shown, str(folder / real))
    (folder / name).write_text(text, encoding="utf-8")


def block_of(name: str, page: str) -> Block:
    """Return the block of YAML that has the mark `name`, or the mark without the suffix, first on this page."""
    found = [block for block in blocks() if block.language and block.mark in (name, name.partition(".")[0])]
    return min(found, key=lambda block: block.page != page)
