# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read kubeconfig files by kubectl's rules. Errors name the file and the field."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import BadKubeconfig

try:
    import yaml
except ImportError:
    HAS_YAML = False
else:
    HAS_YAML = True

_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One named cluster, user or context with its file. Relative paths start in the folder of the
    file.
    """

    source: str
    label: str
    folder: str
    values: Mapping[str, Any]

    def text(self, field: str) -> str | None:
        """Return a string field, None if absent or empty."""
        value = self.values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.bad(field, f"must be a string, not {type(value).__name__}")
        return value

    def flag(self, field: str) -> bool:
        """Return a boolean field, False if absent."""
        value = self.values.get(field, False)
        if not isinstance(value, bool):
            raise self.bad(field, f"must be true or false, not {value!r}")
        return value

    def file(self, field: str) -> str | None:
        """Return a path field as an absolute path, relative to the kubeconfig's own folder."""
        value = self.text(field)
        return os.path.join(self.folder, os.path.expanduser(value)) if value else None

    def pem(self, field: str) -> str | None:
        """Return PEM text from ``<field>-data`` (base64), else from the file in ``field``."""
        encoded = self.text(f"{field}-data")
        if encoded is not None:
            return self._decoded(f"{field}-data", encoded)
        path = self.file(field)
        return self._content(field, path) if path else None

    def url(self, field: str) -> str:
        """Return the URL of a server. The default scheme is https."""
        text = self.text(field)
        if text is None:
            raise self.bad(field, "is missing")
        url = text if "://" in text else f"https://{text}"
        parts = urlsplit(url)
        try:
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            valid = False
        if not valid or parts.username or parts.query:
            raise self.bad(field, f"must be https://host[:port][/path], not {text!r}")
        return url.rstrip("/")

    def bad(self, field: str, problem: str) -> BadKubeconfig:
        """Return the error for one of this entry's fields."""
        return BadKubeconfig(self.source, f"{self.label}.{field}" if field else self.label, problem)

    def _decoded(self, field: str, encoded: str) -> str:
        try:
            text = base64.b64decode("".join(encoded.split()), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            raise self.bad(field, "must be PEM text in base64") from None
        return self._checked(field, text)

    def _content(self, field: str, path: str) -> str:
        try:
            with open(path, encoding="ascii") as handle:
                return self._checked(field, handle.read())
        except (OSError, UnicodeDecodeError) as problem:
            raise self.bad(field, f"cannot read {path}: {problem}") from None

    def _checked(self, field: str, text: str) -> str:
        if "-----BEGIN " not in text:
            raise self.bad(field, "holds no PEM block (-----BEGIN ...)")
        return text


class Kubeconfig:
    """The merge of one or more kubeconfig files. The first file that names an entry wins."""

    def __init__(self, documents: Iterable[tuple[str, str, Any]]) -> None:
        """Merge ``documents``: (file name for messages, folder for relative paths, decoded
        content).
        """
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in _LISTS}
        self._current: str | None = None
        self._sources: list[str] = []
        for source, folder, content in documents:
            self._add(source, folder, content)

    @classmethod
    def read(cls, paths: Iterable[str]) -> Kubeconfig:
        """Read files. Raise BadKubeconfig."""
        return cls((path, os.path.dirname(os.path.abspath(path)), _parse(path)) for path in paths)

    def select(self, context: str | None = None) -> tuple[Entry, Entry, Entry]:
        """Return (context, cluster, user) of the named context or of ``current-context``."""
        name = context or self._current
        if not name:
            raise BadKubeconfig(self.sources, "current-context", "is not set, and no context was requested")
        chosen = self._find("contexts", name, "current-context" if not context else "context")
        cluster = self._find("clusters", self._required(chosen, "cluster"), f"{chosen.label}.cluster")
        user_name = chosen.text("user")
        if not user_name:
            return chosen, cluster, Entry(chosen.source, "users[]", chosen.folder, {})
        return chosen, cluster, self._find("users", user_name, f"{chosen.label}.user")

    @property
    def sources(self) -> str:
        """Return the files, for messages."""
        return os.pathsep.join(self._sources)

    def _required(self, entry: Entry, field: str) -> str:
        value = entry.text(field)
        if value is None:
            raise entry.bad(field, "is missing")
        return value

    def _find(self, kind: str, name: str, field: str) -> Entry:
        entry = self._entries[kind].get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries[kind])) or "none"
            raise BadKubeconfig(self.sources, field, f"{name!r} is not one of the {kind} there ({known})")
        return entry

    def _add(self, source: str, folder: str, content: Any) -> None:
        if not isinstance(content, dict):
            raise BadKubeconfig(source, "", "must be a mapping with clusters, users and contexts")
        self._sources.append(source)
        current = content.get("current-context")
        self._current = self._current or (str(current) if current else None)
        for kind, inner in _LISTS.items():
            self._add_list(source, folder, kind, inner, content.get(kind))

    def _add_list(self, source: str, folder: str, kind: str, inner: str, items: Any) -> None:
        if items is not None and not isinstance(items, list):
            raise BadKubeconfig(source, kind, "must be a list")
        for number, item in enumerate(items or []):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or not name:
                raise BadKubeconfig(source, f"{kind}[{number}].name", "is missing")
            values = item.get(inner)
            if values is not None and not isinstance(values, dict):
                raise BadKubeconfig(source, f"{kind}[{name}].{inner}", "must be a mapping")
            entry = Entry(source, f"{kind}[{name}].{inner}", folder, values or {})
            self._entries[kind].setdefault(name, entry)


def _parse(path: str) -> Any:
    if not HAS_YAML:
        raise BadKubeconfig(path, "", "the Python library PyYAML is needed to read it")
    try:
        with open(path, encoding="utf-8") as handle:
            return yaml.safe_load(handle)
    except OSError as problem:
        raise BadKubeconfig(path, "", f"cannot be read: {problem.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise BadKubeconfig(path, "", f"is not YAML{_position(problem)}") from None


def _position(problem: Exception) -> str:
    # The parser's own message quotes the line, which may be secret.
    mark = getattr(problem, "problem_mark", None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
