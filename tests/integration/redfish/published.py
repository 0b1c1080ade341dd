# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DMTF's schema files and example services: where they are on this machine, or why a test cannot have them.

They are DMTF's and not part of this project. Looked for in this order: the folder that ``REDFISH_DATA`` names,
``shared/redfish`` beside the checkout, the cache, and last the bundles that DMTF publishes.
"""

from __future__ import annotations

import functools
import io
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

SETTING = "REDFISH_DATA"
NEIGHBOUR = Path(__file__).resolve().parents[3].parent / "shared" / "redfish"
CACHE = Path("~/.cache/composable-infra/redfish").expanduser()
# The release that the facts in these tests were taken from.
RELEASE = "2025.4"
SCHEMAS = f"https://www.dmtf.org/sites/default/files/standards/documents/DSP8010_{RELEASE}.zip"
MOCKUPS = f"https://www.dmtf.org/sites/default/files/standards/documents/DSP2043_{RELEASE}.zip"
SECONDS = 60


def schemas() -> Path:
    """The folder of CSDL files, or a skipped test that says why."""
    return _folder("csdl", "ServiceRoot_v1.xml", SCHEMAS)


def mockup(name: str) -> Path:
    """The folder of one example service, or a skipped test that says why."""
    return _folder(f"mockups/{name}", "index.json", MOCKUPS)


@functools.cache
def _folder(name: str, proof: str, bundle: str) -> Path:
    if named := os.environ.get(SETTING):
        found = Path(named) / name
        assert (found / proof).is_file(), f"{SETTING} names {named}, but there is no {name}/{proof} in it"
        return found
    for place in (NEIGHBOUR, CACHE):
        if (place / name / proof).is_file():
            return place / name
    _download(bundle)
    return CACHE / name


def _download(bundle: str) -> None:
    """Unpack a bundle: ``csdl/*.xml`` of DSP8010, one folder per service of DSP2043."""
    try:
        with urllib.request.build_opener().open(bundle, timeout=SECONDS) as reply:
            archive = zipfile.ZipFile(io.BytesIO(reply.read()))
    except (OSError, zipfile.BadZipFile, urllib.error.URLError) as error:
        pytest.skip(f"DMTF's data is in none of ${SETTING}, {NEIGHBOUR}, {CACHE}, and {bundle} cannot be had: {error}")
    for entry in archive.infolist():
        words = entry.filename.split("/")
        if entry.is_dir() or ".." in words:
            continue
        kept = _kept(words)
        if kept is not None:
            target = CACHE / kept
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))


def _kept(words: list[str]) -> Path | None:
    if "csdl" in words:
        return Path("csdl", words[-1])
    start = next((n for n, word in enumerate(words) if word.startswith("public-")), None)
    return None if start is None else Path("mockups", *words[start:])
