# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few API calls of the lab itself, on raw JSON.

The lab sets a cluster up and is not part of the tested code, so it does not use the collection's
client.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3

from ansible_collections.composable.infra.lab.control_plane.certificates import Pair
from ansible_collections.composable.infra.lab.errors import LabError, NotYet

FIELD_MANAGER = "composable-infra-lab"
_PLURALS = {
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
_CLUSTER_SCOPED = frozenset(
    {
        "Namespace",
        "Node",
        "PriorityLevelConfiguration",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "ResourceSlice",
        "FlowSchema",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


class ApiRefusal(LabError):
    """The API server answered with an error. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoReply(NotYet, urllib3.exceptions.HTTPError):
    """The API server sent no complete reply, but may do so later."""


class Distrusted(LabError, urllib3.exceptions.HTTPError):
    """The API server's certificate failed the verification. A retry does not help."""


class Api:
    """One user's connection to the lab's API server. Thread-safe."""

    def __init__(self, server: str, ca: Path, pair: Pair, *, pool: int = 16) -> None:
        self.server = server
        self._http = urllib3.PoolManager(
            maxsize=pool,
            block=True,
            ca_certs=str(ca),
            cert_file=str(pair.certificate),
            key_file=str(pair.key),
            timeout=urllib3.Timeout(connect=3, read=30),
            retries=False,
        )

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json",
                accept: str = "application/json") -> Any:
        """Return the decoded reply, or its text if it is not JSON.

        Raise ApiRefusal on an HTTP error, NoReply without a reply, Distrusted for a bad
        certificate.
        """
        for _attempt in range(50):
            try:
                reply = self._http.request(
                    method,
                    self.server + path,
                    body=None if body is None else json.dumps(body).encode(),
                    headers={"Content-Type": content_type, "Accept": accept},
                )
            except urllib3.exceptions.HTTPError as error:
                raise _without_reply(self.server, error) from error
            # The storage of a new or changed CRD is "(re)initializing" for a moment and answers
            # 429.
            if reply.status not in (429, 503):
                break
            time.sleep(0.05)
        text = reply.data.decode()
        if reply.status >= 400:
            raise ApiRefusal(reply.status, f"{method} {path}: {_message(text)}")
        # The log of a pod is text, even if the pod writes JSON.
        decoded = reply.headers.get("Content-Type", "").startswith("application/json")
        return json.loads(text) if decoded else text

    def get(self, path: str) -> Any:
        """Return the reply to a GET of `path`."""
        return self.request("GET", path)

    def answer_headers(self, path: str, user: str, *groups: str) -> Mapping[str, str]:
        """Return the headers of the reply to a GET as another user, by impersonation."""
        sent = urllib3.HTTPHeaderDict({"Impersonate-User": user, "Accept": "application/json"})
        for group in groups:
            sent.add("Impersonate-Group", group)
        return self._http.request("GET", self.server + path, headers=sent).headers

    def stream(self, path: str, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the JSON documents of a watch, one per line, until it ends.

        `seconds` is the longest wait for a document.
        """
        timeout = urllib3.Timeout(connect=3, read=seconds)
        reply = self._http.request("GET", self.server + path, preload_content=False, timeout=timeout)
        try:
            if reply.status >= 400:
                raise ApiRefusal(reply.status, f"GET {path}: {_message(reply.data.decode())}")
            rest = b""
            for part in reply.stream(None):
                *lines, rest = (rest + part).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            reply.close()

    def exists(self, path: str) -> bool:
        """Return whether a GET of `path` finds something."""
        try:
            self.get(path)
        except ApiRefusal as error:
            if error.status == 404:
                return False
            raise
        return True

    def remove(self, path: str) -> bool:
        """DELETE `path`. Return whether it existed."""
        try:
            self.request("DELETE", path)
        except ApiRefusal as error:
            if error.status == 404:
                return False
            raise
        return True

    def ready(self, path: str = "/readyz") -> bool:
        """Return True if the server reports that it is ready.

        Otherwise raise NotYet with the answer, or Distrusted for a bad certificate.
        """
        try:
            self.get(path)
        except ApiRefusal as error:
            raise NotYet(f"HTTP status {error.status}: {error}") from error
        return True

    def apply(self, document: Mapping[str, Any]) -> Any:
        """Apply one object by server-side apply."""
        path = f"{object_path(document)}?fieldManager={FIELD_MANAGER}&force=true"
        return self.request("PATCH", path, document, "application/apply-patch+yaml")


def answers(url: str) -> bool:
    """Return whether `url` of a component with a self-signed certificate answers 200.

    Raise NotYet without an answer.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=3, context=context) as reply:
            return bool(reply.status == 200)
    except OSError as error:
        raise NotYet(f"{url}: {error}") from error


def object_path(document: Mapping[str, Any]) -> str:
    """Return the URL path of an object from its apiVersion, kind and metadata."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{scope}/{_PLURALS.get(kind, kind.lower() + 's')}/{metadata['name']}"


def _without_reply(server: str, error: urllib3.exceptions.HTTPError) -> NoReply | Distrusted:
    for cause in (*error.args, error.__cause__):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Distrusted(f"{server}: CERTIFICATE_VERIFY_FAILED: {cause.verify_message}")
    return NoReply(f"{server}: {error}")


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
