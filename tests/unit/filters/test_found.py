# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An empty list counts only if the API server serves the kind."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter.found import found

UNSERVED: t.Final = {"resources": [], "api_found": False, "msg": "Failed to find API for kind X"}
NONE: t.Final = {"resources": [], "api_found": True}
ONE: t.Final = {"resources": [{"metadata": {"name": "a"}}], "api_found": True}


def test_objects_of_a_task_and_of_a_loop() -> None:
    assert found(ONE) == ONE["resources"]
    assert found(NONE) == []
    assert found({"results": [ONE, NONE, ONE]}) == [*ONE["resources"], *ONE["resources"]]
    assert found({"skipped": True, "changed": False}) == []


@pytest.mark.parametrize("result", [UNSERVED, {"results": [ONE, UNSERVED]}, {"failed": True}, {"resources": []}])
def test_kind_that_is_not_served_is_no_empty_list(result: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="does not mean that there are none"):
        found(result)


def test_kind_without_a_definition_has_no_objects() -> None:
    assert found(UNSERVED, unless_absent=NONE) == []
    assert found(ONE, unless_absent=NONE) == ONE["resources"]


@pytest.mark.parametrize("definitions", [ONE, UNSERVED, {"results": [NONE, ONE]}, {"results": [NONE, UNSERVED]}])
def test_kind_with_a_definition_is_to_be_served(definitions: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError):
        found(UNSERVED, unless_absent=definitions)
