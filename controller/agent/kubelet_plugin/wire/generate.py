# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes `kubelet.base64`, the descriptors of the .proto files, from which `rpc.py` makes messages and services."""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROTOS = ("dra.proto", "health.proto", "registration.proto")


def generate(target: Path) -> None:
    """Compile the .proto files into `target`, as text. SystemExit when the compiler refuses them."""
    # Not above: the image of the agent has no compiler.
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "descriptors"
        if protoc.main(["protoc", f"--proto_path={HERE}", f"--descriptor_set_out={binary}", *PROTOS]):
            sys.exit("the .proto files do not compile")
        target.write_bytes(base64.encodebytes(binary.read_bytes()))


if __name__ == "__main__":
    generate(HERE / "kubelet.base64")
