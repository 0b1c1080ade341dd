# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and services of the kubelet's plugin interfaces, from the descriptors in `kubelet.base64`."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.controller.wire.descriptors import Descriptors, Method

__all__ = ["DRA", "EARLIER_DRA", "HEALTH", "LATER_HEALTH", "REGISTRATION", "Method", "call", "call_stream",
           "message_class", "service"]

DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
# The package of the same messages, without share_id, that kubelets before Kubernetes 1.34 ask for.
EARLIER_DRA = "k8s.io.kubelet.pkg.apis.dra.v1beta1"
REGISTRATION = "pluginregistration"
HEALTH = "v1alpha1"
# The package of the same messages and service from Kubernetes 1.37 on.
LATER_HEALTH = "v1"

_KUBELET = Descriptors(Path(__file__).parent / "kubelet.base64")
message_class, service = _KUBELET.message_class, _KUBELET.service
call, call_stream = _KUBELET.call, _KUBELET.call_stream
