# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a machine needs for real nodes, and explain in a sentence what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries.node_programs import runc_trouble
from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, find_release
from ansible_collections.composable.infra.lab.real_nodes import cgroups

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_SYSLOG": 34}
_SYS_RESOURCE = 24
_PROGRAMS = ("unshare", "mount", "ip")


def missing() -> str | None:
    """Return why this machine cannot have real nodes, or None."""
    return next(_troubles(), None)


def may_lower_oom_scores() -> bool:
    """Return whether a process may be protected against being killed when memory runs out."""
    return bool(_capabilities() >> _SYS_RESOURCE & 1)


def _troubles() -> Iterator[str]:
    checks: tuple[Callable[[], str | None], ...] = (_linux, _root, _programs, _control_groups, _runc)
    for check in checks:
        trouble = check()
        if trouble:
            yield f"real nodes cannot be started here: {trouble}"


def _linux() -> str | None:
    return None if sys.platform == "linux" else "they need Linux"


def _root() -> str | None:
    if os.geteuid() != 0:
        return "they need root"
    held = _capabilities()
    lacking = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
    return f"root lacks {', '.join(lacking)}" if lacking else None


def _programs() -> str | None:
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"not on PATH are {', '.join(lacking)} (packages util-linux, mount, iproute2)" if lacking else None


def _control_groups() -> str | None:
    hierarchies = cgroups.hierarchies()
    if not hierarchies:
        return f"no control groups are mounted at {cgroups.ROOT}"
    fixed = [str(folder) for folder in hierarchies if not os.access(folder, os.W_OK)]
    if fixed:
        return f"the control groups at {fixed[0]} cannot be written"
    lacking = cgroups.CONTROLLERS - cgroups.controllers()
    return f"the control groups have no controllers {', '.join(sorted(lacking))}" if lacking else None


def _runc() -> str | None:
    return runc_trouble(find_release(DEFAULT_SERIES))


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
