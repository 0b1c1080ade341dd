# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ids of a claim's trace, and which claims are traced."""

from __future__ import annotations

import random
import re
import uuid

import pytest

from ansible_collections.composable.infra.controller.tracing.ids import is_sampled, trace_id

UID = "7c1f9a52-3b1e-4c55-9d6f-0a1b2c3d4e5f"


def test_a_trace_is_named_by_the_claims_uid() -> None:
    assert trace_id(UID) == trace_id(UID.upper()) == "7c1f9a523b1e4c559d6f0a1b2c3d4e5f"


@pytest.mark.parametrize("uid", ["", "uid-train", "0" * 32, "00000000-0000-0000-0000-000000000000", "x" * 500])
def test_what_is_no_uuid_has_a_trace_all_the_same(uid: str) -> None:
    """All bytes zero is no trace id. Source: W3C Trace Context, and trace.proto."""
    assert re.fullmatch(r"[0-9a-f]{32}", trace_id(uid))
    assert int(trace_id(uid), 16) != 0


def test_a_part_of_all_claims_is_traced_and_every_process_takes_the_same(seed: int) -> None:
    """A UUID's fixed bits do not count: they would make the part another one."""
    made = random.Random(seed)
    uids = [str(uuid.UUID(int=made.getrandbits(128), version=4)) for _unused in range(4000)]
    taken = [is_sampled(trace_id(uid), 0.25) for uid in uids]
    assert 0.2 < sum(taken) / len(taken) < 0.3
    assert [is_sampled(trace_id(uid), 1.0) for uid in uids] == [True] * 4000
    assert not any(is_sampled(trace_id(uid), 0.0) for uid in uids)
