# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports go one way: front doors, reconcile, then planning, kube, fabric and node, then net; benches stay outside.

No file leads back to itself, and no folder is so full that nobody finds anything.
"""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import python_files, text
from ansible_collections.composable.infra.tests.unit.house.import_rules import (
    FABRIC,
    KUBE,
    NET,
    NODE,
    PACKAGE,
    PLANNING,
    RECONCILE,
    acquaintances,
    circles,
    faults,
    upward,
    uses,
)

UTILS = f"{PACKAGE}.plugins.module_utils"
OWN = ("plugins", "controller", "extensions", "emulator", "lab")
FULLEST = 16
FLAT = ("plugins/modules", "plugins/action", "plugins/filter")


def sources() -> dict[str, str]:
    """Text of all that is shipped or serves as a bench, by path."""
    return {path.as_posix(): text(path) for path in python_files() if path.parts[0] in OWN}


def test_every_file_imports_only_downwards() -> None:
    assert [fault for path in python_files() for fault in faults(path.as_posix(), text(path))] == []


def test_no_file_leads_back_to_itself() -> None:
    assert circles(uses(sources())) == []


def test_rooms_of_reconcile_are_layers() -> None:
    assert upward(uses(sources())) == []


def test_an_arrow_up_is_found() -> None:
    state, gating = f"{RECONCILE}/state/view.py", f"{RECONCILE}/gating/controller.py"
    assert upward({state: [gating], gating: [state]}) == [f"{state} must not use {gating}"]


def test_no_driver_knows_another_and_no_dialect_another() -> None:
    assert acquaintances(uses(sources())) == []


def test_no_folder_has_more_files_than_a_reader_takes_in() -> None:
    """But for Ansible's own folders: there it names modules and plugins by their file, so they cannot have folders."""
    counted = Counter(path.parent.as_posix() for path in python_files() if path.name != "__init__.py"
                      and path.parent.as_posix() not in FLAT)
    assert [f"{folder}: {count}" for folder, count in counted.items() if count > FULLEST] == []


REFUSED = [
    (f"{FABRIC}/fm.py", f"from {UTILS}.kube.client import Client"),
    (f"{FABRIC}/fm.py", "from ..kube import client"),
    (f"{FABRIC}/fm.py", "from .. import kube"),
    (f"{FABRIC}/fm.py", "import requests"),
    (f"{KUBE}/client/verbs.py", f"import {UTILS}.fabric.types"),
    (f"{KUBE}/client/verbs.py", "from ...planning.node.snapshot import Claim"),
    (f"{KUBE}/client/verbs.py", "def late():\n    from ...reconcile import state"),
    (f"{PLANNING}/scale.py", "from ..kube.claims import allocated"),
    (f"{PLANNING}/scale.py", "import urllib3"),
    (f"{PLANNING}/scale.py", "import yaml"),
    (f"{NET}/http1.py", "from ..kube import errors"),
    (f"{NET}/http1.py", "import yaml"),
    (f"{NET}/client.py", "import urllib3"),
    (f"{NODE}/pci.py", "import yaml"),
    (f"{NODE}/pci.py", "from ansible.module_utils.basic import AnsibleModule"),
    (f"{NODE}/pci.py", "from ..planning import view"),
    (f"{RECONCILE}/state/cluster_state.py", f"from {PACKAGE}.controller.main import run"),
    (f"{RECONCILE}/state/cluster_state.py", "from ....modules import scale"),
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
    (f"{FABRIC}/fm.py", "from .errors import Busy\nimport yaml, ssl\nfrom . import types"),
    (f"{KUBE}/client/verbs.py", f"from {UTILS}.kube.errors import ApiError\nimport json"),
    (f"{KUBE}/client/verbs.py", "from ...net.http1 import HttpConnection"),
    (f"{PLANNING}/scale.py", "from .view import Claim\nfrom __future__ import annotations"),
    (f"{RECONCILE}/state/cluster_state.py", "from ...planning import actions\nfrom ... import fabric"),
    ("plugins/modules/scale.py", f"from ansible.module_utils.basic import X\nfrom {UTILS}.reconcile import state"),
    ("controller/main.py", f"from {UTILS}.reconcile import state\nfrom . import health"),
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
    assert [fault.split(":")[1] for fault in faults(f"{PLANNING}/scale.py", source)] == ["1", "2", "2"]


def test_circle_of_late_imports_and_of_imports_for_types_is_found() -> None:
    found = {
        "lab/a.py": "def late():\n    from .b import x",
        "lab/b.py": "import typing as t\nif t.TYPE_CHECKING:\n    from . import c",
        "lab/c.py": f"from {PACKAGE}.lab import a",
        "lab/d.py": "from .a import y\nimport json",
        "lab/e/__init__.py": "from .f import z",
        "lab/e/f.py": "from . import name",
    }
    assert uses(found)["lab/d.py"] == {"lab/a.py"}
    assert circles(uses(found)) == [["lab/a.py", "lab/b.py", "lab/c.py"], ["lab/e/__init__.py", "lab/e/f.py"]]


def test_driver_may_use_what_is_shared_and_no_other_driver() -> None:
    drivers = f"{FABRIC}/drivers"
    found = {
        f"{drivers}/fm/wire.py": "from ..shared.fsas import health",
        f"{drivers}/fm/driver.py": "from . import wire\nfrom ...errors import Missing",
        f"{drivers}/cm/driver.py": "def late():\n    from ..fm.wire import machine",
        f"{drivers}/shared/fsas.py": "",
        f"{FABRIC}/errors.py": "",
    }
    assert acquaintances(uses(found)) == [f"{drivers}/cm/driver.py: cm must not import fm"]
