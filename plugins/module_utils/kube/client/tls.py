# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TLS context of a connection, built once from PEM text, mostly of a kubeconfig."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator

from ...net.tls import BadAuthority, BadClientCertificate, client_context
from ..errors import BadKubeconfig


def context(
    source: str, ca: str | None, client_cert: str | None, client_key: str | None, verify: bool
) -> ssl.SSLContext:
    """Return a client context. Without ``ca`` it trusts the system's roots. Raise BadKubeconfig
    that names ``source``.
    """
    with _pair_in_file(client_cert, client_key) as pair:
        try:
            return client_context(ca_pem=ca, certificate_path=pair, verify=verify)
        except BadAuthority as problem:
            raise BadKubeconfig(source, "certificate-authority", f"is not a certificate: {problem}") from None
        except BadClientCertificate as problem:
            text = f"does not form a usable pair with the (unencrypted) client-key: {problem}"
            raise BadKubeconfig(source, "client-certificate", text) from None


@contextlib.contextmanager
def _pair_in_file(client_cert: str | None, client_key: str | None) -> Iterator[str | None]:
    """Yield the name of a file with certificate and key, None without a certificate.

    Python's ssl module reads them only from a file. A pod has a token, and mostly no writable
    folder.
    """
    if not client_cert:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as handle:
        handle.write(f"{client_cert}\n{client_key or ''}\n")
        handle.flush()
        yield handle.name
