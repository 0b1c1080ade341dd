# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CoHDI's tests of composable-dra-driver show, case by case, on our publisher. Upstream's case is in the name.

Where ours differs on purpose the docstring says so, and docs/contributors/compatibility.md says why.
"""

from __future__ import annotations

import socket
import ssl
import typing as t
from collections.abc import Mapping
from urllib.parse import parse_qs

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared import fsas
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import tls
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.token import TokenSource
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.net.client import Response
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting, Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool import controller
from ansible_collections.composable.infra.tests.unit.fabric import test_config
from ansible_collections.composable.infra.tests.unit.fabric.drivers.cm.fake_cm import MACHINE, MODEL, FakeCm, connected
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.driver_support import (
    Connect as Fm,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.driver_support import (
    entry,
    listing,
)
from ansible_collections.composable.infra.tests.unit.fabric.http import test_no_response, test_tls
from ansible_collections.composable.infra.tests.unit.fabric.http.auth_support import (
    Connect as Session,
)
from ansible_collections.composable.infra.tests.unit.fabric.http.auth_support import (
    FakeClient,
    paths,
    reply,
)
from ansible_collections.composable.infra.tests.unit.fabric.http.test_token import (
    Logins,
)
from ansible_collections.composable.infra.tests.unit.fabric.http.token_support import (
    Clock,
    jwt,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, T4, row, rows
from ansible_collections.composable.infra.tests.unit.planning.pool import test_plan
from ansible_collections.composable.infra.tests.unit.planning.settings_support import (
    table,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot import test_quiescence
from ansible_collections.composable.infra.tests.unit.reconcile.pool.controller_support import (
    snapshot,
    written,
)

FM = {"manager": "fm", "tenant": "7e63fd31-0a5c-4d1b-9a52-c0de00000001", "realm": "realm", "client_id": "client",
      "client_secret": "s3cret"}
LIST = Request("GET", "/fabric_manager/api/v1/machines", "list the machines")


def identity(answer: Response) -> t.Callable[..., Response]:
    """A manager that answers everything, behind an identity service with this answer."""
    return lambda method, *_rest: answer if method == "POST" else reply(200, {"data": {"machines": []}})


def publish(bench: Bench, free: dict[tuple[str, int], int], fabrics: t.Sequence[int] = (1,)) -> list[dict[str, t.Any]]:
    """Specs of the pools' slices after the manager was seen like this."""
    bench.state.snapshot = snapshot(free, fabrics)
    for key in sorted(controller.pool_keys(bench.state)):
        bench.reconcile(key)
    return [item["spec"] for item in bench.api.of(SLICES) if "nodeName" not in item["spec"]]


def test_case_01_fresh_cached_token_is_reused(session: Session) -> None:
    made = session(identity(reply(200, {"access_token": jwt(exp=300, iat=0)})), **FM)
    for _unused in range(3):
        made.call(LIST)
    assert [method for method, _path in paths()] == ["POST", "GET", "GET", "GET"]
    clock = Clock()
    logins = Logins(clock)
    source = TokenSource(logins, clock)
    assert (source.get(), logins.count) == (source.get(), 1)


@pytest.mark.parametrize(("status", "error"), [(401, "invalid_grant"), (404, "Realm does not exist")])
def test_case_02_bad_credentials_or_realm_are_an_error_of_the_login(session: Session, status: int, error: str) -> None:
    made = session(identity(reply(status, {"error": error})), **FM)
    with pytest.raises(Unauthorized, match=rf"client 'client', realm 'realm': {error}. Check username"):
        made.call(LIST)
    (_method, path, _headers, form), = FakeClient.sent
    assert path == "/id_manager/realms/realm/protocol/openid-connect/token"
    assert parse_qs((form or b"").decode())["response_type"] == ["id_token token"]


@pytest.mark.parametrize("text", ["no-jwt", "a.b", "a.!!!.c", "a.bm90IGpzb24.c"], ids=["text", "two", "base64", "json"])
def test_case_03_token_that_is_no_jwt_is_an_error(session: Session, text: str) -> None:
    with pytest.raises(Unauthorized, match="an access_token that is not a JWT") as caught:
        session(identity(reply(200, {"access_token": text})), **FM).call(LIST)
    assert text not in str(caught.value)


def test_case_04_credential_of_1000_bytes_is_rejected_and_999_accepted() -> None:
    test_config.test_999_bytes_are_accepted_and_counted_as_bytes()


def test_case_05_invalid_authority_is_refused() -> None:
    """Ours says so when it starts, and not at the first handshake."""
    with pytest.raises(BadConfiguration, match=r"^ca_pem: '<PEM text>'"):
        tls.context(test_tls.config(ca_pem="no certificate"))
    assert tls.context(test_tls.config()).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(("body", "error", "said"), [
    ({"status": 404, "detail": {"code": "E020402", "message": "machine not found", "data": {}}}, Missing,
     r"answered 404: machine not found \[E020402\]"),
    ({"status": 400, "detail": {"code": "E020001", "message": '{"field": "mach_uuid"}', "data": {}}}, Refused,
     r"answered 400: field: mach_uuid \[E020001\]"),
    ("out of order", Unavailable, "not the expected format: '\"out of order\"'"),
], ids=["structured", "JSON in the message", "plain"])
def test_case_06_error_shows_its_message_or_the_raw_body(
        session: Session, body: t.Any, error: type[Exception], said: str) -> None:
    def script(method: str, *_rest: object) -> Response:
        if method == "POST":
            return reply(200, {"access_token": jwt(exp=300, iat=0)})
        return reply(body["status"] if isinstance(body, dict) else 400, body)

    made = session(script, **FM)
    made._read_error = fsas.read_error
    with pytest.raises(error, match=said):
        made.call(LIST)


@pytest.mark.parametrize(("cause", "words"), [
    (TimeoutError(), "no connection within 3 s"), (socket.gaierror(), "cannot be resolved"),
    (ConnectionRefusedError(), "the connection was refused"),
], ids=["slow", "DNS", "refused"])
def test_case_07_unreachable_manager_says_why(cause: Exception, words: str) -> None:
    test_no_response.test_what_had_not_left_says_why(
        cause, False, words, not isinstance(cause, TimeoutError), None)


def refused(**changes: t.Any) -> str:
    """The field that a row with these changes is refused for."""
    with pytest.raises(BadSetting) as caught:
        Settings.from_dict(table(**changes))
    return caught.value.field


@pytest.mark.parametrize("index", [-1, 10001])
def test_case_08_index_is_bounded(index: int) -> None:
    assert refused(index=index) == "device_info[0].index"
    assert [Settings.from_dict(table(index=i)).models[0].index for i in (0, 10000)] == [0, 10000]


@pytest.mark.parametrize("name", ["a" * 51, "a.b"])
def test_case_09_k8s_device_name_has_50_characters_and_no_dot(name: str) -> None:
    assert refused(k8s_device_name=name) == "device_info[0].k8s-device-name"
    assert Settings.from_dict(table(k8s_device_name="a" * 50)).models[0].k8s_device_name == "a" * 50


@pytest.mark.parametrize("second", [row(0, "B", "b"), row(1, A100, "b"), row(1, "B", "a100")],
                         ids=["index", "model", "device"])
def test_case_10_duplicates_are_rejected(second: dict[str, t.Any]) -> None:
    with pytest.raises(BadSetting, match="must be unique"):
        Settings.from_dict({"device_info": [row(0, A100, "a100"), second]})


def test_case_11_there_are_at_most_32_attributes_and_productname_is_one() -> None:
    attributes = {"productName": "A100", **{f"key{i}": "value" for i in range(31)}}
    assert len(Settings.from_dict(table(dra_attributes=attributes)).models[0].attributes) == 32
    assert refused(dra_attributes={**attributes, "more": "x"}) == "device_info[0].dra-attributes"
    assert refused(dra_attributes={"model": "A100"}) == "device_info[0].dra-attributes"


def test_case_12_label_prefix_has_at_most_100_characters() -> None:
    given = {"device_info": rows()}
    assert Settings.from_dict({**given, "label_prefix": "a" * 100}).label("fabric") == "a" * 100 + "/fabric"
    with pytest.raises(BadSetting, match="at most 100 characters"):
        Settings.from_dict({**given, "label_prefix": "a" * 101})


def test_case_13_three_models_on_three_fabrics_are_nine_pools(bench: Bench) -> None:
    specs = publish(bench, {(m, f): 1 for m in (A100, H100, T4) for f in (1, 2, 3)}, (1, 2, 3))
    assert sorted(spec["pool"]["name"] for spec in specs) == sorted(
        f"{device}-fabric{fabric}" for device in ("a100", "h100", "t4") for fabric in (1, 2, 3))
    for spec in specs:
        expressions = spec["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"]
        device, fabric = spec["pool"]["name"].split("-fabric")
        assert {e["key"]: e["values"] for e in expressions} == {
            f"cohdi.io/{device}": ["true"], "cohdi.io/fabric": [fabric]}


def test_case_14_machines_without_a_fabric_are_skipped_and_the_rest_published(fm: Fm, bench: Bench) -> None:
    def answer(call: Request) -> t.Any:
        if "available" in call.path:
            return {"reserved_res_num_per_fabric": 2}
        return listing(entry("m0", None), entry("m1", 1), entry("m2", None))

    manager, _session = fm(answer)
    bench.state.snapshot = manager.snapshot([A100])
    assert controller.pool_keys(bench.state) == {PoolKey(A100, 1)}
    bench.reconcile(PoolKey(A100, 1))
    assert written(bench) == [["a100-0", "a100-1"]]


@pytest.mark.parametrize("machines", [[entry("m0", None)], [{"fabric_id": 1}], []], ids=["fabric", "uuid", "none"])
def test_case_15_no_machine_with_fabric_and_uuid_publishes_nothing(
        fm: Fm, bench: Bench, machines: list[dict[str, t.Any]]) -> None:
    """Upstream's loop fails; ours says at each node what its machine lacks, and nothing else of the plan fails."""
    manager, _session = fm(lambda _call: listing(*machines))
    bench.state.snapshot = manager.snapshot([A100])
    assert controller.pool_keys(bench.state) == set()
    bench.put(objects.node("node-0", "m0"), objects.claim("train", objects.pool_result()))
    bench.reconcile(NodeKey("node-0"))
    (told,) = bench.api.one(CLAIMS, "train", "default")["status"]["devices"]
    assert told["conditions"][0]["type"] == objects.FAILED
    assert "machine m0" in told["conditions"][0]["message"]


@pytest.mark.parametrize(("free", "slices"), [(128, [128]), (200, [128, 72])])
def test_case_16_128_and_200_free_devices_are_published(bench: Bench, free: int, slices: list[int]) -> None:
    """Upstream publishes nothing any more with more than 128."""
    specs = publish(bench, {(A100, 1): free})
    assert [len(spec["devices"]) for spec in specs] == slices
    assert {spec["pool"]["resourceSliceCount"] for spec in specs} == {len(slices)}


def test_case_17_generation_is_kept_while_the_count_is_and_one_more_when_it_changes(bench: Bench) -> None:
    for free, generation in ((2, 1), (2, 1), (3, 2), (3, 2)):
        (spec,) = publish(bench, {(A100, 1): free})
        assert (len(spec["devices"]), spec["pool"]["generation"]) == (free, generation)


def test_case_18_no_free_device_is_one_empty_slice(bench: Bench) -> None:
    (spec,) = publish(bench, {(A100, 1): 0})
    assert (spec["devices"], spec["pool"]) == ([], {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": 1})
    test_plan.test_empty_pool_is_one_empty_slice()


def test_case_19_limits_of_the_machine_are_labels_and_those_that_become_null_are_removed(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCm(most=4)
    fake.replies = {"nodegroups": {"nodegroups": [{"uuid": "g1", "name": "one"}]},
                    "nodegroups/g1": {"uuid": "g1", "mach_ids": [MACHINE]}}
    manager = connected(fake, monkeypatch)
    bench.state.settings = bench.settings = Settings.from_dict(table(cdi_model_name=MODEL))
    bench.build()
    bench.put(objects.node("node-0", MACHINE))

    def labels() -> Mapping[str, str]:
        bench.state.snapshot = manager.snapshot([MODEL])
        bench.reconcile(NodeKey("node-0"))
        found: dict[str, str] = bench.api.one(NODES, "node-0")["metadata"]["labels"]
        return {name: value for name, value in found.items() if "-size-" in name}

    assert labels() == {"cohdi.io/a100-size-max": "4"}
    fake.most = None
    assert labels() == {}


def test_case_20_without_resource_k8s_io_v1_it_does_not_start() -> None:
    test_quiescence.test_api_that_is_not_served(
        CLAIMS, "resourceclaims (resource.k8s.io/v1). Kubernetes 1.34 or later is needed")
