# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_poison.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER

MEMORY = f'device.capacity["{DRIVER}"].memory'
VERSION = f'device.attributes["{DRIVER}"].driverVersion'
LONG = "a" * 60
POISON = {
    "digits of a quantity": f'{MEMORY}.compareTo(quantity("{"9" * 5000}")) >= 0',
    "digits of a version": f'{VERSION}.isGreaterThan(semver("{"1" * 4500}.0.0"))',
    "digits of a number": f"{'1' * 5000} == 1",
    "a chain of operators": "true" + "||true" * 1600,
    "a chain of names": "device" + ".a" * 5000,
    "a pattern with alternatives": f'"{LONG}".matches("{"(a|aa)" * 30}b")',
    "a pattern and a long text": f'"{"a" * 9000}".matches("a*a*a*b")',
}
