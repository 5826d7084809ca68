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
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
)
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
_WAIT: Final = "wait_ms"

Authenticate: TypeAlias = Callable[[str], Awaitable[Identity | None]]
"""Says who has a bearer token, if anybody."""


class DoorLimits(Struct, frozen=True):
    """Bounds what one door takes on, of all and of one tenant. Calls that wait on purpose (`waits`)
    count apart: workers that wait take no place of those who only look or answer. `quiet_ms` is how
    often the token of a stream or of a call that waits is looked at again."""

    body_bytes: int = 1 << 20
    calls: int = 256
    waits: int = 256
    streams: int = 256
    tenant_calls: int = 64
    tenant_waits: int = 64
    tenant_streams: int = 64
    call_ms: int = 65_000
    quiet_ms: int = 15_000


class PlaceKind(StrEnum):
    """Says what a caller takes a place for. Each kind has limits of its own."""

    CALL = "calls"
    WAIT = "calls that wait"
    STREAM = "streams"


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


class AdmittedRequest(NamedTuple):
    """Says who makes a request, when its time is over by the clock of the loop, and by which words
    the caller was let in."""

    identity: Identity
    due: float
    authorization: str


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

    def __init__(
        self,
        authenticate: Authenticate,
        limits: DoorLimits,
        operations: Mapping[str, Operation[Any, Any]] = KERNEL_OPERATIONS,
    ) -> None:
        self._authenticate, self._limits, self._operations = authenticate, limits, operations
        # By tenant, and of all: how many are under way.
        self._under_way: dict[tuple[PlaceKind, TenantId | None], int] = {}
        self._most = {
            PlaceKind.CALL: (limits.calls, limits.tenant_calls),
            PlaceKind.WAIT: (limits.waits, limits.tenant_waits),
            PlaceKind.STREAM: (limits.streams, limits.tenant_streams),
        }
        # By tenant: when its next message is converted at the soonest.
        self._turns: dict[TenantId, float] = {}

    async def admit(self, name: str, authorization: str) -> tuple[Operation[Any, Any], Identity]:
        """Return the row and who calls it, whose right has been looked at."""
        identity = await self.identity(authorization)
        return select(name, self._operations, identity.rights), identity

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
    def counted(self, kind: PlaceKind, tenant: TenantId) -> Generator[None]:
        """Count a call or stream while it is under way; refuse one that is too many."""
        under_way, places = self._under_way, ((kind, None), (kind, tenant))
        for place, allowed in zip(places, self._most[kind], strict=True):
            if under_way.get(place, 0) >= allowed:
                raise OperationError(
                    RefusalCode.EXHAUSTED,
                    f"{allowed} {kind} are under way here; try again in a moment",
                )
        for place in places:
            under_way[place] = under_way.get(place, 0) + 1
        try:
            yield
        finally:
            for place in places:
                under_way[place] -= 1
                if not under_way[place]:
                    del under_way[place]

    async def converted(self, tenant: TenantId, convert: Callable[..., T], *given: Any) -> T:  # noqa: ANN401
        """Convert a message of a tenant from or to bytes, when it is its turn. Everybody waits
        while one is converted, so whoever holds them up is held up for longer; see `_pause_s`."""
        loop = asyncio.get_running_loop()
        # Whoever wakes first may make the others wait again.
        while (left := self._turns.get(tenant, 0) - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        began, made = time.thread_time(), None
        try:
            made = convert(*given)
            return made
        finally:
            size = max((len(one) for one in (*given, made) if isinstance(one, bytes)), default=0)
            pause_s = _pause_s(min(time.thread_time() - began, size * _MOST_S_A_BYTE))
            if pause_s > _SHORTEST_S:
                self._turns[tenant] = at = loop.time() + pause_s
                loop.call_at(at, self._forget_turn, tenant)

    def _forget_turn(self, tenant: TenantId) -> None:
        if self._turns.get(tenant, 0) <= asyncio.get_running_loop().time():
            self._turns.pop(tenant, None)

    async def checked(self, call: Coroutine[Any, Any, T], authorization: str) -> T:
        """Return what a call that waits returns; end it when its token is no longer good. Else
        whoever lost its right would be handed work for as long as it waits."""
        working = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait({working}, timeout=self._limits.quiet_ms / 1_000))[0]:
                await self.identity(authorization)
            return working.result()
        finally:
            await end_task(None if working.done() else working)

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
        ahead, room = deque[T](), asyncio.Event()
        coming: asyncio.Future[None] = loop.create_future()

        async def read() -> None:
            # A few values ahead, in one task: one for each value costs more than most values do.
            async for value in values:
                ahead.append(value)
                if not coming.done():
                    coming.set_result(None)
                while len(ahead) >= _AHEAD:
                    room.clear()
                    await room.wait()

        reading = asyncio.create_task(read())
        try:
            while not gone.done():
                if loop.time() >= check_at:
                    await self.identity(authorization)
                    check_at = loop.time() + quiet_s
                if ahead:
                    told = ahead.popleft()
                    room.set()
                    yield told
                elif reading.done():
                    reading.result()  # or what it has failed with
                    return
                else:
                    coming = loop.create_future()
                    await asyncio.wait(
                        {coming, reading, gone},
                        timeout=quiet_s,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if not (coming.done() or reading.done() or gone.done()):
                        yield None
        finally:
            # In this order: a generator cannot be closed while it is read.
            await end_task(reading)
            await values.aclose()


_AHEAD = 8
"""How many values of a stream are read before the client has taken those before them."""
_SHORTEST_S = 0.001
_UNIT_S = 0.0005
_LONGEST_S = 10.0
_MOST_S_A_BYTE = 5e-7
"""No message takes longer for its size. What does, as when a collection of garbage falls into it,
is not its tenant's doing: a call of a hundred bytes once rested for ten seconds for that."""


def _pause_s(took_s: float) -> float:
    """Return how long the large messages of a tenant rest after one that took so much of the loop:
    by the square, so that a tenant that holds others up for t ms does so 1 / 2 t of the time,
    while one with small messages never notices."""
    return min(took_s * took_s / _UNIT_S, _LONGEST_S)


def waits(row: Operation[Any, Any]) -> bool:
    """Say whether callers of a row may wait on purpose, until there is something for them."""
    return _WAIT in row.request.__struct_fields__


def place_of(row: Operation[Any, Any]) -> PlaceKind:
    """Return what callers of a row take a place for."""
    if row.shape is ReplyShape.STREAM:
        return PlaceKind.STREAM
    return PlaceKind.WAIT if waits(row) else PlaceKind.CALL


async def end_task(task: "asyncio.Future[Any] | None") -> None:
    """Cancel what is still waited for, and wait until it has ended, however it does."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, VegaError):
            await task


async def probe(kernel: Kernel) -> None:
    """Fail if the store does not answer."""
    await kernel.store.read(_PROBE, lambda records: records.get("probe", "health"))
