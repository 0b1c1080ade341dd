# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages name exists: files and folders of this repository, and the targets of links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT, files, text

UTILS = ROOT / "plugins" / "module_utils"
PAGES = files(".md")
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PLACEHOLDER = re.compile(r"<[^>]*>|\{[^}]*\}|…|NAME")
TOP = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - {"dist"}


def named_paths(page: str) -> Iterator[str]:
    """What a page names as a path of this repository: in backticks, and as a word of a fenced block.

    A path begins with a folder at the top of the checkout. Otherwise it ends in ``/`` or is a Python file; then it does
    not begin at the root of a file system, in a hidden folder, or with a domain.
    """
    fenced = False
    for line in page.splitlines():
        if line.strip().startswith("```"):
            fenced = not fenced
        else:
            words = line.replace(",", " ").split() if fenced else QUOTED.findall(line)
            yield from (word for word in words if is_path(word))


def is_path(word: str) -> bool:
    """Whether a quoted word is a path of this repository."""
    if not re.fullmatch(r"[\w.*<>{}…-]+(/[\w.*<>{},…-]*)+", word) or word.startswith("."):
        return False
    first = word.partition("/")[0]
    return first in TOP or ("." not in first and word.endswith(("/", ".py")))


def exists(word: str, page: Path) -> bool:
    """Whether the path is there: from the root, from the page's folder, or from plugins/module_utils."""
    pattern = PLACEHOLDER.sub("*", word).rstrip("/")
    return any(True for folder in (ROOT, ROOT / page.parent, UTILS) for _unused in folder.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_paths_exist(page: Path) -> None:
    assert [word for word in named_paths(text(page)) if not exists(word, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_named_tests_exist(page: Path) -> None:
    named = [(path, function) for path, function in TEST.findall(text(page)) if (ROOT / path).exists()]
    assert [(path, function) for path, function in named if f"def {function}(" not in text(Path(path))] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(text(page)) if "://" not in target]
    assert [target for target in targets if not (ROOT / page.parent / target).exists()] == []


@pytest.mark.parametrize("word", ["plugins/modules", "fabric/fm.py", "scaling/gating/", "roles/<name>/README.md",
                                  "tests/unit/{net,kube}", "requirements/*.txt"])
def test_a_path_is_found(word: str) -> None:
    page = f"Look at `{word}` first.\n"
    assert list(named_paths(page)) == [word]


@pytest.mark.parametrize("word", ["cohdi.io/fabric", "composable.infra/", "/proc/driver/nvidia",
                                  "composable.infra/gated=true", "api.py", ".venv/bin/python",
                                  "~/.cache/composable-infra", "nvcr.io/nvidia/gpu-operator"])
def test_what_is_no_path_is_left_alone(word: str) -> None:
    assert list(named_paths(f"`{word}`")) == []


def test_words_of_commands_are_paths_too() -> None:
    assert list(named_paths("```\nkubectl apply -f deploy/crds\n```\ndeploy/crds\n")) == ["deploy/crds"]


def test_a_path_that_is_gone_is_noticed() -> None:
    page = Path("docs/limits.md")
    assert exists("fabric/api.py", page)
    assert exists("roles/<name>/README.md", page)
    assert not exists("fabric/no_such_file.py", page)


# Written in one line, or as lines that are indented deeper; the key may be the first of a list's item.
DRA_ATTRIBUTES = re.compile(r"^( *)(?:- )?dra-attributes:(?: *\{.*\}\n|\n(?:\1 +\S.*\n)*)", re.MULTILINE)
SHOWN_TO_USERS = [path for path in files(".md", ".yml", ".yaml", ".j2") if path.parts[0] not in ("tests", "changelogs")]


def lists_without_type(page: str) -> list[str]:
    """The lists of ``dra-attributes`` in a text that have no ``type``, which NVIDIA's DeviceClass reads."""
    return [found[0] for found in DRA_ATTRIBUTES.finditer(page) if not re.search(r"\btype:", found[0])]


def test_every_table_of_devices_that_is_shown_has_the_attribute_of_nvidias_class() -> None:
    shown = {str(path): text(path) for path in SHOWN_TO_USERS}
    assert sum(len(DRA_ATTRIBUTES.findall(page)) for page in shown.values()) > 5
    assert {path: lacking for path, page in shown.items() if (lacking := lists_without_type(page))} == {}


@pytest.mark.parametrize(("written", "lacks"), [
    ("  dra-attributes: {type: gpu, productName: A}\n", False), ("  dra-attributes: {productName: A}\n", True),
    ("- dra-attributes:\n    type: gpu\n    productName: A\n", False),
    ("  dra-attributes:\n    productName: A\n  kind: gpu\n  type: other\n", True)])
def test_a_table_without_it_is_noticed(written: str, lacks: bool) -> None:
    assert bool(lists_without_type(written)) is lacks
