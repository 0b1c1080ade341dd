# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader for the part of CEL that device selectors use; what it cannot read it refuses, and guesses nothing."""

from __future__ import annotations

import functools
import re
import typing as t
from collections.abc import Callable

from . import cel_values as values
from .cel_terms import Term, called, conditional, constant, joined, negated, present, related, selected
from .cel_values import DeviceFacts, Group

TOKEN = re.compile(r"""\s*(?:
    (?P<number>[0-9]+(?![0-9A-Za-z_.]))
  | (?P<text>r?"(?!"")(?:[^"\\\n]|\\.)*"|r?'(?!'')(?:[^'\\\n]|\\.)*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>\|\||&&|==|!=|<=|>=|\[\?|\.\?|[<>!.,()\[\]?:-])
)""", re.VERBOSE)
ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "`": "`", "?": "?"}
LONGEST, DEEPEST = 10240, 40


class Unreadable(ValueError):
    """An expression that is outside what is read here."""


def _tokens(source: str) -> list[tuple[str, str]]:
    if len(source) > LONGEST:
        raise Unreadable("it is too long")
    found, at, source = [], 0, source.rstrip()
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None or match.lastgroup is None:
            raise Unreadable(f"{source[at:at + 20].strip()!r} is not understood")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return [*found, ("end", "")]


def _text(token: str) -> str:
    raw, body = token.startswith("r"), token.lstrip("r")[1:-1]
    if raw:
        return body

    def escape(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            raise Unreadable(f"{match[0]!r} is not understood")
        return ESCAPES[match[1]]

    return re.sub(r"\\(.)", escape, body)


class _Parser:
    """Recursive descent over CEL's grammar, without arithmetic, macros and maps."""

    def __init__(self, source: str) -> None:
        self.tokens, self.at, self.depth = _tokens(source), 0, 0

    def take(self, *marks: str) -> str:
        """Consume one of the marks (or names); empty when another token comes."""
        kind, text = self.tokens[self.at]
        if kind in ("mark", "name") and text in marks:
            self.at += 1
            return text
        return ""

    def need(self, mark: str) -> None:
        if not self.take(mark):
            raise Unreadable(f"{mark!r} is missing before {self.tokens[self.at][1]!r}")

    def whole(self) -> Term:
        term = self.choice()
        if self.tokens[self.at][0] != "end":
            raise Unreadable(f"{self.tokens[self.at][1]!r} is not understood")
        return term

    def choice(self) -> Term:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        term = self.series("||", values.either, lambda: self.series("&&", values.both, self.relation))
        if self.take("?"):
            yes = self.choice()
            self.need(":")
            term = conditional(term, yes, self.choice())
        self.depth -= 1
        return term

    def series(self, mark: str, join: Callable[[t.Any, Callable[[], t.Any]], t.Any],
               operand: Callable[[], Term]) -> Term:
        term = operand()
        while self.take(mark):
            term = joined(join, term, operand())
        return term

    def relation(self) -> Term:
        left = self.unary()
        while operator := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            left = related(operator, left, self.unary())
        return left

    def unary(self) -> Term:
        if self.take("!"):
            inner = self.nested(self.unary)
            return lambda device: negated(inner(device))
        if self.take("-"):
            kind, text = self.tokens[self.at]
            if kind != "number":
                raise Unreadable("only a number may follow '-'")
            self.at += 1
            return constant(-int(text))
        return self.member()

    def nested(self, rule: Callable[[], Term]) -> Term:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        term = rule()
        self.depth -= 1
        return term

    def member(self) -> Term:
        term = self.primary()
        while mark := self.take(".", "[", ".?", "[?"):
            if mark in ("[", "[?"):
                key = self.choice()
                self.need("]")
                term = selected(term, key, optional=mark == "[?")
            else:
                term = self.dotted(term, optional=mark == ".?")
        return term

    def dotted(self, term: Term, *, optional: bool) -> Term:
        kind, name = self.tokens[self.at]
        if kind != "name":
            raise Unreadable(f"a name is missing before {name!r}")
        self.at += 1
        if not optional and self.take("("):
            return called(name, term, self.arguments(")"))
        return selected(term, constant(name), optional=optional)

    def arguments(self, end: str) -> list[Term]:
        found: list[Term] = []
        while not self.take(end):
            if found:
                self.need(",")
            found.append(self.choice())
        return found

    def primary(self) -> Term:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return constant(int(text))
        if kind == "text":
            return constant(_text(text))
        if kind == "name":
            return self.named(text)
        if text == "(":
            term = self.choice()
            self.need(")")
            return term
        if text == "[":
            items = self.arguments("]")
            return lambda device: [item(device) for item in items]
        raise Unreadable(f"{text or 'its end'!r} is not understood")

    def named(self, name: str) -> Term:
        if name in ("true", "false"):
            return constant(name == "true")
        if name == "device":
            return constant(Group("device"))
        if name == "has" and self.take("("):
            term = self.choice()
            self.need(")")
            return lambda device: present(term(device))
        if name in ("quantity", "semver") and self.take("("):
            arguments = self.arguments(")")
            return lambda device: values.construct(name, [a(device) for a in arguments])
        raise Unreadable(f"{name!r} is not understood")


@functools.lru_cache(maxsize=1024)
def reader(expression: str) -> Callable[[DeviceFacts], bool | None]:
    """What tells of a device whether the expression holds: True, False, or None when that is not known.

    Raises Unreadable.
    """
    term = _Parser(expression).whole()

    def holds(device: DeviceFacts) -> bool | None:
        value = term(device)
        return value if isinstance(value, bool) else None

    return holds
