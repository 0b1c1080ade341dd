# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiles .proto files into descriptors, as text, from which `descriptors.py` makes messages and services."""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def compile_protos(folder: Path, protos: Sequence[str], target: Path) -> None:
    """Compile the .proto files of a folder into `target`. SystemExit when the compiler refuses them."""
    # Not above: the image of controllers and agent has no compiler.
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as scratch:
        binary = Path(scratch) / "descriptors"
        if protoc.main(["protoc", f"--proto_path={folder}", f"--descriptor_set_out={binary}", *protos]):
            sys.exit("the .proto files do not compile")
        target.write_bytes(base64.encodebytes(binary.read_bytes()))
