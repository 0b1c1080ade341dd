# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress of nodes from one DRA driver to another, for the playbook move_driver."""

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_move
short_description: State of nodes that move to another DRA driver
version_added: 0.1.0
description:
  - Returns the problems that prevent a move to another DRA driver, and for each node the steps that are left.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The configuration of the controllers.
    type: dict
    required: true
  to:
    description: The DRA driver to which the nodes move.
    type: str
    required: true
  nodes:
    description: Node objects as the API server has them.
    type: list
    elements: dict
    required: true
  slices:
    description: ResourceSlices.
    type: list
    elements: dict
    required: true
  claims:
    description: ResourceClaims.
    type: list
    elements: dict
    required: true
  resources:
    description: ComposableResources.
    type: list
    elements: dict
    required: true
  daemon_sets:
    description: DaemonSets, among them those of the node agents and of the vendor's plugin.
    type: list
    elements: dict
    default: []
  names:
    description: Names of the nodes. By default the nodes with the label of a fabric.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show what the nodes wait for
  ansible.builtin.debug:
    msg: >-
      {{ (config | composable.infra.driver_move(to='devices.composable.infra', nodes=nodes, slices=slices,
          claims=claims, resources=resources)).nodes | map(attribute='sentence') }}
"""

RETURN = r"""
_value:
  description:
    - C(drivers) are all drivers of the models that have C(to). C(problems) are sentences. C(nodes) has C(name),
      C(label), C(others), C(users), C(missing), C(adopt), C(cordoned), C(mark), C(done) and C(sentence) of each node.
  type: dict
"""

import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ..module_utils.model.value import Json
from ..module_utils.planning.device_info import BadSetting
from ..module_utils.planning.settings import Settings
from ..plugin_utils.driver_move import Objects, moves, problems, way


def driver_move(config: Mapping[str, t.Any], to: str, nodes: Sequence[Json], slices: Sequence[Json],
                claims: Sequence[Json], resources: Sequence[Json], daemon_sets: Sequence[Json] = (),
                names: Sequence[str] | None = None) -> Json:
    """Return drivers, problems and the nodes with their progress.

    Raise AnsibleFilterError for a configuration in which models cannot be moved.
    """
    try:
        settings = Settings.from_dict({key: config[key] for key in ("device_info", "label_prefix") if key in config})
        wanted = way(settings, to)
    except (BadSetting, ValueError) as error:
        raise AnsibleFilterError(str(error)) from None
    fabric = settings.label("fabric")
    meant = sorted(raw["metadata"]["name"] for raw in nodes
                   if fabric in (raw["metadata"].get("labels") or {})) if names is None else names
    found = Objects(nodes, slices, claims, resources, daemon_sets)
    rows = moves(found, wanted, meant)
    at_rest = {row.name for row in rows if row.done or row.adopt}
    moving = [name for name in meant if name not in at_rest]
    return {"drivers": [*wanted.drivers], "problems": problems(found, wanted, moving) if moving else [],
            "nodes": [row.row() for row in rows]}


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Json]]:
        """Return the filter by its name."""
        return {"driver_move": driver_move}
