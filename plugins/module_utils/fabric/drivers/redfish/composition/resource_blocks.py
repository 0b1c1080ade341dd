# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move resource blocks by AddResourceBlock, or by a manifest of the Compose action."""

from __future__ import annotations

import typing as t

from ....errors import Unavailable
from ...shared.redfish.resources import ComputerSystem, ResourceBlock
from ...shared.redfish.service import Service
from .preconditions import Ask, Change, Changes, Preconditions, link_to


def shares_zone(change: Change) -> bool:
    """Return whether the unit's block and the machine are in one zone."""
    return change.unit.block is not None and bool(change.unit.zones & change.host.zones)


def is_composed_here(change: Change) -> bool:
    """Return whether the machine has the unit as a block."""
    block, system = change.unit.block, change.host.system
    return block is not None and (system.uri in block.systems or block.uri in system.blocks)


def adds_blocks(change: Change) -> bool:
    """Return whether the system offers AddResourceBlock or RemoveResourceBlock."""
    system = change.host.system
    if change.attach:
        return system.add_block is not None and shares_zone(change)
    return system.remove_block is not None and is_composed_here(change)


def composes(change: Change) -> bool:
    """Return whether the composition service offers the Compose action."""
    service = change.service_model.tree.composition
    if service is None or service.compose is None:
        return False
    return shares_zone(change) if change.attach else is_composed_here(change)


def read_blocks(service: Service, changes: Changes) -> Preconditions:
    """Read the system and the blocks."""
    system = service.read(ComputerSystem, changes[0].host.system.uri)
    blocks = service.read_all(ResourceBlock, [change.block for change in changes])
    return Preconditions(system=system, blocks={block.uri: block for block in blocks})


def read_composition(service: Service, changes: Changes) -> Preconditions:
    """Read the system and all blocks, as a manifest must name every block of the system.

    Either side may list a block. Raise Unavailable if the system, its list of blocks or the
    collection of blocks is absent.
    """
    change = changes[0]
    system = service.read(ComputerSystem, change.host.system.uri)
    if system is None or not system.lists_blocks:
        raise Unavailable(f"cannot compose machine {change.host.uid}: the CDI Manager does not show which resource "
                          "blocks it has. Nothing was requested")
    tree = change.service_model.tree
    where = (tree.composition.blocks if tree.composition else None) or tree.root.blocks
    blocks = {block.uri: block for block in service.members(ResourceBlock, where, levels=2)}
    if not blocks:
        raise Unavailable(f"cannot compose machine {change.host.uid}: the CDI Manager shows no resource blocks. "
                          "Nothing was requested")
    return Preconditions(system=system, blocks=blocks)


def block_is_here(preconditions: Preconditions, change: Change) -> bool:
    """Return whether the system has the block. A service may fill only one of the two links."""
    block = preconditions.blocks.get(change.block)
    if block is None or block.composition == "Composing":
        return False
    listed = preconditions.system is not None and block.uri in preconditions.system.blocks
    return change.host.system.uri in block.systems or (listed and block.composition != "Unused")


def block_is_taken(preconditions: Preconditions, change: Change) -> bool:
    """Return whether this machine can no longer have the block alone.

    Several machines may have a block with SharingCapable.
    """
    block = preconditions.blocks.get(change.block)
    if block is None:
        return True
    if block_is_here(preconditions, change):
        return not block.sharing and any(uri != change.host.system.uri for uri in block.systems)
    return bool(block.systems or block.reserved or block.composition not in (None, "Unused"))


def block_moves(preconditions: Preconditions, change: Change) -> bool:
    """Return whether the service is working on the block."""
    block = preconditions.blocks.get(change.block)
    return block is not None and block.composition == "Composing"


def ask_block(preconditions: Preconditions, changes: Changes) -> Ask:
    """Return the request with the block's ETag, which alone decides between clients.

    The ETag of the system would allow only one change of the machine at a time.
    """
    change = changes[0]
    block, system = preconditions.blocks[change.block], preconditions.system or change.host.system
    body: dict[str, t.Any] = {"ResourceBlock": link_to(block.uri)}
    if block.etag:
        body["ResourceBlockETag"] = block.etag
    if preconditions.strict and system.etag:
        body["ComputerSystemETag"] = system.etag
    return Ask("POST", (system.add_block if change.attach else system.remove_block) or "", body)


def ask_compose(preconditions: Preconditions, changes: Changes) -> Ask:
    """Return the request with the whole wanted list of blocks and the system's ETag."""
    system = preconditions.system
    if system is None:
        raise AssertionError("read_composition reads the system")
    leaves = {change.block for change in changes if not change.attach}
    comes = [change.block for change in changes if change.attach]
    linked = [b.uri for b in preconditions.blocks.values() if system.uri in (*b.systems, *b.own_systems)]
    wanted = [uri for uri in dict.fromkeys([*system.blocks, *linked, *comes]) if uri not in leaves]
    request = {**link_to(system.uri), "Id": system.ident, "Links": {"ResourceBlocks": [*map(link_to, wanted)]}}
    if system.etag:
        request["@odata.etag"] = system.etag
    stanza = {"StanzaType": "ComposeSystem", "StanzaId": system.ident, "Request": request}
    body = {"RequestFormat": "Manifest", "RequestType": "Apply", "Manifest": {"Stanzas": [stanza]}}
    service = changes[0].service_model.tree.composition
    return Ask("POST", (service.compose if service else None) or "", body)
