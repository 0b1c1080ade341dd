# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distinguish absent objects from kinds that the API server did not serve."""

from __future__ import annotations

from ..module_utils.model.value import Json

DOCUMENTATION = r"""
name: found
short_description: Objects that k8s_info has read, or a failure
version_added: 0.1.0
description:
  - Returns the objects of a result of P(kubernetes.core.k8s_info#module), or of all results of its loop.
  - Fails if the API server did not serve the kind. P(kubernetes.core.k8s_info#module) then returns an empty list and
    C(api_found=false), and does not fail. An API server that starts or is overloaded answers so.
author:
  - composable.infra contributors (@composable-infra)
positional: unless_absent
options:
  _input:
    description: The registered result of the task. A skipped task has read nothing.
    type: dict
    required: true
  unless_absent:
    description:
      - The registered result of a task that read the CustomResourceDefinitions of these kinds. If the API
        server serves the kind CustomResourceDefinition and has none of them, the cluster has no such objects.
    type: dict
"""

EXAMPLES = r"""
- name: Read which devices are allocated to claims
  kubernetes.core.k8s_info:
    api_version: resource.k8s.io/v1
    kind: ResourceClaim
  register: claims

- name: Name the claims
  ansible.builtin.debug:
    msg: "{{ claims | composable.infra.found | map(attribute='metadata.name') }}"
"""

RETURN = r"""
_value:
  description: The objects.
  type: list
  elements: dict
"""

import typing as t
from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError


def found(result: Mapping[str, t.Any], unless_absent: Mapping[str, t.Any] | None = None) -> list[Json]:
    """Return the objects that were read.

    Raise AnsibleFilterError if the API server did not serve their kind.
    """
    objects: list[Json] = []
    for one in result.get("results", [result]):
        if one.get("api_found"):
            objects += one["resources"]
        elif not one.get("skipped") and (unless_absent is None or found(unless_absent)):
            said = one.get("msg") or "The result has no api_found"
            raise AnsibleFilterError(f"{said}. An API server that starts or is overloaded does not list all its "
                                     "kinds, so this does not mean that there are none. Run it again")
    return objects


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[Json]]]:
        """Return the filter by its name."""
        return {"found": found}
