# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a service: pages, expansion, what is absent, what may not be taken for absent, and its words about errors."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.reader import Reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.resources import (
    ResourceBlock,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import (
    Service,
    embedded,
    local_path,
    read_error,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Missing,
    Refused,
    Unavailable,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    BLOCKS,
    PARTS,
    ROOT,
    SYSTEMS,
    FakeService,
    block,
    collection,
    composable,
    gpu,
    ref,
    refs,
    root,
)

EXPANDS = {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True, "MaxLevels": 6}}}


def service(documents: dict[str, t.Any]) -> tuple[Service, FakeService]:
    fake = FakeService(documents)
    return Service(fake.as_session()), fake


def uids(found: t.Iterable[ResourceBlock]) -> list[str | None]:
    return [entry.ident for entry in found]


def test_pages_are_followed_to_the_end() -> None:
    pages = {
        BLOCKS: {**collection(BLOCKS, ["a", "b"]), "Members@odata.count": 4,
                 "Members@odata.nextLink": f"{BLOCKS}?$skip=2"},
        f"{BLOCKS}?$skip=2": {"Members": refs([f"{BLOCKS}/c"]), "Members@odata.nextLink": f"{BLOCKS}?$skip=3"},
        f"{BLOCKS}?$skip=3": {"Members": refs([f"{BLOCKS}/d"])},
    }
    reading, _fake = service({ROOT: root(), **pages, **{f"{BLOCKS}/{name}": block(name) for name in "abcd"}})
    assert uids(reading.members(ResourceBlock, BLOCKS)) == ["a", "b", "c", "d"]


def test_pages_that_lead_in_a_circle_end() -> None:
    page = {**collection(BLOCKS, ["a"]), "Members@odata.nextLink": f"{BLOCKS}?$skip=1"}
    reading, _fake = service({ROOT: root(), BLOCKS: page, f"{BLOCKS}?$skip=1": page, f"{BLOCKS}/a": block("a")})
    assert uids(reading.members(ResourceBlock, BLOCKS)) == ["a"]


@pytest.mark.parametrize("told", [f"{BLOCKS}/b", f"{SYSTEMS}/a"])
def test_an_answer_about_another_resource_is_not_believed(told: str) -> None:
    reading, _fake = service({ROOT: root(), f"{BLOCKS}/a": {**block("a"), "@odata.id": told}})
    with pytest.raises(Unavailable, match=f"read {BLOCKS}/a.*it is about {told}"):
        reading.read(ResourceBlock, f"{BLOCKS}/a")


@pytest.mark.parametrize("told", [f"{BLOCKS}/a/", f"{BLOCKS}/a?$expand=.", f"{BLOCKS}/A", None, 7])
def test_a_resource_may_spell_its_own_name_otherwise(told: object) -> None:
    reading, _fake = service({ROOT: root(), f"{BLOCKS}/a": {**block("a"), "@odata.id": told}})
    assert reading.read(ResourceBlock, f"{BLOCKS}/a") is not None


def pages(names: list[str], count: int | None = None) -> dict[str, t.Any]:
    """A collection in pages of two."""
    found: dict[str, t.Any] = {}
    for start in range(0, len(names), 2):
        more = f"{BLOCKS}?$skip={start + 2}"
        found[f"{BLOCKS}?$skip={start}" if start else BLOCKS] = {
            "@odata.id": BLOCKS, "Members": refs(f"{BLOCKS}/{name}" for name in names[start:start + 2]),
            "Members@odata.count": len(names) if count is None else count,
            **({"Members@odata.nextLink": more} if start + 2 < len(names) else {})}
    return found


class Changing(FakeService):
    """A service whose collection of blocks changes after its first page was read ``times`` times."""

    def __init__(self, before: list[str], after: list[str], times: int = 1) -> None:
        blocks = {f"{BLOCKS}/{name}": block(name) for name in (*before, *after)}
        super().__init__({ROOT: root(), **pages(before), **blocks})
        self.before, self.after, self.left = pages(before), pages(after), times

    def get(self, path: str) -> t.Any:
        if path == BLOCKS:
            self.documents |= self.before if self.left else self.after
        answer = super().get(path)
        if path == BLOCKS and self.left:
            self.left -= 1
            beyond = {"Members": [], "Members@odata.count": len(self.after)}
            self.documents |= {**dict.fromkeys(self.before, beyond), **self.after}
        return answer


@pytest.mark.parametrize("after", [["b", "c"], ["x", "a", "b", "c"]])
def test_a_collection_that_changes_between_its_pages_is_read_again(after: list[str]) -> None:
    fake = Changing(["a", "b", "c"], after)
    assert uids(Service(fake.as_session()).members(ResourceBlock, BLOCKS)) == after


def test_a_collection_that_never_has_what_it_says_is_not_believed() -> None:
    fake = FakeService({ROOT: root(), **pages(["a", "b", "c"], count=4), **{f"{BLOCKS}/{n}": block(n) for n in "abc"}})
    with pytest.raises(Unavailable, match="its count and its list of members differed"):
        Service(fake.as_session()).members(ResourceBlock, BLOCKS)
    assert [call.path for call in fake.calls].count(BLOCKS) == 3


def test_a_page_that_is_linked_and_absent_is_no_end() -> None:
    gone = Missing("the page is gone")
    gone.status = 404
    fake = FakeService({ROOT: root(), **pages(["a", "b", "c"]), f"{BLOCKS}?$skip=2": gone})
    with pytest.raises(Unavailable, match="its count and its list of members differed"):
        Service(fake.as_session()).members(ResourceBlock, BLOCKS)


def foreign() -> Unavailable:
    """A 404 that is not the service's own."""
    error = Unavailable("the CDI Manager answered 404: text/html, not the form that is expected")
    error.status = 404
    return error


def test_a_404_of_a_proxy_is_not_taken_for_absent() -> None:
    reading, _fake = service({ROOT: root(), f"{BLOCKS}/a": foreign(), BLOCKS: foreign()})
    with pytest.raises(Unavailable):
        reading.read(ResourceBlock, f"{BLOCKS}/a")
    with pytest.raises(Unavailable):
        reading.members(ResourceBlock, BLOCKS)
    assert reading.read_all(ResourceBlock, [f"{BLOCKS}/a"], known={})[0].unreadable


def test_members_are_read_once_and_those_that_are_gone_are_left_out() -> None:
    reading, fake = service({ROOT: root(), BLOCKS: collection(BLOCKS, ["a", "b", "a"]), f"{BLOCKS}/a": block("a")})
    assert uids(reading.members(ResourceBlock, BLOCKS)) == ["a"]
    assert [call.path for call in fake.calls].count(f"{BLOCKS}/a") == 1


def test_a_member_that_cannot_be_read_is_not_taken_for_gone() -> None:
    reading, _fake = service({
        ROOT: root(), BLOCKS: collection(BLOCKS, ["a", "b"]), f"{BLOCKS}/a": block("a"),
        f"{BLOCKS}/b": Unavailable("not now"),
    })
    with pytest.raises(Unavailable):
        reading.members(ResourceBlock, BLOCKS)


@pytest.mark.parametrize("uri", [None, f"{ROOT}/Nowhere"])
def test_an_absent_collection_is_empty(uri: str | None) -> None:
    assert service({ROOT: root()})[0].members(ResourceBlock, uri) == ()


def test_expansion_is_used_where_it_is_offered() -> None:
    whole = {**collection(BLOCKS, ["a", "b"]), "Members": [block("a"), ref(f"{BLOCKS}/b")]}
    documents = {ROOT: root(**EXPANDS), BLOCKS: whole, f"{BLOCKS}/a": block("a"), f"{BLOCKS}/b": block("b")}
    reading, fake = service(documents)
    assert uids(reading.members(ResourceBlock, BLOCKS, levels=2)) == ["a", "b"]
    asked = [call.path for call in fake.calls if call.path.startswith(BLOCKS)]
    assert asked == [f"{BLOCKS}?$expand=.($levels=2)", f"{BLOCKS}/b"]


def test_no_deeper_than_the_service_can() -> None:
    features = {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True}}}
    reading, fake = service({ROOT: root(**features), BLOCKS: collection(BLOCKS, [])})
    reading.members(ResourceBlock, BLOCKS, levels=2)
    assert fake.calls[-1].path == f"{BLOCKS}?$expand=.($levels=1)"


def test_a_service_that_refuses_what_it_offers_is_asked_plainly() -> None:
    class Refusing(FakeService):
        def get(self, path: str) -> t.Any:
            if "$expand" in path:
                raise Refused("the query is not supported")
            return super().get(path)

    fake = Refusing({ROOT: root(**EXPANDS), BLOCKS: collection(BLOCKS, ["a"]), f"{BLOCKS}/a": block("a")})
    reading = Service(fake.as_session())
    for _time in range(2):
        assert uids(reading.members(ResourceBlock, BLOCKS)) == ["a"]
    assert sum("$expand" in call.path for call in fake.calls) == 1


def test_no_service_at_all() -> None:
    with pytest.raises(Missing, match="no Redfish service"):
        service({})[0].root()


def test_a_reply_that_is_no_object() -> None:
    with pytest.raises(FabricError, match="no JSON object"):
        service({ROOT: root(), f"{BLOCKS}/a": ["a"]})[0].read(ResourceBlock, f"{BLOCKS}/a")


@pytest.mark.parametrize(("location", "path"), [
    ("/redfish/v1/TaskService/TaskMonitors/1", "/redfish/v1/TaskService/TaskMonitors/1"),
    ("https://elsewhere.example:8443/redfish/v1/T/1?x=1", "/redfish/v1/T/1?x=1"), (None, None), ("", None), ("x", None),
])
def test_a_location_is_a_path_of_this_service_whatever_its_host(location: str | None, path: str | None) -> None:
    assert local_path(location) == path


@pytest.mark.parametrize(("body", "code", "words"), [
    ({"error": {"code": "Base.1.0.GeneralError", "message": "general", "@Message.ExtendedInfo": [
        {"MessageId": "Base.1.0.ResourceInUse", "Message": "it is in use"}, {"Message": "try later"}]}},
     "Base.1.0.ResourceInUse", "it is in use; try later"),
    ({"error": {"code": "Base.1.0.GeneralError", "message": "general"}}, "Base.1.0.GeneralError", "general"),
    ({"error": {"@Message.ExtendedInfo": {"MessageId": "X"}}}, "X", "X"), ({"error": {}}, None, "no message"),
])
def test_words_about_errors(body: t.Any, code: str | None, words: str) -> None:
    said = read_error(body)
    assert said is not None
    assert (said.code, said.message) == (code, words)


@pytest.mark.parametrize("body", [None, [], "x", {}, {"error": "x"}, {"detail": {}}])
def test_what_is_not_redfishs_form(body: t.Any) -> None:
    assert read_error(body) is None


def test_what_came_inside_is_not_read_again() -> None:
    body = {"Processors": [gpu("a"), ref(f"{PARTS}/b")], "ConnectedEntities": [{"EntityLink": gpu("c")}]}
    assert set(embedded(body, ["Processors", "ConnectedEntities"])) == {f"{PARTS}/a", f"{PARTS}/c"}
    documents = composable([block("a"), block("b")])
    documents[f"{BLOCKS}/a"]["Processors"] = [gpu("a")]
    fake = FakeService(documents)
    tree = Reader(Service(fake.as_session())).tree()
    assert {uri: part.model for uri, part in tree.parts.items()} == {f"{PARTS}/a": "A100", f"{PARTS}/b": "A100"}
    assert [call.path for call in fake.calls if call.path.startswith(PARTS)] == [f"{PARTS}/b"]


def test_parts_are_read_once_in_a_while() -> None:
    fake = FakeService(composable([block("a")]))
    reader = Reader(Service(fake.as_session()))
    reader.tree()
    reader.tree()
    paths = [call.path for call in fake.calls]
    assert (paths.count(f"{PARTS}/a"), paths.count(f"{BLOCKS}/a")) == (1, 2)
