# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What travels to nodes runs there on the oldest and the newest Python that is promised.

Each file is read as Python 3.8. Where interpreters are found on PATH (python3.8, python3.13), or named in the variable
NODE_PYTHONS, separated as PATH is, the files run on them as well: without packages, on a stand-in of a node.
"""

from __future__ import annotations

import ast
import builtins
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils import node as room

OLDEST, NEWEST = (3, 8), (3, 13)
FOLDER = Path(next(iter(room.__path__)))
FILES = sorted([*FOLDER.glob("*.py"), *FOLDER.parents[1].glob("modules/node_device*.py"),
                *FOLDER.parent.glob("host/*.py"), FOLDER.parents[1] / "modules/kernel_parameters.py"])
# Since Python 3.9: str.removeprefix, Path.readlink and others. Known to be missing, so nothing of the kind is written.
LATER = {"removeprefix", "removesuffix", "readlink", "is_relative_to", "with_stem", "hardlink_to", "pairwise", "UTC",
         "cache", "add_note", "batched"}
GENERIC = {"list", "dict", "set", "frozenset", "tuple", "type", "Callable", "Mapping", "Sequence", "Iterable",
           "Iterator", "Collection", "Popen"}
STORY = """
import sys, json
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from node import bring_up, bus, evidence, host, kernel_log, options, pci, release, search, vendors
root = Path(sys.argv[2])
at_node = host.Host(root)
entry = root / "sys/bus/pci/devices/0000:10:00.0"

def kernel(path, text, patience, begun):
    if path.name == "drivers_probe":
        (entry / "driver").symlink_to("../../drivers/nvidia")
    elif path.name == "remove":
        entry.rename(root / "gone")

bus.write = kernel
quick = options.Options(event_patience=0.0, search_patience=0.0, rescan="never", by="ssh")
wanted = search.Wanted("cdi-1", uuid="GPU-a")
noted = []
up = bring_up.bring_up(at_node, wanted, quick, noted.append)
text = up.to_json()
down = release.release(at_node, evidence.Evidence.parse(text), quick, noted.append, lambda: "")
print(json.dumps([up.phase, [s.step for s in down.steps], down.phase, len(noted)]))
"""
TOOL = """#!/bin/sh
case "$*" in
*--query-gpu*) echo "GPU-a, 00000000:10:00.0" ;;
*-q) echo "The current drain state of GPU 00000000:10:00.0 is: draining." ;;
*-r) exec mv "$NODE_ROOT/sys/bus/pci/devices/0000:10:00.0" "$NODE_ROOT/gone" ;;
*) echo done ;;
esac
"""


def interpreters() -> list[str]:
    """The Pythons that can be tried here."""
    named = [path for path in os.environ.get("NODE_PYTHONS", "").split(os.pathsep) if path]
    found = [path for name in ("python3.8", "python3.13", *named) if (path := shutil.which(name))]
    # A name on PATH may be a script that starts nothing.
    return [path for path in found if starts(path)]


def starts(python: str) -> bool:
    """Whether it is an interpreter that runs."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)
    assert later(tree) == []


def later(tree: ast.Module) -> list[str]:
    """What needs a later Python when it runs; annotations do not run."""
    postponed = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
    annotations = {id(part) for n in ast.walk(tree) if postponed for a in annotated(n) for part in ast.walk(a)}
    return [f"line {n.lineno}: {ast.unparse(n)}" for n in ast.walk(tree)
            if isinstance(n, ast.expr) and id(n) not in annotations and is_later(n)]


def annotated(node: ast.AST) -> list[ast.expr]:
    """The annotations of a node."""
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [a for a in found if isinstance(a, ast.expr)]


def is_later(node: ast.expr) -> bool:
    """Generics and unions of types, keywords and methods that Python 3.8 does not have."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in GENERIC
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        names = [side.id for side in (node.left, node.right) if isinstance(side, ast.Name)]
        return any(isinstance(getattr(builtins, name, None), type) for name in names)
    if isinstance(node, ast.Call):
        return any(k.arg in ("slots", "kw_only", "strict") for k in node.keywords)
    return isinstance(node, ast.Attribute) and node.attr in LATER and ast.unparse(node) != "os.readlink"


@pytest.mark.parametrize("source", [
    "x = dict[str, int]", "@dataclass(frozen=True, slots=True)\nclass A: pass", "x = isinstance(y, int | str)",
    "text.removesuffix('x')", "path.readlink()", "zip(a, b, strict=True)", "def f(x: list[int]) -> None: ..."])
def test_what_is_later_is_found(source: str) -> None:
    assert later(ast.parse(source))


@pytest.mark.parametrize("source", ["from __future__ import annotations\ndef f(x: list[int] | None) -> None: ...",
                                    "x = flags | 4", "x[list]"])
def test_what_is_not_later_is_left_alone(source: str) -> None:
    assert later(ast.parse(source)) == []


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A node with a device that has no driver yet."""
    files = {
        ".simulated-node": "a stand-in", "usr/bin/nvidia-smi": TOOL, "proc/1/comm": "init", "proc/1/fd/none": "",
        "dev/kmsg": "", "sys/bus/pci/drivers/nvidia/bind": "", "sys/bus/pci/devices/0000:10:00.0/vendor": "0x10de",
        "sys/bus/pci/devices/0000:10:00.0/class": "0x030200", "sys/bus/pci/devices/0000:10:00.0/device": "0x2330",
        "proc/driver/nvidia/gpus/0000:10:00.0/information": "GPU UUID: GPU-????\nDevice Minor: 0\n"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "proc/1/fd/none").unlink()
    (tmp_path / "usr/bin/nvidia-smi").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("python", interpreters() or [
    pytest.param("", marks=pytest.mark.skip("no python3.8 or python3.13 on PATH or in NODE_PYTHONS"))])
def test_files_run_on_that_python(stand_in: Path, python: str) -> None:
    done = subprocess.run([python, "-IS", "-W", "error", "-c", STORY, str(FOLDER.parent), str(stand_in)],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    steps: t.Final = '["OnBus", "Bound", "Touched", "Idle", "Drained", "RemovedFromBus"]'
    assert done.stdout.strip() == f'["Preparing", {steps}, "Removed", 7]'
