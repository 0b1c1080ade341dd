# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proposal as a module returns it, and which one may be carried out."""

from __future__ import annotations

import typing as t

from ...planning.defragment import Proposal
from .asks import BadAsk


def check_id(proposal: Proposal, given: str) -> None:
    """Refuse any but this very proposal. Raises BadAsk. One that has nothing to move is as good as carried out, but not
    one that would not help."""
    if not proposal.fits:
        raise BadAsk("proposal", given, f"it does not help any more: {proposal.why}")
    if proposal.moves and given != proposal.id:
        raise BadAsk("proposal", given, f"devices have moved since, or another ask was meant; it is now {proposal.id} "
                     f"({sentence(proposal)}): look at it in check mode, and give its id")


def sentence(proposal: Proposal) -> str:
    """What it comes to."""
    if not proposal.fits or not proposal.moves:
        return proposal.why
    moved = ", ".join(f"{len(move.devices)} x {move.model} from node {move.node}" for move in proposal.moves)
    return f"move {moved}, then {proposal.ask} fits on node {proposal.target}"


def as_result(proposal: Proposal) -> dict[str, t.Any]:
    """The proposal as data."""
    moves = [{"node": move.node, "model": move.model, "devices": list(move.devices), "request": move.request,
              "reason": move.reason} for move in proposal.moves]
    return {"id": proposal.id, "fits": proposal.fits, "target": proposal.target, "moves": moves, "why": proposal.why,
            "ask": {"model": proposal.ask.model, "count": proposal.ask.count, "claim": proposal.ask.claim,
                    "node_labels": dict(proposal.ask.labels)}}


def difference(proposal: Proposal) -> dict[str, dict[str, list[str]]]:
    """Which devices are attached and idle before and after."""
    before = {f"idle {move.model} on node {move.node}": list(move.devices) for move in proposal.moves}
    return {"before": before, "after": {name: [] for name in before}}
