# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of declared resources: what is read, and that nothing a service leaves out or writes wrongly is fatal."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish import fields, resources

NASTY: tuple[t.Any, ...] = (
    None, True, 0, -1, 1.5, "", " ", "x", [], [None], [[]], {}, {"@odata.id": None}, {"@odata.id": 7}, [{"a": 1}],
)


@pytest.mark.parametrize(("value", "found"), [
    ("/redfish/v1/Systems/1", "/redfish/v1/Systems/1"), ("/redfish/v1/Systems/", "/redfish/v1/Systems"), ("/", "/"),
    ("//evil.example/redfish", None), ("https://evil.example/redfish", None), ("relative", None), ("", None), (7, None),
])
def test_only_a_path_on_the_service_is_a_link(value: t.Any, found: str | None) -> None:
    assert fields.path(value) == found
    assert fields.link({"@odata.id": value}) == found


@pytest.mark.parametrize(("reader", "value", "found"), [
    (fields.text, "  a ", "a"), (fields.text, "  ", None), (fields.text, 7, None),
    (fields.whole, 7, 7), (fields.whole, True, None), (fields.whole, "7", None), (fields.whole, 7.0, None),
    (fields.amount, 7, 7.0), (fields.amount, 2.5, 2.5), (fields.amount, -1, None), (fields.amount, True, None),
    (fields.amount, float("inf"), None), (fields.amount, "7", None),
    (fields.truth, False, False), (fields.truth, 0, None), (fields.truth, "true", None),
    (fields.texts, ["a", "", 7, "b"], ("a", "b")), (fields.texts, "a", ("a",)), (fields.texts, None, ()),
    (fields.objects, [{"a": 1}, 7], ({"a": 1},)), (fields.objects, {"a": 1}, ({"a": 1},)), (fields.objects, "x", ()),
    (fields.links, [{"@odata.id": "/a"}, {"@odata.id": "/b"}, {"@odata.id": "/a/"}], ("/a", "/b")),
    (fields.links, {"@odata.id": "/a"}, ("/a",)), (fields.links, ["/a", 7, {}], ("/a",)),
    (fields.link_set, [{"@odata.id": "/a"}], frozenset({"/a"})),
    (fields.identifier, "68D5E212-165B-4CA0-909B-C86B9CEE0112", "68d5e212-165b-4ca0-909b-c86b9cee0112"),
    (fields.identifier, "not-a-uuid", None), (fields.identifier, None, None),
])
def test_readers(reader: t.Callable[[t.Any], t.Any], value: t.Any, found: t.Any) -> None:
    assert reader(value) == found


def declared() -> list[tuple[type[fields.Resource], str]]:
    kinds = [kind for kind in vars(resources).values() if isinstance(kind, type) and issubclass(kind, fields.Resource)]
    return [(kind, name) for kind in kinds for base in kind.__mro__ for name, value in vars(base).items()
            if isinstance(value, fields.Field)]


def test_no_field_fails_whatever_the_service_wrote(rng: random.Random) -> None:
    """Every field of every resource, with a wrong value at every depth of its path."""
    assert len(declared()) > 60
    for kind, name in declared():
        path = [getattr(kind, name)._first, *getattr(kind, name)._deeper]
        for depth in range(1, len(path) + 1):
            body: t.Any = rng.choice(NASTY)
            for key in reversed(path[:depth]):
                body = {key: body}
            getattr(kind(body), name)


@pytest.mark.parametrize("body", [None, [], "x", 7])
def test_a_body_that_is_no_object_is_an_empty_resource(body: t.Any) -> None:
    found = resources.ComputerSystem(body, "/here")
    assert (found.uri, found.uuid, found.blocks, found.etag) == ("/here", None, (), None)


def test_a_list_is_read_once() -> None:
    zone = resources.Zone({"Links": {"Endpoints": [{"@odata.id": "/a"}]}})
    assert zone.endpoints == ("/a",)
    assert zone.endpoints is zone.endpoints
    assert zone.members is zone.members


def test_the_header_gives_the_etag_before_the_body() -> None:
    body = {"@odata.id": "/x/", "@odata.etag": "of the body"}
    assert resources.Zone(body).etag == "of the body"
    assert resources.Zone(body, "/x", "of the header").etag == "of the header"
    assert resources.Zone(body).uri == "/x"


def test_a_collection_may_misplace_its_members() -> None:
    right, wrong = {"Members": [{"@odata.id": "/a"}]}, {"Links": {"Members": [{"@odata.id": "/a"}]}}
    assert resources.Collection(right).entries() == resources.Collection(wrong).entries() != ()
    assert resources.Collection({}).entries() == ()


def test_an_endpoint_has_a_name_that_lasts() -> None:
    named = {"Identifiers": [{"DurableName": "x", "DurableNameFormat": "NQN"},
                             {"DurableName": "68D5E212-165B-4CA0-909B-C86B9CEE0112", "DurableNameFormat": "UUID"}]}
    assert resources.Endpoint(named).lasting_name() == "68d5e212-165b-4ca0-909b-c86b9cee0112"
    nameless = {"Identifiers": [{"DurableName": "x", "DurableNameFormat": "UUID"}]}
    assert resources.Endpoint(nameless).lasting_name() is None


def test_a_task_is_told_from_other_answers() -> None:
    assert resources.TaskResource({"@odata.type": "#Task.v1_7_4.Task"}).is_task()
    assert not resources.TaskResource({"@odata.type": "#TaskService.v1_3_0.TaskService"}).is_task()
    assert not resources.TaskResource(None).is_task()
