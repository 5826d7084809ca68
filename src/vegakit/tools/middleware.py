"""What can be put around any tool: a log, an approval, a rate limit, a cache, a time limit.

    wrapped(tool, logged(…), approved(…), limited(…), cached(…), timed(…))

The first is the outermost: it sees a call first and its result last. Each is a tool again, which
says of itself what the inner one says, but for how long a call may take in all: a person's
thinking and waiting for a turn come on top. An approval stands outside a cache, or a remembered
answer would be given unasked; a time limit stands inside both, or waiting would use it up.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import reduce
from itertools import count
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from vegakit.conversation import ToolSpec
from vegakit.errors import RateLimited, Timeout, UserError
from vegakit.ids import Digest
from vegakit.policy import AccessRequest, Admitted, Queued, RateLimiter, SlowDown
from vegakit.ports import AuditLevel, Clock, Tool
from vegakit.records import digest128
from vegakit.tools.functions import ToolRights, audit_level, contents_of, rights_of

Middleware: TypeAlias = Callable[[Tool], Tool]


def wrapped(tool: Tool, *middleware: Middleware) -> Tool:
    return reduce(lambda inner, wrap: wrap(inner), reversed(middleware), tool)


class Proposal(Struct, frozen=True):
    """A call as it would be made now. `schema` covers all that the tool says of itself; `contents`
    are digests of the files it runs or sends, by path."""

    tool: str
    arguments: Mapping[str, Any]
    schema: Digest
    wanted: AccessRequest
    contents: dict[str, Digest] = {}


class Approver(Protocol):
    def approve(self, propose: Callable[[], Awaitable[Proposal]]) -> Awaitable[None]:
        """Returns when the call may be made, once, now; raises `CapabilityDenied` if it may not.
        What is proposed may have changed while a person thought: propose again before returning."""
        ...


class _Wrapper:
    def __init__(self, inner: Tool) -> None:
        self._inner = inner

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    @property
    def repeatable(self) -> bool:
        return self._inner.repeatable

    @property
    def timeout_ms(self) -> int:
        return self._inner.timeout_ms

    @property
    def audit(self) -> AuditLevel:
        return audit_level(self._inner)

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        return rights_of(self._inner, arguments)

    async def contents(self, arguments: Mapping[str, Any]) -> dict[str, Digest]:
        return await contents_of(self._inner, arguments)


class _Logged(_Wrapper):
    def __init__(self, inner: Tool, tell: Callable[[str], None], clock: Clock) -> None:
        super().__init__(inner)
        self._tell, self._clock = tell, clock

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        started, ended = self._clock.now(), "ok"
        try:
            return await self._inner.call(arguments, deps)
        except BaseException as error:
            ended = type(error).__name__
            raise
        finally:
            self._tell(f"{self.spec.name}: {ended} after {self._clock.now() - started} ms")


def logged(tell: Callable[[str], None], clock: Clock) -> Middleware:
    """One line a call: neither arguments nor results, which may hold secrets."""
    return lambda inner: _Logged(inner, tell, clock)


class _Approved(_Wrapper):
    def __init__(
        self,
        inner: Tool,
        approver: Approver,
        wanted: Callable[[Mapping[str, Any]], AccessRequest],
        contents: Callable[[Mapping[str, Any]], Awaitable[dict[str, Digest]]] | None,
        wait_ms: int,
    ) -> None:
        super().__init__(inner)
        self._approver, self._wanted, self._contents = approver, wanted, contents
        self._wait_ms = wait_ms

    @property
    def timeout_ms(self) -> int:
        return self._inner.timeout_ms + self._wait_ms

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """With a copy of the arguments that nobody else can change between approval and call."""
        own = deepcopy(dict(arguments))

        async def propose() -> Proposal:
            shown = deepcopy(own)
            contents = {} if self._contents is None else await self._contents(shown)
            schema = Digest(digest128(self.spec))
            return Proposal(self.spec.name, shown, schema, self._wanted(shown), contents)

        await self._approver.approve(propose)
        return await self._inner.call(own, deps)


def approved(
    approver: Approver,
    wanted: Callable[[Mapping[str, Any]], AccessRequest],
    *,
    contents: Callable[[Mapping[str, Any]], Awaitable[dict[str, Digest]]] | None = None,
    wait_ms: int = 3_600_000,
) -> Middleware:
    """`wanted` says what the arguments ask of the world, `wait_ms` how long a person may take."""
    return lambda inner: _Approved(inner, approver, wanted, contents, wait_ms)


class _Limited(_Wrapper):
    def __init__(self, inner: Tool, limiter: RateLimiter, clock: Clock, wait_ms: int) -> None:
        super().__init__(inner)
        self._limiter, self._clock, self._wait_ms = limiter, clock, wait_ms
        self._numbers = count()

    @property
    def timeout_ms(self) -> int:
        return self._inner.timeout_ms + self._wait_ms

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        who = f"{self.spec.name} {id(self)} {next(self._numbers)}"
        try:
            await self._wait_turn(who)
            return await self._inner.call(arguments, deps)
        finally:
            self._limiter.release(who)

    async def _wait_turn(self, who: str) -> None:
        until = self._clock.now() + self._wait_ms
        while not isinstance(verdict := self._limiter.ask(who, self._clock.now()), Admitted):
            wait_ms = verdict.wait_ms if isinstance(verdict, Queued | SlowDown) else None
            now = self._clock.now()
            if wait_ms is None or now + wait_ms > until:
                raise RateLimited(
                    f"{self.spec.name} takes no more calls for now; slow down, or raise its limit"
                )
            await self._clock.wait_until(now + wait_ms)


def limited(limiter: RateLimiter, clock: Clock, *, wait_ms: int = 60_000) -> Middleware:
    """Tools around which the same limiter is put share it."""
    return lambda inner: _Limited(inner, limiter, clock, wait_ms)


class _Cached(_Wrapper):
    def __init__(
        self,
        inner: Tool,
        clock: Clock,
        ttl_ms: int,
        most: int,
        whose: Callable[[object], str] | None,
    ) -> None:
        super().__init__(inner)
        self._clock, self._ttl_ms, self._most, self._whose = clock, ttl_ms, most, whose
        self._kept: OrderedDict[str, tuple[int, str]] = OrderedDict()

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        if deps is not None and self._whose is None:
            return await self._inner.call(arguments, deps)
        owner = None if self._whose is None else self._whose(deps)
        key = digest128([owner, self.spec, dict(arguments)])
        until_ms, result = self._kept.get(key, (0, ""))
        if self._clock.now() < until_ms:
            self._kept.move_to_end(key)
            return result
        result = await self._inner.call(arguments, deps)
        self._keep(key, result)
        return result

    def _keep(self, key: str, result: str) -> None:
        self._kept[key] = (self._clock.now() + self._ttl_ms, result)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


def cached(
    clock: Clock,
    *,
    ttl_ms: int,
    most: int = 1_000,
    whose: Callable[[object], str] | None = None,
) -> Middleware:
    """Results, not failures. `whose` names whom deps stand for, as what one was told is not for
    another; without it only calls without deps are remembered."""

    def wrap(inner: Tool) -> Tool:
        if not inner.repeatable:
            raise UserError(
                f"{inner.spec.name} is not repeatable, so a remembered result would stand for a "
                "call that was never made; say repeatable=True if it only looks something up"
            )
        return _Cached(inner, clock, ttl_ms, most, whose)

    return wrap


class _Timed(_Wrapper):
    def __init__(self, inner: Tool, timeout_ms: int) -> None:
        super().__init__(inner)
        self._timeout_ms = timeout_ms

    @property
    def timeout_ms(self) -> int:
        return min(self._inner.timeout_ms, self._timeout_ms)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        limit = asyncio.timeout(self.timeout_ms / 1000)
        try:
            async with limit:
                return await self._inner.call(arguments, deps)
        except TimeoutError as error:
            if not limit.expired():  # its own
                raise
            raise Timeout(f"{self.spec.name} took longer than {self.timeout_ms} ms") from error


def timed(timeout_ms: int) -> Middleware:
    return lambda inner: _Timed(inner, timeout_ms)
