# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a manager says is marked as safe for templates only where it can be none."""

from __future__ import annotations

import copy
import runpy
import typing as t

import pytest
from ansible import template

from ansible_collections.composable.infra.plugins.plugin_utils import hosts
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import Plain

if not hasattr(template, "is_trusted_as_template"):
    pytest.skip("ansible-core before 2.19 marks no texts", allow_module_level=True)
Templar, is_trusted_as_template = template.Templar, template.is_trusted_as_template


@pytest.mark.parametrize("text", ["", "OK", "A100 40G", "NVIDIA-A100-PCIE-40GB", "knoten-äöü-節点", "10.0.0.1",
                                  "/redfish/v1/Systems/1", "GPU-2ef071ae-917e-5c8a-9f07-81ec8564f10b"])
def test_a_text_that_can_be_no_template_is_marked(text: str) -> None:
    marked = Plain().copy(text)
    assert marked == text
    assert is_trusted_as_template(marked)
    assert Templar(variables={"text": marked}).template(marked) == text


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% if x %}", "{# x #}", "#jinja2: variable_start_string:'x'", "{",
                                  "}", "lookup('ansible.builtin.pipe', 'id')", "[[ x ]]", "<% x %>", "${x}",
                                  "a\n# for x"])
def test_a_text_that_might_be_one_stays_as_it_is(text: str) -> None:
    assert not is_trusted_as_template(Plain().copy({"name": [text]})["name"][0])
    assert Plain().copy(text) is text


def test_texts_at_any_depth_and_nothing_else() -> None:
    given: dict[str, t.Any] = {"devices": [{"uid": "d1", "size": None, "index": 3}, {"uid": "{{ x }}", "ready": True}]}
    before = copy.deepcopy(given)
    found = Plain().copy(given)
    assert found == before == given
    assert [is_trusted_as_template(d["uid"]) for d in found["devices"]] == [True, False]
    assert not is_trusted_as_template(given["devices"][0]["uid"])


def test_equal_texts_become_one() -> None:
    plain = Plain()
    first, second = (plain.copy("".join(["NVIDIA", "-L40S"])) for _unused in range(2))
    assert first is second


class Unsafe(str):
    """What ansible-core before 2.19 never takes for a template."""


def test_before_2_19_a_text_that_might_be_a_template_is_marked_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """There every text may be a template. `make sanity CORE=2.16` imports it there."""
    monkeypatch.delattr("ansible.template.trust_as_template")
    monkeypatch.setattr("ansible.utils.unsafe_proxy.wrap_var", Unsafe)
    plain = runpy.run_path(hosts.__file__)["Plain"]()
    found = plain.copy({"name": ["{{ 7 * 7 }}", "A100 40G"]})["name"]
    assert found == ["{{ 7 * 7 }}", "A100 40G"]
    assert [type(text) for text in found] == [Unsafe, str]
