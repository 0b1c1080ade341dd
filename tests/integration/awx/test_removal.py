# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role awx removes nothing while jobs run, and an AWX that does not say so is not taken for one without jobs."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import well
from ansible_collections.composable.infra.tests.integration.awx.conftest import Run, running
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import Refused
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ORGANIZATION = "Composable infrastructure"


class Silent(Awx):
    """An AWX that does not answer for these lists, as where the lookup has no login."""

    silent: tuple[str, ...] = ()

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, t.Any]) -> tuple[int, t.Any]:
        """The answer of Awx. Raises Refused."""
        if path.removeprefix(self.api).strip("/") in self.silent:
            raise Refused(401, {"detail": "Authentication credentials were not provided."})
        return super().answer(method, path, query, body)


@pytest.fixture(scope="module")
def awx() -> Silent:
    """With an organisation, whose objects the role would remove."""
    made = Silent(ROOT)
    made.create("organizations", {"name": ORGANIZATION})
    return made


@pytest.fixture(scope="module")
def run(awx: Silent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The role against it."""
    with running(awx, tmp_path_factory.mktemp("awx")) as start:
        yield start


def job(awx: Awx, status: str, **more: t.Any) -> dict[str, t.Any]:
    """A job of the organisation."""
    (organization,) = awx.items["organizations"]
    return {"id": 1, "type": "job", "status": status, "name": "Composable attach", "organization": organization, **more}


@pytest.fixture
def only_modules(tmp_path: Path, awx: Silent) -> Iterator[None]:
    """Only the modules are answered."""
    awx.silent = ("unified_jobs",)
    yield
    awx.silent = ()


@pytest.mark.usefixtures("only_modules")
def test_where_the_lookup_has_no_answer_the_modules_ask(awx: Silent, run: Run) -> None:
    awx.jobs[:] = [job(awx, "running")]
    before = len(awx.writes)
    refused = run(awx_state="absent")
    assert refused.failures == [
        "awx_state: absent is not possible while these jobs run: Composable attach. Wait until they end, or cancel "
        "them. To prevent new jobs, set awx_schedules_enabled: false."]
    assert "checked only the jobs of playbooks" in refused.result("Report which jobs could not be checked")["msg"]
    assert len(awx.writes) == before


def test_an_awx_that_names_no_jobs_is_left_as_it_is(awx: Silent, run: Run) -> None:
    awx.jobs[:] = [job(awx, "running")]
    awx.silent = ("unified_jobs", "jobs")
    before = len(awx.writes)
    refused = run(awx_state="absent")
    awx.silent = ()
    assert refused.status != 0
    assert "List the jobs of playbooks" in refused.tasks[-1][0]
    assert len(awx.writes) == before


def test_jobs_of_other_organisations_and_those_that_ended_do_not_count(awx: Silent, run: Run) -> None:
    awx.jobs[:] = [job(awx, "successful"), job(awx, "running", organization=999)]
    done = well(run(awx_state="absent"))
    assert done.changed == [], "nothing but the organisation is there, as after a removal"
    assert done.result("Report which jobs could not be checked")["skipped"]
