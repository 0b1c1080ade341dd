# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets the address under which the project is published, wherever it stands:
`make address URL=https://…`.

The key `repository` of galaxy.yml defines the address. The other files have the same text. Until
the project is published the address is a placeholder, and README.md says so.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
FILES = ("galaxy.yml", "README.md", "SECURITY.md", "Containerfile", ".github/ISSUE_TEMPLATE/config.yml",
         "docs/docsite/links.yml", "roles/monitoring/defaults/main.yml", "roles/monitoring/meta/argument_specs.yml")

# the host of a placeholder address (RFC 2606), and the sentence of README.md about the placeholder
PLACEHOLDER = "example.com"
NOTE = " The address is a placeholder until the project is published."


class BadAddress(ValueError):
    """The address cannot be used. The message says what is allowed."""


def current(root: Path = ROOT) -> str:
    """Return the address in galaxy.yml."""
    # Do not use a YAML parser, because `make build` runs with a Python without packages.
    lines = (root / "galaxy.yml").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("repository: "))


def is_placeholder(url: str) -> bool:
    """Return whether the address cannot exist."""
    host = urlsplit(url).hostname or ""
    return host == PLACEHOLDER or host.endswith(f".{PLACEHOLDER}")


def checked(url: str) -> str:
    """Return the address without a slash at its end. Raise BadAddress."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or not parts.path.strip("/") or re.search(r"[\s'\"?#@]", url):
        raise BadAddress(f"URL: {url!r} is not allowed. Give the address of the repository, such as "
                         "https://github.com/OWNER/composable.infra")
    return url.rstrip("/").removesuffix(".git")


def change(url: str, root: Path = ROOT) -> list[str]:
    """Write the address to all files. Return the names of changed files. Raise BadAddress."""
    new, old, changed = checked(url), current(root), []
    for name in FILES:
        path = root / name
        text = path.read_text(encoding="utf-8")
        changed += [name] if old != new and old in text else []
        text = text if is_placeholder(new) else text.replace(NOTE, "")
        path.write_text(text.replace(old, new), encoding="utf-8")
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Set the address that the command line names. Without one, print the current address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", help="address of the repository")
    url = parser.parse_args(arguments).url
    if not url:
        print(current() + (f" ({NOTE.strip()})" if is_placeholder(current()) else ""))
        return 0
    try:
        changed = change(url)
    except BadAddress as error:
        print(error, file=sys.stderr)
        return 1
    print(f"changed: {', '.join(changed)}" if changed else "nothing to change")
    return 0


if __name__ == "__main__":
    sys.exit(main())
