# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service of Cluster Autoscaler's externalgrpc provider.

Its messages are in the generated modules.
"""

from __future__ import annotations

from ansible_collections.composable.infra.controller.wire.services import Method, call, service

from . import externalgrpc_pb2

__all__ = ["SERVICE", "Method", "call", "service"]

SERVICE = f"{externalgrpc_pb2.DESCRIPTOR.package}.CloudProvider"
