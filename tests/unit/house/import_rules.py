# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-way imports of the design, as a table and a checker that only reads source text.

A file belongs to the area with the longest matching folder. An area names the areas and the third-party packages that
it may import; importing itself and the standard library is always allowed. Areas without a rule (test benches, tests,
tools) may import anything.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

PACKAGE = "ansible_collections.composable.infra"
UTILS = "plugins/module_utils"
NODE, SCALING, KUBE = f"{UTILS}/node", f"{UTILS}/scaling", f"{UTILS}/kube"
FABRIC, RECONCILE = f"{UTILS}/fabric", f"{UTILS}/reconcile"
ENGINE = frozenset({NODE, SCALING, KUBE, FABRIC, RECONCILE})


@dataclass(frozen=True, slots=True)
class Rule:
    """What an area may import besides itself and the standard library."""

    areas: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()


FRONT_DOOR = ENGINE | {UTILS, "plugins/plugin_utils", "plugins/doc_fragments"}
RULES = {
    NODE: Rule(),
    SCALING: Rule(),
    KUBE: Rule(packages=frozenset({"urllib3", "yaml", "kubernetes"})),
    FABRIC: Rule(packages=frozenset({"urllib3", "yaml"})),
    RECONCILE: Rule(areas=ENGINE, packages=frozenset({"yaml"})),
    UTILS: Rule(areas=ENGINE, packages=frozenset({"ansible", "yaml", "jmespath"})),
    "plugins": Rule(areas=FRONT_DOOR, packages=frozenset({"ansible", "yaml"})),
    "extensions": Rule(areas=FRONT_DOOR, packages=frozenset({"aiohttp", "yaml"})),
    "controller": Rule(areas=ENGINE | {UTILS}, packages=frozenset({"yaml"})),
}
MODULE_NAME = re.compile(re.escape(PACKAGE) + r"(\.\w+)+")


def faults(path: str, source: str) -> list[str]:
    """What the file at `path` (relative to the checkout) imports against the rules, one sentence each."""
    area = area_of(path)
    if area is None:
        return []
    return [f"{path}:{line}: {area} must not import {target}"
            for line, target in imports(path, source) if not allowed(area, target)]


def allowed(area: str, target: str) -> bool:
    """Whether files of `area` may import the module `target`, an absolute dotted name."""
    rule = RULES[area]
    if target == PACKAGE or target.startswith(PACKAGE + "."):
        wanted = target[len(PACKAGE) + 1:].replace(".", "/")
        return (area_of(wanted) or wanted) in {area, *rule.areas}
    root = target.split(".")[0]
    return root in sys.stdlib_module_names or root in rule.packages


def area_of(path: str) -> str | None:
    """The area with the longest folder that contains `path`, None outside all."""
    parents = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    return next((parent for parent in parents if parent in RULES), None)


def imports(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Every module that the source imports, with its line; also one that a string names for a later import."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(path, node.level, node.module)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE_NAME.fullmatch(node.value):
            yield node.lineno, node.value


def absolute(path: str, level: int, module: str | None) -> str:
    """The absolute name of what `from ...module import` means in the file at `path`."""
    if level == 0:
        return module or ""
    package = [*PACKAGE.split("."), *PurePosixPath(path).parent.parts]
    kept = package[:len(package) - (level - 1)]
    return ".".join([*kept, module] if module else kept)
