# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the texts that the product shows to its users, for ``python -m tools.docstrings --messages``.

A message is a string of Python code with two words or more: the text of an error, a log line, an
Event, a condition or a help text. In the documentation of plugins and in YAML files, it is the text
of a key that users read, such as ``description`` or ``fail_msg``.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from .words import QUOTED, ROOT

PRODUCT = ("controller", "plugins", "lab", "emulator", "drivers", "examples", "roles", "playbooks", "extensions")
SHOWN = frozenset({"description", "short_description", "notes", "details", "msg", "fail_msg", "success_msg",
                   "prompt", "name", "title", "summary", "help_text", "question_description"})
PROSE = re.compile(r"[A-Za-z][a-z'’]+,? [a-z]+\b|\b[a-z]{2,}[;:,]? x\b|\bx [a-z]{2,}")
CODE = re.compile(r"[=|$#<>\\^*]{2}|[({]\?|\\[bsdw]|^(?:SELECT|INSERT|UPDATE|CREATE|DELETE|PRAGMA)\b|^\S+\("
                  r"|&&|\n\s+\S+\n|^\w+ -|--\w+ x --|^import ")
TEMPLATE = re.compile(r"{{.*?}}|{%.*?%}|%\(?\w*\)?[sdrif.]\w*|{\w*}|[A-Z]\([^)]*\)|``?[^`]*``?", re.DOTALL)
DOCUMENTATION = re.compile(r"^(?:- )?[a-z_]+:\s", re.MULTILINE)


def files(root: Path = ROOT) -> list[str]:
    """Return the paths of the product's files of Python and YAML code, relative to ``root``."""
    listed = subprocess.run(["git", "ls-files", *PRODUCT], cwd=root, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines()
            if path.endswith((".py", ".yml", ".yaml")) and not path.endswith("_pb2.py")]


def read(path: str, root: Path = ROOT) -> Iterator[tuple[int, str]]:
    """Yield line and text of each message of a file, with ``QUOTED`` in place of values and code."""
    text = (root / path).read_text(encoding="utf-8")
    found = _of_python(ast.parse(text)) if path.endswith(".py") else _of_yaml(text)
    for line, said in found:
        plain = TEMPLATE.sub(QUOTED, said)
        if PROSE.search(plain) and not CODE.search(plain):
            yield line, plain


def _of_python(tree: ast.AST) -> Iterator[tuple[int, str]]:
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else QUOTED
                                       for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "\n" in node.value and DOCUMENTATION.search(node.value):
                yield from ((node.lineno + line - 1, said) for line, said in _of_yaml(node.value))
            else:
                yield node.lineno, node.value


def _of_yaml(text: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of the keys in ``SHOWN``. Yield nothing if the text is not valid YAML."""
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return
    for document in documents:
        yield from _shown(document)


def _shown(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _shown(item)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            texts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if key.value in SHOWN:
                yield from ((text.start_mark.line + 1, text.value) for text in texts
                            if isinstance(text, yaml.ScalarNode))
            yield from _shown(value)
