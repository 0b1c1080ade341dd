# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a page, and the words that the check of `make lint` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import words

PAGE = """\
# What a heading says; it is no prose

<!-- a comment; with a semicolon -->

You can read this: it has a colon. What it lacks is code.
The second line; `code; here: too` ends.

- An item of a list.

| What | Why |
|---|---|
| a cell; with a semicolon | nobody |

```
echo a; echo b
```
"""


@pytest.fixture
def shipped() -> words.Rules:
    return words.rules()


def test_only_prose_is_measured() -> None:
    found = words.measure(PAGE)
    assert (found.sentences, found.inverted, found.colons, found.semicolons, found.you) == (4, 1, 1, 1, 1)
    assert found.words == sum(word not in ("#", "-", "|", "|---|---|", "```", "<!--", "-->") for word in PAGE.split())
    assert words.measure("| a | b |\n|---|---|\n| c | |\n").words == 3


def test_shares_are_percentages_of_sentences_and_pages_add_up() -> None:
    both = words.measure(PAGE) + words.measure("One more sentence.\n")
    assert both.share(both.colons) == pytest.approx(20)
    assert words.Figures().share(0) == 0


def test_sentences_end_before_a_capital_letter_or_code() -> None:
    assert words.sentences("Wait 0.5 s. Then run it, e.g. twice. `x` ends.") == [
        "Wait 0.5 s.", "Then run it, e.g. twice.", "`x` ends."]


@pytest.mark.parametrize("sentence", [
    "Whatever fails is reported.", "Of these one is used.", "The claim waits; the pod too.", "It is attached anew.",
    "The gate holds pods.", "A node in trouble is left out.", "It takes 95 % of the time.", "It takes 5s at most.",
    "Nobody needs the device."])
def test_a_sentence_that_breaks_a_rule_is_found(shipped: words.Rules, sentence: str) -> None:
    assert [line.partition(": ")[0] for line in words.problems("new.md", sentence + "\n", shipped)] == ["new.md:1"]


@pytest.mark.parametrize("sentence", [
    "What is a pool?", "If the check fails, the agent reports it.", "It takes 95% of 5 s.", "Run `a; b` again."])
def test_other_sentences_are_left_alone(shipped: words.Rules, sentence: str) -> None:
    assert list(words.problems("new.md", sentence + "\n", shipped)) == []


def test_cells_of_tables_are_checked_too(shipped: words.Rules) -> None:
    found = "\n".join(words.problems("new.md", PAGE, shipped))
    assert "'nobody'" in found
    assert "a cell; with a semicolon" in found


def test_an_exception_counts_for_its_page_and_sentence_only(shipped: words.Rules) -> None:
    by = words.Rules(shipped.banned, {"a.md": {"floor of the house": "a real floor"}}, frozenset({"b.md"}))
    text = "The floor of the house is low. This floor is high.\n"
    assert len(list(words.problems("a.md", text, by))) == 1
    assert len(list(words.problems("c.md", text, by))) == 2
    assert list(words.problems("b.md", text, by)) == []
    assert list(words.unused({"a.md": text, "b.md": ""}, by)) == []
    assert len(list(words.unused({"a.md": "Nothing.\n"}, by))) == 2


def test_an_exception_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "words.yml"
    path.write_text("banned: {}\nwaiting: []\nallowed: {a.md: {a floor: ''}}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"the exception 'a floor' of a\.md has no reason"):
        words.rules(path)


def test_the_program_prints_figures_and_checks_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main([]) == 0
    printed = capsys.readouterr().out
    assert "README.md" in printed
    assert printed.splitlines()[-1].startswith("all")
    assert words.main(["--check"]) == 0, capsys.readouterr().out
