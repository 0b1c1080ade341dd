# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_role_controllers.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.e2e.support.played import (
    Json,
)

PASSWORD = "correct-horse-battery"
CONFIG: Json = {
    "device_info": [{"index": 1, "cdi-model-name": "A100 40G", "k8s-device-name": "nvidia-a100-40g",
                     "driver-name": "gpu.nvidia.com", "cannot-coexist-with": [],
                     "dra-attributes": {"type": "gpu", "productName": "NVIDIA A100-PCIE-40GB", "uuid": ""}}],
    "fabric": {"manager": "fm", "endpoint": "https://fabric-manager.example.com",
               "tenant": "00000000-0000-4000-8000-000000000001"},
}
OPTIONS: Json = {
    "controllers_image": "registry.example.com/composable/infra:1",
    "controllers_image_pull_secrets": ["registry"],
    "controllers_pull_secret_dockerconfig": '{"auths": {}}',
    "controllers_credentials": {"username": "gpu", "password": PASSWORD, "realm": "r", "client_id": "c",
                                "client_secret": "also-secret"},
    "controllers_config": CONFIG,
}
