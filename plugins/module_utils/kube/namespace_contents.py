# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read all objects in a namespace, of every kind that the API server serves."""

from __future__ import annotations

from collections.abc import Iterator

from .api_resources import ApiResource, Object
from .client.verbs import Client
from .errors import ApiError, NotFound, Unreachable
from .objects.leftovers import PASSING_KINDS, Own, left_over, outside_owners


class NamespaceContents:
    """Discovers the served kinds once. Each ``left`` reads the objects again. Raise Unreachable."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._unread: list[str] = []
        self._kinds = {(kind.group_version, kind.kind): (kind, verbs) for kind, verbs in self._discovered()}

    def left(self, namespace: str, own: Own) -> list[str]:
        """Return the objects that keep the namespace, as kind and name.

        A kind that cannot be read is in the result too, since it may have any objects.
        """
        unread = list(self._unread)
        found: list[Object] = []
        for kind in self._listed():
            try:
                found += self._client.list(kind, namespace).items
            except Unreachable:
                raise
            except ApiError as error:
                unread.append(f"{kind.plural}, which could not be read ({error})")
        return left_over(found, own, self._outliving(found)) + unread

    def _listed(self) -> Iterator[ApiResource]:
        """Yield the kinds to read, each in one version.

        Kinds with objects that cannot be deleted one by one are left out, because they are only
        views of other objects.
        """
        seen: set[tuple[str, str]] = set()
        for kind, verbs in self._kinds.values():
            name = (kind.group_version.rpartition("/")[0], kind.plural)
            if kind.namespaced and {"list", "delete"} <= verbs and kind.kind not in PASSING_KINDS and name not in seen:
                seen.add(name)
                yield kind

    def _outliving(self, found: list[Object]) -> set[str]:
        """Return the UIDs of live owners outside the namespace, which keep their objects alive."""
        return {ref["uid"] for ref in outside_owners(found) if self._alive(ref)}

    def _alive(self, ref: Object) -> bool:
        kind, _verbs = self._kinds.get((ref["apiVersion"], ref["kind"]), (None, None))
        if kind is None or kind.namespaced:
            return False
        try:
            return bool(self._client.get(kind, ref["name"])["metadata"]["uid"] == ref["uid"])
        except NotFound:
            return False

    def _discovered(self) -> Iterator[tuple[ApiResource, set[str]]]:
        groups = self._client.raw("GET", "/apis").get("groups") or []
        versions = [str(version["groupVersion"]) for group in groups for version in group.get("versions") or ()]
        for group_version in ["v1", *versions]:
            path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
            try:
                served = self._client.raw("GET", path).get("resources") or []
            except Unreachable:
                raise
            except ApiError as error:
                self._unread.append(f"{group_version}, which could not be read ({error})")
                continue
            for item in served:
                if "/" not in item["name"]:
                    resource = ApiResource(group_version, item["name"], item["kind"], bool(item["namespaced"]))
                    yield resource, set(item.get("verbs") or ())
