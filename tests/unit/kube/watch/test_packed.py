# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was packed comes back the same, whatever was learned meanwhile, and objects that are alike take little."""

from __future__ import annotations

import random
import sys
import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, nodes, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.contents import Contents, PackedObjects
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.packed import Packer
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.parts import Trimmed
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.bench.large import objects

Json = dict[str, t.Any]
KINDS: dict[str, tuple[t.Callable[[Json], Json], t.Callable[[int], Json], int]] = {
    "node": (nodes.trimmed, objects.node, 200),
    "resource": (cohdi.trimmed, lambda i: objects.resource(*divmod(i, objects.GPUS)), 450),
    "claim": (claims.trimmed, lambda i: objects.claim(*divmod(i, objects.USED)), 250),
    "pod": (pods.trimmed, lambda i: objects.pod(*divmod(i, 10)), 200),
}


def pod(name: str, version: int = 1, **more: t.Any) -> Json:
    return {"metadata": {"name": name, "namespace": "jobs", "uid": name, "resourceVersion": str(version)}, **more}


def random_value(rng: random.Random, depth: int = 3) -> t.Any:
    """Any JSON."""
    plain: list[t.Any] = [None, True, rng.randrange(-10**20, 10**20), rng.random(), "", "é\ud800\x00\"", "x" * 200]
    if not depth or rng.random() < 0.4:
        return rng.choice(plain)
    values = [random_value(rng, depth - 1) for _unused in range(rng.randrange(4))]
    return values if rng.random() < 0.5 else {f"k{i}": value for i, value in enumerate(values)}


def test_any_object_comes_back_the_same(rng: random.Random) -> None:
    packer = Packer()
    made = [Trimmed({"a": random_value(rng), "b": random_value(rng)}) for _unused in range(200)]
    packed = [packer.pack(obj) for obj in made]
    assert [packer.unpack(each) for each in packed] == made


@pytest.mark.parametrize("kind", KINDS)
def test_objects_that_are_alike_take_little(kind: str) -> None:
    trim, made, most = KINDS[kind]
    packer = Packer()
    kept = [Trimmed(trim(made(i))) for i in range(200)]
    packed = [packer.pack(obj) for obj in kept]
    assert [packer.unpack(each) for each in packed] == kept
    assert sum(map(sys.getsizeof, packed[100:])) / 100 < most


def test_a_kind_that_comes_later_is_learned(rng: random.Random) -> None:
    packer = Packer()

    def later(i: int) -> Trimmed:
        return Trimmed({f"{word}": [word * 3, {"of": word}] for word in words} | {"name": f"later-{i}"})

    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _unused in range(30)]
    for i in range(40):
        packer.pack(Trimmed({"name": f"early-{i}", "spec": {"a": "b"}}))
    first = len(packer.pack(later(0)))
    for i in range(600):
        packer.pack(later(i))
    assert len(packer.pack(later(700))) * 4 < first


def test_what_is_no_json_is_kept_as_it_is() -> None:
    store = Store({}, trim=lambda obj: obj)
    odd = pod("a", when={1, 2})
    store.upsert(odd)
    assert store.get("a", "jobs") == odd


def test_an_object_is_the_same_dict_as_long_as_somebody_holds_it() -> None:
    contents = Contents(recent=0)
    contents.put(("jobs", "a"), Trimmed(pod("a")))
    held = contents[("jobs", "a")]
    for number in range(20):
        contents.put(("jobs", f"b{number}"), Trimmed(pod(f"b{number}")))
        assert contents[("jobs", f"b{number}")]["metadata"]["name"] == f"b{number}"
    assert contents[("jobs", "a")] is held


def test_only_objects_asked_for_lately_are_decoded() -> None:
    contents = Contents(recent=1000)
    for number in range(100):
        contents.put(("jobs", str(number)), Trimmed(pod(str(number))))
    assert not contents._live
    for number in [*range(100), *range(100)]:
        assert contents[("jobs", str(number))]["metadata"]["name"] == str(number)
    assert 0 < len(contents._live) < 40
    assert sum(1 for _unused in contents) == 100
    assert len(contents._live) < 40, "who reads all keeps none"


def test_objects_nobody_asked_for_in_a_round_are_decoded_no_longer() -> None:
    store = Store({}, trim=lambda obj: obj)
    for number in range(100):
        store.upsert(pod(str(number)))
    for number in range(100):
        store.get(str(number), "jobs")
    store.age()
    store.get("7", "jobs")
    store.age()
    assert [name for _namespace, name in store._objects._live] == ["7"]
    store.age()
    assert not store._objects._live
    assert store.get("7", "jobs") == pod("7")


def test_what_thirty_workers_read_at_a_time_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, decoded = Store({}, trim=lambda obj: obj), Counter[bytes]()
    objects = [pod(str(number), text="x" * 300) for number in range(320)]  # ten of each worker
    for obj in objects:
        store.upsert(obj)
    del objects
    unpack = store._objects._packer.unpack

    def counted(kept: bytes) -> Trimmed:
        decoded[kept] += 1
        return unpack(kept)

    monkeypatch.setattr(store._objects._packer, "unpack", counted)
    for _turn in range(5):
        for number in range(320):
            store.get(str(number), "jobs")
    assert decoded.total() == 320


def test_what_is_only_replaced_pushes_out_nothing_that_is_asked_for() -> None:
    """Watches replace objects all the time, and a list compares every one, though nobody asks for them."""
    store = Store({}, trim=lambda obj: obj)
    for number in range(3000):
        store.upsert(pod(str(number), text="x" * 300))
    store.get("0", "jobs")
    for version in (2, 3):
        for number in range(1, 3000):
            store.upsert(pod(str(number), version, text="x" * 300))
            store.upsert(pod(str(number), 1))
    store.retain({("jobs", str(number)) for number in range(2000)}, "1")
    assert [name for _namespace, name in store._objects._live] == ["0"]


def test_what_replaces_an_object_that_was_asked_for_lately_is_not_decoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store({}, trim=lambda obj: obj)
    for name in ("asked", "other"):
        store.upsert(pod(name))
    store.get("asked", "jobs")
    for name in ("asked", "other"):
        store.upsert(pod(name, 2))
    assert [name for _namespace, name in store._objects._live] == ["asked"]
    monkeypatch.setattr(store._objects._packer, "unpack", lambda _kept: pytest.fail("decoded"))
    assert store.get("asked", "jobs") == pod("asked", 2)


def test_a_handle_stands_for_the_object_of_its_moment() -> None:
    store = Store({"namespace": lambda obj: (obj["metadata"]["namespace"],)}, trim=lambda obj: obj)
    store.upsert(pod("a", 1))
    before = store.handles("namespace", "jobs")
    assert store.handles("namespace", "jobs")[0][1] is before[0][1]
    store.upsert(pod("a", 2))
    assert store.handles("namespace", "jobs")[0][1] is not before[0][1]
    assert [each["metadata"]["resourceVersion"] for each in store.packed(before)] == ["1"]
    assert store.all_handles() == store.handles("namespace", "jobs")


def test_packed_objects_are_a_sequence() -> None:
    store = Store({"namespace": lambda obj: (obj["metadata"]["namespace"],)}, trim=lambda obj: obj)
    for name in "abc":
        store.upsert(pod(name))
    packed = store.packed(store.handles("namespace", "jobs"))
    assert isinstance(packed, PackedObjects)
    assert [len(packed), packed[0], *packed[1:]] == [3, pod("a"), pod("b"), pod("c")]
    assert packed == [pod("a"), pod("b"), pod("c")]
    assert packed == store.packed(store.handles("namespace", "jobs"))
    assert packed != [pod("a"), pod("b"), pod("d")]


def test_reading_one_by_one_gives_what_was_there_at_the_start() -> None:
    store = Store({"namespace": lambda obj: (obj["metadata"]["namespace"],)}, trim=lambda obj: obj)
    for name in "abc":
        store.upsert(pod(name))
    found = []
    for obj in store.each():
        found.append(obj["metadata"]["name"])
        store.remove(pod("c", 2))
    assert found == ["a", "b", "c"]
    assert [obj["metadata"]["name"] for obj in store.each_by("namespace", "jobs")] == ["a", "b"]
    assert store.names() == {"a", "b"}
    assert store.count("namespace", "jobs") == 2
