# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS context from a CA file or PEM text, and the explanation of a failed handshake."""

from __future__ import annotations

import ssl
import typing as t
from pathlib import Path

from ...net.tls import BadAuthority, BadClientCertificate, client_context, is_refused_by_server
from ..config import FabricConfig
from ..errors import BadConfiguration

# OpenSSL's X509_V_ERR_* numbers (openssl/x509_vfy.h)
_UNKNOWN_SIGNER: t.Final = frozenset({2, 18, 19, 20, 21, 27})
_NOT_YET_OR_NO_LONGER: t.Final = frozenset({9, 10})
_OTHER_NAME: t.Final = frozenset({62, 63, 64})


def context(config: FabricConfig) -> ssl.SSLContext:
    """Return a context that trusts only the given CA, or the system's CAs without one.

    Only ``validate_certs: false`` disables the check. Raise BadConfiguration with the option.
    """
    for field, path in (("client_cert_path", config.client_cert_path), ("client_key_path", config.client_key_path)):
        if path is not None and not Path(path).is_file():
            raise BadConfiguration(field, path, "the file does not exist")
    authority = ("ca_path", config.ca_path) if config.ca_path else ("ca_pem", "<PEM text>")
    try:
        return client_context(
            ca_pem=config.ca_pem, ca_path=config.ca_path, certificate_path=config.client_cert_path,
            key_path=config.client_key_path, verify=config.validate_certs,
        )
    except FileNotFoundError:
        raise BadConfiguration(*authority, "the file does not exist") from None
    except BadAuthority as problem:
        raise BadConfiguration(*authority, str(problem)) from None
    except BadClientCertificate as problem:
        allowed = f"it must be a PEM certificate with its private key, not encrypted ({problem})"
        raise BadConfiguration("client_cert_path", config.client_cert_path, allowed) from None


def explain(error: ssl.SSLError, config: FabricConfig) -> str:
    """Explain why the handshake failed, and which option to set."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = error.reason or str(error)
        if is_refused_by_server(error):
            return _refused_words(reason, config)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "the server does not speak TLS on this port: check endpoint"
        return f"the TLS handshake failed ({reason})"
    if error.verify_code in _UNKNOWN_SIGNER:
        return f"its certificate is not signed by the given CA ({_trusted(config)}): {_REMEDY}"
    if error.verify_code in _NOT_YET_OR_NO_LONGER:
        return f"its certificate is not valid now ({error.verify_message}): renew it, or correct the clock"
    if error.verify_code in _OTHER_NAME:
        return f"its certificate is for another name. Use one of its names in endpoint ({error.verify_message})"
    return f"its certificate was not accepted ({error.verify_message}): {_REMEDY}"


_REMEDY: t.Final = "set ca_path or ca_pem to the certificate of the CA that signed it"


def _refused_words(reason: str, config: FabricConfig) -> str:
    if config.client_cert_path is None:
        return f"it requires a client certificate ({reason}): set client_cert_path and client_key_path"
    return f"it does not accept the certificate in client_cert_path {config.client_cert_path} ({reason})"


def _trusted(config: FabricConfig) -> str:
    if config.ca_path:
        return f"ca_path {config.ca_path}"
    return "ca_pem" if config.ca_pem else "the system's trust store, as neither ca_path nor ca_pem is set"
