# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulator whose knobs are turned over one kept connection: thousands of short tests turn a few each."""

from __future__ import annotations

import http.client
import json
import ssl
import typing as t
from urllib.parse import urlsplit

from ansible_collections.composable.infra.emulator import Emulator


class KeptEmulator(Emulator):
    """The same, with less TLS. What it sends may be sent twice: every knob is set, none is moved."""

    _kept: http.client.HTTPSConnection | None = None
    _configs: dict[str | None, dict[str, t.Any]] | None = None

    def fabric_config(self, manager: str | None = None, **more: t.Any) -> dict[str, t.Any]:
        """The same, the fabric's document read once."""
        known = self._configs = {} if self._configs is None else self._configs
        if manager not in known:
            known[manager] = super().fabric_config(manager)
        return {**known[manager], **more}

    def ask(self, path: str, timeout: float = 10.0, body: t.Any = None) -> t.Any:
        """JSON of any /admin address; asked anew where the kept connection does not serve any more."""
        try:
            return self._over_kept(path, timeout, body)
        except (OSError, ValueError, http.client.HTTPException):
            self._drop()
            return super().ask(path, timeout, body)

    def stop(self) -> None:
        """Stop it; an idle connection would make it wait."""
        self._drop()
        super().stop()

    def _over_kept(self, path: str, timeout: float, body: t.Any) -> t.Any:
        kept = self._kept = self._kept or self._dial()
        kept.timeout = timeout
        kept.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        with kept.getresponse() as reply:
            text = reply.read()
        if reply.status != 200:
            raise ValueError(reply.status)
        return json.loads(text)

    def _dial(self) -> http.client.HTTPSConnection:
        where = urlsplit(self.url)
        context = ssl.create_default_context(cafile=self.ca_path)
        return http.client.HTTPSConnection(where.hostname or "", where.port, context=context)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None
