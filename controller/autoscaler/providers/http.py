# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON over HTTPS for providers that call another service, such as AWX or a machine's management
controller.
"""

from __future__ import annotations

import base64
import json
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy, proxy_of_environment
from ansible_collections.composable.infra.plugins.module_utils.net.tls import BadAuthority, client_context
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting

TIMEOUTS = Timeouts(connect=3.0, read=10.0)


class Endpoint:
    """A service.

    ``settings``: endpoint (https), ca_path, and token_path, or username and password_path. Secrets
    are read from files at each call, since they may be renewed. ``where``: name of the settings.
    Raises BadSetting with the name of the field.
    """

    def __init__(self, where: str, settings: Mapping[str, t.Any]) -> None:
        self._settings, self.where = settings, where
        url = settings.get("endpoint")
        if not isinstance(url, str) or not url.startswith("https://"):
            raise BadSetting(f"{where}.endpoint", url, "must be an https URL")
        if not settings.get("token_path") and not (settings.get("username") and settings.get("password_path")):
            raise BadSetting(f"{where}.token_path", settings.get("token_path"),
                             "must be the path of a file with a token. You can also set username and password_path")
        self.url = url.rstrip("/")

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request and return the JSON of the answer.

        Raises ProviderError with the service's status, and without secrets.
        """
        content = None if body is None else json.dumps(body).encode()
        try:
            client = HttpClient(self.url, context=client_context(ca_path=self._settings.get("ca_path")),
                                proxy=self._proxy())
            answer = client.request(method, path, self._headers(), content, TIMEOUTS)
            client.close()
        except (NoResponse, BadAuthority, OSError) as error:
            raise ProviderError(f"{self.url}: {method} {path}: {error}") from None
        if not 200 <= answer.status < 300:
            raise ProviderError(f"{self.url}: {method} {path}: status {answer.status}")
        try:
            found: Json = json.loads(answer.body) if answer.body else {}
        except ValueError:
            raise ProviderError(f"{self.url}: {method} {path}: the answer is not JSON") from None
        return found

    def _proxy(self) -> Proxy | None:
        named = proxy_of_environment(self.url)
        return Proxy.parse(named) if named else None

    def _headers(self) -> dict[str, str]:
        common = {"Content-Type": "application/json"}
        if self._settings.get("token_path"):
            return {**common, "Authorization": f"Bearer {self._secret('token_path')}"}
        pair = f"{self._settings['username']}:{self._secret('password_path')}"
        return {**common, "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _secret(self, key: str) -> str:
        try:
            return Path(str(self._settings[key])).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ProviderError(f"{self.where}.{key} cannot be read: {error.strerror}") from None
