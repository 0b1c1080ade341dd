# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in of the image with Python and this collection: what the lab's policy adds to its pods only."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.real_nodes import python_image
from ansible_collections.composable.infra.lab.real_nodes.images import COLLECTION
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE


def expression() -> str:
    """What the policy adds."""
    policy, binding = python_image.documents("10.99.0.7", 6443)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (mutation,) = policy["spec"]["mutations"]
    return str(mutation["applyConfiguration"]["expression"])


def test_only_pods_of_the_stand_in_are_changed() -> None:
    policy, _binding = python_image.documents("10.99.0.7", 6443)
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f'object.spec.containers.exists(c, c.image == "{COLLECTION}")'
    assert policy["spec"]["failurePolicy"] == "Fail"


def test_pod_gets_interpreter_api_server_and_the_simulated_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/compiled")
    said = expression()
    folders = python_image.interpreter_folders()
    assert any(Path(sys.executable).is_relative_to(folder) for folder in folders)
    assert all(f'mountPath: "{folder}", readOnly: true' in said for folder in folders)
    for name, value in (("KUBERNETES_SERVICE_HOST", "10.99.0.7"), ("KUBERNETES_SERVICE_PORT", "6443"),
                        ("PYTHONPYCACHEPREFIX", "/compiled")):
        assert f'name: "{name}", value: "{value}"' in said
    assert f'hostPath{{path: "{HARDWARE}"}}' in said
    assert "v.hostPath.path == '/'" in said


def test_compiled_files_are_where_python_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in expression()
