# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to reach a CDI Manager: checked once, so that a typing error is named here and not by a failing call."""

from __future__ import annotations

import re
import typing as t
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from .errors import BadConfiguration

CREDENTIALS: t.Final = ("username", "password", "realm", "client_id", "client_secret")
SECRETS: t.Final = ("password", "client_secret", "ca_pem")
# Composable DRA Driver refuses credentials of 1000 bytes and more; a Secret must serve both.
LONGEST_CREDENTIAL: t.Final = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricConfig:
    """Connection to one CDI Manager. Timeouts in seconds; ``cluster`` is used by CM only.

    ``credentials_dir``: a mounted Secret with CoHDI's keys (``username, password, realm, client_id,
    client_secret, certificate``); it fills what is not given otherwise.
    """

    endpoint: str
    tenant: str
    username: str
    password: str = field(repr=False)
    realm: str
    client_id: str
    client_secret: str = field(repr=False)
    manager: str = "fm"
    ca_path: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    validate_certs: bool = True
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    attach_timeout: float = 180.0
    cluster: str | None = None
    credentials_dir: str | None = None
    given: Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_dict(cls, options: Mapping[str, t.Any]) -> FabricConfig:
        """Check ``options`` (None counts as absent) and build; BadConfiguration names the field."""
        given = {key: value for key, value in options.items() if value is not None}
        _refuse_unknown(given)
        values = {**_from_secret(given), **given}
        _refuse_missing(values)
        if "ca_path" in given and "ca_pem" in given:
            raise BadConfiguration("ca_pem", "<PEM text>", "give either ca_path or ca_pem")
        return cls(**{key: _CHECKS[key](key, value) for key, value in values.items()}, given=given)

    def refreshed(self) -> FabricConfig:
        """The same with ``credentials_dir`` read again: a mounted Secret may have been renewed."""
        return FabricConfig.from_dict(self.given) if self.credentials_dir else self


def _from_secret(given: Mapping[str, t.Any]) -> dict[str, str]:
    if "credentials_dir" not in given:
        return {}
    folder = Path(_text("credentials_dir", given["credentials_dir"]))
    if not folder.is_dir():
        raise BadConfiguration("credentials_dir", str(folder), "it must be a folder that exists")
    found = {key: _secret_file(folder / key) for key in CREDENTIALS if key not in given}
    if "ca_path" not in given and "ca_pem" not in given:
        found["ca_pem"] = _secret_file(folder / "certificate")
    return {key: value for key, value in found.items() if value is not None}


def _secret_file(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration("credentials_dir", str(path), f"the file must be readable text: {error}") from None


def _refuse_unknown(given: Mapping[str, t.Any]) -> None:
    for key in given:
        if key not in _CHECKS:
            raise BadConfiguration(str(key), "…", f"allowed options are {', '.join(sorted(_CHECKS))}")


def _refuse_missing(values: Mapping[str, t.Any]) -> None:
    for key in ("endpoint", "tenant", *CREDENTIALS):
        if key not in values:
            raise BadConfiguration(key, None, "it is required")


def _text(key: str, value: t.Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadConfiguration(key, "…" if key in SECRETS else value, "it must be a text that is not empty")
    return value


def _credential(key: str, value: t.Any) -> str:
    text = _text(key, value)
    if len(text.encode()) > LONGEST_CREDENTIAL:
        raise BadConfiguration(key, f"{len(text.encode())} bytes", f"at most {LONGEST_CREDENTIAL} bytes")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise BadConfiguration(key, "…", "it must not hold control characters or line breaks")
    return text


def _endpoint(key: str, value: t.Any) -> str:
    text = _text(key, value).strip().rstrip("/")
    shown = re.sub(r"//.*@", "//…@", text)
    wanted = "it must be an https URL such as https://fabric-manager.example.com:443"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadConfiguration(key, shown, wanted) from None
    if parts.username or parts.password:
        raise BadConfiguration(key, shown, "it must not hold a user or password")
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise BadConfiguration(key, shown, wanted)
    return text


def _uuid(key: str, value: t.Any) -> str:
    try:
        return str(uuid.UUID(_text(key, value)))
    except ValueError:
        raise BadConfiguration(key, value, "it must be a UUID") from None


def _seconds(key: str, value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86400:
        raise BadConfiguration(key, value, "it must be a number of seconds above 0 and up to 86400")
    return float(value)


def _flag(key: str, value: t.Any) -> bool:
    if not isinstance(value, bool):
        raise BadConfiguration(key, value, "it must be true or false")
    return value


_CHECKS: t.Final[Mapping[str, Callable[[str, t.Any], t.Any]]] = {
    "manager": _text,
    "endpoint": _endpoint,
    "tenant": _uuid,
    **dict.fromkeys(CREDENTIALS, _credential),
    "ca_path": _text,
    "ca_pem": _text,
    "validate_certs": _flag,
    **dict.fromkeys(("connect_timeout", "read_timeout", "attach_timeout"), _seconds),
    "cluster": _text,
    "credentials_dir": _text,
}
OPTIONS: t.Final = tuple(f.name for f in fields(FabricConfig) if f.name != "given")
