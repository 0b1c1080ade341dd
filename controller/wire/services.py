# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve and call gRPC services by their full names.

Their messages come from imported modules that `make protos` generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message, message_factory

# A function of request and context. For a method with a stream, it returns an iterable of messages.
Method = Callable[[Any, grpc.ServicerContext], Any]


def service(name: str, methods: Mapping[str, Method], served_as: str = "") -> grpc.GenericRpcHandler:
    """Return the handler of the service with this full name.

    ``served_as``: the name by which it is called, if that is another name. Raises KeyError if ``methods`` lacks a
    method of the service, or if no imported module has the service.
    """
    handlers = {}
    for method in descriptor_pool.Default().FindServiceByName(name).methods:
        request = message_factory.GetMessageClass(method.input_type).FromString
        if method.server_streaming:
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(methods[method.name], request, _serialize)
        else:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(methods[method.name], request, _serialize)
    handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(served_as or name, handlers)
    return handler


def call(channel: grpc.Channel, name: str, request: message.Message, seconds: float = 10.0, served_as: str = "") -> Any:
    """Call a method by its path "service/Method" and return the answer.

    ``served_as``: see ``service``. Raises grpc.RpcError if the call fails.
    """
    answer, path = _answer_class(name), _path(name, served_as)
    invoke = channel.unary_unary(path, request_serializer=_serialize, response_deserializer=answer.FromString)
    return invoke(request, timeout=seconds)


def call_stream(channel: grpc.Channel, name: str, request: message.Message, served_as: str = "") -> Iterator[Any]:
    """Call a method that answers with a stream. Return the stream, which has ``cancel``."""
    answer, path = _answer_class(name), _path(name, served_as)
    invoke = channel.unary_stream(path, request_serializer=_serialize, response_deserializer=answer.FromString)
    stream: Iterator[Any] = invoke(request)
    return stream


def _answer_class(name: str) -> type[Any]:
    service_name, _slash, method_name = name.partition("/")
    method = descriptor_pool.Default().FindServiceByName(service_name).methods_by_name[method_name]
    return message_factory.GetMessageClass(method.output_type)


def _path(name: str, served_as: str) -> str:
    full_name, _slash, method = name.partition("/")
    return f"/{served_as or full_name}/{method}"


def _serialize(content: message.Message) -> bytes:
    return content.SerializeToString()
