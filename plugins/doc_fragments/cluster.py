# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that connect to a Kubernetes API server."""

from __future__ import annotations


class ModuleDocFragment:
    """Connection to the Kubernetes API server."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file. If not set, E(K8S_AUTH_KUBECONFIG) or E(KUBECONFIG) is used, then
        C(~/.kube/config), then the service account of the pod.
    type: path
  context:
    description: Context of the kubeconfig. If not set, E(K8S_AUTH_CONTEXT) is used, then the current context.
    type: str
requirements:
  - python >= 3.11
  - PyYAML
"""
