# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TLS context of a connection, built once from PEM text that mostly lives inside a kubeconfig."""

from __future__ import annotations

import ssl
import tempfile

from .errors import BadKubeconfig


def context(
    source: str, ca: str | None, client_cert: str | None, client_key: str | None, verify: bool
) -> ssl.SSLContext:
    """A client context; without ``ca`` it trusts the system's roots. Raises BadKubeconfig naming ``source``."""
    try:
        made = ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as problem:
        raise BadKubeconfig(source, "certificate-authority", f"is not a certificate: {problem}") from None
    # Go accepts the certificate authorities of older installers that X.509 strict mode refuses.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if client_cert:
        _load_pair(made, source, client_cert, client_key or "")
    return made


def _load_pair(made: ssl.SSLContext, source: str, cert: str, key: str) -> None:
    try:
        # Python's ssl module takes a certificate and key from a file only.
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as handle:
            handle.write(f"{cert}\n{key}\n")
            handle.flush()
            made.load_cert_chain(handle.name, password=lambda: b"")
    except (ssl.SSLError, ValueError) as problem:
        text = f"does not form a usable pair with the (unencrypted) client-key: {problem}"
        raise BadKubeconfig(source, "client-certificate", text) from None
