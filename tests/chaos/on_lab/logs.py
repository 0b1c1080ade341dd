# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs that are kept of a failed run on the lab."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.stage import Stage


def keep_logs(stage: Stage, seed: int, folder: Path) -> None:
    """Copy the logs of the controllers and the lab's processes. Write the emulator's log."""
    kept = folder / str(seed)
    kept.mkdir(parents=True, exist_ok=True)
    for path in [*stage.folder.glob(f"seed-{seed}-*.log"), *(stage.lab.state_dir / "logs").glob("*.log")]:
        shutil.copy(path, kept)
    (kept / "effects.json").write_text(json.dumps(stage.emulator.effects(), indent=1), encoding="utf-8")
    (kept / "requests.json").write_text(json.dumps(stage.emulator.log(), indent=1), encoding="utf-8")
