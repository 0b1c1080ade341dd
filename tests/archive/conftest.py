# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built archive, its users, and the cluster of all blocks: each is made once."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.archive import installed
from ansible_collections.composable.infra.tests.archive.installed import User
from ansible_collections.composable.infra.tests.archive.settings import EXAMPLE, World, block_of
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.gates.build import build
from ansible_collections.composable.infra.tools.gates.other_core import chosen

PROGRAM = Path(__file__).with_name("cluster.py")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive."""
    found = build(tmp_path_factory.mktemp("archive") / "dist")
    assert found is not None
    return found


def installing(home: Path, archives: Sequence[Path], core: str, python: str,
               packages: Collection[str] | None = None) -> User:
    """Return the user of a core and a Python, who has installed the archives. Skip the test if the Python does not run.

    `packages` are those of `installed.new_user`.
    """
    if not runs(python):
        pytest.skip(f"{python} does not run on this machine")
    user = installed.new_user(home, core, python, packages)
    user.run(f"ansible-galaxy collection install --offline {' '.join(map(str, archives))}", home)
    return user


@pytest.fixture(scope="session")
def user_of(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Callable[[str, str], User]:
    """Return the user of a core and a Python, who has installed the archive."""
    return functools.cache(lambda core, python: installing(tmp_path_factory.mktemp("home"), [archive], core, python))


@pytest.fixture(scope="session")
def reader_of(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Callable[[str, str, str], User]:
    """Return the user of a core and a Python, who has installed what a page says, and the archive."""
    return functools.cache(lambda core, python, page: installing(
        tmp_path_factory.mktemp("home"), [archive], core, python, packages_of(page)))


def packages_of(page: str) -> list[str]:
    """Return what a page has its reader install beside ansible-core."""
    (line,) = re.findall(r"^pip install ansible-core(.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    return str(line).split()


@pytest.fixture(scope="session")
def toy_user_of(tmp_path_factory: pytest.TempPathFactory, archive: Path, toy_archive: Path
                ) -> Callable[[str, str], User]:
    """Return the user of a core and a Python, who has installed the archive, and beside it a driver's collection."""
    return functools.cache(lambda core, python: installing(
        tmp_path_factory.mktemp("home"), [archive, toy_archive], core, python))


@pytest.fixture(scope="session")
def toy_archive(tmp_path_factory: pytest.TempPathFactory, user_of: Callable[[str, str], User]) -> Path:
    """Build the archive of the example of a driver's collection."""
    folder = tmp_path_factory.mktemp("toy")
    user_of(*installed.QUICK).run(f"ansible-galaxy collection build {EXAMPLE}", folder)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="session")
def cluster_of_toy(toy_user_of: Callable[[str, str], User], tmp_path_factory: pytest.TempPathFactory
                   ) -> Iterator[Path]:
    """Run a cluster whose CDI Manager has its driver in the other collection."""
    yield from running(toy_user_of(*installed.QUICK), tmp_path_factory.mktemp("cluster"), "acme.toy.toy")


@pytest.fixture(scope="session")
def cluster(user_of: Callable[[str, str], User], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a cluster for all blocks that leave it as it is, but for claims and pods."""
    yield from running(user_of(*installed.QUICK), tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def cluster_of_cohdi(user_of: Callable[[str, str], User], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a cluster in which controllers come and go."""
    yield from running(user_of(*installed.QUICK), tmp_path_factory.mktemp("cohdi"))


def running(user: User, folder: Path, *manager: str) -> Iterator[Path]:
    """Run a cluster and a CDI Manager from the user's installation; yield the folder of its files."""
    if not installed.kubectl():
        pytest.skip("kubectl is not on PATH")
    (folder / "shown.yml").write_text(block_of("config.yml", "docs/quickstart.md").text, encoding="utf-8")
    variables = user.environment(PYTHONPATH=str(user.home / ".ansible/collections"),
                                 XDG_CACHE_HOME=str(installed.CACHE))
    log = folder / "output.log"
    command = [str(user.programs / "python"), str(PROGRAM), str(folder / "shown.yml"), str(folder), *manager]
    with log.open("wb") as output, subprocess.Popen(
            command, env=variables,
            stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True) as process:
        try:
            installed.until(lambda: "ready\n" in installed.printed(log) or process.poll() is not None)
            assert process.poll() is None, installed.printed(log)[-6000:]
            yield folder
        finally:
            process.communicate()
            installed.stop(process)


@pytest.fixture
def world(archive: Path, user_of: Callable[[str, str], User], request: pytest.FixtureRequest) -> World:
    """Return what settings are made from."""
    return World(archive, user_of, lambda: request.getfixturevalue("cluster"),
                 lambda: request.getfixturevalue("cluster_of_cohdi"),
                 lambda *pair: request.getfixturevalue("toy_user_of")(*pair),
                 lambda: request.getfixturevalue("cluster_of_toy"))


def runs(python: str) -> bool:
    """Whether this machine has a Python of that name."""
    found = shutil.which(python)
    return found is not None and subprocess.run([found, "-V"], env=chosen(python), check=False,
                                                capture_output=True).returncode == 0
