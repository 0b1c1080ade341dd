# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and services of gRPC interfaces, from a file of descriptors: no generated code, no compiler at run time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor, descriptor_pb2, descriptor_pool, message, message_factory

# A function of request and context; where the method is a stream, what it gives is iterated.
Method = Callable[[Any, grpc.ServicerContext], Any]


class Descriptors:
    """What a file of descriptors has, as ``compile_protos`` writes it. OSError or ValueError when it cannot be read.

    The descriptors keep the classes of all messages. protobuf makes a class when it is asked for, and the garbage
    collector frees a class that nothing refers to. While a collection frees an object of gRPC, other threads run. If
    such a thread gets the half-freed class from protobuf's cache, the process crashes (segmentation fault).
    """

    def __init__(self, file: Path) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        content = base64.decodebytes(file.read_bytes())
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
        for each in files:
            self._pool.Add(each)
        found = [self._pool.FindFileByName(each.name).message_types_by_name for each in files]
        self._classes = [message_factory.GetMessageClass(kind)
                         for kinds in found for top in kinds.values() for kind in _with_nested(top)]

    def message_class(self, name: str) -> type[Any]:
        """Class of the message with this full name, for example "package.Device". KeyError when there is none."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def service(self, name: str, methods: Mapping[str, Method], served_as: str = "") -> grpc.GenericRpcHandler:
        """Handler of the service with this full name; KeyError when `methods` lacks one of its methods.

        `served_as`: the name by which it is called, where that is another one.
        """
        handlers = {}
        for method in self._pool.FindServiceByName(name).methods:
            request = message_factory.GetMessageClass(method.input_type).FromString
            if method.server_streaming:
                handlers[method.name] = grpc.unary_stream_rpc_method_handler(methods[method.name], request, _serialize)
            else:
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(methods[method.name], request, _serialize)
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(served_as or name, handlers)
        return handler

    def call(self, channel: grpc.Channel, name: str, request: message.Message, seconds: float = 10.0,
             served_as: str = "") -> Any:
        """Call a method by its path "service/Method". grpc.RpcError when it fails. `served_as`: see `service`."""
        answer, path = self._answer_class(name), _path(name, served_as)
        invoke = channel.unary_unary(path, request_serializer=_serialize, response_deserializer=answer.FromString)
        return invoke(request, timeout=seconds)

    def call_stream(self, channel: grpc.Channel, name: str, request: message.Message,
                    served_as: str = "") -> Iterator[Any]:
        """Call a method that answers with a stream; the result can be iterated, and has `cancel`."""
        answer, path = self._answer_class(name), _path(name, served_as)
        invoke = channel.unary_stream(path, request_serializer=_serialize, response_deserializer=answer.FromString)
        stream: Iterator[Any] = invoke(request)
        return stream

    def _answer_class(self, name: str) -> type[Any]:
        service_name, _slash, method_name = name.partition("/")
        method = self._pool.FindServiceByName(service_name).methods_by_name[method_name]
        return message_factory.GetMessageClass(method.output_type)


def _path(name: str, served_as: str) -> str:
    service, _slash, method = name.partition("/")
    return f"/{served_as or service}/{method}"


def _with_nested(kind: descriptor.Descriptor) -> Iterator[descriptor.Descriptor]:
    yield kind
    for nested in kind.nested_types:
        yield from _with_nested(nested)


def _serialize(content: message.Message) -> bytes:
    return content.SerializeToString()
