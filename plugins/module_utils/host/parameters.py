# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge kernel parameters into those of a host without changing any of them.

The value of `pci=` is a list of options, so its options are merged one by one. Standard library
only, Python 3.8, because the file runs on hosts.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field

LISTS = ("pci",)
PLACES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_LINE = "^(?P<name>{name})=(?P<quote>[\"']?)(?P<value>.*?)(?P=quote)[ \\t]*$"


@dataclass
class Merge:
    """A command line during a merge.

    ``words`` are its parameters. ``added`` are new parameters. ``kept`` are present parameters that
    differ from the wanted ones.
    """

    words: list[str]
    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def put(self, wanted: str) -> None:
        """Add one wanted parameter, unless its name is already there."""
        name, _equals, value = wanted.partition("=")
        at = next((i for i, word in enumerate(self.words) if word.partition("=")[0] == name), None)
        if at is None:
            self.words.append(wanted)
            self.added.append(wanted)
        elif name in LISTS:
            self.words[at] = f"{name}={self._options(name, self.words[at].partition('=')[2], value)}"
        elif self.words[at] != wanted:
            self.kept.append(self.words[at])

    def _options(self, name: str, have: str, wanted: str) -> str:
        options = [option for option in have.split(",") if option]
        names = {option.partition("=")[0]: option for option in options}
        for option in (o for o in wanted.split(",") if o):
            there = names.get(option.partition("=")[0])
            if there is None:
                options.append(option)
                self.added.append(f"{name}={option}")
            elif there != option:
                self.kept.append(f"{name}={there}")
        return ",".join(options)

    def take(self, added: str) -> None:
        """Remove a parameter of an earlier merge. Keep it if its value has changed since."""
        name, _equals, value = added.partition("=")
        gone = set(value.split(","))
        for at, word in enumerate(self.words):
            if word == added:
                self.words[at] = ""
            elif name in LISTS and word.partition("=")[0] == name:
                left = [option for option in word.partition("=")[2].split(",") if option not in gone]
                self.words[at] = f"{name}={','.join(left)}" if left else ""
        self.words = [word for word in self.words if word]


def merge(line: str, wanted: Sequence[str]) -> dict[str, t.Any]:
    """Return `line` with the wanted parameters, `added` and `kept`."""
    state = Merge(line.split())
    for parameter in wanted:
        state.put(parameter)
    return {"line": " ".join(state.words) if state.added else line, "added": state.added, "kept": state.kept}


def unmerge(line: str, added: Sequence[str]) -> str:
    """Return the line without the parameters that `merge` added."""
    state = Merge(line.split())
    for parameter in added:
        state.take(parameter)
    return " ".join(state.words)


def missing(line: str, wanted: Sequence[str]) -> list[str]:
    """Return the wanted parameters that the line lacks. If a running kernel lacks any, reboot."""
    found: list[str] = merge(line, wanted)["added"]
    return found


def merge_grub(text: str, wanted: Sequence[str]) -> dict[str, t.Any]:
    """Merge parameters into the text of /etc/default/grub.

    A parameter stays in the variable that has its name. New ones go to GRUB_CMDLINE_LINUX.
    """
    added: list[str] = []
    kept: list[str] = []
    for parameter in wanted:
        place = _place_of(text, parameter.partition("=")[0])
        done = merge(_value(text, place), [parameter])
        added, kept = added + done["added"], kept + done["kept"]
        text = _with(text, place, done["line"]) if done["added"] else text
    return {"text": text, "added": added, "kept": kept}


def unmerge_grub(text: str, added: Sequence[str]) -> str:
    """Return /etc/default/grub without the parameters that `merge_grub` added."""
    for place in PLACES:
        before = _value(text, place)
        after = unmerge(before, added)
        text = _with(text, place, after) if after != " ".join(before.split()) else text
    return text


def _place_of(text: str, name: str) -> str:
    holding = (p for p in PLACES if name in (word.partition("=")[0] for word in _value(text, p).split()))
    return next(holding, PLACES[0])


def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(_LINE.format(name=place), re.MULTILINE)


def _value(text: str, place: str) -> str:
    found = list(_pattern(place).finditer(text))
    return found[-1]["value"] if found else ""


def _with(text: str, place: str, value: str) -> str:
    found = list(_pattern(place).finditer(text))
    line = f'{place}="{value}"'
    if not found:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"
    return f"{text[: found[-1].start()]}{line}{text[found[-1].end() :]}"
