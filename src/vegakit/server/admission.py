"""All doors of the kernel share this: who may come in, how many at once, and what they are told.

    bearer token ──▶ identity ──▶ row, if the right is there ──▶ a place ──▶ the call
                                                                   │
                                  refusal, deadline, store, bug ◀──┘──▶ a code and a sentence

A door translates a protocol, and the codes by a table of its own. Nothing of what a caller may do
is decided there.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from vegakit.control import (
    KERNEL_OPERATIONS,
    Operation,
    OperationError,
    RefusalCode,
    ReplyShape,
    select,
)
from vegakit.errors import BusError, StoreError, UserError, VegaError
from vegakit.ids import TenantId
from vegakit.kernel import Kernel
from vegakit.server.tokens import Identity

T = TypeVar("T")

_LOG = logging.getLogger("vegakit")
_PROBE: Final = TenantId("")

Authenticate: TypeAlias = Callable[[str], Awaitable[Identity | None]]
"""Says who has a bearer token, if anybody."""


class DoorLimits(Struct, frozen=True):
    """Bounds what one door takes on, of all and of one tenant. Calls that wait on purpose count as
    calls; `quiet_ms` is how often an open stream's token is looked at again."""

    body_bytes: int = 1 << 20
    calls: int = 256
    streams: int = 256
    tenant_calls: int = 64
    tenant_streams: int = 64
    call_ms: int = 65_000
    quiet_ms: int = 15_000


class FailureCode(StrEnum):
    """The ways in which a call fails that are no refusal by the kernel."""

    DEADLINE = "deadline"
    UNAVAILABLE = "unavailable"
    BUG = "bug"


class UnreadRequestError(TimeoutError):
    """The time of a call was over before its request was there."""


class CallFailure(NamedTuple):
    """A call failed for this reason, for machines and for people."""

    code: RefusalCode | FailureCode
    text: str


def failure_of(error: Exception) -> CallFailure:
    """Return what the caller is told. What is nobody's business out there goes to the log."""
    match error:
        case OperationError():
            return CallFailure(error.code, str(error))
        case UnreadRequestError():
            text = (
                "the request did not come in whole in its time, and nothing was done; send it again"
            )
            return CallFailure(FailureCode.DEADLINE, text)
        case TimeoutError():
            text = "the call took too long; it may still be carried out: look before you repeat it"
            return CallFailure(FailureCode.DEADLINE, text)
        case BusError():
            # It names servers, as that of a store does files.
            _LOG.error("the bus of the kernel failed", exc_info=error)
            text = (
                "the bus (Redis) does not answer now: a message may have been published, or not; "
                "try again. Commands, and all that is in the store, do without it"
            )
            return CallFailure(FailureCode.UNAVAILABLE, text)
        case StoreError():
            _LOG.error("the store of the kernel failed", exc_info=error)
            text = "the store does not answer now; look whether it was done, and try again"
            return CallFailure(FailureCode.UNAVAILABLE, text)
        case UserError():
            return CallFailure(RefusalCode.INVALID, str(error))
        case _:
            _LOG.error("a request to the kernel failed", exc_info=error)
            return CallFailure(FailureCode.BUG, "this is a bug of the server; its log says more")


class Admission:
    """Lets callers in, and counts them while they are here."""

    def __init__(self, authenticate: Authenticate, limits: DoorLimits) -> None:
        self._authenticate, self._limits = authenticate, limits
        # By tenant, and of all: how many are under way.
        self._calls: dict[TenantId | None, int] = {}
        self._streams: dict[TenantId | None, int] = {}

    async def admit(self, name: str, authorization: str) -> tuple[Operation[Any, Any], Identity]:
        """Return the row and who calls it, whose right has been looked at."""
        identity = await self.identity(authorization)
        return select(name, KERNEL_OPERATIONS, identity.rights), identity

    async def identity(self, authorization: str) -> Identity:
        """Return who calls, by the words `Bearer TOKEN`."""
        kind, _, token = authorization.partition(" ")
        found = None
        if kind.lower() == "bearer" and token:
            found = await self._authenticate(token.strip())
        if found is None:
            raise OperationError(
                RefusalCode.UNAUTHENTICATED,
                "send Authorization: Bearer TOKEN, a header of HTTP or metadata of gRPC, with a "
                "token that is still good",
            )
        return found

    @contextmanager
    def counted(self, shape: ReplyShape, tenant: TenantId) -> Generator[None]:
        """Count a call or stream while it is under way; refuse one that is too many."""
        limits, under_way = self._limits, self._calls
        most, most_of_one = limits.calls, limits.tenant_calls
        if shape is ReplyShape.STREAM:
            under_way, most, most_of_one = self._streams, limits.streams, limits.tenant_streams
        for who, allowed in ((None, most), (tenant, most_of_one)):
            if under_way.get(who, 0) >= allowed:
                raise OperationError(
                    RefusalCode.EXHAUSTED, f"{allowed} are under way here; try again in a moment"
                )
        for who in (None, tenant):
            under_way[who] = under_way.get(who, 0) + 1
        try:
            yield
        finally:
            for who in (None, tenant):
                under_way[who] -= 1
                if not under_way[who]:
                    del under_way[who]

    async def watched(
        self,
        values: AsyncGenerator[T],
        authorization: str,
        gone: "asyncio.Future[Any]",
    ) -> AsyncGenerator[T | None]:
        """Yield what a stream yields until it ends, `gone` is done or the token is no longer good;
        None whenever it has been quiet for a while."""
        quiet_s = self._limits.quiet_ms / 1_000
        loop = asyncio.get_running_loop()
        check_at = loop.time() + quiet_s
        coming: asyncio.Future[T | None] | None = None
        try:
            while not gone.done():
                coming = coming or asyncio.ensure_future(anext(values, None))
                await asyncio.wait(
                    {coming, gone}, timeout=quiet_s, return_when=asyncio.FIRST_COMPLETED
                )
                if loop.time() >= check_at:
                    await self.identity(authorization)
                    check_at = loop.time() + quiet_s
                if not coming.done():
                    yield None
                    continue
                told, coming = coming.result(), None
                if told is None:
                    return
                yield told
        finally:
            # In this order: a generator cannot be closed while it is waited for.
            await end_task(coming)
            await values.aclose()


async def end_task(task: "asyncio.Future[Any] | None") -> None:
    """Cancel what is still waited for, and wait until it has ended, however it does."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, VegaError):
            await task


async def probe(kernel: Kernel) -> None:
    """Fail if the store does not answer."""
    await kernel.store.read(_PROBE, lambda records: records.get("probe", "health"))
