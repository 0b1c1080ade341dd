# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the pictures of docs/ from their text in source.yml: `make diagrams`.

The picture of the minimum of idle devices over a week is drawn from the example of
docs/guides/prewarm.md by the planner.
"""

from __future__ import annotations

import re
import sys
import typing as t
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import yaml

from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import idle_minimums
from ansible_collections.composable.infra.tools.diagrams import graph, lanes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "images"
PREWARM = ROOT / "docs" / "guides" / "prewarm.md"
ZONE = "Europe/Berlin"
MONDAY = datetime(2026, 1, 12, tzinfo=ZoneInfo(ZONE))
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEK_ALT = ("A week of the example in Berlin: 8 idle devices on working days from 8 to 18, none at night, and 2 at all "
            "other times.")


def pictures() -> dict[str, str]:
    """Return the SVG of each picture by its name."""
    sources = yaml.safe_load((Path(__file__).with_name("source.yml")).read_text(encoding="utf-8"))
    drawn = {name: (lanes if source["draw"] == "lanes" else graph).draw(source) for name, source in sources.items()}
    return {**drawn, "prewarm-week": week(PREWARM.read_text(encoding="utf-8"))}


def texts() -> dict[str, str]:
    """Return the text of each picture for people who do not see it, by the picture's name."""
    sources = yaml.safe_load((Path(__file__).with_name("source.yml")).read_text(encoding="utf-8"))
    return {**{name: str(source["alt"]) for name, source in sources.items()}, "prewarm-week": WEEK_ALT}


def week(page: str) -> str:
    """Return the picture of the example with a schedule on a page, hour by hour in winter."""
    (block,) = [found for found in re.findall(r"```yaml\n(prewarm:.*?)```", page, re.DOTALL) if "schedule" in found]
    rows: list[dict[str, t.Any]] = yaml.safe_load(block)["prewarm"]
    (minimum,) = idle_minimums(rows, [row["model"] for row in rows])
    hours = [minimum.idle_at((MONDAY + timedelta(hours=hour)).timestamp()) for hour in range(7 * 24)]
    return lanes.steps(WEEK_ALT, hours, DAYS, "Minimum of idle devices, by the time of Berlin in winter")


def main() -> int:
    """Write the pictures."""
    for name, svg in pictures().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
    print(f"{len(pictures())} pictures are drawn in {FOLDER.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
