# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One place for trust: the context from a CA file or PEM text, and what a failed handshake means in words."""

from __future__ import annotations

import re
import ssl
import typing as t
from pathlib import Path

from .config import FabricConfig
from .errors import BadConfiguration

# OpenSSL's X509_V_ERR_* numbers (openssl/x509_vfy.h)
_UNKNOWN_SIGNER: t.Final = frozenset({2, 18, 19, 20, 21, 27})
_NOT_YET_OR_NO_LONGER: t.Final = frozenset({9, 10})
_OTHER_NAME: t.Final = frozenset({62, 63, 64})


# What a server says that does not accept our certificate, or wanted one; in TLS 1.3 after the handshake.
_OURS_REFUSED: t.Final = re.compile(r"_ALERT_(?:BAD_CERTIFICATE|UNKNOWN_CA|\w*CERTIFICATE\w*)$")


def context(config: FabricConfig) -> ssl.SSLContext:
    """Trust only the given CA; without one, the system's. No check at all only by ``validate_certs: false``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if config.client_cert_path:
        _identify(made, config.client_cert_path, config.client_key_path)
    if not config.validate_certs:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
        return made
    _trust(made, config)
    return made


def _trust(made: ssl.SSLContext, config: FabricConfig) -> None:
    if config.ca_path is None and config.ca_pem is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    field, shown = ("ca_path", config.ca_path) if config.ca_path else ("ca_pem", "<PEM text>")
    try:
        made.load_verify_locations(cafile=config.ca_path, cadata=config.ca_pem)
    except FileNotFoundError:
        raise BadConfiguration(field, shown, "the file does not exist") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
        allowed = reason or "it must hold PEM certificates (-----BEGIN CERTIFICATE-----)"
        raise BadConfiguration(field, shown, allowed) from None


def _identify(made: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """Show our own certificate to a server that asks for one (mutual TLS)."""
    for field, path in (("client_cert_path", certificate), ("client_key_path", key)):
        if path is not None and not Path(path).is_file():
            raise BadConfiguration(field, path, "the file does not exist")
    try:
        # An encrypted key would be asked for on the terminal without a password here.
        made.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
        allowed = f"it must be a PEM certificate with its private key, not encrypted ({reason})"
        raise BadConfiguration("client_cert_path", certificate, allowed) from None


def is_refused_by_server(error: BaseException) -> bool:
    """Whether the server did not accept us: then it has not looked at the request either."""
    return isinstance(error, ssl.SSLError) and bool(_OURS_REFUSED.search(error.reason or ""))


def is_name_mismatch(error: BaseException) -> bool:
    """Whether urllib3 1.26, which compares the names itself, found none that fits."""
    return not isinstance(error, ssl.SSLError) and "doesn't match" in str(error)


def explain(error: BaseException, config: FabricConfig) -> str:
    """Why the handshake failed, and what to set."""
    if is_name_mismatch(error):
        return f"{_OTHER_NAME_WORDS} in endpoint"
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = getattr(error, "reason", None) or str(error)
        if is_refused_by_server(error):
            return _refused_words(reason, config)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "the server does not speak TLS on this port: check endpoint"
        return f"the TLS handshake failed ({reason})"
    if error.verify_code in _UNKNOWN_SIGNER:
        return f"its certificate is not signed by the given CA ({_trusted(config)}): {_REMEDY}"
    if error.verify_code in _NOT_YET_OR_NO_LONGER:
        return f"its certificate is not valid now ({error.verify_message}): renew it, or set the clock right"
    if error.verify_code in _OTHER_NAME:
        return f"{_OTHER_NAME_WORDS} in endpoint ({error.verify_message})"
    return f"its certificate was not accepted ({error.verify_message}): {_REMEDY}"


_OTHER_NAME_WORDS: t.Final = "its certificate is for another name: use one of its names"
_REMEDY: t.Final = "set ca_path or ca_pem to the certificate of the CA that signed it"


def _refused_words(reason: str, config: FabricConfig) -> str:
    if config.client_cert_path is None:
        return f"it wants a client certificate ({reason}): set client_cert_path and client_key_path"
    return f"it does not accept the certificate in client_cert_path {config.client_cert_path} ({reason})"


def _trusted(config: FabricConfig) -> str:
    if config.ca_path:
        return f"ca_path {config.ca_path}"
    return "ca_pem" if config.ca_pem else "the system's trust store, as neither ca_path nor ca_pem is set"
