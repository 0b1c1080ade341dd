# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the images and charts that an air-gapped mirror must have."""

from __future__ import annotations

DOCUMENTATION = r"""
name: images
short_description: Images and charts that a mirror must hold
version_added: 0.1.0
description:
  - Lists every image that the roles can start and every chart that they install, with its address on a mirror.
author:
  - composable.infra contributors (@composable-infra)
options:
  _terms:
    description: Roles with the images and charts to list. If it is empty, the lookup lists those of all roles.
    type: list
    elements: str
  mirror:
    description: Address of the registry mirror.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: List the images that NFD needs
  ansible.builtin.debug:
    msg: "{{ (lookup('composable.infra.images', 'nfd', mirror='mirror.example:5000')).images }}"
"""

RETURN = r"""
_raw:
  description: One dictionary with C(images) (each with C(image) and C(mirror)) and C(charts) (addresses of archives).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.composable.infra.plugins.plugin_utils.stack import sources
from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import matrix


class LookupModule(LookupBase):
    """The lookup plugin."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the list."""
        versions, mirror = matrix(), str(kwargs.get("mirror") or "")
        roles = [str(term) for term in terms] or sorted(versions["images"])
        unknown = sorted(set(roles) - set(versions["images"]))
        if unknown:
            raise AnsibleError(
                f"no images are listed for {', '.join(unknown)}: use {', '.join(sorted(versions['images']))}"
            )
        charts = [sources.archive(versions["charts"][name]) for name in sources.charts_of(roles, versions)]
        return [{"images": sources.wanted(versions, roles, mirror), "charts": charts}]
