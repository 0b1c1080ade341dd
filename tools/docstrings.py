# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure and check the language of docstrings and comments.

``python -m tools.docstrings`` prints for each folder how many of its docstrings and comments break a
rule of ``tools/words.yml``. ``--check`` prints each such sentence of the folders that are listed
there under ``code``, and fails if there is one. ``--sample 30 --seed 7`` prints docstrings to judge.
With ``--messages``, all of this reads the texts that users see, in the folders under ``messages``.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import messages
from .words import MESSAGE, QUOTED, ROOT, Rules, rules, sentences

CODE = re.compile(r"``[^`]+``|`[^`]+`")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LEGAL = ("Copyright", "GNU General", "SPDX-", "noqa", "type:", "pragma", "mypy", "pylint", "!/")


@dataclass(frozen=True)
class Said:
    """A docstring, a block of comments or a message. ``path`` is relative to the root of the checkout."""

    path: str
    line: int
    text: str
    is_docstring: bool = True

    def paragraphs(self) -> Iterator[str]:
        """Yield its paragraphs, with a word in place of code and messages."""
        for part in re.split(r"\n\s*\n|\n\s*(?=[-*] )", self.text):
            yield MESSAGE.sub(f'"{QUOTED}"', CODE.sub(QUOTED, " ".join(part.split())))


def files(root: Path = ROOT) -> list[str]:
    """Return the paths of all Python files that git tracks, relative to ``root``."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=root, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if not path.endswith("_pb2.py")]


def read(path: str, root: Path = ROOT) -> list[Said]:
    """Return the docstrings and comments of a file."""
    text = (root / path).read_text(encoding="utf-8")
    found = [Said(path, _line_of(node), ast.get_docstring(node) or "")
             for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
    return [*found, *_comments(path, text)]


def _line_of(node: ast.AST) -> int:
    body = getattr(node, "body", [])
    return int(body[0].lineno) if body else 1


def _comments(path: str, text: str) -> Iterator[Said]:
    """Yield comments. Lines that follow each other are one comment, unless they stand beside code."""
    lines: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type != tokenize.COMMENT:
            continue
        words = token.string.lstrip("#").strip()
        beside_code = bool(token.line[:token.start[1]].strip())
        if lines and (beside_code or token.start[0] != last + 1):
            yield Said(path, first, "\n".join(lines), is_docstring=False)
            lines = []
        if words.startswith(LEGAL):
            continue
        first, last = (first if lines else token.start[0]), token.start[0]
        lines.append(words)
    if lines:
        yield Said(path, first, "\n".join(lines), is_docstring=False)


def shown(path: str) -> list[Said]:
    """Return the messages of a file."""
    return [Said(path, line, text) for line, text in messages.read(path)]


def problems(said: Said, by: Rules) -> Iterator[str]:
    """Yield one line for each sentence that has a banned word or opening."""
    allowed = by.allowed.get(said.path, {})
    for paragraph in said.paragraphs():
        for sentence in sentences(paragraph) or [paragraph]:
            for pattern, instead in by.banned.items():
                found = pattern.search(sentence)
                if found and not any(known in sentence for known in allowed):
                    yield f"{said.path}:{said.line}: {found[0]!r}: {instead}: {sentence}"


def table(every: Sequence[Said], by: Rules) -> Iterator[str]:
    """Yield for each folder how many of its docstrings and comments break a rule."""
    total, wrong = Counter[str](), Counter[str]()
    for said in every:
        folder = "/".join(said.path.split("/")[:3][:-1]) or said.path
        total[folder] += 1
        wrong[folder] += any(problems(said, by))
    for folder, count in sorted(total.items()):
        yield f"{folder:32} {wrong[folder]:5} of {count:5}  {100 * wrong[folder] / count:5.1f}%"
    yield f"{'together':32} {wrong.total():5} of {total.total():5}  {100 * wrong.total() / max(1, total.total()):5.1f}%"


def checked(path: str, folders: Sequence[str]) -> bool:
    """Return whether a file is in a folder that keeps to the rules."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, or check, or print a sample. Return 1 if the check finds something."""
    parser = argparse.ArgumentParser(prog="python -m tools.docstrings", description=__doc__)
    parser.add_argument("paths", nargs="*", help="read only these folders or files")
    parser.add_argument("--check", action="store_true", help="print sentences that break a rule")
    parser.add_argument("--messages", action="store_true", help="read messages instead of docstrings and comments")
    parser.add_argument("--sample", type=int, default=0, help="print this number of docstrings or messages, drawn at "
                                                              "random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: %(default)s)")
    options = parser.parse_args(arguments)
    by = rules()
    if options.messages:
        by = replace(by, allowed=by.allowed_messages, code=by.messages)
    folders = options.paths or (by.code if options.check else [])
    listed = [path for path in (messages.files() if options.messages else files())
              if not folders or checked(path, folders)]
    every = [said for path in listed for said in (shown(path) if options.messages else read(path))]
    what = "messages" if options.messages else "docstrings"
    if options.sample:
        drawn = random.Random(options.seed).sample([said for said in every if said.is_docstring], options.sample)
        print("\n\n".join(f"{said.path}:{said.line}\n{said.text}" for said in drawn))
        return 0
    if not options.check:
        print("\n".join(table(every, by)))
        return 0
    found = [line for said in every for line in problems(said, by)]
    print("\n".join(found) or f"{what}: {len(listed)} files keep to words.yml")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
