# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Impersonation: the user in the name of which requests are made (kubectl ``--as``, a kubeconfig's
``as``).

Source: kubernetes/client-go, transport/round_trippers.go (``impersonatingRoundTripper``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from .kubeconfig import Entry

_TEXT = re.compile(r"[^\x00-\x1f\x7f]+")
# Besides letters and digits, these characters may be in the name of a header.
_TOKEN = "!#$&'*+-.^_`|~"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """A user, with groups, UID and further attributes (name and value). The API server decides
    whether it is allowed.
    """

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_user(cls, entry: Entry) -> Impersonation:
        """Read the impersonation of a kubeconfig's user. Raise BadKubeconfig."""
        one = {name: _texts(entry, name, [text] if (text := entry.text(name)) else []) for name in ("as", "as-uid")}
        groups = _texts(entry, "as-groups", entry.values.get("as-groups"))
        found = cls("".join(one["as"]), tuple(groups), "".join(one["as-uid"]), tuple(_pairs(entry)))
        if not found.user and found != cls():
            raise entry.bad("as", "is missing. as-groups, as-uid and as-user-extra need it")
        return found

    def changed(self, user: str | None, groups: Iterable[str] | None) -> Impersonation:
        """Return the impersonation with the options ``impersonate_user`` and ``impersonate_groups``
        applied.

        Raise BadKubeconfig.
        """
        entry = Entry("arguments", "connection", "", {})
        found = Impersonation(_texts(entry, "impersonate_user", [user])[0]) if user else self
        if groups:
            found = replace(found, groups=tuple(_texts(entry, "impersonate_groups", list(groups))))
        if found.groups and not found.user:
            raise entry.bad("impersonate_user", "is missing. impersonate_groups needs it")
        return found

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of each request, one for each group and attribute, none without
        impersonation.
        """
        found = [("Impersonate-User", self.user), ("Impersonate-Uid", self.uid)]
        found += [("Impersonate-Group", group) for group in self.groups]
        found += [(f"Impersonate-Extra-{quote(name.lower(), safe=_TOKEN)}", value) for name, value in self.extra]
        # A header has bytes, which the API server reads as UTF-8.
        return [(name, value.encode().decode("latin-1")) for name, value in found if value]


def _texts(entry: Entry, field: str, value: Any) -> list[str]:
    if value is not None and not isinstance(value, list):
        raise entry.bad(field, "must be a list of texts")
    for text in value or []:
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise entry.bad(field, f"must be text without line breaks, not {text!r}")
    return list(value or [])


def _pairs(entry: Entry) -> Iterable[tuple[str, str]]:
    extra = entry.values.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise entry.bad("as-user-extra", "must be a mapping of lists")
    return [(str(name), text) for name, value in extra.items() for text in _texts(entry, "as-user-extra", value)]
