# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a host from a few files: its system, command line and users of its GPUs."""

from __future__ import annotations

import re
import shlex
import typing as t
from collections.abc import Mapping

_FAMILIES = {"sles": "SLES", "sled": "SLES", "sle_hpc": "SLES", "rhel": "RedHat", "rhcos": "RHCOS", "ubuntu": "Ubuntu"}
_GPU = re.compile(r"\(UUID: (GPU-[0-9a-f-]+)\)")


def describe(name: str, texts: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the host in the form for `preflight` and `verify`.

    Texts: `os_release`, `cmdline`, `modules` (/proc/modules), `modeset` (of nvidia_drm),
    `persistenced` (its pid file), `gpus` (`nvidia-smi -L`, absent if that cannot run), `pci`
    (`lspci -Dnn -d 10de:`, absent if that cannot run).
    """
    release = os_release(texts.get("os_release", ""))
    loaded = {line.split()[0] for line in texts.get("modules", "").splitlines() if line.strip()}
    shown, bare = texts.get("gpus"), texts.get("pci", "unknown").strip() == ""
    return {
        "name": name,
        "system": _FAMILIES.get(release.get("ID", ""), release.get("NAME", "unknown")),
        "system_version": release.get("VERSION_ID", ""),
        "cmdline": texts.get("cmdline", "").strip(),
        "nouveau": "nouveau" in loaded,
        "nvidia": "nvidia" in loaded,
        "modeset": texts.get("modeset", "").strip(),
        "persistenced": bool(texts.get("persistenced", "").strip()),
        "gpus": [] if bare else None if shown is None else _GPU.findall(shown),
    }


def os_release(text: str) -> dict[str, str]:
    """Return the pairs of an os-release file."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = (shlex.split(value) or [""])[0]
    return found
