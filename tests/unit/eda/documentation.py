# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documented options of an event source, with those of the fragments that it names."""

from __future__ import annotations

import types
import typing as t

import yaml

from ansible_collections.composable.infra.plugins.doc_fragments import cluster

FRAGMENTS = {"composable.infra.cluster": cluster.ModuleDocFragment.DOCUMENTATION,
             "composable.infra.cluster.login": cluster.ModuleDocFragment.LOGIN}


def options(source: types.ModuleType) -> dict[str, dict[str, t.Any]]:
    """Return the options of a source by their names."""
    found = yaml.safe_load(source.DOCUMENTATION)
    merged = {name: option for fragment in found["extends_documentation_fragment"]
              for name, option in yaml.safe_load(FRAGMENTS[fragment])["options"].items()}
    return {**merged, **found["options"]}
