# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A UUID in a text is sixteen bytes and a mark, and the text is the same afterwards."""

from __future__ import annotations

import json
import random
import uuid

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net.uuids import lengthened, shortened

ONE = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


@pytest.mark.parametrize("text", [
    "", "nothing", ONE, f"GPU-{ONE}", f"{ONE}{ONE}", f"a{ONE}b", f'{{"uid":"{ONE}","n":"MIG-{ONE}"}}', ONE[:-1],
    f"{ONE}\n{ONE}", "ä€𝄞" + ONE, "ffffffff-ffff-ffff-ffff-ffffffffffff", "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a",
    "00000000-0000-0000-0000-000000000000"])
def test_a_text_comes_back(text: str) -> None:
    assert lengthened(shortened(text.encode())).decode() == text


def test_a_uuid_is_seventeen_bytes() -> None:
    assert len(shortened(f"GPU-{ONE}".encode())) == len("GPU-") + 17


def test_one_of_capital_letters_stays_as_it_is() -> None:
    assert shortened(ONE.upper().encode()) == ONE.upper().encode()


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_of_a_uuid_come_back(seed: int) -> None:
    chance = random.Random(seed)
    text = json.dumps({chance.choice("abc"): [str(uuid.UUID(int=chance.getrandbits(128))) for _each in range(50)]})
    short = shortened(text.encode())
    assert lengthened(short).decode() == text
    assert len(short) < 0.6 * len(text)
