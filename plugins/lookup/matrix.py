# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look up values in the version matrix."""

from __future__ import annotations

DOCUMENTATION = r"""
name: matrix
short_description: Versions that the roles install, and which versions fit together
version_added: 0.1.0
description:
  - Returns the entry of the collection's version matrix at a dotted path. All roles take their versions from there.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: Dotted paths. An empty path returns the whole matrix.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show which chart of NFD would be installed
  ansible.builtin.debug:
    msg: "{{ lookup('composable.infra.matrix', 'charts.nfd.version') }}"
"""

RETURN = r"""
_raw:
  description: The entry at each path.
  type: list
  elements: raw
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.composable.infra.plugins.plugin_utils.stack import matrix


class LookupModule(LookupBase):  # Ansible needs this name.
    """The lookup plugin."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the value at each path."""
        try:
            return [matrix.lookup(str(term)) for term in terms]
        except matrix.UnknownPath as error:
            raise AnsibleError(str(error)) from None
