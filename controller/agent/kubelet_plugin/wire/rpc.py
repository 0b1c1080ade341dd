# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and services of the kubelet's plugin interfaces, from the descriptors in `kubelet.base64`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
REGISTRATION = "pluginregistration"
HEALTH = "v1alpha1"
# The package of the same messages and service from Kubernetes 1.37 on.
LATER_HEALTH = "v1"
# A function of request and context; where the method is a stream, what it gives is iterated.
Method = Callable[[Any, grpc.ServicerContext], Any]


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


def service(name: str, methods: Mapping[str, Method], served_as: str = "") -> grpc.GenericRpcHandler:
    """Handler of the service with this full name; KeyError when `methods` lacks one of its methods.

    `served_as`: the name by which it is called, where that is another one.
    """
    handlers = {}
    for method in _POOL.FindServiceByName(name).methods:
        request = message_factory.GetMessageClass(method.input_type).FromString
        if method.server_streaming:
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(methods[method.name], request, _serialize)
        else:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(methods[method.name], request, _serialize)
    handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(served_as or name, handlers)
    return handler


def call(channel: grpc.Channel, name: str, request: message.Message, seconds: float = 10.0) -> Any:
    """Call a method by its path "service/Method". grpc.RpcError when it fails."""
    answer = _answer_class(name)
    invoke = channel.unary_unary(f"/{name}", request_serializer=_serialize, response_deserializer=answer.FromString)
    return invoke(request, timeout=seconds)


def call_stream(channel: grpc.Channel, name: str, request: message.Message, served_as: str = "") -> Iterator[Any]:
    """Call a method that answers with a stream; the result can be iterated, and has `cancel`."""
    answer, path = _answer_class(name), f"{served_as or name.partition('/')[0]}/{name.partition('/')[2]}"
    invoke = channel.unary_stream(f"/{path}", request_serializer=_serialize, response_deserializer=answer.FromString)
    stream: Iterator[Any] = invoke(request)
    return stream


def _answer_class(name: str) -> type[Any]:
    service_name, _slash, method_name = name.partition("/")
    method = _POOL.FindServiceByName(service_name).methods_by_name[method_name]
    return message_factory.GetMessageClass(method.output_type)


def _serialize(content: message.Message) -> bytes:
    return content.SerializeToString()
