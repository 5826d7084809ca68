"""The message bus on a Redis server that several servers share.

| key                              | what                                                          |
|----------------------------------|---------------------------------------------------------------|
| `PREFIX:{TENANT}:topic:TOPIC`    | a stream; the number of a message is the first part of its id |
| `PREFIX:{TENANT}:topics`         | the topics by when they were last published to                |
| channel `PREFIX:bells`           | who sent it, then a line for each tenant or topic to wake     |

All keys of a tenant have its name as hash tag, so that the script which publishes finds them in one
slot of a cluster. Names are quoted: no tenant and no topic can spell another's key.

Redis may be paused, flushed, restarted from an old file or gone. Each start of a server has an id
of its own, which every message carries: the first message after another start begins a new base
(see `ports.bus`), because the server may have forgotten numbers that readers have seen.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

from vegakit.concurrency import cancel_all
from vegakit.config import hide_secrets_of_url
from vegakit.errors import BugError, BusError, SettingsError
from vegakit.ids import TenantId
from vegakit.ports import (
    NUMBERS_PER_MS,
    Bell,
    BusLimits,
    Clock,
    KeptMessage,
    TopicPage,
    topic_page,
)
from vegakit.store.bus import Bells

T = TypeVar("T")

_LOG = logging.getLogger("vegakit")

_ANSWER_S = 3.0
_CONNECTIONS = 32
_PAUSE_S = 0.5
_QUIET_S = 5.0
_MOST_TO_TELL = 10_000

_PUBLISH = """
local stream, topics = KEYS[1], KEYS[2]
local topic, body, at_ms, most_topics = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local history, history_bytes, keep_ms = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local per_ms, channel, told = tonumber(ARGV[8]), ARGV[9], ARGV[10]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', topics, '-inf', now - keep_ms)
if not redis.call('ZSCORE', topics, topic) then
    if redis.call('ZCARD', topics) >= most_topics then return false end
    redis.call('DEL', stream)  -- its own expiry may come a millisecond later
end
local start = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local last, base, total = 0, nil, 0
local tail = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
if tail then
    last = tonumber(string.match(tail[1], '^%d+'))
    if tail[2][4] == start then base = tonumber(tail[2][2]) end
    total = tonumber(tail[2][6])
end
if not base then
    base = math.max(now * per_ms, last)
    last = base
end
local number = string.format('%.0f', last + 1)
total = total + string.len(body)
redis.call('XADD', stream, 'MAXLEN', '=', history, number .. '-0',
    'base', string.format('%.0f', base), 'start', start,
    'total', string.format('%.0f', total), 'at', at_ms, 'body', body)
-- Of each message is kept how many bytes there were up to it: the first one tells how many are
-- kept. The newest message stays, however large it is.
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
while first[1] ~= number .. '-0'
    and total - tonumber(first[2][6]) + string.len(first[2][10]) > history_bytes do
    redis.call('XDEL', stream, first[1])
    first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
end
redis.call('ZADD', topics, now, topic)
redis.call('PEXPIRE', stream, keep_ms)
redis.call('PEXPIRE', topics, keep_ms)
redis.call('PUBLISH', channel, told)
return number
"""

_READ = """
local after, limit = ARGV[1], ARGV[2]
local found = {}
if after ~= '' then found = redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', limit) end
if #found > 0 then return {found, false} end
-- Its number alone: whoever waits for the next message looks often, and has the body already.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return {found, newest and newest[1] or false}
"""


class _Ear(Protocol):
    """A connection that hears what is told on a channel."""

    def subscribe(self, channel: str) -> Awaitable[None]: ...

    def get_message(self, *, timeout: float) -> Awaitable[dict[str, Any] | None]: ...

    def ping(self) -> Awaitable[bool]: ...

    def aclose(self) -> Awaitable[None]: ...


class RedisClient(Protocol):
    """Names the methods of the driver that are used here; its own types say too little."""

    def register_script(self, script: str) -> Callable[..., Awaitable[Any]]: ...

    def publish(self, channel: str, message: str) -> Awaitable[int]: ...

    def pubsub(self) -> _Ear: ...

    def aclose(self) -> Awaitable[None]: ...


class RedisBus:
    """Implements `ports.Bus` on Redis. Nothing is connected until it is used. A call that Redis
    does not answer fails within seconds and is not repeated: what may have been published once
    would be published twice."""

    def __init__(
        self, url: str, clock: Clock, *, prefix: str = "vega", limits: BusLimits | None = None
    ) -> None:
        self._url, self._clock = url, clock
        self._prefix, self._limits = quote(prefix, safe=""), limits or BusLimits()
        self._channel = f"{self._prefix}:bells"
        self._bells = Bells(clock)
        self._client = connect(url)
        self._publish = self._client.register_script(_PUBLISH)
        self._look = self._client.register_script(_READ)
        self._looks: dict[tuple[str, int | None, int], asyncio.Task[TopicPage]] = {}
        self._looking: set[asyncio.Task[TopicPage]] = set()
        self._self = secrets.token_hex(8)
        self._to_tell: dict[str, None] = {}
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    async def publish(self, tenant: TenantId, topic: str, body: bytes) -> int | None:
        limits = self._limits
        number = await self._asked(
            self._publish(
                keys=[self._stream(tenant, topic), self._key(tenant, "topics")],
                args=[
                    *(quote(topic, safe=""), body, self._clock.now(), limits.topics),
                    *(limits.history, limits.history_bytes, limits.keep_ms),
                    *(NUMBERS_PER_MS, self._channel, self._message([_place(tenant, topic)])),
                ],
            )
        )
        self._bells.ring(tenant, topic)
        return None if number is None else int(number)

    async def read(
        self, tenant: TenantId, topic: str, after: int | None, *, limit: int = 100
    ) -> TopicPage:
        # All readers of a topic wake at once and stand at the same number: they look together.
        # Whoever comes after a look has begun begins the next one, since what it was woken for
        # may not be seen in this one.
        place = (self._stream(tenant, topic), after, limit)
        look = self._looks.get(place)
        if look is None:
            look = self._looks[place] = asyncio.create_task(self._page(place))
            self._looking.add(look)
            look.add_done_callback(self._looking.discard)
            look.add_done_callback(_hear_out)
        return await asyncio.shield(look)

    async def _page(self, place: tuple[str, int | None, int]) -> TopicPage:
        del self._looks[place]
        stream, after, limit = place
        low = "" if after is None else f"{after}-0"
        entries, newest = await self._asked(
            self._read(lambda: self._look(keys=[stream], args=[low, limit]))
        )
        if after is not None and entries:
            return topic_page([_kept(*entry) for entry in entries], after)
        last = _number(newest) if newest else 0
        if after is None:
            return TopicPage((), last)
        # A cursor beyond the end is of a history that the server has lost.
        is_cut = 0 < last < after
        return TopicPage((), last if is_cut else after, is_cut)

    def ring(self, tenant: TenantId) -> None:
        self._bells.ring(tenant)
        # What waits to be told while Redis is slow is told once.
        self._to_tell[_place(tenant, "")] = None
        self._told.set()
        self._begin()

    def listen(self, tenant: TenantId, topic: str = "") -> AbstractContextManager[Bell]:
        self._begin()
        return self._bells.listen(tenant, topic)

    async def aclose(self) -> None:
        self._is_closed = True
        # Looks too whose readers have gone: one that went on would open a connection anew.
        await cancel_all([*self._tasks, *self._looking])
        await self._client.aclose()

    def _begin(self) -> None:
        """Begin to tell and to hear, once there is a loop to do it in."""
        if not self._tasks and not self._is_closed:
            self._tasks = [asyncio.create_task(work) for work in (self._tell(), self._hear())]

    def _stream(self, tenant: TenantId, topic: str) -> str:
        return self._key(tenant, f"topic:{quote(topic, safe='')}")

    def _key(self, tenant: TenantId, what: str) -> str:
        return f"{self._prefix}:{{{quote(tenant, safe='')}}}:{what}"

    def _message(self, places: Iterable[str]) -> str:
        return "\n".join((self._self, *places))

    async def _read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask for what may be asked twice: the first connection may be one of a server that has
        been restarted since."""
        from redis.exceptions import ConnectionError as GoneError

        try:
            return await call()
        except GoneError:
            return await call()

    async def _asked(self, call: Awaitable[T]) -> T:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            result = await call
        except failures() as error:
            raise BusError(
                f"Redis at {hide_secrets_of_url(self._url)} failed ({error!r}); what was asked "
                "of it may have happened: start it, or check host, port and network"
            ) from error
        # The driver takes a cancellation for one of its own and returns as if nothing had been: a
        # subscriber who has gone would be read for until the server ends.
        if task and task.cancelling() > before:
            raise asyncio.CancelledError
        return result

    # What is told to other servers, and heard from them.

    async def _tell(self) -> None:
        """Publish whom to wake. What cannot be told now is told later, if it is not too much:
        others look by themselves."""
        while not self._is_closed:
            await self._told.wait()
            self._told.clear()
            places, self._to_tell = self._to_tell, {}
            try:
                await self._asked(self._client.publish(self._channel, self._message(places)))
            except BusError:
                await asyncio.sleep(_PAUSE_S)
                if len(places) < _MOST_TO_TELL:
                    self._to_tell.update(places)
                    self._told.set()

    async def _hear(self) -> None:
        """Ring here for what others tell, for as long as there is anybody to tell it."""
        is_told = False
        # Not for ever: the driver may swallow the cancellation that ends this task, as in `_asked`.
        while not self._is_closed:
            ear = self._client.pubsub()
            try:
                await ear.subscribe(self._channel)
                is_told = False
                await self._heed(ear)
            except failures() as error:
                if not is_told:
                    _LOG.warning("the bus hears nothing from other servers for now: %s", error)
                is_told = True
            finally:
                await _close(ear)
            await asyncio.sleep(_PAUSE_S)

    async def _heed(self, ear: _Ear) -> None:
        is_quiet = False
        while not self._is_closed:
            message = await ear.get_message(timeout=_QUIET_S)
            if message is None:
                if is_quiet:
                    raise TimeoutError("it does not answer")
                is_quiet = True
                await ear.ping()
                continue
            is_quiet = False
            if message["type"] == "subscribe":
                self._bells.ring_all()  # for what was told while nobody heard it
            elif message["type"] == "message":
                sender, *places = message["data"].decode().split("\n")
                for place in places if sender != self._self else ():
                    tenant, _, topic = place.partition(" ")
                    self._bells.ring(TenantId(unquote(tenant)), unquote(topic))


def failures() -> tuple[type[Exception], ...]:
    """Return what a call raises when Redis does not answer as it should."""
    from redis.exceptions import RedisError

    return RedisError, OSError, TimeoutError


def connect(url: str) -> RedisClient:
    """Return a client that answers or fails within seconds, and repeats nothing by itself."""
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise SettingsError(
            "a bus on Redis needs its driver; type: pip install 'vegakit[redis]'"
        ) from error
    try:
        make: Callable[..., Any] = BlockingConnectionPool.from_url  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        pool = make(
            url,
            max_connections=_CONNECTIONS,
            timeout=_ANSWER_S,
            socket_timeout=_ANSWER_S,
            socket_connect_timeout=_ANSWER_S,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise SettingsError(
            f"{hide_secrets_of_url(url)} is not the address of a Redis server; write "
            "redis://HOST:PORT/DATABASE"
        ) from error
    client: Any = Redis.from_pool(pool)
    return client


async def _close(ear: _Ear) -> None:
    """Close a connection that may be broken already."""
    with suppress(*failures()):
        await ear.aclose()


def _place(tenant: TenantId, topic: str) -> str:
    return f"{quote(tenant, safe='')} {quote(topic, safe='')}"


def _number(key: bytes) -> int:
    return int(key.partition(b"-")[0])


def _kept(key: bytes, fields: Sequence[bytes]) -> KeptMessage:
    found = dict(zip(fields[::2], fields[1::2], strict=False))
    try:
        return KeptMessage(_number(key), int(found[b"base"]), int(found[b"at"]), found[b"body"])
    except (KeyError, ValueError) as error:
        raise BugError(f"a topic on Redis holds what the bus did not write: {error!r}") from error


def _hear_out(look: asyncio.Task[TopicPage]) -> None:
    """Take note of how a look ended: all who waited for it may have gone."""
    if not look.cancelled():
        look.exception()
