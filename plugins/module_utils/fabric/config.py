# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to a CDI Manager, checked once so that an error names the wrong option."""

from __future__ import annotations

import re
import typing as t
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import BadConfiguration
from .external import checked_options, entry_of
from .registry import CREDENTIALS_OF, ManagerEntry

CREDENTIALS: t.Final = CREDENTIALS_OF["password_grant"]
SECRETS: t.Final = ("password", "client_secret", "ca_pem")
ENDPOINTS: t.Final = ("endpoint", "layout_endpoint")
# Options that only some managers or some login methods use.
PARTICULAR: t.Final = ("tenant", "cluster", "layout_endpoint", "machines", "driver_options", *CREDENTIALS)
# The uid of a machine as in a node's providerID, and the path of its endpoint or zone.
_MACHINE: t.Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_HOST_PORT: t.Final = re.compile(r"/redfish/v1/Fabrics/[^/\s]+/(Endpoints|Zones)/[^/\s]+")
# Composable DRA Driver refuses credentials of 1000 bytes and more. A Secret must serve both.
LONGEST_CREDENTIAL: t.Final = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricConfig:
    """Connection to one CDI Manager. Timeouts are in seconds. Options without use are empty.

    ``external.entry_of`` returns which options each manager requires and allows. ``driver_options``
    are the options of a driver of another collection, with their defaults. ``layout_endpoint`` is
    the URL to which NEC CDIM takes layout changes. ``client_key_path`` may be left out if the file
    of the certificate also holds the key. ``credentials_dir`` is a mounted Secret with CoHDI's keys
    (``username, password, realm, client_id, client_secret, certificate``). It supplies the options
    that are not set otherwise. ``machines`` has the paths of endpoints or zones by the uid of the
    machine behind them, for a Redfish service without a ComputerSystem for that machine.
    """

    endpoint: str
    manager: str = "fm"
    auth: str = "password_grant"
    layout_endpoint: str | None = None
    tenant: str = ""
    cluster: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    realm: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    ca_path: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    client_cert_path: str | None = None
    client_key_path: str | None = None
    validate_certs: bool = True
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    attach_timeout: float = 180.0
    requests_per_second: float | None = None
    credentials_dir: str | None = None
    driver_options: Mapping[str, t.Any] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_dict(cls, options: Mapping[str, t.Any]) -> FabricConfig:
        """Check ``options`` and build the configuration. None counts as absent.

        Raise BadConfiguration with the name of the wrong option.
        """
        given = {key: value for key, value in options.items() if value is not None}
        _refuse_unknown(given)
        name = given.get("manager", "fm")
        manager = entry_of(name)
        auth = _choice("auth", given.get("auth", manager.auth[0]), manager.auth, f" for manager {name}")
        own = ("driver_options",) if manager.options else ()
        useful = (*manager.requires, *manager.takes, *own, *CREDENTIALS_OF[auth])
        _refuse_useless(given, useful, f"{name} with auth {auth}")
        values = {**_from_secret(given, CREDENTIALS_OF[auth]), **given, "manager": name, "auth": auth}
        _refuse_missing(values, ("endpoint", *manager.requires, *CREDENTIALS_OF[auth]), f"{name} with auth {auth}")
        checked = {key: _checked(key, value, manager) for key, value in values.items()}
        checked["driver_options"] = checked_options(manager.options, given.get("driver_options", {}))
        _refuse_combinations(given, checked)
        return cls(**checked, given=given)

    def refreshed(self) -> FabricConfig:
        """Read ``credentials_dir`` again, as a Secret may be renewed. Return the configuration."""
        return FabricConfig.from_dict(self.given) if self.credentials_dir else self


def _checked(key: str, value: t.Any, manager: ManagerEntry) -> t.Any:
    if key in ENDPOINTS:
        return _endpoint(key, value, manager.schemes)
    # Tenant and cluster are UUIDs if the manager requires them.
    return (_uuid if key in manager.requires else _CHECKS[key])(key, value)


def _from_secret(given: Mapping[str, t.Any], wanted: Iterable[str]) -> dict[str, str]:
    if "credentials_dir" not in given:
        return {}
    folder = Path(_text("credentials_dir", given["credentials_dir"]))
    if not folder.is_dir():
        raise BadConfiguration("credentials_dir", str(folder), "it must be a folder that exists")
    found = {key: _secret_file(folder / key) for key in wanted if key not in given}
    if "ca_path" not in given and "ca_pem" not in given:
        found["ca_pem"] = _secret_file(folder / "certificate")
    return {key: value for key, value in found.items() if value is not None}


def _secret_file(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration("credentials_dir", str(path), f"the file cannot be read as text: {error}") from None


def _refuse_unknown(given: Mapping[str, t.Any]) -> None:
    for key in given:
        if key not in _CHECKS:
            raise BadConfiguration(str(key), "…", f"allowed options are {', '.join(sorted(_CHECKS))}")


def _refuse_useless(given: Mapping[str, t.Any], useful: tuple[str, ...], who: str) -> None:
    """Refuse options that the manager ignores, because they show a mistake in the configuration."""
    for key in PARTICULAR:
        if key in given and key not in useful:
            shown = "…" if key in SECRETS else given[key]
            raise BadConfiguration(key, shown, f"manager {who} does not use it. Leave it out")


def _refuse_missing(values: Mapping[str, t.Any], required: tuple[str, ...], who: str) -> None:
    for key in required:
        if key not in values:
            raise BadConfiguration(key, None, f"it is required for manager {who}")


def _refuse_combinations(given: Mapping[str, t.Any], checked: Mapping[str, t.Any]) -> None:
    if "ca_path" in given and "ca_pem" in given:
        raise BadConfiguration("ca_pem", "<PEM text>", "set ca_path or ca_pem, not both")
    if "client_key_path" in given and "client_cert_path" not in given:
        raise BadConfiguration("client_key_path", given["client_key_path"], "set client_cert_path too")
    if all(checked[key].startswith("https:") for key in ENDPOINTS if key in checked):
        return
    if checked["auth"] != "none":
        raise BadConfiguration("auth", checked["auth"], "passwords are sent over https only. Change endpoint or auth")
    if "client_cert_path" in given:
        raise BadConfiguration("client_cert_path", given["client_cert_path"], "it needs https. Change endpoint")


def _choice(key: str, value: t.Any, allowed: tuple[str, ...], where: str = "") -> str:
    if not isinstance(value, str) or value not in allowed:
        raise BadConfiguration(key, value, f"allowed are {', '.join(allowed)}{where}")
    return value


def _text(key: str, value: t.Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadConfiguration(key, "…" if key in SECRETS else value, "it must be a text and not empty")
    return value


def _credential(key: str, value: t.Any) -> str:
    text = _text(key, value)
    if len(text.encode()) > LONGEST_CREDENTIAL:
        raise BadConfiguration(key, f"{len(text.encode())} bytes", f"at most {LONGEST_CREDENTIAL} bytes")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise BadConfiguration(key, "…", "it must not hold control characters or line breaks")
    return text


def _endpoint(key: str, value: t.Any, schemes: tuple[str, ...]) -> str:
    text = _text(key, value).strip().rstrip("/")
    shown = re.sub(r"//.*@", "//…@", text)
    wanted = f"it must be an {' or '.join(schemes)} URL such as {schemes[-1]}://fabric-manager.example.com:443"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadConfiguration(key, shown, wanted) from None
    if parts.username or parts.password:
        raise BadConfiguration(key, shown, "it must not hold a user or password")
    if parts.scheme not in schemes or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise BadConfiguration(key, shown, wanted)
    return text


def _uuid(key: str, value: t.Any) -> str:
    try:
        return str(uuid.UUID(_text(key, value)))
    except ValueError:
        raise BadConfiguration(key, value, "it must be a UUID") from None


def _machines(key: str, value: t.Any) -> Mapping[str, str]:
    """Check that each machine has its own path, as the path tells machines apart."""
    if not isinstance(value, Mapping):
        raise BadConfiguration(key, value, "it must map the uid of each machine to the path of an endpoint or a zone")
    found: dict[str, str] = {}
    for uid, path in value.items():
        if not isinstance(uid, str) or not _MACHINE.fullmatch(uid):
            raise BadConfiguration(key, uid, "a machine's uid has letters, digits, dots and hyphens, as in "
                                             "fsas-cdi://UID of its node")
        if not isinstance(path, str) or not _HOST_PORT.fullmatch(path):
            raise BadConfiguration(f"{key}.{uid}", path, "it must be the path of an endpoint or a zone, such as "
                                                         "/redfish/v1/Fabrics/CXL/Endpoints/H1")
        if path in found.values():
            raise BadConfiguration(f"{key}.{uid}", path, "another machine has this path")
        found[uid] = path
    return found


def _seconds(key: str, value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86400:
        raise BadConfiguration(key, value, "it must be a number of seconds above 0 and up to 86400")
    return float(value)


def _rate(key: str, value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 100_000:
        raise BadConfiguration(key, value, "it must be a number above 0 and up to 100000")
    return float(value)


def _flag(key: str, value: t.Any) -> bool:
    if not isinstance(value, bool):
        raise BadConfiguration(key, value, "it must be true or false")
    return value


_CHECKS: t.Final[Mapping[str, Callable[[str, t.Any], t.Any]]] = {
    **dict.fromkeys(("manager", "auth", *ENDPOINTS, "cluster", "ca_path", "ca_pem", "credentials_dir"), _text),
    **dict.fromkeys(("client_cert_path", "client_key_path"), _text),
    "tenant": _uuid,
    **dict.fromkeys(CREDENTIALS, _credential),
    "validate_certs": _flag,
    "driver_options": lambda _key, value: value,
    **dict.fromkeys(("connect_timeout", "read_timeout", "attach_timeout"), _seconds),
    "requests_per_second": _rate,
    "machines": _machines,
}
