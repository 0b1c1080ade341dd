# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo refuses, and when things happened in its table."""

from __future__ import annotations

import argparse

import pytest

from ansible_collections.composable.infra.lab.demo.__main__ import check
from ansible_collections.composable.infra.lab.demo.timeline import last_of
from ansible_collections.composable.infra.lab.errors import LabError


def options(**changes: str) -> argparse.Namespace:
    return argparse.Namespace(**{"nodes": "real", "front_door": "controller", "kubernetes": "1.36", **changes})


@pytest.mark.parametrize(("changes", "words"), [
    ({"front_door": "rulebook"}, "--door rulebook is not usable with --nodes real"),
    ({"front_door": "playbook"}, "--door playbook is not usable with --nodes real"),
    ({"kubernetes": "1.35"}, "--kubernetes 1.35 is not usable with --nodes real"),
])
def test_real_nodes_are_for_the_controller(changes: dict[str, str], words: str) -> None:
    with pytest.raises(LabError, match=words):
        check(options(**changes))
    check(options(**changes, nodes="simulated"))
    check(options())


def test_device_that_comes_again_is_told_of_its_first_time_since_the_claim() -> None:
    moments = [[5.0, 12.0, 30.0], [11.0, 40.0]]
    assert last_of(moments, 10.0) == 12.0
    assert last_of(moments, 35.0) == 40.0
    assert last_of(moments, 50.0) is None
