# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No class of a message is ever freed: a thread that gets a half-freed one crashes the process."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import rpc as kubelet
from ansible_collections.composable.infra.controller.autoscaler.wire import rpc as autoscaler
from ansible_collections.composable.infra.controller.wire.descriptors import Descriptors

FILES = [Path(str(module.__file__)).with_name(f"{name}.base64") for module, name in
         ((kubelet, "kubelet"), (autoscaler, "autoscaler"))]


def reached(kind: Descriptor, found: set[str]) -> set[str]:
    """Add the names of the message and of those that its fields hold, such as entries of maps."""
    if kind.full_name not in found:
        found.add(kind.full_name)
        for field in kind.fields:
            if field.message_type is not None:
                reached(field.message_type, found)
    return found


@pytest.mark.parametrize(("file", "top"), [
    (FILES[0], f"{kubelet.DRA}.NodePrepareResourcesResponse"), (FILES[1], autoscaler.NODE)])
def test_classes_of_a_message_and_its_fields_outlive_a_collection(file: Path, top: str) -> None:
    descriptors = Descriptors(file)
    names = reached(descriptors.message_class(top).DESCRIPTOR, set())
    assert len(names) > 2
    classes = {name: weakref.ref(descriptors.message_class(name)) for name in names}
    gc.collect()
    assert [name for name, found in classes.items() if found() is None] == []
