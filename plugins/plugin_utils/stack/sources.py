# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of charts and images: the vendors' places, or one mirror for all."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from pathlib import Path

_DOCKER_HUB = ("docker.io", "index.docker.io")


def mirrored(image: str, mirror: str = "") -> str:
    """Return the image on the mirror with the same path, or unchanged without a mirror."""
    if not mirror:
        return image
    first, slash, rest = image.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    path = rest if has_registry else image
    if (not has_registry or first in _DOCKER_HUB) and "/" not in path:
        path = f"library/{path}"
    return f"{mirror.rstrip('/')}/{path}"


def chart_source(chart: Mapping[str, t.Any], mirror: str = "") -> dict[str, str]:
    """Return `ref`, `repo_url` (empty for OCI and files) and `version` for kubernetes.core.helm.

    A mirror is `oci://…`, the address of a chart repository, or a folder with `<name>/` or
    `<name>-<version>.tgz`.
    """
    name, version = str(chart["name"]), str(chart["version"])
    place = (mirror or str(chart["repository"])).rstrip("/")
    if place.startswith("oci://"):
        return {"ref": f"{place}/{name}", "repo_url": "", "version": version}
    if place.startswith(("https://", "http://")):
        return {"ref": name, "repo_url": place, "version": version}
    folder = Path(place) / name
    return {
        "ref": str(folder if folder.is_dir() else Path(place) / f"{name}-{version}.tgz"),
        "repo_url": "",
        "version": version,
    }


def archive(chart: Mapping[str, t.Any]) -> str:
    """Return the address of a chart's archive, for filling a mirror."""
    repository, name, version = str(chart["repository"]).rstrip("/"), str(chart["name"]), str(chart["version"])
    if repository.startswith("oci://"):
        return f"{repository}/{name}:{version}"
    return f"{repository}/{name}-{version}.tgz" if repository else f"{name}-{version}.tgz"


def wanted(matrix: Mapping[str, t.Any], roles: Iterable[str], mirror: str = "") -> list[dict[str, str]]:
    """Return each image of the roles once, with its source and its place on the mirror."""
    found = {str(image) for role in roles for image in matrix["images"].get(role, ())}
    return [{"image": image, "mirror": mirrored(image, mirror)} for image in sorted(found)]


def charts_of(roles: Iterable[str], matrix: Mapping[str, t.Any]) -> list[str]:
    """Return the names of the matrix's charts that the roles install."""
    others = {"monitoring": "dcgm_exporter", "autoscaler": "cluster_autoscaler"}
    return [name for name in (others.get(role, role) for role in sorted(roles)) if name in matrix["charts"]]
