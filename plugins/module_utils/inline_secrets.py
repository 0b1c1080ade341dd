# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in options that are mappings.

``no_log`` would remove every text of such an option from the results.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

# Fields of a kubeconfig's user, with the minimum length of a secret text. The options of programs
# and credential providers also contain harmless short texts. Without a minimum, "1" or "aws" would
# be removed from every result.
_OF_USER: t.Final = {"token": 1, "password": 1, "client-key-data": 1, "exec": 8, "auth-provider": 8}


def kubeconfig_secrets(given: t.Any) -> set[str]:
    """Return the secret texts of the option ``kubeconfig``: none of a path, some of a mapping.

    If the value is the text of a kubeconfig, which the option does not support, all of it is
    secret.
    """
    if isinstance(given, str):
        return {given} if "\n" in given or given.lstrip().startswith("{") else set()
    return {text for user in _users(given) for name, shortest in _OF_USER.items()
            for text in _texts(user.get(name)) if len(text) >= shortest}


def _users(given: t.Any) -> Iterator[dict[str, t.Any]]:
    listed = given.get("users") if isinstance(given, dict) else None
    for entry in listed if isinstance(listed, list) else []:
        user = entry.get("user") if isinstance(entry, dict) else None
        if isinstance(user, dict):
            yield user


def _texts(value: t.Any) -> Iterator[str]:
    """Yield every text in a value, except the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
