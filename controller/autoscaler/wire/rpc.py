# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and the service of Cluster Autoscaler's externalgrpc provider, from `autoscaler.base64`."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.controller.wire.descriptors import Descriptors, Method

__all__ = ["NODE", "PROVIDER", "SERVICE", "Method", "call", "message_class", "service"]

PROVIDER = "clusterautoscaler.cloudprovider.v1.externalgrpc"
SERVICE = f"{PROVIDER}.CloudProvider"
NODE = "k8s.io.api.core.v1.Node"

_AUTOSCALER = Descriptors(Path(__file__).parent / "autoscaler.base64")
message_class, service, call = _AUTOSCALER.message_class, _AUTOSCALER.service, _AUTOSCALER.call
