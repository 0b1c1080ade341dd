# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who came in the last days: what each source tells, and that one which cannot be read takes no other along."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CONFIG_MAPS,
    EVENTS,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time, format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import Counted, Stored
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import TOTAL
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    Span,
    Timeline,
    dump,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.waits_keeper import FIELD, NAME
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.past_arrivals import (
    Came,
    PastArrivals,
    read_past,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]
BORN = 1_800_000_000.0
HOUR = int(BORN // 3600)


@pytest.fixture
def api() -> FakeApi:
    """An API server without Events, and without the ConfigMap of waits."""
    return FakeApi()


def past(api: FakeApi, *raws: Json) -> PastArrivals:
    """What is known, with these objects."""
    kinds = {"ResourceClaim": "resourceclaims", "ComposableResource": "composableresources"}
    found: dict[str, list[Json]] = {}
    for raw in raws:
        found.setdefault(kinds[raw["kind"]], []).append(raw)
    return read_past(api.client, "composable-infra", settings(), found)


def served(claim: str, *, created: float = 0.0, ran: float = 10.0) -> Timeline:
    """A claim whose pod ran so many seconds after BORN."""
    return Timeline(claim, f"uid-{claim}", "node-0", BORN + created,
                    (Span("plan", BORN + created, BORN + created + 1.0), Span("start", BORN + ran - 1.0, BORN + ran)))


def device(name: str, *timelines: Timeline, **more: t.Any) -> Json:
    """A ComposableResource that these claims have used, one after the other."""
    raw = objects.resource(name, device=name, state="Online", **more)
    raw["metadata"]["annotations"][ANNOTATION] = dump(timelines)
    return raw


def event(pod: str, at: float, reason: str = "Killing", kind: str = "Pod", field: str = "lastTimestamp") -> Json:
    """Something happened to a pod."""
    namespace, _unused, name = pod.partition("/")
    form = format_micro_time if field == "eventTime" else format_time
    return {"kind": "Event", "metadata": objects.meta(f"{name}.{reason}.{at}", namespace), "reason": reason,
            field: form(BORN + at), "involvedObject": {"kind": kind, "namespace": namespace, "name": name}}


def test_a_claim_of_a_timeline_has_its_moment_and_its_devices(api: FakeApi) -> None:
    one, other = served("ml/train", created=5.0), served("ml/small", created=70.0, ran=80.0)
    found = past(api, device("gpu-a", one), device("gpu-b", one, other))
    assert found.came == (Came(BORN + 5.0, "ml", A100, 2), Came(BORN + 70.0, "ml", A100, 1))
    assert (found.served, found.notes) == ({}, ())


def test_a_claim_that_is_there_counts_once(api: FakeApi) -> None:
    """In a timeline its devices are known; of one that waits only that it came."""
    claim = gated_pods.claim("train")
    claim["metadata"] |= {"uid": "uid-default/train", "creationTimestamp": format_time(BORN + 5.0)}
    waits = gated_pods.claim("waits")
    waits["metadata"]["creationTimestamp"] = format_time(BORN + 90.0)
    strange = gated_pods.claim("nic")
    strange["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nic.example.com"
    found = past(api, device("gpu-a", served("default/train", created=5.0)), claim, waits, strange)
    assert found.came == (Came(BORN + 5.0, "default", A100, 1), Came(BORN + 90.0, "default"))


@pytest.mark.parametrize("field", ["lastTimestamp", "eventTime"])
@pytest.mark.parametrize("claim", ["ml/train-0", "ml/train-0-gpu-x7k2p"])
def test_an_event_tells_how_long_a_pod_ran(api: FakeApi, claim: str, field: str) -> None:
    api.put(EVENTS, event("ml/train-0", 310.0, field=field))
    api.put(EVENTS, event("ml/train", 20.0, reason="Scheduled"))
    api.put(EVENTS, event("other/train-0", 20.0))
    api.put(EVENTS, event("ml/train-0-gpu", 20.0, kind="Node"))
    assert past(api, device("gpu-a", served(claim))).came == (Came(BORN, "ml", A100, 1, 300.0),)


def test_a_device_that_is_idle_tells_when_its_last_claim_ended(api: FakeApi) -> None:
    old, last = served("ml/old"), served("ml/last", created=100.0, ran=110.0)
    raw = device("gpu-a", old, last)
    raw["metadata"]["annotations"][settings().label(cohdi.LAST_USED)] = format_time(BORN + 170.0)
    assert [each.lifetime for each in past(api, raw).came] == [0.0, 60.0]
    raw["metadata"]["annotations"][cohdi.IN_USE] = "true"
    assert [each.lifetime for each in past(api, raw).came] == [0.0, 0.0]


def test_a_claim_that_is_there_has_not_ended(api: FakeApi) -> None:
    raw = device("gpu-a", served("default/train"))
    raw["metadata"]["annotations"][settings().label(cohdi.LAST_USED)] = format_time(BORN + 170.0)
    claim = gated_pods.claim("train")
    claim["metadata"]["uid"] = "uid-default/train"
    assert [each.lifetime for each in past(api, raw, claim).came] == [0.0]


def waits(*rows: tuple[int, str, str, int]) -> Json:
    """The ConfigMap of the controllers."""
    table = {(hour, namespace, step): Counted(Counter({3: count}), 1.0) for hour, namespace, step, count in rows}
    return {"metadata": {"name": NAME, "namespace": "composable-infra"}, "data": {FIELD: Stored(table).text()}}


def test_served_claims_are_counted_by_hour_and_namespace(api: FakeApi) -> None:
    api.put(CONFIG_MAPS, waits((HOUR, "ml", TOTAL, 7), (HOUR, "ml", "attach", 5), (HOUR - 3, "web", TOTAL, 1)))
    assert past(api).served == {(HOUR, "ml"): 7, (HOUR - 3, "web"): 1}


def test_what_cannot_be_read_is_a_note_and_takes_nothing_along(api: FakeApi) -> None:
    api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "composable-infra"}, "data": {FIELD: "damaged"}})
    api.fail("list", EVENTS, Forbidden(403, "Forbidden", "events is forbidden"))
    found = past(api, device("gpu-a", served("ml/train")))
    assert [each.namespace for each in found.came] == ["ml"]
    assert [note.partition(":")[0] for note in found.notes] == [
        "the ends of pods are unknown, because Events cannot be read", "the served claims of the last day are unknown"]
    assert "events is forbidden" in found.notes[0]


def test_only_what_ended_pods_is_asked_for_and_no_message_is_kept(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Json] = []
    real = api.list

    def listed(resource: ApiResource, **more: t.Any) -> t.Any:
        asked.append(more)
        return real(resource, **more)

    monkeypatch.setattr(api, "list", listed)
    past(api)
    assert [each["field_selector"] for each in asked] == ["involvedObject.kind=Pod,reason=Killing"]
    kept = asked[0]["trim"]({**event("ml/train", 5.0), "message": "canary", "source": {"host": "canary"}})
    assert "canary" not in json.dumps(kept)


def test_it_is_the_same_after_a_file() -> None:
    made = PastArrivals((Came(BORN, "ml", A100, 2, 30.5), Came(BORN + 1.0, "web")), {(HOUR, "ml"): 3}, ("a note",))
    assert PastArrivals.of_document(json.loads(json.dumps(made.as_document()))) == made
