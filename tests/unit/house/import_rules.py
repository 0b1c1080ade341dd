# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-way imports of the design, as tables and checkers that only read source text.

A file belongs to the area with the longest matching folder. An area names the areas and the third-party packages that
it may import; importing itself and the standard library is always allowed. Areas without a rule (test benches, tests,
tools) may import anything.

Which file uses which is the same list of imports, resolved to files: it must have no circle, and some neighbours must
not know each other. An import within a function or for the types only counts as any other.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

PACKAGE = "ansible_collections.composable.infra"
UTILS = "plugins/module_utils"
NET, NODE, PLANNING, KUBE = f"{UTILS}/net", f"{UTILS}/node", f"{UTILS}/planning", f"{UTILS}/kube"
FABRIC, RECONCILE, RUNTIME, MODEL = f"{UTILS}/fabric", f"{UTILS}/reconcile", f"{UTILS}/runtime", f"{UTILS}/model"
KUBELET_PLUGIN, AUTOSCALER, WIRE = "controller/agent/kubelet_plugin", "controller/autoscaler", "controller/wire"
ENGINE = frozenset({NET, NODE, PLANNING, KUBE, FABRIC, RECONCILE, RUNTIME, MODEL})
# The rooms of `reconcile`, each may use those before it.
LAYERS = ("keys", "values", "controller", "fabric_claims", "timelines", "state", "accounting", "config",
          "autoscaler_config",
          "writers", "runtime", "pool", "prewarm", "rescheduling", "bookings", "gating", "provisioning", "node",
          "manager", "preflight", "oneshot", "whatif")


@dataclass(frozen=True, slots=True)
class Rule:
    """What an area may import besides itself and the standard library."""

    areas: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()


FRONT_DOOR = ENGINE | {UTILS, "plugins/plugin_utils", "plugins/doc_fragments"}
RULES = {
    NET: Rule(),
    NODE: Rule(),
    RUNTIME: Rule(),
    MODEL: Rule(),
    PLANNING: Rule(areas=frozenset({MODEL})),
    KUBE: Rule(areas=frozenset({NET, MODEL}), packages=frozenset({"yaml", "kubernetes"})),
    FABRIC: Rule(areas=frozenset({NET}), packages=frozenset({"yaml"})),
    RECONCILE: Rule(areas=ENGINE, packages=frozenset({"yaml"})),
    UTILS: Rule(areas=ENGINE, packages=frozenset({"ansible", "yaml", "jmespath"})),
    "plugins": Rule(areas=FRONT_DOOR, packages=frozenset({"ansible", "yaml"})),
    "extensions": Rule(areas=FRONT_DOOR, packages=frozenset({"aiohttp", "yaml"})),
    "controller": Rule(areas=ENGINE | {UTILS, KUBELET_PLUGIN},
                       packages=frozenset({"yaml", "prometheus_client", "cryptography", "opentelemetry"})),
    WIRE: Rule(packages=frozenset({"google", "grpc", "grpc_tools"})),
    KUBELET_PLUGIN: Rule(areas=ENGINE | {UTILS, "controller", WIRE}, packages=frozenset({"grpc"})),
    AUTOSCALER: Rule(areas=ENGINE | {UTILS, "controller", WIRE},
                     packages=frozenset({"grpc", "prometheus_client", "yaml"})),
}
# Folders whose rooms are strangers to each other; only what lies in the room of this name is for all of them.
STRANGERS = (f"{FABRIC}/drivers", "emulator/dialects")
FOR_ALL = "shared"
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


@functools.cache
def imports(path: str, source: str) -> tuple[tuple[int, str], ...]:
    """Every module that the source imports, with its line; also one that a string names for a later import."""
    return tuple(_imports(path, source))


def _imports(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Reading a file takes ten milliseconds, and several rules ask."""
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


def uses(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """For each of the files the others among them that it imports, however late or only for its types."""
    named = {path: [name for _line, name in imports(path, source)] for path, source in sources.items()}
    return {path: {found for name in names if (found := file_of(name, sources)) not in (None, path)}
            for path, names in named.items()}


def file_of(target: str, files: Collection[str]) -> str | None:
    """The file among `files` that an imported name stands for: the module itself, or the one that it is a part of."""
    if not target.startswith(PACKAGE + "."):
        return None
    words = target[len(PACKAGE) + 1:].split(".")
    wanted = (f"{'/'.join(words[:n])}{end}" for n in (len(words), len(words) - 1) for end in (".py", "/__init__.py"))
    return next((path for path in wanted if path in files), None)


def circles(used: Mapping[str, set[str]]) -> list[list[str]]:
    """Every group of files of which each leads to every other."""
    reached = {path: _reached(path, used) for path in used}
    groups = {frozenset(other for other in found if path in reached[other]) for path, found in reached.items()}
    return sorted(sorted(group) for group in groups if group)


def _reached(start: str, used: Mapping[str, set[str]]) -> set[str]:
    """All that one leads to; itself only by way of others."""
    found: set[str] = set()
    following = list(used[start])
    while following:
        path = following.pop()
        if path not in found:
            found.add(path)
            following += used[path]
    return found


def upward(found: Mapping[str, Collection[str]]) -> list[str]:
    """What a file of `reconcile` uses of a room that is not below its own, one sentence each."""
    return [f"{path} must not use {used}" for path, all_used in found.items() for used in all_used
            if (own := _layer(path)) is not None and (other := _layer(used)) is not None
            and _room(path) != _room(used) and other >= own]


def _room(path: str) -> str:
    return PurePosixPath(path).relative_to(RECONCILE).parts[0].removesuffix(".py")


def _layer(path: str) -> int | None:
    return LAYERS.index(_room(path)) if path.startswith(f"{RECONCILE}/") else None


def acquaintances(used: Mapping[str, set[str]]) -> list[str]:
    """Imports between two rooms that shall not know each other, one sentence each."""
    return [f"{path}: {mine} must not import {theirs}"
            for path, others in used.items() for other in sorted(others) for folder in STRANGERS
            if (mine := room(path, folder)) and (theirs := room(other, folder)) and theirs not in (mine, FOR_ALL)]


def room(path: str, folder: str) -> str | None:
    """The name of the folder below `folder` that a file lies in, at whatever depth."""
    words = path.removeprefix(folder + "/").split("/")
    return words[0] if path.startswith(folder + "/") and len(words) > 1 else None
