# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set-up finds a Python that really runs, says what is missing, and never takes half an environment for whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools.setup import environment, launchers, machine
from ansible_collections.composable.infra.tools.setup.progress import Progress

FIND_PYTHON = Path(machine.__file__).with_name("find_python.sh")


def program(folder: Path, name: str, script: str) -> Path:
    """An executable shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def find_python(*names: str, path: str) -> subprocess.CompletedProcess[str]:
    """What the shell script says about a PATH."""
    return subprocess.run(["/bin/sh", str(FIND_PYTHON), *names], env={"PATH": path}, capture_output=True, text=True,
                          check=False)


class TestFindPython:
    def test_passes_over_a_shim_that_does_not_run(self, tmp_path: Path) -> None:
        program(tmp_path, "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
        good = program(tmp_path, "python3.12", "exit 0")
        assert find_python("python3", path=str(tmp_path)).stdout == f"{good}\n"

    def test_asks_the_candidate_for_its_version(self, tmp_path: Path) -> None:
        program(tmp_path, "python3", f'exec {sys.executable} -c "import sys; sys.version_info = (3, 10, 1)\n$2"')
        good = program(tmp_path, "python3.11", f'exec {sys.executable} -c "import sys; sys.version_info = (3, 11)\n$2"')
        assert find_python("python3", path=str(tmp_path)).stdout == f"{good}\n"

    def test_a_version_too_new_for_the_pins_is_passed_over(self, tmp_path: Path) -> None:
        program(tmp_path, "python3", f'exec {sys.executable} -c "import sys; sys.version_info = (3, 14)\n$2"')
        assert find_python("python3", path=str(tmp_path)).returncode == 1

    def test_looks_in_every_folder_of_the_path(self, tmp_path: Path) -> None:
        program(tmp_path / "first with a space", "python3.12", "exit 1")
        good = program(tmp_path / "second one", "python3.12", "exit 0")
        path = f"{tmp_path / 'first with a space'}:{good.parent}"
        assert find_python("python3", path=path).stdout == f"{good}\n"

    def test_what_the_user_names_is_taken_or_nothing(self, tmp_path: Path) -> None:
        program(tmp_path, "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
        program(tmp_path, "python3.12", "exit 0")
        done = find_python("--only", "python3.13", path=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == ("set-up: PYTHON=python3.13 does not run as Python 3.11, 3.12 or 3.13. Give the path of "
                               "a program; a shim of pyenv needs PYENV_VERSION\n")
        named = program(tmp_path / "own", "python3.11", "exit 0")
        assert find_python("--only", str(named), path=str(tmp_path)).stdout == f"{named}\n"

    def test_what_the_user_names_comes_first(self, tmp_path: Path) -> None:
        named = program(tmp_path / "own", "mine", "exit 0")
        program(tmp_path / "bin", "python3.12", "exit 0")
        assert find_python(str(named), path=str(tmp_path / "bin")).stdout == f"{named}\n"

    def test_says_what_is_missing(self, tmp_path: Path) -> None:
        done = find_python("python3", path=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert "Python 3.11, 3.12 or 3.13 is missing" in done.stderr

    def test_says_that_venv_is_missing(self, tmp_path: Path) -> None:
        bare = program(tmp_path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
        done = find_python("python3", path=str(tmp_path))
        assert done.returncode == 1
        assert f"{bare} lacks the venv or ensurepip module" in done.stderr


@pytest.mark.parametrize(("output", "version"), [
    ('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_402"', 8), ('openjdk version "21" 2023', 21),
    ("nothing of the kind", None)])
def test_java_version(output: str, version: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "java", f"echo '{output}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert machine.java_version() == version


@pytest.mark.parametrize(("script", "words"), [
    ("echo 'openjdk version \"11.0.2\"' >&2", "Java 11 is too old"), ("exit 127", "Java is missing"),
    ("echo 'openjdk version \"17.0.1\"' >&2", None), ("echo 'openjdk version \"25\"' >&2", None)])
def test_java_trouble(script: str, words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "java", script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    trouble = machine.java_trouble()
    assert trouble is None if words is None else trouble is not None and trouble.startswith(words)


@pytest.mark.parametrize(("version", "words"), [("1.26.8", None), ("1.27.0", None), ("1.9.1", "Go 1.9 is too old"),
                                                ("1.25.3", "Go 1.25 is too old")])
def test_go_trouble(version: str, words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "go", f"echo go version go{version} linux/amd64")
    monkeypatch.setenv("PATH", f"{tmp_path}")
    trouble = machine.go_trouble()
    assert trouble is None if words is None else trouble is not None and trouble.startswith(words)


def test_no_go_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (machine.go_trouble() or "").startswith("Go is missing")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with requirement files and a finished environment whose Python runs."""
    for name in (*environment.REQUIREMENTS, environment.CONSTRAINTS):
        (tmp_path / "requirements").mkdir(exist_ok=True)
        environment.requirement(tmp_path, name).write_text("# a comment\nyaml==1.0\n", encoding="utf-8")
    program(tmp_path / ".venv" / "bin", "python", "echo runs")
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    environment.stamp_of(tmp_path).write_text(environment.digest(tmp_path), encoding="utf-8")
    return tmp_path


class TestCurrent:
    def test_a_finished_one_is(self, checkout: Path) -> None:
        assert environment.current(checkout)

    def test_one_that_was_cut_off_is_not(self, checkout: Path) -> None:
        environment.stamp_of(checkout).unlink()
        assert not environment.current(checkout)

    def test_one_whose_python_is_gone_is_not(self, checkout: Path) -> None:
        environment.python_of(checkout).unlink()
        assert not environment.current(checkout)

    @pytest.mark.parametrize("name", [*environment.REQUIREMENTS, environment.CONSTRAINTS])
    def test_one_from_other_pins_is_not(self, checkout: Path, name: str) -> None:
        environment.requirement(checkout, name).write_text("yaml==2.0\n", encoding="utf-8")
        assert not environment.current(checkout)

    def test_one_that_was_moved_is_not(self, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        moved = tmp_path_factory.mktemp("moved") / "checkout"
        shutil.copytree(checkout, moved)
        assert not environment.current(moved)


class TestBuild:
    def test_the_stamp_comes_last(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(environment, "install", assert_unstamped)
        environment.build(checkout, str(fake_base(checkout)))
        assert environment.current(checkout)

    def test_a_failed_install_leaves_no_stamp(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (checkout / ".cache").mkdir()
        monkeypatch.setattr(environment, "start_pip", lambda root: shell("echo ERROR: no such package; exit 1"))
        with pytest.raises(machine.Missing, match="no such package"):
            environment.build(checkout, str(fake_base(checkout)))
        assert not environment.current(checkout)

    def test_a_base_without_venv_is_named(self, checkout: Path) -> None:
        base = program(checkout, "base", "echo no ensurepip; exit 1")
        with pytest.raises(machine.Missing, match="could not make a virtual environment: no ensurepip"):
            environment.build(checkout, str(base))

    def test_pip_is_told_no_index(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []
        monkeypatch.setattr(subprocess, "Popen", lambda command, **_options: seen.extend(command))
        environment.start_pip(checkout)
        options = [word for word in seen if word.startswith("-")]
        assert not [word for word in options if "index" in word or "host" in word or "://" in word]
        assert seen.count("--requirement") == len(environment.REQUIREMENTS)


def fake_base(checkout: Path) -> Path:
    """A Python that makes an environment with a runnable python in it."""
    inside = '"$3/bin"; printf "#!/bin/sh\\necho runs\\n" > "$3/bin/python"; chmod +x "$3/bin/python"'
    return program(checkout, "base", f"PATH=/usr/bin:/bin; mkdir -p {inside}")


def assert_unstamped(root: Path) -> None:
    """While packages are being installed the environment must not look finished."""
    assert not environment.current(root)


def shell(script: str) -> subprocess.Popen[str]:
    """A process in pip's place."""
    return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True)


class TestLaunchers:
    def test_link_path_file_and_programs(self, checkout: Path) -> None:
        launchers.write(checkout)
        link = checkout / ".venv/collections/ansible_collections/composable/infra"
        assert link.resolve() == checkout
        path_file = next(checkout.glob(".venv/lib/python3*/site-packages/*.pth"))
        assert path_file.read_text(encoding="utf-8").strip() == str(checkout / ".venv/collections")
        assert all(os.access(checkout / ".venv/bin" / name, os.X_OK) for name in launchers.PROGRAMS)

    def test_a_program_passes_its_arguments_on(self, checkout: Path) -> None:
        program(checkout / ".venv" / "bin", "python", 'for word; do echo "$word"; done')
        launchers.write(checkout)
        words = output([str(checkout / ".venv/bin/lab"), "up", "two words"]).splitlines()
        assert words == ["-m", "ansible_collections.composable.infra.lab", "up", "two words"]

    def test_a_wrong_link_is_corrected(self, checkout: Path, tmp_path: Path) -> None:
        link = checkout / ".venv/collections/ansible_collections/composable/infra"
        link.parent.mkdir(parents=True)
        link.symlink_to(tmp_path / "elsewhere")
        launchers.write(checkout)
        assert link.resolve() == checkout

    def test_a_second_run_writes_nothing(self, checkout: Path) -> None:
        launchers.write(checkout)
        script = checkout / ".venv/bin/lab"
        os.utime(script, ns=(1, 1))
        launchers.write(checkout)
        assert script.stat().st_mtime_ns == 1


def output(command: Sequence[str]) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_progress_counts_each_package_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(expected=3, every=0)
    for line in ("Collecting yaml==1.0", "Collecting yaml>=0.5 (from x)", "  Downloading y", "Collecting aiohttp==3"):
        progress.take(line)
    progress.take("Installing collected packages: a, b")
    lines = capsys.readouterr().out.splitlines()
    assert "package 2 of about 3: aiohttp" in lines[-2]
    assert "2 packages fetched" in lines[-1]


def test_progress_is_silent_for_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(expected=3, every=1e9).take("Collecting yaml==1.0")
    assert capsys.readouterr().out == ""
