# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the driver by system. None of them needs a GPU at its installation."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping


class Unsupported(LookupError):
    """A system or a branch without packages. The text names the known ones."""


def driver_packages(host: Mapping[str, t.Any], branch: t.Any, driver: Mapping[str, t.Any]) -> list[str]:
    """Return the packages of the driver branch for the host. Raise Unsupported.

    `driver` is the section of the matrix.
    """
    system, major = str(host["system"]), str(host["system_version"]).partition(".")[0]
    maker = _MAKERS.get(system)
    if maker is None:
        raise Unsupported(f"no driver packages are known for {system}: use one of {', '.join(sorted(_MAKERS))}")
    return maker(str(branch), major, driver)


def _sles(branch: str, major: str, driver: Mapping[str, t.Any]) -> list[str]:
    version = driver["versions"].get(branch)
    if version is None:
        known = ", ".join(sorted(driver["versions"]))
        raise Unsupported(f"the matrix has no full version of branch {branch} for SLES: use one of {known}")
    return ["nv-prefer-signed-open-driver", f"nvidia-compute-utils-G06={version}"]


def _red_hat(branch: str, major: str, driver: Mapping[str, t.Any]) -> list[str]:
    tools = ["nvidia-driver-cuda", "libnvidia-ml"]
    return [f"@nvidia-driver:{branch}-open", *tools] if int(major) < 10 else ["kmod-nvidia-open-dkms", *tools]


def _ubuntu(branch: str, major: str, driver: Mapping[str, t.Any]) -> list[str]:
    return [
        f"nvidia-headless-{branch}-server-open",
        f"nvidia-utils-{branch}-server",
        f"linux-modules-nvidia-{branch}-server-open-generic",
    ]


_MAKERS: dict[str, Callable[[str, str, Mapping[str, t.Any]], list[str]]] = {
    "SLES": _sles,
    "RedHat": _red_hat,
    "Ubuntu": _ubuntu,
}
