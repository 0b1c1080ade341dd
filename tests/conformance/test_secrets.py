# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a run writes, with everything going wrong and every log open: no password and no token is in it."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import typing as t
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import run
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.report import junit, markdown
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.redaction import Redactor
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    client,
    document,
    subject,
)

# What the emulator keeps for itself, readable by its owner only.
OWN = {"credentials.json", "token.key", "server.key"}
TOKEN = re.compile(r"eyJ[\w-]{5,}\.eyJ[\w-]{5,}\.")
WRONG = "a-wrong-password-of-the-test"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every secret that a client learned of: passwords, client secrets, tokens."""
    seen: set[str] = set()

    def noting(learn: Callable[[Redactor, str], None]) -> Callable[[Redactor, str], None]:
        def note(self: Redactor, secret: str) -> None:
            seen.update({secret} - {""})
            learn(self, secret)

        return note

    monkeypatch.setattr(Redactor, "learn", noting(Redactor.learn))
    monkeypatch.setattr(Redactor, "learn_token", noting(Redactor.learn_token))
    return seen


def written(folder: Path) -> str:
    """All that is in files, but for the emulator's own."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in OWN]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def shown(text: str, secrets: set[str]) -> list[str]:
    """The secrets in a text, in any form, by their first letters."""
    found = [s for s in secrets if s and any(form in text for form in (s, quote(s, safe=""), quote_plus(s)))]
    return [f"{secret[:3]}…" for secret in found] + (["a token"] if TOKEN.search(text) else [])


def refused_login(emulator: Emulator, row: str) -> str:
    """What a client with a wrong password says."""
    try:
        fabric = client(emulator, ROWS[row], **({"password": WRONG} if "password" in told(emulator, row) else {}))
        fabric.machines()
    except FabricError as error:
        return f"{error} {error!r} {vars(error)}"
    return ""


def told(emulator: Emulator, row: str) -> dict[str, t.Any]:
    """Options of a client."""
    return emulator.fabric_config(ROWS[row].manager)


def test_nothing_that_a_run_writes_has_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, used: set[str], seed: int, row: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with Emulator.run(document(ROWS[row]), tmp_path) as emulator:
        words = [refused_login(emulator, row)]
        emulator.set_faults(profile="storm", seed=seed)
        with subject(emulator, ROWS[row]) as examined:
            results = run(examined)
        (tmp_path / "report.md").write_text(markdown(row, emulator.url, results), encoding="utf-8")
        (tmp_path / "report.xml").write_text(junit(row, results), encoding="utf-8")
        words += [str(emulator.log()), str(emulator.effects()), str(emulator.state()), str(emulator.faults())]
    secrets = used | {WRONG}
    assert ("password" in told(emulator, row)) == bool(used), "the secrets that were used are not known"
    assert shown("\n".join([*words, caplog.text, written(tmp_path)]), secrets) == []


def test_the_playbook_tells_no_secret(tmp_path: Path) -> None:
    with Emulator.run(document(ROWS["fm"]), tmp_path / "emulator") as emulator:
        wrong = subprocess.run(play(tmp_path, {**told(emulator, "fm"), "password": WRONG}), capture_output=True,
                               text=True, check=False)
        good = subprocess.run(play(tmp_path, told(emulator, "fm")), capture_output=True, text=True, check=False)
        secrets = {emulator.credentials["password"], emulator.credentials["client_secret"], WRONG}
    assert good.returncode == 0, good.stdout + good.stderr
    assert wrong.returncode != 0
    assert (tmp_path / "report" / "conformance.xml").exists()
    said = good.stdout + good.stderr + wrong.stdout + wrong.stderr
    assert shown(said + written(tmp_path / "report") + written(tmp_path / "emulator"), secrets) == []


def play(folder: Path, options: dict[str, t.Any]) -> list[str]:
    """The playbook's command with the most talkative log."""
    fabric = {**options, "machine": MACHINE, "model": MODEL, "attach_timeout": 2.0, "patience": 5.0}
    variables = folder / "variables.json"
    variables.write_text(json.dumps({"fabric": fabric, "report_dir": str(folder / "report")}), encoding="utf-8")
    program = Path(sys.executable).with_name("ansible-playbook")
    return [str(program), "-vvv", str(ROOT / "playbooks" / "conformance.yml"), "-e", f"@{variables}"]


def test_the_search_finds_what_it_is_for() -> None:
    assert shown("x p%2Fw y", {"p/w"}) == ["p/w…"]
    assert shown("eyJhbGciOi.eyJleHAiOj.x", set()) == ["a token"]
    assert shown("nothing", {"p/w"}) == []
