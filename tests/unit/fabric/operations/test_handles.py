# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handles as text and back: what an annotation of an earlier release holds is still read."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import handles


@pytest.mark.parametrize(("told", "text"), [
    ((), ""), (("op-1",), "op-1"), (('{"a":1}', '{"b":"\u2028"}'), '{"a":1}\n{"b":"\u2028"}')])
def test_written_form_is_read_again(told: tuple[str, ...], text: str) -> None:
    assert handles.written(told) == text
    assert handles.read(text) == told
