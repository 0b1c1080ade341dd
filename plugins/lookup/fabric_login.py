# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log in to a CDI Manager once, as the controllers will, before they are installed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_login
short_description: Check that the CDI Manager can be reached with a configuration and its credentials
version_added: 0.1.0
description:
  - Logs in at the CDI Manager and lists its machines, from the control node. It changes nothing.
  - It never fails. It returns what is wrong as a sentence.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: C(fabric) of the controllers' configuration, then C(controllers_credentials).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the controllers could not log in
  ansible.builtin.assert:
    that: login.problem == ''
    fail_msg: "{{ login.problem }}"
  vars:
    login: "{{ lookup('composable.infra.fabric_login', controllers_config.fabric, controllers_credentials) }}"
"""

RETURN = r"""
_raw:
  description:
    - One dictionary. C(problem) is what is wrong, else empty. C(reached) is false if nothing answered. C(said) tells
      who answered.
  type: list
  elements: dict
"""

import typing as t
from collections.abc import Mapping

from ansible.plugins.lookup import LookupBase

from ..module_utils.fabric.config import FabricConfig
from ..module_utils.fabric.connect import connect
from ..module_utils.fabric.errors import FabricError, Unavailable, Uncertain

# Options that name files in the pod, which the credentials bring.
IN_THE_POD = ("credentials_dir", "ca_path", "client_cert_path", "client_key_path")
# Options by the keys of the Secret. Other keys of the Secret are files.
IN_THE_SECRET = {"username": "username", "password": "password", "realm": "realm", "client_id": "client_id",
                 "client_secret": "client_secret", "certificate": "ca_pem"}


class LookupModule(LookupBase):
    """The lookup plugin."""

    def run(self, terms: list[Mapping[str, t.Any]], variables: t.Any = None,
            **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the problem, or the endpoint that answered."""
        fabric, credentials = terms
        return [login(fabric, credentials)]


def login(fabric: Mapping[str, t.Any], credentials: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Log in with the connection ``fabric`` and its ``credentials``.

    Return the problem, or the endpoint that answered.
    """
    options = {name: value for name, value in fabric.items() if name not in IN_THE_POD}
    options.update({IN_THE_SECRET[name]: value for name, value in credentials.items() if name in IN_THE_SECRET})
    try:
        config = FabricConfig.from_dict(options)
        machines = connect(config).machines()
    except FabricError as error:
        return {"problem": str(error), "reached": not isinstance(error, (Unavailable, Uncertain)), "said": ""}
    return {"problem": "", "reached": True, "said": f"{config.endpoint} has {len(machines)} machines"}
