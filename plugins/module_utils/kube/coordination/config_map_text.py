# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store a text in a ConfigMap, so that it outlives the processes that add to it.

The ConfigMap is deployed empty, so that no process needs the right to create ConfigMaps. A write
has the resource version of the last read, so it fails if another process has written since.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ..api_resources import CONFIG_MAPS
from ..client.verbs import Client
from ..errors import ApiError

T = t.TypeVar("T")


class ConfigMapText:
    """A text in a field of the ConfigMap ``namespace``/``name``.

    ``content`` names the content in messages, in the plural. ``report`` is called with the problem
    of each read and write, or with an empty string if there is none. Nothing here raises.
    """

    def __init__(self, client: Client, namespace: str, name: str, field: str, content: str,
                 report: Callable[[str], object]) -> None:
        self._client, self._namespace, self._name, self._field = client, namespace, name, field
        self._content, self._report, self._version = content, report, ""
        self._place = f"ConfigMap {namespace}/{name}"

    def read(self, parse: Callable[[str], T], of_another_release: type[ValueError] | None = None) -> T | None:
        """Return the parsed text, or None if it cannot be read.

        ``parse`` raises ValueError for a damaged text. Then the result of an empty text is
        returned. If it raises ``of_another_release``, return None, so that the text is not
        overwritten.
        """
        try:
            raw = self._client.get(CONFIG_MAPS, self._name, self._namespace)
            found, problem = parse(str((raw.get("data") or {}).get(self._field) or "")), ""
        except ApiError as error:
            self._report(f"the {self._content} cannot be read from {self._place}: {error}")
            return None
        except ValueError as error:
            if of_another_release and isinstance(error, of_another_release):
                self._report(f"{self._place} has {self._content} of another release ({error}). They are neither "
                             "read nor overwritten")
                return None
            found, problem = parse(""), f"{self._place} is damaged, so the {self._content} start empty: {error}"
        self._report(problem)
        self._version = raw["metadata"]["resourceVersion"]
        return found

    def write(self, text: str) -> bool:
        """Write the text. Return False if another process has written since the last read, or the
        write failed."""
        body = {"metadata": {"resourceVersion": self._version}, "data": {self._field: text}}
        try:
            answer = self._client.merge_patch(CONFIG_MAPS, self._name, body, self._namespace)
        except ApiError as error:
            self._report(f"the {self._content} cannot be stored in {self._place}: {error}")
            return False
        self._version = answer["metadata"]["resourceVersion"]
        self._report("")
        return True
