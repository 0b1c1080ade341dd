# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of the kubelet's plugin interfaces. Their messages are in the generated modules."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.wire.services import Method, call, call_stream, service

from . import dra_pb2, health_pb2, registration_pb2

__all__ = ["DRA", "EARLIER_DRA", "HEALTH", "LATER_HEALTH", "REGISTRATION", "Method", "call", "call_stream", "service"]

DRA = dra_pb2.DESCRIPTOR.package
# Kubelets before Kubernetes 1.34 call this package. Its messages are the same, without share_id.
EARLIER_DRA = "k8s.io.kubelet.pkg.apis.dra.v1beta1"
REGISTRATION = registration_pb2.DESCRIPTOR.package
HEALTH = health_pb2.DESCRIPTOR.package
# The package of the same messages and service from Kubernetes 1.37 on.
LATER_HEALTH = "v1"
