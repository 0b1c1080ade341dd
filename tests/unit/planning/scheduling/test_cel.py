# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors in CEL: what is read gives CEL's answer, everything else gives no answer."""

from __future__ import annotations

import contextlib
import random
import re
from fractions import Fraction

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.cel.parser import (
    UnsupportedExpression,
    compile_expression,
    failure,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.cel.values import (
    NON_EMPTY_TEXT,
    UNKNOWN,
    DeviceFacts,
    Version,
)

D = "gpu.example.com"
GPU = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'
KNOWN = {f"{D}/name": "A100", f"{D}/mig": False, f"{D}/cores": 108, f"{D}/driver": Version((535, 1, 0)),
         f"{D}/uuid": NON_EMPTY_TEXT, f"{D}/slot": UNKNOWN, "other.example.com/rack": "r1"}
SEEN = DeviceFacts(D, KNOWN, {f"{D}/memory": Fraction(40 * 2**30)}, complete=True)
GUESSED = DeviceFacts(D, KNOWN, {}, complete=False)

TRUE = [
    f'device.driver == "{D}"', f"device.driver == '{D}'", 'device.driver.endsWith(".com")', f'{GPU}.name == "A100"',
    f'{GPU}["name"] == "A100"', f'{GPU}.name != "H100"', f'{GPU}.name in ["H100", "A100"]',
    f'!({GPU}.name in ["H100"])',
    f"!{GPU}.mig", f"{GPU}.mig == false", f"{GPU}.cores == 108", f"{GPU}.cores >= 100 && {GPU}.cores < 109",
    f"{GPU}.cores > -1", f'{GPU}.name.startsWith("A")', f'{GPU}.name.contains("10")', f'{GPU}.name.matches("^A1.*$")',
    f'{GPU}.name.matches("1[0-9]+")', f'{GPU}.name.lowerAscii() == "a100"', f"{GPU}.name.size() == 4", "true",
    f'{GPU}.driver.compareTo(semver("535.0.9")) >= 0', f'{GPU}.driver.isGreaterThan(semver("535.0.9"))',
    f'{GPU}.driver == semver("535.1.0")', f'{GPU}.driver.isLessThan(semver("600.0.0"))',
    f'{MEMORY}.compareTo(quantity("40Gi")) == 0', f'{MEMORY}.isGreaterThan(quantity("39Gi"))',
    f'{MEMORY} == quantity("40960Mi")', f"has({GPU}.name)", f"has({MEMORY})", f'"name" in {GPU}',
    f"!has({GPU}.nothing)",
    f'!("nothing" in {GPU})', f'has({GPU}.nothing) || {GPU}.name == "A100"',
    f'{GPU}.nothing == 1 || {GPU}.mig == false',
    f'{GPU}.uuid != ""', f"has({GPU}.uuid)", f'{GPU}.?nothing.orValue("x") == "x"',
    f'{GPU}.?name.orValue("x") == "A100"',
    f'{GPU}[?"nothing"].orValue("x") == "x"', 'device.attributes["other.example.com"].rack == "r1"',
    f'({GPU}.name == "A100") ? {GPU}.cores == 108 : false', f"""{GPU}.name == r'A100'""", f'{GPU}.name > "A"',
    f'{GPU}.slot == "x" || true', f'true || {GPU}.slot == "x"', '"\\"a\\"" == \'"a"\'',
    '!has(device.attributes["no"].x)']
FALSE = [
    'device.driver == "other"', f'{GPU}.name == "H100"', f"{GPU}.mig", f"{GPU}.cores < 108", f'{GPU}.name in ["H100"]',
    f'{GPU}.name in []', f"has({GPU}.nothing)", f'has({GPU}.nothing) && {GPU}.nothing == "x"', f'{GPU}.uuid == ""',
    f'{GPU}.slot == "x" && false', f'{GPU}.nothing == 1 && {GPU}.mig', f'{MEMORY}.isGreaterThan(quantity("40Gi"))',
    f'{GPU}.name.matches("^100")', f'{GPU}.driver.compareTo(semver("535.1.0")) < 0', "!true", "false ? true : false",
    f'{GPU}.uuid in [""]']
UNSURE = [
    f'{GPU}.nothing == "x"', f'!({GPU}.nothing == "x")', f'{GPU}.slot == "x"', f'{GPU}.uuid == "GPU-1"',
    f'{GPU}.uuid.startsWith("GPU")', f'{GPU}.name == 1', f'{GPU}.cores == "108"', f'{GPU}.slot in ["a"]',
    f'{GPU}.uuid in ["", "a"]', f"{GPU}.slot", f'{GPU}.slot == "x" || false', f'{GPU}.slot == "x" && true', "device",
    f'{GPU}.name.matches("(a+)+$")', f'{GPU}.name.matches("[[:alpha:]]")', f'{GPU}.name.matches("a*?")',
    f'{GPU}.name.matches("(?i)a")', f'{GPU}.name.matches("[")', f'{GPU}.name.charAt(0) == "A"',
    f'{MEMORY}.compareTo(quantity("many")) > 0', f'{GPU}.driver.compareTo(semver("1.2")) > 0', "device.nothing == 1",
    f'{GPU}.driver.compareTo(semver("535.1.0-rc1")) > 0', f'{GPU}.nothing in []', f"has({GPU}.slot)",
    f'{GPU}.slot == "x" ? true : true', '"no" in device.attributes', f"{GPU} == 1", f'{GPU}.cores.startsWith("1")']
REFUSED = [
    "", "device.", "device.driver ==", 'cel.bind(a, device.driver, a == "x")', f"{GPU}.cores + 1 == 109", "1.5 < 2.0",
    f"{GPU}.list.exists(x, x == 1)", "{'a': 1}", "1u == 1u", "0x10 == 16", '"""a""" == "a"', '"\\x41" == "A"', "a == b",
    "(true", "true)", "[true", 'b"a" == b"a"', "device.driver = 'x'", "true and false", "(" * 60 + "true" + ")" * 60,
    "!" * 60 + "true", "true // comment", "f(1)", "-true", "has(true", "1 == 1" + " " * 20000 + "&& true"]


@pytest.mark.parametrize(("expressions", "answer"), [(TRUE, True), (FALSE, False), (UNSURE, None)],
                         ids=["holds", "does not hold", "an error, or not known"])
def test_answer(expressions: list[str], answer: bool | None) -> None:
    assert [e for e in expressions if compile_expression(e)(SEEN) is not answer] == []


def test_what_is_not_read_is_refused() -> None:
    assert [e for e in REFUSED if readable(e)] == []


def readable(expression: str) -> bool:
    with contextlib.suppress(UnsupportedExpression):
        compile_expression(expression)
        return True
    return False


@pytest.mark.parametrize(("expression", "answer"), [
    (f"has({GPU}.nothing)", None), (f'{GPU}.nothing == "x"', None), (f'{GPU}.name == "A100"', True),
    (f'{GPU}.?nothing.orValue("x") == "x"', None), (f'{MEMORY}.isGreaterThan(quantity("1Gi"))', None),
    (f'"nothing" in {GPU}', None), (f'has({GPU}.nothing) && false', False)])
def test_a_device_that_was_never_seen_may_have_more_attributes(expression: str, answer: bool | None) -> None:
    assert compile_expression(expression)(GUESSED) is answer


class TestLogic:
    """``&&``, ``||`` and ``!`` against their truth table, on random expressions."""

    LEAVES = (("true", True), ("false", False), (f'{GPU}.slot == "x"', None), (f"{GPU}.nothing", None),
              (f'{GPU}.name == "A100"', True), (f"{GPU}.mig", False))

    def test_is_kleenes(self, rng: random.Random) -> None:
        for _unused in range(150):
            text, answer = self.expression(rng, 4)
            assert compile_expression(text)(SEEN) is answer, text

    def expression(self, rng: random.Random, depth: int) -> tuple[str, bool | None]:
        kind = rng.choice(("leaf", "and", "or", "not")) if depth else "leaf"
        if kind == "leaf":
            return rng.choice(self.LEAVES)
        text, left = self.expression(rng, depth - 1)
        if kind == "not":
            return f"!({text})", None if left is None else not left
        more, right = self.expression(rng, depth - 1)
        strong = kind == "or"
        answer = strong if strong in (left, right) else (None if None in (left, right) else not strong)
        return f"({text} {'||' if strong else '&&'} {more})", answer


def test_patterns_mean_what_they_mean_to_re2(rng: random.Random) -> None:
    for _unused in range(150):
        pattern = "".join(rng.choice(("a", "b", "1", ".", "a+", "b*", "[ab]", "^", "$", "|")) for _unused in range(4))
        text = "".join(rng.choice("ab1") for _unused in range(6))
        facts = DeviceFacts(D, {f"{D}/name": text}, {}, complete=True)
        answer = compile_expression(f'{GPU}.name.matches("{pattern}")')(facts)
        assert answer is None or answer is (re.search(pattern, text) is not None), (pattern, text)


def test_random_text_is_read_or_refused_and_nothing_else(rng: random.Random) -> None:
    pieces = ["device", ".attributes", '["a"]', ".x", "==", "&&", "||", "!", "(", ")", "[", "]", '"s"', "1", "in", "?",
              ":", "has(", ",", ".?", "orValue(", "-", "<", "true", " "]
    for _unused in range(300):
        text = "".join(rng.choice(pieces) for _unused in range(rng.randrange(1, 14)))
        with contextlib.suppress(UnsupportedExpression):
            assert compile_expression(text)(SEEN) in (True, False, None)


TYPED = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'


@pytest.mark.parametrize(("expression", "reason"), [
    (TYPED, "no such key: type"),
    ('!(device.attributes["gpu.nvidia.com"].type == "gpu")', "no such key: type"),
    ('device.attributes["gpu.nvidia.com"].type.startsWith("g")', "no such key: type"),
    ('device.attributes["gpu.nvidia.com"].type == "gpu" ? true : false', "no such key: type"),
    ('false || device.attributes["other.example.com"].there', "no such key: there"),
    ('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("1Gi"))', "no such key: memory"),
    ('device.driver == "other" && device.attributes["other"].type == "gpu"', ""),
    ('device.attributes["gpu.nvidia.com"].type == "gpu" || true', ""),
    ('has(device.attributes["gpu.nvidia.com"].type)', ""),
    ('device.attributes["gpu.nvidia.com"].?type.orValue("gpu") == "gpu"', ""),
    # a method that is not supported here might be False, and then the error does not matter
    ('device.driver.unheardOf("x") && device.attributes["gpu.nvidia.com"].type == "gpu"', ""),
])
def test_an_error_is_told_only_where_it_is_certain(expression: str, reason: str) -> None:
    facts = DeviceFacts("gpu.nvidia.com", {"gpu.nvidia.com/productName": "A100"}, {}, complete=True)
    assert failure(expression, facts) == reason


def test_no_error_is_certain_where_the_device_may_have_more() -> None:
    assert failure(TYPED, DeviceFacts("gpu.nvidia.com", {}, {}, complete=False)) == ""
