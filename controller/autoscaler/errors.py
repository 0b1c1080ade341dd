# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that the provider reports to Cluster Autoscaler by gRPC."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """The reason. The names are those of gRPC's status codes."""

    NOT_FOUND = "the group or the node does not exist"
    INVALID_ARGUMENT = "the request is not valid"
    FAILED_PRECONDITION = "the request is not allowed now"
    RESOURCE_EXHAUSTED = "no device and no new node can serve the request"
    UNAVAILABLE = "the cluster or the CDI Manager cannot be read"


class Refused(Exception):
    """A request is refused.

    The message is the reason, and appears in Cluster Autoscaler's events.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class ProviderError(Exception):
    """A provider of nodes has failed. The message is the reason, without secrets."""
