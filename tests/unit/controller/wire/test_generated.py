# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated messages are those of the .proto files, and no class of theirs is ever freed while a thread looks it up."""

from __future__ import annotations

import gc
import re
import typing as t
import weakref
from pathlib import Path

import pytest
from google.protobuf import message_factory
from google.protobuf.message import Message

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.options import OLDEST_PROTOBUF
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import dra_pb2
from ansible_collections.composable.infra.controller.autoscaler.wire import node_pb2
from ansible_collections.composable.infra.tools import protos

GENERATED = ("*_pb2.py", "*_pb2.pyi")


def reached(kind: t.Any, found: dict[str, t.Any]) -> dict[str, t.Any]:
    """Add the message and those that its fields hold, such as entries of maps, by their names."""
    if kind.full_name not in found:
        found[kind.full_name] = kind
        for field in kind.fields:
            if field.message_type is not None:
                reached(field.message_type, found)
    return found


@pytest.mark.parametrize("top", [dra_pb2.NodePrepareResourcesResponse, node_pb2.Node])
def test_classes_of_a_message_and_its_fields_outlive_a_collection(top: type[Message]) -> None:
    kinds = reached(top.DESCRIPTOR, {})
    assert len(kinds) > 2
    classes = {name: weakref.ref(message_factory.GetMessageClass(kind)) for name, kind in kinds.items()}
    gc.collect()
    assert [name for name, found in classes.items() if found() is None] == []


@pytest.mark.parametrize("folder", protos.FOLDERS, ids=lambda folder: folder.parts[-2])
def test_modules_are_those_of_the_proto_files(folder: Path, tmp_path: Path) -> None:
    protos.generate(protos.ROOT / folder, tmp_path)
    fresh, kept = ({path.name: path.read_bytes() for pattern in GENERATED for path in place.glob(pattern)}
                   for place in (tmp_path, protos.ROOT / folder))
    assert fresh == kept, "run make protos"


@pytest.mark.parametrize("folder", protos.FOLDERS, ids=lambda folder: folder.parts[-2])
def test_the_oldest_protobuf_is_that_of_the_generator(folder: Path) -> None:
    for path in (protos.ROOT / folder).glob("*_pb2.py"):
        found = re.search(r"Protobuf Python Version: (\d+)\.(\d+)\.(\d+)", path.read_text(encoding="utf-8"))
        assert found
        assert tuple(map(int, found.groups())) == OLDEST_PROTOBUF
