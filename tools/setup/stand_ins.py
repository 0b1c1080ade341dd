# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide stand-ins for the modules of ansible.eda, which no package index has, for tests and
gates.

If the real collection is beside the others (``collections.home()``), use it instead.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .collections import TOP, home, place
from .launchers import link, put, tree

NAME = "ansible.eda"
# Modules that the role eda calls. Each is the module of this name in
# tests/integration/eda/standin.py.
MODULES = ("credential", "credential_info", "credential_type", "decision_environment", "decision_environment_info",
           "project", "project_info", "rulebook_activation", "rulebook_activation_info")
SOURCE = "tests/integration/eda/standin.py"
WRAPPER = "from ansible_collections.ansible.eda.plugins.module_utils.standin import run\n\nrun('{name}')\n"


def provide(root: Path) -> None:
    """Make the collection importable from `.venv`."""
    target = tree(root) / TOP / NAME.replace(".", "/")
    real = place(home(), NAME)
    if real.is_dir():
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        link(target, real)
        return
    if target.is_symlink():
        target.unlink()
    for folder in ("modules", "module_utils"):
        (target / "plugins" / folder).mkdir(parents=True, exist_ok=True)
    link(target / "plugins" / "module_utils" / "standin.py", root / SOURCE)
    for name in MODULES:
        put(target / "plugins" / "modules" / f"{name}.py", WRAPPER.format(name=name))
