# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guides tell people to type exists: playbooks, variables, roles, modules, targets, resources."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.bootstrap import shipped_documents
from ansible_collections.composable.infra.tests.unit.house.files import ROOT, text
from ansible_collections.composable.infra.tests.unit.roles.guides import (
    PRINTS,
    Block,
    blocks,
    blocks_of,
    missing,
    pages_of,
)
from ansible_collections.composable.infra.tests.unit.roles.playbook_inputs import known_variables, options_of

BLOCKS = blocks()
PREFIX = "composable.infra."
RESOURCES = {"resourceclaim", "resourceslices", "composabilityrequests", "composableresources", "pods", "leases"}
# what stands in the way of a test is said where the block is; everything else is looked up here
ACCOUNTS = {item["metadata"]["name"] for item in shipped_documents() if item["kind"] == "ServiceAccount"}


def commands(program: str) -> list[list[str]]:
    """Every command of a program in the pages, also of blocks that no test runs."""
    return [words for block in BLOCKS for words in block.commands if words and words[0] == program]


def documents(block: Block) -> Iterator[t.Any]:
    yield yaml.safe_load(block.text)


def values_after(words: list[str], *options: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word in options]


def test_every_guide_is_there() -> None:
    named = {"bootstrap", "air-gap", "awx", "event-driven", "moving-from-cohdi", "operating", "alerts"}
    assert {path.stem for path in (ROOT / "docs" / "guides").glob("*.md")} >= named


def test_every_block_of_commands_runs_or_says_why_not() -> None:
    """`tests/archive` runs those with a setting."""
    assert [f"{block.page}:{block.line}" for block in BLOCKS
            if block.commands and not (block.setting or block.not_run)] == []


@pytest.mark.parametrize("page", pages_of("tutorials"))
def test_each_step_of_a_tutorial_shows_what_its_commands_print(page: str) -> None:
    told = [block for block in BLOCKS if block.page == page and (block.setting or block.mark == PRINTS)]
    assert [block.mark == PRINTS for block in told] == [number % 2 == 1 for number in range(len(told))]
    assert len(told) >= 2
    assert len(told) % 2 == 0


@pytest.mark.parametrize("page", pages_of("tutorials"))
def test_the_files_that_a_tutorial_shows_are_its_examples(page: str) -> None:
    """An example may have a line with three dashes and comments, which the page leaves out."""
    folder = ROOT / "examples" / page.rpartition("/")[2].removesuffix(".md")
    shown = {block.mark: block.text for block in BLOCKS if block.page == page and block.language == "yaml"}
    plain = {path.name: "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
                                if not line.startswith(("---", "#"))) for path in folder.glob("*.yml")}
    assert shown == plain


def test_only_commands_are_run() -> None:
    assert [f"{block.page}:{block.line}" for block in BLOCKS if block.setting and block.language] == []


@pytest.mark.parametrize("words", [w for w in commands("ansible-playbook") if w[1].startswith(PREFIX)],
                         ids=lambda words: " ".join(words[1:])[:60])
def test_a_playbook_exists_and_reads_what_it_is_given(words: list[str]) -> None:
    book = ROOT / "playbooks" / f"{words[1].removeprefix(PREFIX)}.yml"
    assert book.is_file()
    known = known_variables(book)
    for given in values_after(words, "-e"):
        if given.startswith("@"):
            continue
        names = set(json.loads(given)) if given.startswith("{") else {given.partition("=")[0]}
        assert names <= known
    options = [word for word in words[2:] if word.startswith("-")]
    assert set(options) <= {"-e", "-i", "--check", "--diff", "--tags"}
    for tags in values_after(words, "--tags"):
        assert [tag for tag in tags.split(",") if f"tags: [{tag}]" not in book.read_text(encoding="utf-8")] == []


def test_rulebooks_exist() -> None:
    for words in commands("ansible-rulebook"):
        (name,) = values_after(words, "--rulebook")
        assert (ROOT / "extensions" / "eda" / "rulebooks" / f"{name.removeprefix(PREFIX)}.yml").is_file()


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert {words[1] for words in commands("make")} <= targets


def test_kubectl_asks_for_what_there_is() -> None:
    for words in commands("kubectl"):
        assert words[1] in ("get", "describe", "logs", "port-forward", "apply", "create", "config", "label")
        if words[1] == "create":
            assert words[2] == "token"
            assert words[5] in ACCOUNTS
        if words[1] in ("get", "describe"):
            assert set(words[2].split(",")) <= RESOURCES


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=lambda b: f"{b.page}-{b.line}")
def test_yaml_is_valid_and_names_what_exists(block: Block) -> None:
    for document in documents(block):
        for role, variables in roles_in(document):
            assert role.startswith(PREFIX)
            known = set(options_of(role.removeprefix(PREFIX)))
            assert known, f"{role} documents no options"
            assert set(variables) <= known


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.mark == "inventory"], ids=lambda b: b.page)
def test_variables_of_inventories_are_options_of_roles(block: Block) -> None:
    roles = [path.name for path in (ROOT / "roles").iterdir() if path.is_dir()]
    known = {option for name in roles for option in options_of(name)}
    assert set(yaml.safe_load(block.text)["all"]["vars"]) <= known


def roles_in(document: t.Any) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """Every role that a play applies, with its variables."""
    if isinstance(document, list):
        for entry in document:
            yield from roles_in(entry)
    elif isinstance(document, dict):
        for entry in document.get("roles", ()):
            rest = {k: v for k, v in entry.items() if k not in ("role", "vars")}
            yield entry["role"], {**rest, **entry.get("vars", {})}
        if "ansible.builtin.include_role" in document:
            yield document["ansible.builtin.include_role"]["name"], document.get("vars", {})
        yield from roles_in(document.get("tasks", []))


def test_modules_of_examples_exist() -> None:
    for block in BLOCKS:
        for name in re.findall(r"^\s*(?:- )?composable\.infra\.(\w+):$", block.text, re.M):
            assert (ROOT / "plugins" / "modules" / f"{name}.py").is_file()


def test_links_lead_somewhere() -> None:
    for path in (ROOT / page for folder in ("guides", "tutorials") for page in pages_of(folder)):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text(path.relative_to(ROOT))):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_sentences_that_are_quoted_are_said_somewhere() -> None:
    said = "".join(path.read_text(encoding="utf-8") for folder in ("plugins", "controller")
                   for path in (ROOT / folder).rglob("*.py"))
    guide = (ROOT / "docs" / "guides" / "alerts.md").read_text(encoding="utf-8")
    quotes = re.findall(r'"([^"\n]+)"', guide.partition("\n## ")[2])
    assert len(quotes) >= 20
    parts = [part.strip() for quote in quotes for part in quote.split("...") if part.strip()]
    assert [part for part in parts if part not in said] == []


class TestReading:
    def test_marks_belong_to_the_next_block_only(self) -> None:
        found = blocks_of("x", "<!-- not run: a GPU -->\n```\na b\n```\ntext\n```yaml\nc: d\n```\n")
        assert [(b.line, b.language, b.not_run, b.text) for b in found] == [
            (2, "", "a GPU", "a b\n"), (6, "yaml", "", "c: d\n")]

    def test_a_setting_may_have_an_end(self) -> None:
        text = "<!-- runs: cluster -->\n```\na\n```\n<!-- runs: cluster, until it leads -->\n```\nb\n```\n"
        assert [(b.setting, b.until) for b in blocks_of("x", text)] == [("cluster", ""), ("cluster", "it leads")]

    def test_lines_that_are_not_printed_in_this_order_are_missing(self) -> None:
        assert missing("a: 1\n  b: 2\n", "x a: 1, y\nb: 2") == []
        assert missing("b: 2\na: 1\n", "x a: 1, y\nb: 2") == ["a: 1"]

    def test_indented_blocks_are_unindented(self) -> None:
        (block,) = blocks_of("x", "1. so\n\n   ```\n   A=b make test -e 'c d'\n   ```\n")
        assert block.commands == [["make", "test", "-e", "c d"]]
