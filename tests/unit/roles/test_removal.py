# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role removes that the cluster removes as well goes before what the cluster removes it for.

kube-controller-manager deletes the Secret of a token when its ServiceAccount is gone, and kubernetes.core.k8s fails on
an object that goes between its look and its deletion. Source: tokens_controller.go of Kubernetes.
"""

from __future__ import annotations

import typing as t

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ROLE = ROOT / "roles" / "controllers"
OBJECTS = [*documents(DEPLOY / "scrape" / "rbac.yaml")]


def definition(file: str, scrapes: bool) -> list[dict[str, t.Any]]:
    """What a task of the role gives kubernetes.core.k8s of these objects."""
    held = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
    (task,) = (task for task in yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))
               if "scrape" in str((task.get("kubernetes.core.k8s") or {}).get("definition")))
    known: dict[str, t.Any] = {"controllers_scrape_objects": OBJECTS, "controllers_scrapes": scrapes}
    known["controllers_scrape_gone"] = rendered(held["controllers_scrape_gone"], known)
    found: list[dict[str, t.Any]] = rendered(task["kubernetes.core.k8s"]["definition"], known)
    return found


def rendered(text: str, known: dict[str, t.Any]) -> t.Any:
    return NativeEnvironment().from_string(text).render(known)


@pytest.mark.parametrize("file", ["fill.yml", "absent.yml"])
def test_secret_of_a_token_is_removed_before_its_account(file: str) -> None:
    kinds = [item["kind"] for item in definition(file, scrapes=False)]
    assert kinds.index("Secret") < kinds.index("ServiceAccount")
    assert len(kinds) == len(OBJECTS)


def test_account_is_made_before_the_secret_of_its_token() -> None:
    kinds = [item["kind"] for item in definition("fill.yml", scrapes=True)]
    assert kinds.index("ServiceAccount") < kinds.index("Secret")
