# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of vendors: which row a device has, and rows that are whole."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import vendors
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import VENDORS, Vendor, may_be, vendor_of


@pytest.mark.parametrize(("pci_vendor", "pci_class", "row"), [
    ("10de", "030200", "nvidia"), ("10de", "030000", "nvidia"), ("10de", "120000", "nvidia"),
    ("1002", "030200", "amd"), ("1002", "120000", "amd"), ("8086", "038000", "intel"),
    ("8086", "120000", "generic-pci"),
    ("1002", "050210", "cxl-memory"), ("1da3", "120000", "generic-pci"), ("8086", "0b4000", "generic-pci"),
    ("1c2c", "050210", "cxl-memory"), ("10de", "050210", "cxl-memory")])
def test_first_row_that_suits(pci_vendor: str, pci_class: str, row: str) -> None:
    assert vendor_of(pci_vendor, pci_class).name == row


@pytest.mark.parametrize(("uuid", "pci_vendor", "expected"), [
    ("GPU-1", "10de", True), ("GPU-1", "1a03", False), ("", "1a03", True), ("sn-7", "1a03", True)])
def test_uuid_tells_the_vendor(uuid: str, pci_vendor: str, expected: bool) -> None:
    assert may_be(uuid, pci_vendor, "030000") is expected


@pytest.mark.parametrize("row", VENDORS, ids=lambda row: row.name)
def test_what_a_row_does_it_can_undo(row: Vendor) -> None:
    assert bool(row.pause) is bool(row.resume)
    assert bool(row.drain) is bool(row.undrain)
    assert bool(row.drained) is bool(row.drained_says)
    assert bool(row.plugin_selectors) is bool(row.dra_driver)
    assert row.driver or not (row.modules or row.touch or row.pause or row.drain)


def test_last_row_suits_everything() -> None:
    assert VENDORS[-1] == vendors.Vendor(name="generic-pci")


def test_names_are_put_into_each_word() -> None:
    assert vendors.fill(("x", "-p", "{address}"), address="0000:10:00.0", memdev="") == ["x", "-p", "0000:10:00.0"]
