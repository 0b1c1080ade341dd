# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users who may log in, from the fabric's document, or generated at the first start and kept
with the state.
"""

from __future__ import annotations

import json
import os
import secrets
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .pool.fabric_spec import FabricSpec

MADE_UP_USER: t.Final = "composer"
MADE_UP_CLIENT: t.Final = "composable-infra"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Tenant, client and users. ``users``: password by name. Clients get the first user."""

    tenant: str
    realm: str
    client_id: str
    client_secret: str = field(repr=False)
    users: Mapping[str, str] = field(repr=False)

    def as_dict(self) -> dict[str, str]:
        """Return the values that a client needs, by the names of its options."""
        username, password = next(iter(self.users.items()))
        return {
            "tenant": self.tenant, "realm": self.realm, "username": username, "password": password,
            "client_id": self.client_id, "client_secret": self.client_secret,
        }


def choose(spec: FabricSpec, path: Path) -> Credentials:
    """Return the credentials for this start.

    ``path``: keeps generated values, readable only by its owner.
    """
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    client = spec.client or (
        kept.get("client_id", MADE_UP_CLIENT), kept.get("client_secret") or secrets.token_hex(24)
    )
    users = dict(spec.users) or {
        kept.get("username", MADE_UP_USER): kept.get("password") or secrets.token_hex(24)
    }
    made = Credentials(spec.tenant, spec.realm, client[0], client[1], users)
    write_secret(path, json.dumps(made.as_dict(), indent=2).encode())
    return made


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read at any moment."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    os.replace(fresh, path)


def signing_key(path: Path) -> bytes:
    """Return the key that signs tokens. It is kept, so that tokens stay valid after a restart."""
    if not path.exists():
        write_secret(path, secrets.token_bytes(32))
    return path.read_bytes()
