# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes `autoscaler.base64`, the descriptors of the .proto files, from which `rpc.py` makes messages and services."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.controller.wire.compiler import compile_protos

HERE = Path(__file__).parent
PROTOS = ("externalgrpc.proto", "node.proto")


def generate(target: Path) -> None:
    """Compile the .proto files into `target`, as text. SystemExit when the compiler refuses them."""
    compile_protos(HERE, PROTOS, target)


if __name__ == "__main__":
    generate(HERE / "autoscaler.base64")
