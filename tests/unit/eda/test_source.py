# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source as ansible-rulebook runs it: its main, its options, and how it is loaded."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims as source
from ansible_collections.composable.infra.plugins.module_utils import cluster_module, event_source
from ansible_collections.composable.infra.plugins.module_utils.kube import api_resources as kube_resource
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims as kube_claims
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods as kube_pods
from ansible_collections.composable.infra.tests.unit.eda.documentation import options as documented_options
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
RESULT = objects.pool_result()
QUICK = {"settle": 0.0, "gather": 0.0, "interval": 0.0, "retry": 3600, "resync": 3600, "release_after": 3600}


class FakeReflector:
    """A watch that the test feeds, from a thread of its own as the real one does."""

    made: t.ClassVar[list[FakeReflector]] = []

    def __init__(self, client: object, resource: object, store: object, on_change: t.Callable[..., None],
                 field_selector: str | None = None) -> None:
        assert (resource, field_selector) in ((kube_resource.CLAIMS, None), (kube_resource.PODS, "spec.nodeName="))
        self.on_change, self.synced = on_change, threading.Event()
        self.started = self.stopped = False
        self.made.append(self)

    def start(self) -> None:
        self.started = True

    def stop(self) -> None:
        self.stopped = True

    def tell(self, *claims: Json, kind: str = "ADDED") -> None:
        """Tell of claims."""
        def work() -> None:
            for claim in claims:
                self.on_change(kind, claim, None)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(10)


class FakeLease:
    """Says that somebody opens gates."""

    log: t.ClassVar[list[str]] = []

    def __init__(self, client: object, namespace: str, problem: t.Callable[[], str]) -> None:
        self.namespace = namespace
        assert problem() == ""

    def start(self) -> None:
        self.log.append(f"held in {self.namespace}")

    def stop(self) -> None:
        self.log.append("given up")


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Json]:
    """The Kubernetes layer without a server; what was loaded with which arguments."""
    loaded: dict[str, Json] = {}

    def load(kubeconfig: str | None, context: str | None, *, given: ConnectionOptions, environ: t.Any) -> str:
        loaded["connection"] = {"kubeconfig": kubeconfig, "context": context, "given": given}
        return "connection"

    parts: dict[str, t.Any] = {
        "objects.claims": kube_claims, "api_resources": kube_resource, "objects.pods": kube_pods,
        "coordination.gate_lease": types.SimpleNamespace(GateLease=FakeLease),
        "watch.store": types.SimpleNamespace(Store=lambda indexers: "store"),
        "client.verbs": types.SimpleNamespace(Client=lambda connection, pool: "client"),
        "watch.reflector": types.SimpleNamespace(Reflector=FakeReflector)}
    monkeypatch.setattr(source, "_kube", parts.__getitem__)
    monkeypatch.setattr(event_source, "Connection", types.SimpleNamespace(load=load))
    monkeypatch.setattr(FakeReflector, "made", [])
    monkeypatch.setattr(FakeLease, "log", [])
    return loaded


class Running:
    """The source's main as a task, its queue, and its watch."""

    def __init__(self, args: Json) -> None:
        self.queue: asyncio.Queue[Json] = asyncio.Queue()
        self.task = asyncio.create_task(source.main(self.queue, args))

    @property
    def watch(self) -> FakeReflector:
        """The watch of claims."""
        return FakeReflector.made[0]

    @property
    def pods(self) -> FakeReflector:
        """The watch of pods."""
        return FakeReflector.made[1]

    async def begin(self) -> FakeReflector:
        """Let it begin to watch, and have read its lists."""
        await asyncio.sleep(0)
        for watch in FakeReflector.made:
            watch.synced.set()
        return self.watch

    async def event(self) -> Json:
        """The next event."""
        found: Json = (await asyncio.wait_for(self.queue.get(), 10))["claims"]
        return found

    async def end(self) -> None:
        """Cancel, as ansible-rulebook does."""
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


def play(story: t.Callable[[Running], t.Awaitable[None]], **args: t.Any) -> None:
    """Run a story with the source running; the source is ended afterwards and must have run until then."""
    async def run() -> None:
        running = Running({**QUICK, **args})
        try:
            await story(running)
            assert not running.task.done()
        finally:
            await running.end()
        assert all(watch.stopped for watch in FakeReflector.made)

    asyncio.run(run())


def names(event: Json) -> list[str]:
    """Names of the claims of an event."""
    return [c["name"] for c in event["waiting"]]


def test_start_tells_what_waits_already() -> None:
    async def story(running: Running) -> None:
        await asyncio.sleep(0)
        running.watch.tell(objects.claim("train", RESULT))
        assert running.queue.empty()
        watch = await running.begin()
        assert watch.started
        assert names(await running.event()) == ["train"]

    play(story)


def test_claims_that_come_together_are_one_event() -> None:
    async def story(running: Running) -> None:
        watch = await running.begin()
        assert (await running.event())["reason"] == "start"
        watch.tell(*[objects.claim(f"c{i}", RESULT) for i in range(20)])
        event = await running.event()
        assert (event["reason"], len(event["waiting"])) == ("claims", 20)
        assert running.queue.empty()

    play(story)


def test_claims_that_come_while_the_first_is_gathered_are_in_the_same_event() -> None:
    async def story(running: Running) -> None:
        watch = await running.begin()
        await running.event()
        watch.tell(objects.claim("first", RESULT))
        await asyncio.sleep(0)
        watch.tell(objects.claim("second", RESULT))
        assert names(await running.event()) == ["first", "second"]
        assert running.queue.empty()

    play(story, settle=0.05, gather=5)


def test_each_allocation_is_told_once_however_often_it_is_seen() -> None:
    async def story(running: Running) -> None:
        watch = await running.begin()
        await running.event()
        claim = objects.claim("train", RESULT)
        watch.tell(claim, claim)
        assert names(await running.event()) == ["train"]
        watch.tell(claim, kind="MODIFIED")
        watch.tell(objects.claim("other", RESULT))
        assert names(await running.event()) == ["other", "train"]
        assert running.queue.empty()

    play(story)


def test_claim_that_goes_on_waiting_is_told_again() -> None:
    async def story(running: Running) -> None:
        watch = await running.begin()
        await running.event()
        watch.tell(objects.claim("train", RESULT))
        assert (await running.event())["reason"] == "claims"
        assert (await running.event())["reason"] == "retry"

    play(story, retry=0.01)


def test_release_is_told_when_the_hold_is_over() -> None:
    async def story(running: Running) -> None:
        watch = await running.begin()
        await running.event()
        watch.tell(objects.claim("train", objects.local_result()), kind="DELETED")
        while (await running.event())["reason"] != "released":
            pass

    play(story, release_after=0.01)


def test_nothing_happening_is_an_event_from_time_to_time() -> None:
    async def story(running: Running) -> None:
        await running.begin()
        assert [(await running.event())["reason"] for _unused in range(3)] == ["start", "resync", "resync"]

    play(story, resync=0.01)


def test_event_loop_goes_on_while_the_list_is_read() -> None:
    async def story(running: Running) -> None:
        await asyncio.sleep(0)
        for _unused in range(100):
            await asyncio.sleep(0)
        assert running.queue.empty()
        await running.begin()
        await running.event()

    play(story)


@pytest.mark.parametrize(("given", "expected"), [({}, None), ({"kubeconfig": "", "context": ""}, None),
                                                 ({"kubeconfig": "/k", "context": "c"}, "/k")])
def test_connection_is_what_the_options_say(fakes: dict[str, Json], given: Json, expected: str | None) -> None:
    async def story(running: Running) -> None:
        await running.begin()
        await running.event()

    play(story, **given)
    assert fakes["connection"]["kubeconfig"] == expected


@pytest.mark.parametrize(("given", "kubeconfig", "context", "host"), [
    ({}, "/of/the/variable", "v", "https://b.test"), ({"kubeconfig": "/k"}, "/k", "v", None),
    ({"context": "c"}, "/of/the/variable", "c", "https://b.test")])
def test_variables_of_kubernetes_core_count_where_nothing_is_given(
    fakes: dict[str, Json], monkeypatch: pytest.MonkeyPatch, given: Json, kubeconfig: str, context: str,
    host: str | None,
) -> None:
    for name, value in {"KUBECONFIG": "/of/the/variable", "CONTEXT": "v", "HOST": "https://b.test"}.items():
        monkeypatch.setenv(f"K8S_AUTH_{name}", value)

    async def story(running: Running) -> None:
        await running.begin()
        await running.event()

    play(story, **given)
    found = fakes["connection"]
    assert (found["kubeconfig"], found["context"], found["given"].host) == (kubeconfig, context, host)


def test_the_whole_connection_may_be_given_by_options_and_their_aliases(fakes: dict[str, Json]) -> None:
    async def story(running: Running) -> None:
        await running.begin()
        await running.event()

    content = {"current-context": "x"}
    play(story, kubeconfig=content, host="https://b.test", api_key="secret", ssl_ca_cert="/ca.pem", verify_ssl="false",
         impersonate_user="ann", impersonate_groups="a,b")
    assert fakes["connection"]["kubeconfig"] == content
    assert fakes["connection"]["given"] == ConnectionOptions(
        host="https://b.test", token="secret", ca_file="/ca.pem", validate_certs=False, impersonate_user="ann",
        impersonate_groups=["a", "b"])


def test_documentation_names_the_connection_as_modules_do() -> None:
    documented = documented_options(source)
    for name, option in cluster_module.CLUSTER_OPTIONS.items():
        assert documented[name]["type"] == option["type"], name
        assert documented[name].get("aliases") == option.get("aliases"), name
        said = str(documented[name]["description"])
        assert [v for v in option["fallback"][1] if f"E({v})" not in said] == [], name


@pytest.mark.parametrize(("args", "said"), [
    ({"settle": "soon"}, "settle: 'soon' is not usable: must be a number of seconds"),
    ({"retry": -1}, "retry: -1 is not usable: must be from 0 to 86400 seconds"),
    ({"resync": "86401"}, "resync: '86401' is not usable: must be from 0 to 86400 seconds"),
    ({"release_after": None}, "release_after: None is not usable: must be a number of seconds"),
    ({"settle": "nan"}, "settle: 'nan' is not usable: must be from 0 to 86400 seconds"),
    ({"setle": 1}, "setle: unknown option, known are api_key, ca_cert, cert_file, client_cert, client_key, "
     "config_path, context, gates, gather, host, impersonate_groups, impersonate_user, interval, key_file, kubeconfig, "
     "lease_namespace, no_proxy, password, proxy, release_after, resync, retry, served_within, settle, ssl_ca_cert, "
     "username, validate_certs, verify_ssl"),
    ({"gates": "perhaps"}, "gates: 'perhaps' is not usable: must be true or false"),
    ({"config_path": ""}, "config_path: is missing: name the file with the configuration"),
    ({"config_path": "/no/such.yml"}, "config_path: /no/such.yml: cannot be read: No such file or directory"),
])
def test_bad_option_is_named_before_anything_starts(args: Json, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        asyncio.run(source.main(asyncio.Queue(), args))
    assert str(caught.value) == said
    assert FakeReflector.made == []


def test_options_may_be_texts_as_rulebooks_give_them() -> None:
    async def story(running: Running) -> None:
        await running.begin()
        assert (await running.event())["reason"] == "start"

    play(story, settle="0.0", retry="30", resync="300", release_after="600", eda_feedback_queue=None)


def test_held_pod_is_told_and_pods_are_gated_while_the_source_runs() -> None:
    pod = {"metadata": {"uid": "u", "namespace": "ns", "name": "held"},
           "spec": {"schedulingGates": [{"name": kube_pods.GATE}]}}

    async def story(running: Running) -> None:
        await running.begin()
        await running.event()
        running.pods.tell(pod)
        event = await running.event()
        assert [(w["kind"], w["namespace"], w["name"]) for w in event["waiting"]] == [("Pod", "ns", "held")]
        running.pods.tell({**pod, "spec": {}}, kind="MODIFIED")
        assert FakeLease.log == ["held in mine"]

    play(story, lease_namespace="mine")
    assert FakeLease.log == ["held in mine", "given up"]


@pytest.mark.parametrize("gates", [False, "false"])
def test_gates_may_be_left_to_others(gates: object) -> None:
    async def story(running: Running) -> None:
        await running.begin()
        assert (await running.event())["reason"] == "start"

    play(story, gates=gates)
    assert (len(FakeReflector.made), FakeLease.log) == (1, [])


LOAD = """
import asyncio, runpy, sys
found = runpy.run_path(sys.argv[1])
assert found["_load"](found["_KUBE"] + ".objects.claims").__name__.endswith("kube.objects.claims")
try:
    asyncio.run(found["main"](None, {"retry": "soon"}))
except ValueError as error:
    print(error)
"""


def loaded(path: Path) -> str:
    """Load the source by its path in a process that knows nothing of collections; what it says of a bad option."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([sys.executable, "-c", LOAD, str(path)], env=environment, cwd=path.anchor, check=False,
                          capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The collection's parts that the source needs, copied to where ansible-galaxy would put them."""
    root = tmp_path / "ansible_collections/composable/infra"
    checkout = Path(__file__).parents[3]
    for part in ("extensions/eda/plugins/event_source", "plugins/module_utils/kube", "plugins/module_utils/net"):
        shutil.copytree(checkout / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "plugins/module_utils/event_source.py", root / "plugins/module_utils")
    return root


@pytest.mark.parametrize("name", ["claims", "nodes"])
def test_source_finds_its_collection_without_a_path(installed: Path, name: str) -> None:
    said = loaded(installed / f"extensions/eda/plugins/event_source/{name}.py")
    assert said == "retry: 'soon' is not usable: must be a number of seconds\n"


def test_source_finds_its_collection_through_a_link(installed: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    installed.rename(checkout)
    installed.symlink_to(checkout)
    said = loaded(installed / "extensions/eda/plugins/event_source/claims.py")
    assert said == "retry: 'soon' is not usable: must be a number of seconds\n"


class TestPassesThatDoNotServe:
    """The Lease of the gates is renewed only while the action works."""

    def watcher(self, within: float) -> source.Watcher:
        return source.Watcher({**source.DEFAULTS, "served_within": within}, bool, kube_claims, kube_pods.held)

    def pod(self, **status: t.Any) -> Json:
        raw = objects.pod("train")
        raw["spec"]["schedulingGates"] = [{"name": kube_pods.GATE}]
        return {**raw, "status": status}

    def test_pod_that_is_told_of_and_not_served_is_a_problem(self) -> None:
        watcher = self.watcher(60.0)
        watcher.pod_changed("ADDED", self.pod(), None)
        assert watcher.problem() == "", "nobody was told of it yet"
        watcher.event("claims", time.monotonic() - 61)
        watcher.event("retry", time.monotonic())
        assert "no pass has served a pod" in watcher.problem()

    @pytest.mark.parametrize("end", ["nominated", "let go", "gone"])
    def test_sign_of_a_pass_ends_it(self, end: str) -> None:
        watcher = self.watcher(60.0)
        watcher.pod_changed("ADDED", self.pod(), None)
        watcher.event("claims", time.monotonic() - 61)
        new = self.pod(nominatedNodeName="node-0") if end == "nominated" else self.pod()
        if end == "let go":
            new["spec"]["schedulingGates"] = []
        watcher.pod_changed("DELETED" if end == "gone" else "MODIFIED", new, self.pod())
        assert watcher.problem() == ""
        watcher.event("retry", time.monotonic() - 61)
        assert watcher.problem() == ""

    def test_pod_that_is_told_of_just_now_is_none(self) -> None:
        watcher = self.watcher(60.0)
        watcher.pod_changed("ADDED", self.pod(), None)
        watcher.event("claims", time.monotonic())
        assert watcher.problem() == ""
