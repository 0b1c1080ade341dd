# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel_parameters on made-up hosts: merged once, recorded, and taken out without a trace, by grub and by grubby."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.modules import kernel_parameters

RunModule = Callable[..., dict[str, t.Any]]
GRUB = '# kept\nGRUB_CMDLINE_LINUX_DEFAULT="quiet pci=nomsi"\nGRUB_CMDLINE_LINUX=""\n'
WANTED = ["pci=realloc=on,nomsi", "pcie_ports=native"]
ADDED = ["pci=realloc=on", "pcie_ports=native"]
RECORD = "etc/composable-infra/kernel-parameters.json"
# A stand-in for grubby: it keeps one line of arguments, and writes down how it was called.
GRUBBY = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$1" in
--info=DEFAULT) printf 'index=0\\nargs="%s"\\nroot="x"\\n' "$(cat arguments)" ;;
*) [ ! -e broken ] || { echo "no kernel" >&2; exit 1; }
   line=" $(cat arguments) "
   for word in ${2#--remove-args=}; do line=$(echo "$line" | sed "s| $word | |"); done
   echo "$line ${3#--args=}" | xargs > arguments ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with grub whose running kernel has none of it."""
    for name, text in (("etc/default/grub", GRUB), ("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet pci=nomsi\n")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def grubby(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the stand-in, first on PATH."""
    folder = root / "bin"
    folder.mkdir()
    (folder / "grubby").write_text(GRUBBY, encoding="utf-8")
    (folder / "grubby").chmod(0o755)
    (folder / "arguments").write_text("ro pci=nomsi\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def run(run_module: RunModule, root: Path, check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    return run_module(kernel_parameters, check=check, root=str(root), **args)


def grub(root: Path) -> str:
    return (root / "etc/default/grub").read_text(encoding="utf-8")


def test_grub_is_merged_once_and_check_mode_says_so(run_module: RunModule, root: Path) -> None:
    def task(check: bool) -> dict[str, t.Any]:
        return run(run_module, root, check, boot_loader="grub", parameters=WANTED)

    check = task(True)
    assert (grub(root), (root / RECORD).exists()) == (GRUB, False)
    apply, again, last = task(False), task(False), task(True)
    assert [r["changed"] for r in (check, apply, again, last)] == [True, True, False, False]
    assert [check[k] for k in ("added", "diff", "pending")] == [apply[k] for k in ("added", "diff", "pending")]
    assert (apply["added"], apply["kept"]) == (ADDED, [])
    assert grub(root) == apply["diff"]["after"] == GRUB.replace(
        "pci=nomsi", "pci=nomsi,realloc=on").replace('LINUX=""', 'LINUX="pcie_ports=native"')
    assert again["diff"]["before"] == again["diff"]["after"]
    assert Path(apply["backup_file"]).read_text(encoding="utf-8") == GRUB
    assert "backup_file" not in again


def test_pending_is_what_the_running_kernel_lacks(run_module: RunModule, root: Path) -> None:
    run(run_module, root, boot_loader="grub", parameters=WANTED)
    assert run(run_module, root, boot_loader="grub", parameters=WANTED)["pending"] == ADDED
    (root / "proc/cmdline").write_text("quiet pci=realloc=on,nomsi pcie_ports=native\n", encoding="utf-8")
    assert run(run_module, root, boot_loader="grub", parameters=WANTED)["pending"] == []


def test_what_is_there_with_another_value_stays(run_module: RunModule, root: Path) -> None:
    found = run(run_module, root, boot_loader="grub", parameters=["quiet=no"])
    assert (found["changed"], found["kept"], grub(root)) == (False, ["quiet"], GRUB)


def test_absent_takes_out_just_what_was_added_once(run_module: RunModule, root: Path) -> None:
    run(run_module, root, boot_loader="grub", parameters=WANTED[:1], backup=False)
    run(run_module, root, boot_loader="grub", parameters=WANTED, backup=False)
    assert json.loads((root / RECORD).read_text(encoding="utf-8")) == ADDED
    results = [run(run_module, root, check, boot_loader="grub", state="absent") for check in (True, False, False, True)]
    assert [r["changed"] for r in results] == [True, True, False, False]
    assert results[0]["diff"] == results[1]["diff"]
    assert (results[1]["removed"], grub(root), (root / RECORD).exists()) == (ADDED, GRUB, False)


def test_grubby_is_told_what_goes_and_comes_once(run_module: RunModule, root: Path, grubby: Path) -> None:
    """It is taken where it is installed."""
    def task(check: bool, **args: t.Any) -> dict[str, t.Any]:
        return run(run_module, root, check, **args)

    check = task(True, parameters=WANTED)
    assert (grubby / "arguments").read_text(encoding="utf-8") == "ro pci=nomsi\n"
    apply, again = task(False, parameters=WANTED), task(False, parameters=WANTED)
    assert [r["changed"] for r in (check, apply, again)] == [True, True, False]
    assert check["diff"] == apply["diff"]
    assert (grubby / "arguments").read_text(encoding="utf-8") == "ro pci=nomsi,realloc=on pcie_ports=native\n"
    gone = task(False, state="absent")
    assert (gone["removed"], (grubby / "arguments").read_text(encoding="utf-8")) == (ADDED, "ro pci=nomsi\n")
    assert (task(False, state="absent")["changed"], grub(root)) == (False, GRUB)
    calls = (grubby / "calls").read_text(encoding="utf-8").splitlines()
    assert sum(call.startswith("--update-kernel=ALL") for call in calls) == 2


def test_failing_grubby_is_one_sentence_and_nothing_is_recorded(run_module: RunModule, root: Path,
                                                                grubby: Path) -> None:
    (grubby / "broken").touch()
    found = run(run_module, root, parameters=WANTED)
    assert (found["failed"], found["msg"]) == (True, "grubby --update-kernel=ALL fails: no kernel")
    assert not (root / RECORD).exists()


@pytest.mark.parametrize(("break_it", "said"), [
    (lambda root: (root / "etc/default/grub").unlink(), "etc/default/grub cannot be read: No such file or directory"),
    (lambda root: (root / "proc/cmdline").unlink(), "proc/cmdline cannot be read"),
])
def test_host_that_cannot_be_read(run_module: RunModule, root: Path, break_it: Callable[[Path], None],
                                  said: str) -> None:
    break_it(root)
    found = run(run_module, root, boot_loader="grub", parameters=WANTED)
    assert (found["failed"], said in found["msg"]) == (True, True)


def test_record_that_is_none_removes_nothing(run_module: RunModule, root: Path) -> None:
    (root / RECORD).parent.mkdir()
    (root / RECORD).write_text('{"pci": 1}', encoding="utf-8")
    found = run(run_module, root, boot_loader="grub", state="absent")
    assert (found["failed"], grub(root)) == (True, GRUB)
    assert "is not a list of kernel parameters. Correct or remove it" in found["msg"]


def test_present_needs_parameters(run_module: RunModule, root: Path) -> None:
    assert "state is present but all of the following are missing: parameters" in run(run_module, root)["msg"]
