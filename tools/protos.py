# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate the messages of the gRPC interfaces from .proto files, with the pinned compiler:
`make protos`."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
# Each has .proto files and the generated files: NAME_pb2.py, and NAME_pb2.pyi for the type checker.
FOLDERS = (Path("controller/agent/kubelet_plugin/wire"), Path("controller/autoscaler/wire"))


def generate(folder: Path, target: Path) -> None:
    """Compile the .proto files of a folder to modules in `target`. Raise SystemExit if a file is
    refused.

    The modules run with the protobuf of the compiler's release and later.
    """
    names = sorted(path.name for path in folder.glob("*.proto"))
    if protoc.main(["protoc", f"--proto_path={folder}", f"--python_out={target}", f"--pyi_out={target}", *names]):
        sys.exit(f"the .proto files of {folder} do not compile")


if __name__ == "__main__":
    for place in FOLDERS:
        generate(ROOT / place, ROOT / place)
