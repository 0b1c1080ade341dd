# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and services of the kubelet's plugin interfaces, from the descriptors in `kubelet.base64`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
REGISTRATION = "pluginregistration"
Method = Callable[[Any, grpc.ServicerContext], message.Message]


def _load() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    content = base64.decodebytes((Path(__file__).parent / "kubelet.base64").read_bytes())
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    return pool


_POOL = _load()


def message_class(name: str) -> type[Any]:
    """Class of the message with this full name, for example `f"{DRA}.Device"`. KeyError when there is none."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def service(name: str, methods: Mapping[str, Method]) -> grpc.GenericRpcHandler:
    """Handler of the service with this full name; KeyError when `methods` lacks one of its methods."""
    handlers = {}
    for method in _POOL.FindServiceByName(name).methods:
        handlers[method.name] = grpc.unary_unary_rpc_method_handler(
            methods[method.name],
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=_serialize,
        )
    handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(name, handlers)
    return handler


def call(channel: grpc.Channel, name: str, request: message.Message, seconds: float = 10.0) -> Any:
    """Call a method by its path "service/Method". grpc.RpcError when it fails."""
    service_name, _slash, method_name = name.partition("/")
    method = _POOL.FindServiceByName(service_name).methods_by_name[method_name]
    answer = message_factory.GetMessageClass(method.output_type)
    invoke = channel.unary_unary(f"/{name}", request_serializer=_serialize, response_deserializer=answer.FromString)
    return invoke(request, timeout=seconds)


def _serialize(content: message.Message) -> bytes:
    return content.SerializeToString()
