"""The kernel served over gRPC, and a client of stubs that protoc makes: it shares no code with it.

python -m tests.kernel.rpc STORE PORT     a server that can be killed
"""

import asyncio
import atexit
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tests.kernel.web import running_agents
from tests.patience import PATIENCE_S
from vegakit import server
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import GrpcDoor, GrpcLimits, TokenRole, Tokens, serve_grpc
from vegakit.store import open_tenants

__all__ = [
    "UNKNOWN_FIELD",
    "RpcClient",
    "RpcSite",
    "a_rpc_site",
    "filled",
    "message_class",
    "plain",
    "stub_of",
]

PROTOS = Path(server.__file__).parent / "proto"
PACKAGE = "vega.kernel.v1"
HTTP_OF = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
UNKNOWN_FIELD = b"\xc0\xe2\x09\x01"
"""Field 20,008, with the number 1."""


# The stubs, as any user makes them.


@cache
def stubs() -> dict[str, Any]:
    """The modules that protoc makes of the files in the wheel, by name."""
    protoc: Any = import_module("grpc_tools.protoc")
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    files = [str(path.relative_to(PROTOS)) for path in sorted(PROTOS.rglob("*.proto"))]
    own = Path(protoc.__file__).parent / "_proto"
    out = [f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
    assert protoc.main(["protoc", f"-I{PROTOS}", f"-I{own}", *out, *files]) == 0
    sys.path.insert(0, folder.name)
    try:
        names = [Path(name).stem for name in files]
        kinds = ("pb2", "pb2_grpc")
        found = {
            f"{name}_{kind}": import_module(f"{PACKAGE}.{name}_{kind}")
            for name in names
            for kind in kinds
        }
    finally:
        sys.path.remove(folder.name)
    return found


@cache
def method_of(operation: str) -> tuple[str, Any]:
    """The service of an operation, and how its methods are described."""
    wanted = "".join(part.capitalize() for part in operation.split("_"))
    for name, module in stubs().items():
        if name.endswith("_pb2"):
            for service in module.DESCRIPTOR.services_by_name.values():
                if wanted in service.methods_by_name:
                    return name, service.methods_by_name[wanted]
    raise AssertionError(f"no service has {wanted}")


def message_class(name: str) -> Any:
    return getattr(stubs()["messages_pb2"], name)


def stub_of(channel: grpc.aio.Channel, operation: str) -> Any:
    """The method of a generated stub."""
    module, method = method_of(operation)
    stub = getattr(stubs()[f"{module}_grpc"], f"{method.containing_service.name}Stub")(channel)
    return getattr(stub, method.name)


# JSON there and back, by descriptors alone.


def filled(message: Any, fields: dict[str, Any]) -> Any:
    """Put JSON into a message; a field that it does not have becomes one of an unknown number."""
    for key, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name.get(key)
        if field is not None:
            _fill(message, field, value)
        elif key in message.DESCRIPTOR.oneofs_by_name:
            _fill_variant(message, dict(value))
        elif key != "type":
            message.MergeFromString(UNKNOWN_FIELD)
    return message


def _fill_variant(message: Any, value: dict[str, Any]) -> None:
    [field] = [
        one
        for one in message.DESCRIPTOR.fields
        if one.message_type and one.message_type.name == value["type"]
    ]
    variant = getattr(message, field.name)
    variant.SetInParent()
    filled(variant, value)


def _fill(message: Any, field: Any, value: Any) -> None:
    place, kind = getattr(message, field.name), field.message_type
    is_json = kind is not None and kind.full_name == "google.protobuf.Value"
    if value is None and not is_json:
        return
    items: Any = value
    if kind is None and field.is_repeated:
        place.extend(_number(field, one) for one in items)
    elif kind is None:
        setattr(message, field.name, _number(field, value))
    elif kind.GetOptions().map_entry:
        for key, one in items.items():
            if kind.fields_by_name["value"].message_type:
                filled(place[key], one)
            else:
                place[key] = one
    elif field.is_repeated:
        for one in items:
            filled(place.add(), one)
    else:
        _fill_message(place, kind, value)


def _fill_message(place: Any, kind: Any, value: Any) -> None:
    from google.protobuf import json_format

    if kind.full_name.startswith("google.protobuf."):
        json_format.ParseDict(value, place)
    else:
        place.SetInParent()
        filled(place, value if isinstance(value, dict) else {"items": value})


def _number(field: Any, value: Any) -> Any:
    if field.enum_type is None:
        return value
    name = f"{_upper(field.enum_type.name)}_{value.upper()}"
    found = field.enum_type.values_by_name.get(name)
    return found.number if found else int(value)


def _upper(name: str) -> str:
    return "".join(f"_{one}" if one.isupper() else one for one in name).lstrip("_").upper()


def plain(message: Any) -> dict[str, Any]:
    """Return a message as the HTTP door spells it; lists are there even if they are empty."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        oneof = field.containing_oneof
        if field.message_type and field.message_type.GetOptions().map_entry:
            found[field.name] = {
                key: plain(one) if hasattr(one, "DESCRIPTOR") else one for key, one in value.items()
            }
        elif field.is_repeated:
            found[field.name] = [_plain(field, one) for one in value]
        elif not message.HasField(field.name):
            continue
        elif oneof is not None and not oneof.name.startswith("_"):
            found[oneof.name] = {"type": field.message_type.name, **plain(value)}
        else:
            found[field.name] = _plain(field, value)
    return found


def _plain(field: Any, value: Any) -> Any:
    from google.protobuf import json_format

    if field.enum_type:
        name = field.enum_type.values_by_number[value].name
        return name.removeprefix(f"{_upper(field.enum_type.name)}_").lower()
    if not field.message_type:
        return value
    if field.message_type.full_name.startswith("google.protobuf."):
        return json_format.MessageToDict(value)
    return plain(value)


# A client and a site.


class RpcClient:
    """Answers as the client of the HTTP door does. `call` blocks, for use in threads; the calls
    themselves are made by `grpc.aio` on the loop of the test."""

    def __init__(self, channel: grpc.aio.Channel, token: str = "") -> None:
        self.channel, self.token = channel, token
        self._loop = asyncio.get_running_loop()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def call(self, name: str, /, **fields: object) -> tuple[int, Any]:
        asked = asyncio.run_coroutine_threadsafe(self.ask(name, **fields), self._loop)
        return asked.result(PATIENCE_S)

    async def ask(self, name: str, /, **fields: object) -> tuple[int, Any]:
        """Return the status that HTTP would have, and JSON."""
        try:
            return 200, plain(await self.send(name, **fields))
        except grpc.aio.AioRpcError as error:
            return HTTP_OF[error.code()], {"error": said(error)}

    def send(self, name: str, /, timeout_s: Any = PATIENCE_S, **fields: object) -> Any:
        """Begin a call of a generated stub."""
        request = filled(message_class(method_of(name)[1].input_type.name)(), fields)
        method = stub_of(self.channel, name)
        return method(request, timeout=timeout_s, metadata=self.metadata())

    async def send_bytes(self, name: str, body: bytes, **options: Any) -> Any:
        """Send bytes as the one message of a call; return the reply, or the status."""
        _, method = method_of(name)
        path = f"/{PACKAGE}.{method.containing_service.name}/{method.name}"
        options = {"timeout": PATIENCE_S, "metadata": self.metadata()} | options
        try:
            if method.server_streaming:
                return [one async for one in self.channel.unary_stream(path)(body, **options)]
            return await self.channel.unary_unary(path)(body, **options)
        except grpc.aio.AioRpcError as error:
            return error

    def events(self, most: int, after: str = "", **fields: Any) -> list[tuple[int, Any]]:
        seen = asyncio.run_coroutine_threadsafe(self.watch(most, after, **fields), self._loop)
        return seen.result(PATIENCE_S)

    async def watch(
        self, most: int, after: str = "", operation: str = "watch_events", **fields: object
    ) -> list[tuple[int, Any]]:
        """Return numbers and data of up to so many items of a stream."""
        found: list[tuple[int, Any]] = []
        stream = self.send(operation, after=int(after or 0), **fields)
        async for event in stream:
            found.append((event.number, plain(event)))
            if len(found) == most:
                break
        stream.cancel()
        return found


def said(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """The code and the sentence of a refusal."""
    codes = dict(error.trailing_metadata() or ())
    return {"code": codes.get("vega-code", error.code().name), "message": error.details()}


class RpcSite:
    """A server, and clients of it by role."""

    def __init__(self, door: GrpcDoor, kernel: Kernel, channel: grpc.aio.Channel) -> None:
        self.door, self.kernel, self.channel = door, kernel, channel
        self.tokens = Tokens(kernel.store, kernel.clock)

    async def client(self, role: TokenRole = TokenRole.OPERATOR, tenant: str = "acme") -> RpcClient:
        return RpcClient(self.channel, await self.tokens.create(tenant, f"a {role}", role))


@asynccontextmanager
async def a_rpc_site(
    limits: GrpcLimits | None = None, store: str | Path = ":memory:", **options: Any
) -> AsyncGenerator[RpcSite]:
    async with running_agents() as agents:
        kernel = Kernel(open_tenants(store), SteadyClock(), agents)
        authenticate = Tokens(kernel.store, kernel.clock).authenticate
        door = await serve_grpc(kernel, authenticate, "127.0.0.1:0", limits, **options)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
                yield RpcSite(door, kernel, channel)
        finally:
            await door.stop(0)


async def serve_until_killed(store: str, port: int) -> None:
    kernel = Kernel(open_tenants(store), SteadyClock())
    authenticate = Tokens(kernel.store, kernel.clock).authenticate
    door = await serve_grpc(kernel, authenticate, f"127.0.0.1:{port}")
    await door.wait()


if __name__ == "__main__":
    asyncio.run(serve_until_killed(sys.argv[1], int(sys.argv[2])))
