# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change a node so that its idle devices are detached and none is attached, and undo the change."""

from __future__ import annotations

DOCUMENTATION = r"""
name: closed_to_devices
short_description: The change that closes a node to devices of the fabric, or opens it again
version_added: 0.1.0
description:
  - Returns labels and annotations for a patch of the node. For a closed node the C(-size-max) label of every model is
    C(0). The controllers (and CoHDI's) then return idle devices and attach nothing more.
  - The former limits are stored in the annotation C(composable.infra/limits-before). They are restored when the node is
    opened.
author:
  - composable.infra contributors (@composable-infra)
positional: config, closed, models
options:
  _input:
    description: The node as the API server has it.
    type: dict
    required: true
  config:
    description: The controllers' configuration, for its models and its C(label_prefix).
    type: dict
    required: true
  closed:
    description: Whether the node is closed or opened.
    type: bool
    default: true
  models:
    description: C(k8s-device-name) of the models. The default is every model of the configuration.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Close a node
  kubernetes.core.k8s:
    state: patched
    api_version: v1
    kind: Node
    name: "{{ node.metadata.name }}"
    definition:
      metadata: "{{ node | composable.infra.closed_to_devices(config) }}"
"""

RETURN = r"""
_value:
  description: C(labels) and C(annotations). A null value removes a label or annotation.
  type: dict
"""

import json
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ..module_utils.planning.settings import BadSetting, Settings

BEFORE = "composable.infra/limits-before"
Labels = dict[str, str | None]


def closed_to_devices(
    node: Mapping[str, t.Any], config: Mapping[str, t.Any], closed: bool = True, models: Sequence[str] | None = None
) -> dict[str, Labels]:
    """Return the patch of the node's metadata.

    Raise AnsibleFilterError for a configuration without valid models.
    """
    labels, notes = (node["metadata"].get(kind) or {} for kind in ("labels", "annotations"))
    before: dict[str, str | None] = json.loads(notes.get(BEFORE) or "{}")
    names = limit_labels(config, models)
    if closed:
        kept = {**{name: labels.get(name) for name in names}, **before}
        return {"labels": dict.fromkeys(names, "0"), "annotations": {BEFORE: json.dumps(kept, sort_keys=True)}}
    back = {name: before[name] for name in names if name in before}
    rest = {name: value for name, value in before.items() if name not in back}
    return {"labels": back, "annotations": {BEFORE: json.dumps(rest, sort_keys=True) if rest else None}}


def limit_labels(config: Mapping[str, t.Any], models: Sequence[str] | None) -> list[str]:
    """Return the names of the labels that limit the models."""
    try:
        settings = Settings.from_dict({key: config[key] for key in ("device_info", "label_prefix") if key in config})
    except BadSetting as error:
        raise AnsibleFilterError(f"config: {error}") from None
    known = [model.k8s_device_name for model in settings.models]
    for name in models or ():
        if name not in known:
            raise AnsibleFilterError(f"models: {name!r} is not usable: the configuration has {', '.join(known)}")
    return [settings.label(f"{name}-size-max") for name in (known if models is None else models)]


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, Labels]]]:
        """Return the filter by its name."""
        return {"closed_to_devices": closed_to_devices}
