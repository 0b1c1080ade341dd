# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts: quantities, what a pod requests in all, what it binds on its node."""

from __future__ import annotations

import typing as t
from fractions import Fraction

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.node_ports import (
    conflicts,
    host_ports,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.node_resources import (
    requests,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import (
    BadQuantity,
    amount,
    quantity,
)

Json = dict[str, t.Any]


@pytest.mark.parametrize(("text", "value"), [
    ("1", 1), ("0", 0), ("1.5", Fraction(3, 2)), (".5", Fraction(1, 2)), ("5.", 5), ("100m", Fraction(1, 10)),
    ("1k", 1000), ("1Ki", 1024), ("2Gi", 2 * 2**30), ("1e3", 1000), ("1E3", 1000), ("1E", 10**18),
    ("12e-1", Fraction(6, 5)), ("-1", -1), ("3n", Fraction(3, 10**9)), ("7u", Fraction(7, 10**6)),
    ("1.5Gi", 3 * 2**29), ("1P", 10**15)])
def test_quantity(text: str, value: Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "a", "1KB", "1ki", "1 Gi", "Gi", "1e", "--1", "1e100", "0x1", "1m1"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(BadQuantity, match="is not a quantity"):
        quantity(text)


@pytest.mark.parametrize(("resource", "text", "value"), [
    ("cpu", "1", 1000), ("cpu", "250m", 250), ("cpu", "100u", 1), ("memory", "1Ki", 1024), ("memory", "1500m", 2),
    ("nvidia.com/gpu", "2", 2), ("pods", "110", 110)])
def test_amounts_are_rounded_up(resource: str, text: str, value: int) -> None:
    assert amount(resource, text) == value


def container(name: str = "c", restart: str = "", **asked: str) -> Json:
    more = {"restartPolicy": restart} if restart else {}
    return {"name": name, "resources": {"requests": asked}, **more}


def pod(*containers: Json, init: tuple[Json, ...] = (), status: Json | None = None, **spec: t.Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), "initContainers": list(init), **spec},
            "status": status or {}}


@pytest.mark.parametrize(("raw", "cpu"), [
    (pod(), 0), (pod(container(cpu="1")), 1000), (pod(container(cpu="1"), container(cpu="500m")), 1500),
    (pod(container(cpu="1"), init=(container(cpu="3"),)), 3000),
    (pod(container(cpu="2"), init=(container(cpu="1"), container(cpu="1"))), 2000),
    (pod(container(cpu="1"), init=(container(restart="Always", cpu="2"),)), 3000),
    (pod(container(cpu="1"), init=(container(restart="Always", cpu="2"), container(cpu="3"))), 5000),
    (pod(container(cpu="1"), init=(container(cpu="3"), container(restart="Always", cpu="2"))), 3000),
    (pod(container(cpu="1"), overhead={"cpu": "250m"}), 1250),
    (pod(container(cpu="1"), container(cpu="1"), resources={"requests": {"cpu": "5"}}), 5000),
    (pod(container(cpu="6"), resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"}), 6000),
    (pod(container(cpu="2"), resources={"requests": {"memory": "1Gi"}}), 2000)])
def test_requests(raw: Json, cpu: int) -> None:
    assert requests(raw).get("cpu", 0) == cpu


def test_pod_level_requests_of_other_resources_do_not_count() -> None:
    found = requests(pod(container(cpu="1"), resources={"requests": {"example.com/x": "5", "hugepages-2Mi": "4Mi"}}))
    assert found == {"cpu": 1000, "hugepages-2Mi": 4 * 2**20}


def resized(conditions: list[Json] | None = None, **asked: str) -> Json:
    """A running pod whose container asked for 1 cpu, was granted 2 and uses 3."""
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}},
                                     "allocatedResources": {"cpu": "2"}}], "conditions": conditions or []}
    return pod(container(**(asked or {"cpu": "1"})), status=status)


@pytest.mark.parametrize(("raw", "cpu"), [
    (resized(), 3000), (resized(cpu="4"), 4000),
    (resized([{"type": "PodResizePending", "reason": "Infeasible"}], cpu="4"), 3000),
    (resized([{"type": "PodResizePending", "reason": "Deferred"}], cpu="4"), 4000),
    (pod(container(cpu="1"), status={"containerStatuses": [{"name": "c"}]}), 1000),
    (pod(container(cpu="1"), status={"containerStatuses": [
        {"name": "other", "resources": {"requests": {"cpu": "9"}}}]}), 1000)])
def test_a_pod_that_is_resized_counts_with_the_largest(raw: Json, cpu: int) -> None:
    assert requests(raw)["cpu"] == cpu


def test_a_request_that_is_no_quantity_is_refused() -> None:
    with pytest.raises(BadQuantity):
        requests(pod(container(cpu="much")))


def test_host_ports_are_those_of_containers_that_run_for_ever() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 80},
             {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    found = host_ports(pod({"name": "a", "ports": ports}, init=(
        {"name": "b", "ports": [{"hostPort": 1}]},
        {"name": "c", "restartPolicy": "Always", "ports": [{"hostPort": 2}]})))
    assert found == (("0.0.0.0", "TCP", 2), ("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53))


@pytest.mark.parametrize(("wanted", "taken", "clash"), [
    (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True), (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True), (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
    (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True), (("0.0.0.0", "UDP", 80), ("0.0.0.0", "TCP", 80), False),
    (("0.0.0.0", "TCP", 81), ("0.0.0.0", "TCP", 80), False)])
def test_ports_clash(wanted: tuple[str, str, int], taken: tuple[str, str, int], clash: bool) -> None:
    assert conflicts(wanted, [taken]) is clash
