# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the changes in a Redfish request.

The check is strict, so that a client that drifts from the standard fails here first.
"""

from __future__ import annotations

import re
import typing as t

from ....pool.pool import ATTACHED, FREE, PooledDevice, PoolError
from . import fabrics
from .documents import BLOCKS, Documents, Json, fabric_path
from .errors import RedfishError
from .tasks import PoolChange
from .tree import Tree

_ZONE: t.Final = re.compile(r".*/Fabrics/(\d+)/Zones/([^/]+)")


def purpose_of(docs: Documents, path: str, body: t.Any) -> str:
    """Return whether a zone or a manifest would ``attach`` or ``detach``, ``change`` if it changes
    nothing.
    """
    try:
        return in_a_word(_wants(docs, path, body))
    except (RedfishError, PoolError, KeyError):
        return "change"


def in_a_word(wants: list[PoolChange]) -> str:
    """Return the purpose of a request with these changes."""
    return "change" if not wants else "attach" if wants[0].attach else "detach"


def _wants(docs: Documents, path: str, body: t.Any) -> list[PoolChange]:
    if path.endswith("/CompositionService.Compose"):
        return compose_wants(docs, body)
    zone = _ZONE.fullmatch(path)
    return zone_wants(docs, int(zone[1]), zone[2], body) if zone else []


def block_wants(tree: Tree, machine: str, body: t.Any, *, attach: bool) -> list[PoolChange]:
    """Parse the body of AddResourceBlock or RemoveResourceBlock. Raises RedfishError."""
    fields = _mapping(body, "body", ("ResourceBlock", "ResourceBlockETag", "ComputerSystemETag"))
    uid = _block(tree.docs, fields.get("ResourceBlock"), "ResourceBlock")
    options, found = tree.docs.options, tree.docs.device(uid)
    if options.etags:
        _precondition(tree, f"{BLOCKS}/{uid}", fields.get("ResourceBlockETag"), "ResourceBlockETag", needed=True)
        system = f"{tree.docs.root()['Systems']['@odata.id']}/{machine}"
        wanted = fields.get("ComputerSystemETag")
        _precondition(tree, system, wanted, "ComputerSystemETag", needed=options.strict_etags)
    if not attach and (found is None or found.machine != machine):
        raise RedfishError(400, f"system {machine} has no resource block {uid}", "PropertyValueNotInList")
    _same_fabric(tree.docs, machine, found)
    return [PoolChange(machine, uid, attach)]


def _precondition(tree: Tree, path: str, given: t.Any, name: str, *, needed: bool) -> None:
    if given is None and not needed:
        return
    body = tree.get(path) or {}
    if given != body.get("@odata.etag"):
        raise RedfishError(428, f"{name} is missing, or is not the ETag of {path}")


def compose_wants(docs: Documents, body: t.Any) -> list[PoolChange]:
    """Parse the body of the Compose action, a manifest with one stanza per system.

    Raises RedfishError.
    """
    fields = _mapping(body, "body", ("RequestFormat", "RequestType", "Manifest"))
    if (fields.get("RequestFormat"), fields.get("RequestType")) != ("Manifest", "Apply"):
        raise RedfishError(400, "only RequestFormat Manifest and RequestType Apply are supported",
                           "PropertyValueNotInList")
    stanzas = _mapping(fields.get("Manifest"), "Manifest", None).get("Stanzas")
    if not isinstance(stanzas, list) or not stanzas:
        raise RedfishError(400, "Manifest.Stanzas must be a list and not empty", "PropertyValueTypeError")
    return [want for stanza in stanzas for want in _stanza_wants(docs, stanza)]


def check_manifest(tree: Tree, body: Json) -> None:
    """Raise RedfishError if a stanza carries another ETag than its system has now."""
    for request in (stanza["Request"] for stanza in body["Manifest"]["Stanzas"]):
        shown = tree.get(request["@odata.id"]) or {}
        if tree.docs.options.etags and request.get("@odata.etag", shown["@odata.etag"]) != shown["@odata.etag"]:
            raise RedfishError(412, f"the ETag in the manifest is not the ETag of {request['@odata.id']}")


def _stanza_wants(docs: Documents, stanza: t.Any) -> list[PoolChange]:
    fields = _mapping(stanza, "Stanza", None)
    if fields.get("StanzaType") != "ComposeSystem":
        raise RedfishError(400, "only StanzaType ComposeSystem is supported", "PropertyValueNotInList")
    request = _mapping(fields.get("Request"), "Request", None)
    machine = _last(request.get("@odata.id"))
    if machine not in docs.pool.machines:
        raise RedfishError(400, f"Request names no system: {machine!r}", "PropertyValueError")
    links = _mapping(request.get("Links"), "Request.Links", None).get("ResourceBlocks")
    uids = [_block(docs, link, "ResourceBlocks") for link in _list(links, "ResourceBlocks")]
    return _difference(docs, machine, [uid for uid in uids if uid != machine])


def zone_wants(docs: Documents, number: int, machine: str, body: t.Any) -> list[PoolChange]:
    """Parse the body of a PATCH of a machine's zone. Raises RedfishError."""
    links = _mapping(_mapping(body, "body", ("Links",)).get("Links"), "Links", ("Endpoints",))
    uids = [_endpoint(docs, number, link) for link in _list(links.get("Endpoints"), "Endpoints")]
    if machine not in uids:
        raise RedfishError(400, "the initiator of the zone cannot leave the zone", "PropertyValueError")
    return _difference(docs, machine, [uid for uid in uids if uid != machine])


def connection_wants(docs: Documents, number: int, body: t.Any) -> list[PoolChange]:
    """Parse the body of a POST of a connection, with one initiator and one target.

    Raises RedfishError.
    """
    fields = _mapping(body, "body", ("Name", "ConnectionType", "Links", "MemoryChunkInfo"))
    links = _mapping(fields.get("Links"), "Links", ("InitiatorEndpoints", "TargetEndpoints"))
    machine, uid = (
        _endpoint(docs, number, _only(links.get(name), name)) for name in ("InitiatorEndpoints", "TargetEndpoints")
    )
    device = docs.device(uid)
    if machine not in docs.pool.machines or device is None:
        raise RedfishError(400, "an initiator must be the endpoint of a system, and a target of a device",
                           "PropertyValueError")
    _check_chunk(device, fields)
    return [PoolChange(machine, uid, True)]


def _check_chunk(device: PooledDevice, fields: Json) -> None:
    chunks = fields.get("MemoryChunkInfo")
    if device.spec.size is None:
        if chunks or fields.get("ConnectionType"):
            raise RedfishError(400, "ConnectionType and MemoryChunkInfo are allowed for memory only",
                               "PropertyValueConflict")
        return
    links = [entry.get("MemoryChunk") for entry in _list(chunks, "MemoryChunkInfo")]
    if fields.get("ConnectionType") != "Memory" or links != [{"@odata.id": fabrics.chunk_path(device)}]:
        raise RedfishError(400, "a connection of memory needs ConnectionType Memory and the memory's chunk",
                           "PropertyValueError")


def _difference(docs: Documents, machine: str, uids: list[str]) -> list[PoolChange]:
    """Return the changes from the machine's current devices to the requested devices.

    A device that is being attached or detached stays.
    """
    has = {device.spec.uid for device in docs.pool.on(machine)}
    attached = {device.spec.uid for device in docs.pool.on(machine) if device.state == ATTACHED}
    comes = [uid for uid in dict.fromkeys(uids) if uid not in has]
    for uid in comes:
        device = docs.pool.devices[uid]
        _same_fabric(docs, machine, device)
        if device.state != FREE:
            raise RedfishError(409, f"device {uid} is {device.state}")
    leaves = sorted(attached - set(uids))
    return [*(PoolChange(machine, uid, True) for uid in comes), *(PoolChange(machine, uid, False) for uid in leaves)]


def _same_fabric(docs: Documents, machine: str, device: PooledDevice | None) -> None:
    where = docs.pool.machine(machine).fabric
    if device is None or device.spec.fabric != where:
        raise RedfishError(400, f"the device is not on fabric {where} of system {machine}", "PropertyValueError")


def _block(docs: Documents, link: t.Any, where: str) -> str:
    path = link.get("@odata.id") if isinstance(link, dict) else None
    uid = _last(path)
    if path != f"{BLOCKS}/{uid}" or (docs.device(uid) is None and uid not in docs.pool.machines):
        raise RedfishError(400, f"{where} names no resource block: {path!r}", "PropertyValueError")
    return uid


def _endpoint(docs: Documents, number: int, link: t.Any) -> str:
    path = link.get("@odata.id") if isinstance(link, dict) else None
    uid = _last(path)
    if path != fabric_path(number, f"/Endpoints/{uid}") or fabrics.endpoint(docs, number, uid) is None:
        raise RedfishError(400, f"{path!r} is not an endpoint of fabric {number}", "PropertyValueError")
    return uid


def _mapping(value: t.Any, where: str, keys: tuple[str, ...] | None) -> Json:
    if not isinstance(value, dict):
        raise RedfishError(400, f"{where} must be an object", "PropertyValueTypeError")
    for key in value if keys is not None else ():
        if key not in (keys or ()):
            raise RedfishError(400, f"{where}.{key} is not a known property", "PropertyUnknown")
    return value


def _list(value: t.Any, where: str) -> list[t.Any]:
    if not isinstance(value, list):
        raise RedfishError(400, f"{where} must be a list", "PropertyValueTypeError")
    return value


def _only(value: t.Any, where: str) -> t.Any:
    found = _list(value, where)
    if len(found) != 1:
        raise RedfishError(400, f"{where} must be a list with one entry", "PropertyValueError")
    return found[0]


def _last(path: t.Any) -> str:
    return path.rpartition("/")[2] if isinstance(path, str) else ""
