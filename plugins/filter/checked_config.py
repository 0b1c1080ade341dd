# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the controllers' configuration before it is written into a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: checked_config
short_description: Check a configuration of the controllers
version_added: 1.0.0
description:
  - Returns the configuration unchanged when the controllers could start with it. Otherwise it fails with one sentence
    that names the field, its value and what is allowed.
  - It does not check that files exist which the configuration names, since they are in the pods. Credentials may be
    absent, since a Secret provides them.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The configuration.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the configuration only if it is usable
  ansible.builtin.copy:
    content: "{{ my_config | composable.infra.checked_config | to_nice_yaml }}"
    dest: /etc/composable-infra/config.yml
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The configuration as it was given.
  type: dict
"""

import typing as t
from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError

from ..module_utils.fabric.config import SECRETS
from ..module_utils.fabric.registry import CREDENTIALS_OF, MANAGERS
from ..module_utils.reconcile.config import BadConfig, EngineConfig

IN_THE_POD = ("credentials_dir", "ca_path", "client_cert_path", "client_key_path")


def checked_config(config: object) -> object:
    """The configuration itself. Raises AnsibleFilterError when it is unusable or holds a secret."""
    if not isinstance(config, Mapping):
        raise AnsibleFilterError(f"config: must be a mapping of settings, is {type(config).__name__}")
    fabric = config.get("fabric")
    try:
        if not isinstance(fabric, Mapping):
            EngineConfig.from_dict(config)
        else:
            refuse_secrets(fabric)
            EngineConfig.from_dict({**config, "fabric": without_files(fabric)})
    except BadConfig as error:
        raise AnsibleFilterError(str(error)) from None
    return config


def refuse_secrets(fabric: Mapping[str, object]) -> None:
    """A configuration may be read by more people than a Secret. Raises AnsibleFilterError."""
    for name in SECRETS:
        if fabric.get(name) is not None:
            raise AnsibleFilterError(f"config: fabric.{name}: must not be in the configuration; credentials have it")


def without_files(fabric: Mapping[str, object]) -> dict[str, t.Any]:
    """The connection as it will be once the pod's files are there."""
    return {**brought(fabric), **{key: value for key, value in fabric.items() if key not in IN_THE_POD}}


def brought(fabric: Mapping[str, object]) -> dict[str, str]:
    """Stand-ins for what the Secret will bring, for the way to log in that is used."""
    manager = MANAGERS.get(str(fabric.get("manager", "fm")))
    if manager is None or not fabric.get("credentials_dir"):
        return {}
    return dict.fromkeys(CREDENTIALS_OF.get(str(fabric.get("auth", manager.auth[0])), ()), "brought-by-the-secret")


class FilterModule:
    """What Ansible asks a filter plugin for."""

    def filters(self) -> dict[str, Callable[[object], object]]:
        """The filter by its name."""
        return {"checked_config": checked_config}
