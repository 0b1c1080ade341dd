# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports go one way: front doors, reconcile, then scaling, kube, fabric and node; test benches stay outside."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import python_files, text
from ansible_collections.composable.infra.tests.unit.house.import_rules import (
    FABRIC,
    KUBE,
    NODE,
    PACKAGE,
    RECONCILE,
    SCALING,
    faults,
)

UTILS = f"{PACKAGE}.plugins.module_utils"


def test_every_file_imports_only_downwards() -> None:
    assert [fault for path in python_files() for fault in faults(path.as_posix(), text(path))] == []


REFUSED = [
    (f"{FABRIC}/fm.py", f"from {UTILS}.kube.client import Client"),
    (f"{FABRIC}/fm.py", "from ..kube import client"),
    (f"{FABRIC}/fm.py", "from .. import kube"),
    (f"{FABRIC}/fm.py", "import requests"),
    (f"{KUBE}/client.py", f"import {UTILS}.fabric.types"),
    (f"{KUBE}/client.py", "from ..scaling.view import Claim"),
    (f"{KUBE}/client.py", "def late():\n    from ..reconcile import world"),
    (f"{SCALING}/scale.py", "from ..kube.claims import allocated"),
    (f"{SCALING}/scale.py", "import urllib3"),
    (f"{SCALING}/scale.py", "import yaml"),
    (f"{NODE}/pci.py", "import yaml"),
    (f"{NODE}/pci.py", "from ansible.module_utils.basic import AnsibleModule"),
    (f"{NODE}/pci.py", "from ..scaling import view"),
    (f"{RECONCILE}/world.py", f"from {PACKAGE}.controller.main import run"),
    (f"{RECONCILE}/world.py", "from ...modules import scale"),
    ("plugins/modules/scale.py", f"from {PACKAGE}.lab import api"),
    ("plugins/modules/scale.py", f"from {PACKAGE}.controller import main"),
    ("plugins/modules/scale.py", f"NAME = '{PACKAGE}.emulator.server'"),
    ("controller/main.py", f"from {PACKAGE} import emulator"),
    ("controller/main.py", "from ..lab.api import Lab"),
    ("controller/main.py", f"from {PACKAGE}.tests import conftest"),
    ("extensions/eda/plugins/event_source/claims.py", f"from {PACKAGE}.emulator import server"),
    ("extensions/eda/plugins/event_source/claims.py", "from ansible.plugins import loader"),
]

ACCEPTED = [
    (f"{FABRIC}/fm.py", "from .errors import Busy\nimport urllib3, ssl\nfrom . import types"),
    (f"{KUBE}/client.py", f"from {UTILS}.kube.errors import ApiError\nimport json"),
    (f"{SCALING}/scale.py", "from .view import Claim\nfrom __future__ import annotations"),
    (f"{RECONCILE}/world.py", "from ..scaling import view\nfrom ..kube.store import Store\nfrom .. import fabric"),
    ("plugins/modules/scale.py", f"from ansible.module_utils.basic import X\nfrom {UTILS}.reconcile import world"),
    ("controller/main.py", f"from {UTILS}.reconcile import world\nfrom . import health"),
    ("lab/demo.py", f"from {PACKAGE}.emulator import server\nimport anything"),
    ("plugins/modules/scale.py", f"TEXT = 'no module: {PACKAGE}.lab is a sentence'"),
]


@pytest.mark.parametrize(("path", "source"), REFUSED)
def test_checker_refuses(path: str, source: str) -> None:
    (fault,) = faults(path, source)
    assert fault.startswith(f"{path}:")
    assert "must not import" in fault


@pytest.mark.parametrize(("path", "source"), ACCEPTED)
def test_checker_accepts(path: str, source: str) -> None:
    assert faults(path, source) == []


def test_checker_sees_every_import_of_a_file() -> None:
    source = "import urllib3\nfrom ..kube import a, b\nfrom . import fine\n"
    assert [fault.split(":")[1] for fault in faults(f"{SCALING}/scale.py", source)] == ["1", "2", "2"]
