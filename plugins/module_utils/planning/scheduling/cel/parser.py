# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile the part of CEL that device selectors use. Refuse everything else, and guess nothing.

Source: the CEL grammar (cel-spec, ``doc/langdef.md``) and the environment that KEP-4381 gives to
device selectors (``k8s.io/dynamic-resource-allocation/cel``).
"""

from __future__ import annotations

import functools
import re
import typing as t
from collections.abc import Callable

from . import values
from .evaluators import Evaluator, called, conditional, constant, joined, negated, present, related, selected
from .values import DeviceFacts, DeviceField, Failed

TOKEN = re.compile(r"""\s*(?:
    (?P<number>[0-9]+(?![0-9A-Za-z_.]))
  | (?P<text>r?"(?!"")(?:[^"\\\n]|\\.)*"|r?'(?!'')(?:[^'\\\n]|\\.)*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>\|\||&&|==|!=|<=|>=|\[\?|\.\?|[<>!.,()\[\]?:-])
)""", re.VERBOSE)
ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "`": "`", "?": "?"}
MAX_LENGTH, MAX_DEPTH = 10240, 40
MAX_TOKENS, MAX_DIGITS, MAX_PATTERNS = 512, 18, 4
"""Limits of an expression. A longer chain of operators would exhaust the stack, and a tenant's
selector could take all the time of the plan.
"""


class UnsupportedExpression(ValueError):
    """An expression uses a feature that is not supported here. The message names the feature."""


def _tokens(source: str) -> list[tuple[str, str]]:
    if len(source) > MAX_LENGTH:
        raise UnsupportedExpression(f"it has more than {MAX_LENGTH} characters")
    found, at, source = [], 0, source.rstrip()
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None or match.lastgroup is None:
            raise UnsupportedExpression(f"{source[at:at + 20].strip()!r} is not understood")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    _check_bounds(found)
    return [*found, ("end", "")]


def _check_bounds(tokens: list[tuple[str, str]]) -> None:
    """Check the size of an expression, like the cost limit of the API server."""
    if len(tokens) > MAX_TOKENS:
        raise UnsupportedExpression(f"it has more than {MAX_TOKENS} parts")
    if any(kind == "number" and len(text) > MAX_DIGITS for kind, text in tokens):
        raise UnsupportedExpression(f"a number has more than {MAX_DIGITS} digits")
    if tokens.count(("name", "matches")) > MAX_PATTERNS:
        raise UnsupportedExpression(f"it uses matches more than {MAX_PATTERNS} times")


def _text(token: str) -> str:
    raw, body = token.startswith("r"), token.lstrip("r")[1:-1]
    if raw:
        return body

    def escape(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            raise UnsupportedExpression(f"{match[0]!r} is not understood")
        return ESCAPES[match[1]]

    return re.sub(r"\\(.)", escape, body)


class _Parser:
    """Recursive descent over CEL's grammar, without arithmetic, macros and maps."""

    def __init__(self, source: str) -> None:
        self.tokens, self.at, self.depth = _tokens(source), 0, 0

    def take(self, *symbols: str) -> str:
        """Consume the next token if it is one of these symbols or names. Return an empty text if it
        is not.
        """
        kind, text = self.tokens[self.at]
        if kind in ("symbol", "name") and text in symbols:
            self.at += 1
            return text
        return ""

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise UnsupportedExpression(f"{symbol!r} is missing before {self.tokens[self.at][1]!r}")

    def parse(self) -> Evaluator:
        evaluator = self.expression()
        if self.tokens[self.at][0] != "end":
            raise UnsupportedExpression(f"{self.tokens[self.at][1]!r} is not understood")
        return evaluator

    def expression(self) -> Evaluator:
        return self.nested(self.conditional)

    def nested(self, rule: Callable[[], Evaluator]) -> Evaluator:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnsupportedExpression(f"it is nested more than {MAX_DEPTH} levels deep")
        evaluator = rule()
        self.depth -= 1
        return evaluator

    def conditional(self) -> Evaluator:
        test = self.left_associative("||", values.logical_or, self.conjunction)
        if not self.take("?"):
            return test
        yes = self.expression()
        self.expect(":")
        return conditional(test, yes, self.expression())

    def conjunction(self) -> Evaluator:
        return self.left_associative("&&", values.logical_and, self.relation)

    def left_associative(self, symbol: str, join: Callable[[t.Any, Callable[[], t.Any]], t.Any],
                         operand: Callable[[], Evaluator]) -> Evaluator:
        evaluator = operand()
        while self.take(symbol):
            evaluator = joined(join, evaluator, operand())
        return evaluator

    def relation(self) -> Evaluator:
        left = self.unary()
        while operator := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            left = related(operator, left, self.unary())
        return left

    def unary(self) -> Evaluator:
        if self.take("!"):
            inner = self.nested(self.unary)
            return lambda device: negated(inner(device))
        if self.take("-"):
            kind, text = self.tokens[self.at]
            if kind != "number":
                raise UnsupportedExpression("only a number may follow '-'")
            self.at += 1
            return constant(-int(text))
        return self.member()

    def member(self) -> Evaluator:
        evaluator = self.primary()
        while symbol := self.take(".", "[", ".?", "[?"):
            if symbol in ("[", "[?"):
                key = self.expression()
                self.expect("]")
                evaluator = selected(evaluator, key, optional=symbol == "[?")
            else:
                evaluator = self.after_dot(evaluator, optional=symbol == ".?")
        return evaluator

    def after_dot(self, evaluator: Evaluator, *, optional: bool) -> Evaluator:
        kind, name = self.tokens[self.at]
        if kind != "name":
            raise UnsupportedExpression(f"a name is missing before {name!r}")
        self.at += 1
        if not optional and self.take("("):
            return called(name, evaluator, self.arguments(")"))
        return selected(evaluator, constant(name), optional=optional)

    def arguments(self, end: str) -> list[Evaluator]:
        found: list[Evaluator] = []
        while not self.take(end):
            if found:
                self.expect(",")
            found.append(self.expression())
        return found

    def primary(self) -> Evaluator:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return constant(int(text))
        if kind == "text":
            return constant(_text(text))
        if kind == "name":
            return self.identifier(text)
        if text == "(":
            evaluator = self.expression()
            self.expect(")")
            return evaluator
        if text == "[":
            items = self.arguments("]")
            return lambda device: [item(device) for item in items]
        raise UnsupportedExpression(f"{text!r} is not understood" if text else "it is incomplete")

    def identifier(self, name: str) -> Evaluator:
        if name in ("true", "false"):
            return constant(name == "true")
        if name == "device":
            return constant(DeviceField("device"))
        if name == "has" and self.take("("):
            evaluator = self.expression()
            self.expect(")")
            return lambda device: present(evaluator(device))
        if name in ("quantity", "semver") and self.take("("):
            arguments = self.arguments(")")
            return lambda device: values.call_function(name, [a(device) for a in arguments])
        raise UnsupportedExpression(f"{name!r} is not understood")


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str) -> Evaluator:
    return _Parser(expression).parse()


@functools.lru_cache(maxsize=1024)
def compile_expression(expression: str) -> Callable[[DeviceFacts], bool | None]:
    """Compile a selector of a DeviceClass or a device request.

    ``expression``: the text of ``selectors[].cel.expression``.

    Return a function that says whether the expression is true for a device. It returns True or
    False if that is certain. It returns None if CEL gives an error or no boolean, or if the value
    depends on unknown facts of the device. Raise UnsupportedExpression if the text uses more of CEL
    than this parser supports.

    An error is not the same as False, because kube-scheduler's allocator stops at it.

    Source: ``CompileCELExpression`` and ``DeviceMatches`` in
    ``k8s.io/dynamic-resource-allocation/cel/compile.go``.
    """
    evaluator = _compiled(expression)

    def holds(device: DeviceFacts) -> bool | None:
        value = evaluator(device)
        return value if isinstance(value, bool) else None

    return holds


def failure(expression: str, device: DeviceFacts) -> str:
    """Return the error that a selector certainly gives for a device, in CEL's words, empty if
    uncertain.

    Raise UnsupportedExpression as ``compile_expression`` does.
    """
    value = _compiled(expression)(device)
    return value.reason if isinstance(value, Failed) else ""
