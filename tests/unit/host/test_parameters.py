# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters are merged, never overwritten, and taken out again without a trace."""

from __future__ import annotations

import random

import pytest

from ansible_collections.composable.infra.plugins.module_utils.host.parameters import (
    merge,
    merge_grub,
    missing,
    unmerge,
    unmerge_grub,
)

WORDS = ["quiet", "ro", "pci=nomsi", "pci=realloc=off,hpbussize=4", "iommu=pt", "console=ttyS0", "pcie_ports=compat"]
WANTED = [
    "pci=realloc=on,hpbussize=8",
    "pci=hpmmioprefsize=64G",
    "pcie_ports=native",
    "iommu=on",
    "nomodeset",
    "pci=nomsi",
]
GRUB = '# defaults\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT="{default}"\nGRUB_CMDLINE_LINUX="{always}"\n# end\n'


@pytest.mark.parametrize(
    ("line", "wanted", "result", "added", "kept"),
    [
        ("quiet", ["pci=realloc=on"], "quiet pci=realloc=on", ["pci=realloc=on"], []),
        ("", ["pci=realloc=on"], "pci=realloc=on", ["pci=realloc=on"], []),
        ("pci=nomsi quiet", ["pci=realloc=on"], "pci=nomsi,realloc=on quiet", ["pci=realloc=on"], []),
        (
            "pci=hpbussize=4",
            ["pci=hpbussize=8,realloc=on"],
            "pci=hpbussize=4,realloc=on",
            ["pci=realloc=on"],
            ["pci=hpbussize=4"],
        ),
        ("pci=realloc=on", ["pci=realloc=on"], "pci=realloc=on", [], []),
        ("iommu=pt", ["iommu=on"], "iommu=pt", [], ["iommu=pt"]),
        ("a  b", ["a"], "a  b", [], []),
        ("quiet", ["pci=a", "pci=b"], "quiet pci=a,b", ["pci=a", "pci=b"], []),
        ("pcie=x", ["pci=a"], "pcie=x pci=a", ["pci=a"], []),
    ],
)
def test_merge(line: str, wanted: list[str], result: str, added: list[str], kept: list[str]) -> None:
    assert merge(line, wanted) == {"line": result, "added": added, "kept": kept}


def options(line: str) -> set[str]:
    """Every parameter, options of `pci=` one by one."""
    return {
        f"pci={option}" if name == "pci" else word
        for word in line.split()
        for name, _eq, value in [word.partition("=")]
        for option in (value.split(",") if name == "pci" else [""])
    }


def some_line(rng: random.Random) -> str:
    """A line of a few words with at most one `pci=`."""
    words = rng.sample([word for word in WORDS if not word.startswith("pci=")], rng.randint(0, 3))
    return " ".join(words + rng.sample([word for word in WORDS if word.startswith("pci=")], rng.randint(0, 1)))


def test_nothing_is_lost_twice_is_once_and_it_comes_out_again(rng: random.Random) -> None:
    for _round in range(200):
        line, wanted = some_line(rng), rng.sample(WANTED, rng.randint(0, 4))
        done = merge(line, wanted)
        assert options(line) <= options(done["line"])
        assert merge(done["line"], wanted)["line"] == done["line"]
        assert missing(done["line"], wanted) == []
        assert unmerge(done["line"], done["added"]).split() == line.split()


def test_what_somebody_changed_later_stays() -> None:
    assert unmerge("quiet pci=realloc=off,nomsi", ["pci=realloc=on"]) == "quiet pci=realloc=off,nomsi"
    assert unmerge("iommu=pt", ["iommu=on"]) == "iommu=pt"


def test_grub_keeps_what_is_not_ours(rng: random.Random) -> None:
    for _round in range(100):
        text = GRUB.format(default=some_line(rng), always="")
        wanted = rng.sample(WANTED, rng.randint(1, 4))
        done = merge_grub(text, wanted)
        assert [line for line in done["text"].splitlines() if "CMDLINE" not in line] == [
            line for line in text.splitlines() if "CMDLINE" not in line
        ]
        assert merge_grub(done["text"], wanted)["added"] == []
        assert unmerge_grub(done["text"], done["added"]) == text


def test_grub_merges_where_the_name_is() -> None:
    done = merge_grub(GRUB.format(default="quiet pci=nomsi", always="ro"), ["pci=realloc=on", "nomodeset"])
    assert 'GRUB_CMDLINE_LINUX_DEFAULT="quiet pci=nomsi,realloc=on"' in done["text"]
    assert 'GRUB_CMDLINE_LINUX="ro nomodeset"' in done["text"]


def test_grub_without_the_line_gets_it() -> None:
    assert merge_grub("GRUB_TIMEOUT=5", ["a"])["text"] == 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="a"\n'
    assert merge_grub("", ["a"])["text"] == 'GRUB_CMDLINE_LINUX="a"\n'


def test_grub_quotes_of_either_kind_are_read() -> None:
    assert 'GRUB_CMDLINE_LINUX="a b"' in merge_grub("GRUB_CMDLINE_LINUX='a'\n", ["b"])["text"]
    assert 'GRUB_CMDLINE_LINUX="a b"' in merge_grub("GRUB_CMDLINE_LINUX=a\n", ["b"])["text"]


def test_a_comment_is_no_line() -> None:
    text = '#GRUB_CMDLINE_LINUX="pci=nomsi"\nGRUB_CMDLINE_LINUX=""\n'
    assert merge_grub(text, ["pci=a"])["text"] == '#GRUB_CMDLINE_LINUX="pci=nomsi"\nGRUB_CMDLINE_LINUX="pci=a"\n'
