# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the controllers' configuration before it is written into a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: checked_config
short_description: Check a configuration of the controllers
version_added: 0.1.0
description:
  - Returns the configuration unchanged when the controllers could start with it. Otherwise it fails with one sentence
    that names the field, its value and what is allowed.
  - It does not check that the files of the configuration exist, since they are in the pods. Credentials may be
    absent, since a Secret provides them.
author:
  - composable.infra contributors (@composable-infra)
options:
  _input:
    description: The configuration.
    type: dict
    required: true
  handover:
    description: The handover of another option. A configuration with another handover is refused.
    type: str
  handover_models:
    description: The handovers by model, as C(handover_models) of the configuration.
    type: dict
    default: {}
  agent_driver:
    description:
      - Name of the DRA driver that the node agents are, empty for none. Models with the handover V(direct) must have
        it as C(driver-name). If you leave it out, the filter does not check that.
    type: str
  agent_kinds:
    description: Kinds of devices that the node agents' driver offers. Models with the handover V(direct) need theirs.
    type: list
    elements: str
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
from collections.abc import Callable, Collection, Mapping

from ansible.errors import AnsibleFilterError

from ..module_utils.fabric.config import SECRETS
from ..module_utils.fabric.errors import BadConfiguration
from ..module_utils.fabric.external import entry_of
from ..module_utils.fabric.registry import CREDENTIALS_OF
from ..module_utils.planning.device_info import BadSetting
from ..module_utils.planning.settings import Settings
from ..module_utils.reconcile.config import BadConfig, EngineConfig

IN_THE_POD = ("credentials_dir", "ca_path", "client_cert_path", "client_key_path")
# Kinds of devices in the node agents' driver other than GPUs, by their name at a CDI Manager.
OTHER_KINDS = {"memory": "cxl-memory"}


def checked_config(config: object, handover: str | None = None, handover_models: Mapping[str, str] | None = None,
                   agent_driver: str | None = None, agent_kinds: Collection[str] | None = None) -> object:
    """Return the configuration. Raise AnsibleFilterError if it is wrong or contains a secret."""
    if not isinstance(config, Mapping):
        raise AnsibleFilterError(f"config: must be a mapping of settings, is {type(config).__name__}")
    fabric = config.get("fabric")
    try:
        if isinstance(fabric, Mapping):
            refuse_secrets(fabric)
            fabric = without_files(fabric)
        settings = EngineConfig.from_dict({**config, "fabric": fabric}).settings
        agree(settings, handover, handover_models or {})
        if agent_driver is not None:
            refuse_other_drivers(settings, agent_driver, agent_kinds)
    except (BadConfig, BadSetting) as error:
        raise AnsibleFilterError(str(error)) from None
    return config


def agree(settings: Settings, handover: str | None, handover_models: Mapping[str, str]) -> None:
    """Raise BadSetting if the options and the configuration name different handovers."""
    asked = {f"handover_models.{model}": (wanted, settings.handover_models.get(model))
             for model, wanted in handover_models.items()}
    if handover is not None:
        asked["handover"] = handover, settings.handover
    for name, (wanted, found) in asked.items():
        if wanted != found:
            raise BadSetting(name, wanted, f"the configuration has {found!r}. Give only one of them, or the same value")


def refuse_other_drivers(settings: Settings, driver: str, kinds: Collection[str] | None) -> None:
    """Raise BadSetting if a model with the handover direct lacks the node agents' driver."""
    for number, model in enumerate(settings.models):
        if settings.is_direct(model.cdi_model_name):
            where, why = f"config: device_info[{number}]", f"{model.cdi_model_name} has the handover direct"
            if model.driver_name != driver:
                raise BadSetting(f"{where}.driver-name", model.driver_name, f"{why}, so it must be the driver of the "
                                 f"node agents (controllers_agent_dra_driver), which is {driver!r}")
            if kinds is not None and not offered(model.kind, kinds):
                raise BadSetting(f"{where}.kind", model.kind, f"{why}, and the driver of the node agents offers only "
                                 f"{', '.join(kinds)} (controllers_agent_dra_kinds)")


def offered(kind: str, kinds: Collection[str]) -> bool:
    """Return whether a driver for these kinds offers devices of a CDI Manager's ``kind``."""
    return OTHER_KINDS[kind] in kinds if kind in OTHER_KINDS else bool({*kinds} - {*OTHER_KINDS.values()})


def refuse_secrets(fabric: Mapping[str, object]) -> None:
    """Raise AnsibleFilterError for a secret, as many people can read a configuration."""
    for name in SECRETS:
        if fabric.get(name) is not None:
            raise AnsibleFilterError(f"config: fabric.{name}: is not allowed in the configuration. Put it into the "
                                     "credentials")


def without_files(fabric: Mapping[str, object]) -> dict[str, t.Any]:
    """Return the connection without the files of the pod."""
    return {**brought(fabric), **{key: value for key, value in fabric.items() if key not in IN_THE_POD}}


def brought(fabric: Mapping[str, object]) -> dict[str, str]:
    """Return placeholders for the Secret's credentials of the login method."""
    if not fabric.get("credentials_dir"):
        return {}
    try:
        manager = entry_of(fabric.get("manager", "fm"))
    except BadConfiguration:  # FabricConfig reports the error.
        return {}
    return dict.fromkeys(CREDENTIALS_OF.get(str(fabric.get("auth", manager.auth[0])), ()), "brought-by-the-secret")


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by its name."""
        return {"checked_config": checked_config}
