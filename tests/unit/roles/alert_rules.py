# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts of the role monitoring, as it writes them with its defaults."""

from __future__ import annotations

import json
import typing as t

import jinja2
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ROLE = ROOT / "roles" / "monitoring"


def rules() -> list[dict[str, t.Any]]:
    """The alerts as the role writes them."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # it makes YAML, not HTML
    environment.filters["combine"] = lambda one, other: {**one, **other}
    environment.filters["to_json"] = json.dumps
    text = (ROLE / "templates" / "prometheusrule.yaml.j2").read_text(encoding="utf-8")
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    document = yaml.safe_load(environment.from_string(text).render(defaults))
    found: list[dict[str, t.Any]] = document["spec"]["groups"][0]["rules"]
    return found
