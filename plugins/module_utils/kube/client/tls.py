# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TLS context of a connection, built once from PEM text that mostly lives inside a kubeconfig."""

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
    """A client context; without ``ca`` it trusts the system's roots. Raises BadKubeconfig naming ``source``."""
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
    """Name of a file with both, since Python's ssl module takes them from a file only; None without a certificate.

    A pod has a token, and mostly no place where it could write a file.
    """
    if not client_cert:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as handle:
        handle.write(f"{client_cert}\n{client_key or ''}\n")
        handle.flush()
        yield handle.name
