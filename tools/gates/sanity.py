# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ansible-test sanity` without containers and without its download site.

ansible-test makes a virtual environment per test and fetches a pip installer for them from a site of its own. Python
brings one along (ensurepip), so a script that calls it is put where ansible-test looks for the download. ansible-test
also drops most environment variables, so pip's settings are written into a file that it does read.

ansible-test judges what ansible-core loads from the collection: plugins, event sources, roles, playbooks, metadata.
It leaves out what matches `LEFT_OUT`, unless `--all` is the first argument.

`CORE=2.16` runs the ansible-test of that ansible-core, instead of the one of `.venv`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from . import other_core
from .workspace import BIN, locked, run, sources

# Python that ansible-core never loads, as patterns of `--exclude`. ruff and mypy judge it.
LEFT_OUT = ("(controller|emulator|lab|tools)/", r"tests/(?!integration/targets/|sanity/).*[^/]")
# By the release of ansible-test: 2.16, 2.17 and later.
BOOTSTRAP_NAMES = ("get_pip_23_1_2.py", "get_pip_24_2.py")
BOOTSTRAP = """\
# Stands in for the get-pip script that ansible-test would download: Python's own copy of pip does the same.
# A process of its own, because ensurepip blanks pip's configuration in the process that it runs in.
import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
"""


def main() -> int:
    """Exit status of ansible-test. Environments are kept between runs and shared by checkouts."""
    arguments = sys.argv[1:]
    scope = [] if arguments[:1] == ["--all"] else excluded()
    cache, core = cache_home() / "composable-infra", os.environ.get("CORE", "")
    home = cache / (f"ansible-test-{core}" if core else "ansible-test")
    try:
        programs = other_core.programs(cache / "ansible-core", core) if core else BIN
    except other_core.NoSuchCore as error:
        sys.stderr.write(f"sanity: {error}\n")
        return 1
    with locked(home / "lock"):
        prepare(home)
        return run([str(programs / "ansible-test"), "sanity", "--python", other_core.python_version(programs),
                    "--color", "no", *scope, *arguments[0 if scope else 1:]], cwd=sources(), HOME=str(home),
                   PATH=f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def excluded() -> list[str]:
    """Return the options that make ansible-test leave out `LEFT_OUT`. All of its tests still run."""
    return [option for pattern in LEFT_OUT for option in ("--exclude", pattern)]


def cache_home() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def prepare(home: Path) -> None:
    """Fill the home folder that ansible-test gets: its pip bootstrap, and pip's settings readable by the user only."""
    downloads = home / ".ansible" / "test" / "cache"
    downloads.mkdir(parents=True, exist_ok=True)
    for name in BOOTSTRAP_NAMES:
        (downloads / name).write_text(BOOTSTRAP, encoding="utf-8")
    settings = home / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.touch(mode=0o600)
    settings.write_text(pip_settings(pip("config", "list"), pip("cache", "dir")), encoding="utf-8")


def pip(*arguments: str) -> str:
    """What a pip command prints; empty when it fails."""
    return subprocess.run([str(BIN / "python"), "-m", "pip", *arguments], capture_output=True, text=True,
                          check=False).stdout.strip()


def pip_settings(listing: str, cache: str) -> str:
    """A pip.conf that says the same as `pip config list` (files and environment) and shares its cache folder."""
    settings = {"global": {"cache-dir": cache}} if cache else {}
    for line in listing.splitlines():
        key, _equals, value = line.partition("=")
        section, _dot, option = key.rpartition(".")
        section = "global" if section == ":env:" else section
        settings.setdefault(section, {})[option] = "\n    ".join(str(ast.literal_eval(value)).split("\n"))
    return "".join(f"[{section}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
                   for section, options in settings.items())


if __name__ == "__main__":
    sys.exit(main())
