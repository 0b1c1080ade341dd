# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write two pages from the code of the managers and from the conformance checks.

docs/managers.md is for users, and docs/contributors/conformance.md has the checks. ``make managers-page`` writes both,
and a test fails if one is out of date.
"""

from __future__ import annotations

import sys
import tempfile
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Capabilities
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    Check,
    Result,
    run,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.report import SIGNS, cell
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.http_status import error_for_status
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.plugins.module_utils.net.client import Response
from ansible_collections.composable.infra.tests.conformance.managers import (
    MAIN,
    ROWS,
    Emulators,
    Row,
    rows_of,
    subject,
)
from ansible_collections.composable.infra.tests.conformance.stories.told import STORIES, Story

_DOCS: t.Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: t.Final = _DOCS / "managers.md"
CHECKS_PAGE: t.Final = _DOCS / "contributors" / "conformance.md"
HEAD: t.Final = """# CDI Managers side by side

This page compares the CDI Managers that the collection supports. It is for platform administrators and evaluators.
[Connect a CDI Manager](guides/connect-a-manager.md) shows how to configure each of them. `make managers-page` writes
this page from the code.

All managers pass the [conformance checks](contributors/conformance.md) with emulated services. To run the checks
against your own manager:

<!-- not run: needs your CDI Manager; tests/integration/playbook_runs/test_runs.py runs this playbook -->
```
ansible-playbook composable.infra.conformance -e '{"fabric": {"manager": "fm", "endpoint": "https://…", "tenant": "…"}}'
```

The playbook only reads, unless `fabric` also names a `machine` and a `model`. It writes `conformance.md` and
`conformance.xml`.
"""
CHECKS_HEAD: t.Final = """# The conformance checks

`make managers-page` writes this page from the conformance checks, which run against the emulated managers.
[CDI Managers side by side](../managers.md) is the page for users.
"""
STATUSES: t.Final[tuple[tuple[int, ...] | str, ...]] = (
    (301, 307, 308), (302, 303), (400, 405, 410, 422), (401,), (403,), (404,), (408, 499), (409, 423, 429), (412, 428),
    (500, 502, 504), (503,), "other 5xx",
)
FEATURES: t.Final[Mapping[str, Callable[[Capabilities], object]]] = {
    "it answers before the device is attached": lambda c: c.asynchronous,
    "one request attaches several devices": lambda c: c.batch,
    "it lists free devices": lambda c: c.lists_free,
    "it counts free devices": lambda c: c.counts_free,
    "kinds of devices": lambda c: ", ".join(c.kinds),
}


@dataclass(frozen=True)
class Examined:
    """What one manager's row came to."""

    capabilities: Capabilities
    results: Sequence[Result]


def examine(emulators: Emulators, name: str) -> Examined:
    """All checks of one row, without faults."""
    with subject(emulators.get(name), ROWS[name]) as examined:
        return Examined(examined.fabric.capabilities, run(examined, tried()))


def tried() -> list[Check]:
    """The checks of the page; that no page is left out is shown with a thousand devices elsewhere."""
    return [check for check in CHECKS if check.name != "nothing_is_left_out"]


def page(found: Mapping[str, Examined]) -> str:
    """Return the page for users."""
    return "\n".join([
        HEAD, "## How each is reached", "", *_reached(), "",
        "## What each can do", "", "The modules take these into account.", "", *_features(found), "",
    ])


def checks_page(found: Mapping[str, Examined]) -> str:
    """Return the page about the checks."""
    return "\n".join([
        CHECKS_HEAD, "## What the checks found", "", *_outcomes(found), "", *_legend(), "",
        "## In other ways", "", *_variants(), "",
        "## What the checks mean", "", *(f"- **{check.title}**: {check.means}" for check in tried()), "",
        "## Under faults", "", *_faults(), "",
        "## Stories", "", *_stories(), "",
        "## What a status means", "", *_statuses(), "",
    ])


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell(str(value)) for value in line)} |" for line in lines]


def _reached() -> list[str]:
    heads = ["Manager", "Log in by", "URL", "Requires", "Takes"]
    return table(heads, [
        [name, ", ".join(m.auth), ", ".join(m.schemes), ", ".join(m.requires), ", ".join(m.takes)]
        for name, m in MANAGERS.items()
    ])


def _features(found: Mapping[str, Examined]) -> list[str]:
    rows = [[words, *(_shown(read(f.capabilities)) for f in found.values())] for words, read in FEATURES.items()]
    return table(["", *found], rows)


def _shown(value: object) -> object:
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def _outcomes(found: Mapping[str, Examined]) -> list[str]:
    rows = []
    for number, check in enumerate(tried()):
        results = [f.results[number] for f in found.values()]
        rows.append([check.title, *(f"{SIGNS[r.outcome]} {r.words}".strip() for r in results)])
    return table(["", *found], rows)


def _legend() -> list[str]:
    return ["✔ passed, – not offered by this manager. No check may fail. The words say how the manager does it."]


def _variants() -> list[str]:
    rows = [[row.manager, row.variant, _apart(row)] for row in ROWS.values() if row.variant]
    return [
        "A manager can be set up in several ways. The columns above show the first way of each manager. The suite runs",
        "the same checks for the others:", "",
        *table(["Manager", "In what it differs", "Cannot pass"], rows),
    ]


def _apart(row: Row) -> str:
    return "; ".join(f"{name.replace('_', ' ')}: {why}" for name, why in row.apart.items())


def _faults() -> list[str]:
    names = ", ".join(f"`{name}`" for name in PROFILES if name != "none")
    return [
        "The suite (`make conformance FULL=1`) repeats every check for every manager under each fault profile of the",
        "emulator. For the other ways it repeats the checks in which they differ. The profiles are:", f"{names}.", "",
        "It also makes 200 random histories per manager, of attaches, detaches, crashes and faults. They",
        "are shared among the ways of a manager. The seed is printed. After each history no device was attached twice,",
        "and none is left.",
    ]


def _stories() -> list[str]:
    rows = [[story.title, *(_told(story, manager) for manager in MAIN)] for story in STORIES]
    return [
        "Each story is a fault around a CDI Manager, tried with each of them (`tests/conformance/stories`):", "",
        *table(["", *MAIN], rows), "",
        "✔ tried, – not tried with this manager, and why. The ways in which a manager can be set up are tried too,",
        "except where the list says why not.", "",
        *(line for story in STORIES for line in _meaning(story)),
    ]


def _told(story: Story, manager: str) -> str:
    """Whether any way of a manager is tried, and else why not."""
    names = rows_of(manager)
    return "✔" if any(not story.why_not(name) for name in names) else f"– {story.why_not(names[0])}"


def _meaning(story: Story) -> list[str]:
    said = [f"- **{story.title}**: {story.means} (`{story.test}`)"]
    tried_some = [name for name in ROWS if story.why_not(name) and _told(story, ROWS[name].manager) == "✔"]
    return said + [f"  - not {name}: {story.why_not(name)}" for name in tried_some]


def _statuses() -> list[str]:
    heads = ["HTTP status", "Read", "Change", "Read, foreign form", "Change, foreign form"]
    return [
        "Drivers turn each HTTP status into one class of error, the same for all CDI Managers. *Foreign form*: the",
        "body is not in the form of the CDI Manager's errors, so a proxy or a service mesh may have sent it.", "",
        *table(heads, [[", ".join(map(str, group)) if isinstance(group, tuple) else group, *_classes(group)]
                       for group in STATUSES]), "",
        "- `Unavailable`: the CDI Manager did not process the request. Drivers repeat the request.",
        "- `Uncertain`: the change may have taken effect. Drivers read the machine before they repeat anything.",
        "- `Busy` and `Changed`: the CDI Manager did nothing. The caller requests again, for `Changed` after a read.",
        "- `Missing`, `Refused` and `Unauthorized`: the CDI Manager did nothing, and will not.", "",
        "A 403 or 503 with `Retry-After` counts as the CDI Manager's own form. A success without a JSON body ends a",
        "change as `Uncertain` and a read as `Unavailable`. While drivers follow a task of a Redfish service, a 5xx or",
        "a 401, 403, 423 or 429 says nothing about the task, so they read the task again.",
    ]


def _classes(group: tuple[int, ...] | str) -> list[str]:
    status = group[0] if isinstance(group, tuple) else 599
    calls = (Request("GET", "/", "read"), Request("PATCH", "/", "change", effect=True))
    said = (ErrorBody("E1", "no"), None)
    return [type(error_for_status(Response(status, {}, b""), call, form, "foreign")).__name__
            for form in said for call in calls]


def main() -> int:
    """Write both pages."""
    with tempfile.TemporaryDirectory() as folder:
        emulators = Emulators(Path(folder))
        try:
            found = {name: examine(emulators, name) for name in MAIN}
            PAGE.write_text(page(found), encoding="utf-8")
            CHECKS_PAGE.write_text(checks_page(found), encoding="utf-8")
        finally:
            emulators.stop()
    print(f"{PAGE} and {CHECKS_PAGE} are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
