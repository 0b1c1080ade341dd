# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of controllers and agent has all that they import and no more, and starts as nobody.

Where a builder is on PATH the image is built. Without one, a folder is laid out as the image is, and the programs run
there with nothing but the image's pinned packages.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
COPIES = [tuple(line.split()[1:]) for line in CONTAINERFILE.splitlines() if line.startswith("COPY ")]
PINS = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
COLLECTIONS = "usr/share/ansible/collections"
PACKAGE = "ansible_collections.composable.infra.controller"
PROGRAMS = (PACKAGE, f"{PACKAGE}.agent", f"{PACKAGE}.gate_reaper")
# no site-packages of this Python: the standard library, the image's packages and the image's files
ISOLATED = "import runpy, sys; sys.path[:0] = sys.argv[1:3]; sys.argv[1:3] = []; {}"
BUILDER = next((name for name in ("podman", "buildah") if shutil.which(name)), None)


def pinned() -> list[str]:
    return [line for line in PINS.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that Containerfile copies, where it copies them."""
    folder = tmp_path_factory.mktemp("image")
    for source, target in COPIES:
        place = folder / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, place)
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pinned packages alone, as they are installed here."""
    folder = tmp_path_factory.mktemp("packages")
    for line in pinned():
        name, _equals, version = line.partition("==")
        installed = metadata.distribution(name)
        assert installed.version == version
        tops = {Path(str(file)).parts[0] for file in installed.files or () if ".." not in Path(str(file)).parts}
        # Several packages share the folder `opentelemetry`.
        for top in (each for each in tops if not (folder / each).exists()):
            (folder / top).symlink_to(Path(str(installed.locate_file(top))))
    return folder


def python(image: Path, packages: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in the image, as far as this machine can have it."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", ISOLATED.format(script), str(image / COLLECTIONS),
                           str(packages), *arguments], cwd=image, env={"PATH": "/usr/bin:/bin"}, capture_output=True,
                          text=True, check=False)


def modules(image: Path) -> list[str]:
    """Full names of all modules of the programs."""
    files = sorted((image / COLLECTIONS).rglob("controller/**/*.py"))
    names = [".".join(path.relative_to(image / COLLECTIONS).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def test_every_file_that_is_copied_exists_and_passes_the_list_of_the_ignored() -> None:
    ignore = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    assert len(COPIES) > 2
    assert [source for source, _target in COPIES if not (ROOT / source).exists()] == []
    assert let_in == {source for source, _target in COPIES}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_starts_from_the_image_s_files_and_packages(image: Path, packages: Path, program: str) -> None:
    done = python(image, packages, f"runpy.run_module({program!r}, run_name='__main__')", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


def test_every_module_of_the_programs_can_be_imported(image: Path, packages: Path) -> None:
    """Also what a program imports only when it needs it: all that the controller's folder reaches, each by its name."""
    script = f"import importlib; [importlib.import_module(name) for name in {modules(image)!r}]"
    done = python(image, packages, script)
    assert done.returncode == 0, done.stderr
    # The one import within a function names its module in full, so it is among `modules`.
    lazy = re.findall(r"^ +from (\.\S+) import", "".join(path.read_text(encoding="utf-8") for path in
                                                         (ROOT / "controller").rglob("*.py")), re.M)
    assert lazy == [], "an import inside a function is not tried here"


def test_the_program_knows_its_version(image: Path, packages: Path) -> None:
    done = python(image, packages, f"import {PACKAGE}.build as build; print(build.version())")
    assert done.stdout.strip() == str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def test_the_page_of_the_image_has_the_documentation(image: Path, packages: Path) -> None:
    script = (f"from {PACKAGE}.ui.docs_pages import DocsPages, address, pages; "
              "print(address('https://example.com/x'), len(pages()), bool(DocsPages().get('docs/guides/alerts.md')))")
    done = python(image, packages, script)
    assert done.stdout.split() == ["docs", str(len([*(ROOT / "docs").rglob("*.md")])), "True"], done.stderr


def test_a_package_that_is_missing_is_noticed(image: Path, packages: Path, tmp_path: Path) -> None:
    done = python(image, tmp_path, f"runpy.run_module({PACKAGE!r}, run_name='__main__')", "--help")
    assert done.returncode != 0
    assert "No module named" in done.stderr


def test_the_packages_are_those_that_are_tested() -> None:
    constraints = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert pinned()
    assert set(pinned()) <= set(constraints)


def test_it_runs_as_nobody_from_a_base_by_digest_and_holds_no_secret() -> None:
    assert re.search(r"^USER ([1-9]\d{3,}):\1$", CONTAINERFILE, re.M)
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", CONTAINERFILE, re.M)
    assert re.findall(r"^FROM (.*)$", CONTAINERFILE, re.M) == ["${BASE}"]
    assert not re.search(r"(?i)password|token|secret=|\.pem|kubeconfig", CONTAINERFILE.replace("no secrets", ""))


def test_the_role_starts_what_is_in_it() -> None:
    """Command and folder of the role's defaults are those of the image."""
    defaults = yaml.safe_load((ROOT / "roles" / "controllers" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert f"/{COLLECTIONS}" == defaults["controllers_collections_path"]
    for name, program in (("controllers_command", PROGRAMS[0]), ("controllers_agent_command", PROGRAMS[1])):
        assert defaults[name] == ["python3.11", "-m", program]
    assert "/library/python:3.11-slim" in CONTAINERFILE


@pytest.mark.skipif(BUILDER is None, reason="neither podman nor buildah is on PATH, so the image is not built here")
def test_it_is_built() -> None:
    command = {"podman": ["podman", "build"], "buildah": ["buildah", "build"]}[str(BUILDER)]
    done = subprocess.run([*command, "--tag", "composable-infra-controllers:test", "."], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
