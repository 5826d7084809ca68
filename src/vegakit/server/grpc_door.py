"""The gRPC door of the kernel: the services of `vega.kernel.v1`, made from the table of operations.

    door = await serve_grpc(kernel, tokens.authenticate, "127.0.0.1:8471")
    ...
    await door.stop(drain_s=5)

A method is a row: there is no code for any one operation. A call carries its bearer token in the
metadata `authorization`, and a deadline; whoever calls is authenticated and the right of the row
checked before the message is decoded. A refusal has a status code, a sentence, and in the metadata
`vega-code` the same code as over HTTP. A stream ends when its client goes, its token is no longer
good or the server does; `after` in the next request goes on from there.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias, cast

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from msgspec import Struct

from vegakit.control import OperationError, RefusalCode, ReplyShape
from vegakit.errors import SettingsError
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, TenantKernel
from vegakit.server.admission import (
    Admission,
    Authenticate,
    CallFailure,
    DoorLimits,
    FailureCode,
    end_task,
    failure_of,
    place_of,
    probe,
    waits,
)
from vegakit.server.protobuf import KernelMessages, MethodCodec, kernel_messages

_LOG = logging.getLogger("vegakit")

STATUS_CODES: Final = {
    RefusalCode.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    RefusalCode.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    RefusalCode.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    RefusalCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    # Not ABORTED, which clients may repeat by themselves: here the caller has to look first.
    RefusalCode.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    RefusalCode.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RefusalCode.BUDGET_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    FailureCode.DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED,
    FailureCode.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    FailureCode.BUG: grpc.StatusCode.INTERNAL,
}
_AUTHORIZATION = "authorization"
_EOF: Any = cast("Any", grpc.aio).EOF
_CODE = "vega-code"
_MOST_TEXT = 1_000
"""Status texts travel in headers, whose size is bounded."""
_MOST_WATCHING = 32
_REST = 64
"""Calls beyond those of the table that may be under way: health, reflection, and refusals."""

_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class GrpcLimits(DoorLimits, frozen=True):
    """Bounds what one server takes on over gRPC. A stream ends after `stream_ms` at the latest, and
    its client comes back with its cursor; a server notices a client that vanished after about two
    times `keepalive_ms`."""

    reply_bytes: int = 4 << 20
    stream_ms: int = 3_600_000
    connections: int = 1_000
    connection_streams: int = 100
    metadata_bytes: int = 16_384
    keepalive_ms: int = 60_000
    least_ping_ms: int = 10_000
    probe_ms: int = 5_000


class GrpcTls(Struct, frozen=True):
    """A certificate chain and its key, as PEM. With `client_authority`, clients must show a
    certificate that it has signed; who they are is still said by their token."""

    certificate: bytes
    key: bytes
    client_authority: bytes | None = None


class GrpcDoor:
    """A running server."""

    def __init__(self, server: grpc.aio.Server, calls: "_Calls", kernel: Kernel) -> None:
        self.port = 0
        self._server, self._calls, self._kernel = server, calls, kernel
        self._health = _Health()
        self._upkeep: list[asyncio.Future[None]] = []
        cast("Any", health_pb2_grpc).add_HealthServicer_to_server(self._health, server)

    async def start(self, *, sweep: bool) -> None:
        """Serve; and keep saying whether the store answers."""
        await self._server.start()
        await self._say(is_serving=True)
        self._upkeep.append(asyncio.ensure_future(self._keep_probing()))
        if sweep:
            self._upkeep.append(asyncio.ensure_future(self._kernel.keep_sweeping()))

    async def stop(self, drain_s: float = 5.0) -> None:
        """Take no more calls, end the streams, and wait for the calls under way for so long."""
        for task in self._upkeep:
            await end_task(task)
        await self._health.enter_graceful_shutdown()
        if not self._calls.stopping.done():
            self._calls.stopping.set_result(None)
        await self._server.stop(drain_s)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()

    async def _keep_probing(self) -> None:
        while True:
            await asyncio.sleep(self._calls.limits.probe_ms / 1_000)
            try:
                async with asyncio.timeout(self._calls.limits.call_ms / 1_000):
                    await probe(self._kernel)
            except Exception as error:  # noqa: BLE001  (whatever it is, the store does not answer)
                _LOG.warning("the store of the kernel does not answer: %s", error)
                await self._say(is_serving=False)
            else:
                await self._say(is_serving=True)

    async def _say(self, *, is_serving: bool) -> None:
        kinds = health_pb2.HealthCheckResponse
        status = kinds.SERVING if is_serving else kinds.NOT_SERVING
        for name in ("", *self._calls.services):
            await self._health.set(name, status)


class _Health:
    """The standard service, which asks for no token: so only a few may keep watching it."""

    def __init__(self) -> None:
        self._standard: Any = cast("Any", health).aio.HealthServicer()
        self._watching = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (its other methods, as they are)
        return getattr(self._standard, name)

    async def Watch(self, request: object, context: Any) -> None:  # noqa: ANN401, N802
        """Tell of changes, to so many as there is room for."""
        if self._watching >= _MOST_WATCHING:
            text = f"{_MOST_WATCHING} watch already; call Check"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._watching += 1
        try:
            await self._standard.Watch(request, context)
        finally:
            self._watching -= 1


async def serve_grpc(
    kernel: Kernel,
    authenticate: Authenticate,
    address: str,
    limits: GrpcLimits | None = None,
    *,
    tls: GrpcTls | None = None,
    reflection: bool = False,
    sweep: bool = True,
) -> GrpcDoor:
    """Serve the kernel at an address such as `127.0.0.1:8471`; port 0 takes one that is free.
    `sweep` carries out what time brings about, for as long as it runs."""
    limits, messages = limits or GrpcLimits(), kernel_messages()
    calls = _Calls(kernel, Admission(authenticate, limits), limits, messages)
    server = grpc.aio.server(
        options=_options(limits),
        maximum_concurrent_rpcs=limits.calls + limits.waits + limits.streams + _REST,
    )
    door = GrpcDoor(server, calls, kernel)
    server.add_generic_rpc_handlers((calls,))
    if reflection:
        _reflect(server, messages, calls.services)
    try:
        door.port = _bind(server, address, tls)
    except (RuntimeError, ValueError) as error:
        raise SettingsError(
            f"cannot serve gRPC at {address}: {error}; is the port taken, or the certificate wrong?"
        ) from error
    await door.start(sweep=sweep)
    return door


def _bind(server: grpc.aio.Server, address: str, tls: GrpcTls | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    credentials = grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.client_authority,
        require_client_auth=tls.client_authority is not None,
    )
    return server.add_secure_port(address, credentials)


def _options(limits: GrpcLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.body_bytes),
        ("grpc.max_send_message_length", limits.reply_bytes),
        ("grpc.max_metadata_size", limits.metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", limits.connection_streams),
        ("grpc.keepalive_time_ms", limits.keepalive_ms),
        ("grpc.keepalive_timeout_ms", limits.keepalive_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", limits.least_ping_ms),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", limits.least_ping_ms),
        ("grpc.http2.max_ping_strikes", 2),
        # Identity alone: what is small on the wire cannot be large in memory.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # A second server on the same port is a mistake, and is told so.
        ("grpc.so_reuseport", 0),
    ]


def _reflect(server: grpc.aio.Server, messages: KernelMessages, services: tuple[str, ...]) -> None:
    from grpc_reflection.v1alpha import reflection, reflection_pb2

    for standard in (health_pb2, reflection_pb2):
        messages.pool.AddSerializedFile(standard.DESCRIPTOR.serialized_pb)
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, messages.pool)


class _Calls(grpc.GenericRpcHandler):
    """Every method of the table, by its path."""

    def __init__(
        self, kernel: Kernel, admission: Admission, limits: GrpcLimits, messages: KernelMessages
    ) -> None:
        self._kernel, self._admission, self.limits = kernel, admission, limits
        paths = messages.paths()
        self.services = tuple(sorted({path.split("/")[1] for path in paths}))
        self._handlers = {path: self._handler(codec) for path, codec in paths.items()}
        self.stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Find the handler of a path. It gets and gives bytes: decoding comes after admission."""
        return self._handlers.get(handler_call_details.method)

    def _handler(self, codec: MethodCodec) -> "grpc.RpcMethodHandler[bytes, bytes]":
        # As if clients sent streams, which looks the same on the wire: so the one message is read
        # after admission, and a client that holds it back takes a place and its time.
        if codec.row.shape is ReplyShape.STREAM:
            return grpc.stream_stream_rpc_method_handler(_told_of_failure(self._stream, codec))
        return grpc.stream_unary_rpc_method_handler(_told_of_failure(self._call, codec))

    async def _call(self, codec: MethodCodec, context: _Context) -> bytes:
        authorization = _authorization(context)
        row, identity = await self._admission.admit(codec.row.name, authorization)
        with self._admission.counted(place_of(row), identity.caller.tenant):
            async with asyncio.timeout(_seconds(context, self.limits.call_ms)):
                tenant, convert = identity.caller.tenant, self._admission.converted
                request = await convert(tenant, codec.request_from, await _body(context))
                call = getattr(TenantKernel(self._kernel, identity.caller), row.name)(request)
                if waits(row):
                    call = self._admission.checked(call, authorization)
                return await convert(tenant, codec.reply_bytes, await call)

    async def _stream(self, codec: MethodCodec, context: _Context) -> None:
        authorization = _authorization(context)
        row, identity = await self._admission.admit(codec.row.name, authorization)
        with self._admission.counted(place_of(row), identity.caller.tenant):
            async with asyncio.timeout(_seconds(context, self.limits.stream_ms)):
                request = await self._admission.converted(
                    identity.caller.tenant, codec.request_from, await _body(context)
                )
                values = getattr(TenantKernel(self._kernel, identity.caller), row.name)(request)
                await self._send(codec, values, authorization, context, identity.caller.tenant)

    async def _send(
        self,
        codec: MethodCodec,
        values: AsyncGenerator[Any],
        authorization: str,
        context: _Context,
        tenant: TenantId,
    ) -> None:
        watched = self._admission.watched(values, authorization, self.stopping)
        async with aclosing(watched):
            async for value in watched:
                if value is not None:
                    convert = self._admission.converted
                    try:
                        await context.write(await convert(tenant, codec.reply_bytes, value))
                    except grpc.aio.InternalError:
                        return  # whoever asked has gone, and nobody can be told
        if self.stopping.done():
            text = "the server stops; come back with your cursor to another one"
            raise _StoppingError(text)


class _StoppingError(Exception):
    """The server goes while a stream is open."""


def _told_of_failure(
    method: Callable[[MethodCodec, _Context], Awaitable[bytes | None]], codec: MethodCodec
) -> Callable[[object, _Context], Awaitable[bytes | None]]:
    """Carry a method out; end the call with a status if it fails."""

    async def carry_out(_: object, context: _Context) -> bytes | None:
        try:
            return await method(codec, context)
        except _StoppingError as error:
            failure = CallFailure(FailureCode.UNAVAILABLE, str(error))
        except Exception as error:  # noqa: BLE001  (a client is told, and the server goes on)
            failure = failure_of(error)
        # Outside of the handler, as it is an error itself, and would be told with the first one.
        await context.abort(
            STATUS_CODES[failure.code], failure.text[:_MOST_TEXT], ((_CODE, failure.code.value),)
        )
        return None

    return carry_out


def _authorization(context: _Context) -> str:
    """Return the one value of the metadata; nothing if there are several that disagree."""
    found = {value for key, value in context.invocation_metadata() or () if key == _AUTHORIZATION}
    value = found.pop() if len(found) == 1 else ""
    return value if isinstance(value, str) else ""


async def _body(context: _Context) -> bytes:
    body: Any = await context.read()
    if body is _EOF:
        raise OperationError(RefusalCode.INVALID, "a call has one message, and this one had none")
    return body


def _seconds(context: _Context, most_ms: int) -> float:
    """Return how long a call may take. One without a deadline would hold its place for ever after
    its client forgot it, so it is refused."""
    left = cast("float | None", context.time_remaining())
    if left is None:
        raise OperationError(
            RefusalCode.INVALID,
            f"set a deadline of at most {most_ms / 1_000:g} s for this call: timeout=10 in Python, "
            "context.WithTimeout in Go",
        )
    return min(left, most_ms / 1_000)
