"""All doors of the kernel share this: who may come in, how many at once, and what they are told.

    bearer token ──▶ identity ──▶ row, if the right is there ──▶ a place ──▶ the call
                                                                   │
                                  refusal, deadline, store, bug ◀──┘──▶ a code and a sentence

A door translates a protocol, and the codes by a table of its own. Nothing of what a caller may do
is decided there.
"""

import asyncio
import logging
import time
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
MOST_VALUES = 100_000
"""Values of JSON in one request. What takes a few bytes each takes far longer to make than to send,
and all callers wait for it: without a limit a request of 4 MB held up the server for seconds."""

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
        # By tenant: when its next message is converted at the soonest.
        self._turns: dict[TenantId, float] = {}

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

    async def converted(self, tenant: TenantId, convert: Callable[..., T], *given: Any) -> T:  # noqa: ANN401
        """Convert a message of a tenant, when it is its turn. Everybody waits while one is
        converted, so whoever holds them up for long is held up for longer; see `_pause_s`."""
        loop = asyncio.get_running_loop()
        # Whoever wakes first may make the others wait again.
        while (left := self._turns.get(tenant, 0) - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        began = time.thread_time()
        try:
            return convert(*given)
        finally:
            pause_s = _pause_s(time.thread_time() - began)
            if pause_s > _SHORTEST_S:
                self._turns[tenant] = at = loop.time() + pause_s
                loop.call_at(at, self._forget_turn, tenant)

    def _forget_turn(self, tenant: TenantId) -> None:
        if self._turns.get(tenant, 0) <= asyncio.get_running_loop().time():
            self._turns.pop(tenant, None)

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


_SHORTEST_S = 0.001
_UNIT_S = 0.0005
_LONGEST_S = 10.0


def _pause_s(took_s: float) -> float:
    """Return how long the large messages of a tenant rest after one that took so much of the loop:
    by the square, so that a tenant that holds others up for t ms does so 1 / 2 t of the time,
    while one with small messages never notices."""
    return min(took_s * took_s / _UNIT_S, _LONGEST_S)


async def end_task(task: "asyncio.Future[Any] | None") -> None:
    """Cancel what is still waited for, and wait until it has ended, however it does."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, VegaError):
            await task


async def probe(kernel: Kernel) -> None:
    """Fail if the store does not answer."""
    await kernel.store.read(_PROBE, lambda records: records.get("probe", "health"))
