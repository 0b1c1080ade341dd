# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find CoHDI's components among Deployments."""

from __future__ import annotations

from ..module_utils.model.value import Json

DOCUMENTATION = r"""
name: cohdi_components
short_description: Deployments of CoHDI's components
version_added: 0.1.0
description:
  - Finds the Deployments that run CoHDI's components, and says for which of our components each stands.
  - A component is known by the repository of its image, and by the name that upstream's chart gives to the Deployment.
    The chart calls that of its scaler C(dds-controller-manager).
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: Deployments as the API server has them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Name what runs
  ansible.builtin.debug:
    msg: "{{ deployments.resources | composable.infra.cohdi_components | selectattr('replicas', '>', 0) }}"
"""

RETURN = r"""
_value:
  description: One entry for each such Deployment.
  type: list
  elements: dict
  contains:
    component:
      description: C(publisher), C(scaler) or C(operator).
      type: str
    namespace:
      description: Namespace of the Deployment.
      type: str
    name:
      description: Name of the Deployment.
      type: str
    replicas:
      description: Its C(spec.replicas).
      type: int
"""

import re
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

# Upstream's image repository and the Deployment of its chart, by our component.
IMAGES: t.Final = {"composable-dra-driver": "publisher", "dynamic-device-scaler": "scaler",
                   "composable-resource-operator": "operator"}
NAMES: t.Final = {"composable-dra-driver": "publisher", "dds-controller-manager": "scaler",
                  "composable-resource-operator-controller-manager": "operator"}
NAMESPACES: t.Final = ("composable-dra", "composable-resource-operator-system")
_TAG = re.compile(r"(@.*|:[^/]*)$")


def cohdi_components(deployments: Iterable[Mapping[str, t.Any]]) -> list[Json]:
    """Return an entry for each Deployment that runs a component."""
    return [{"component": component, "namespace": item["metadata"].get("namespace", ""),
             "name": item["metadata"]["name"], "replicas": replicas(item)}
            for item in deployments if (component := component_of(item))]


def component_of(deployment: Mapping[str, t.Any]) -> str:
    """Return our component that the Deployment replaces, or empty."""
    meta = deployment["metadata"]
    found = next((IMAGES[name] for name in repositories(deployment) if name in IMAGES), "")
    return found or (NAMES.get(meta["name"], "") if meta.get("namespace") in NAMESPACES else "")


def repositories(deployment: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the last parts of the image repositories, without tag and digest."""
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or ():
        yield _TAG.sub("", str(container.get("image") or "")).rpartition("/")[2]


def replicas(deployment: Mapping[str, t.Any]) -> int:
    """Return ``spec.replicas``, by default 1."""
    count = (deployment.get("spec") or {}).get("replicas")
    return 1 if count is None else int(count)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[Json]]]:
        """Return the filter by its name."""
        return {"cohdi_components": cohdi_components}
