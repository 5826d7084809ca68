"""One model of one provider: asks once over one connection, and says what came of it.

Nothing is retried, redirected or sent twice here: each request uses up the admission that the
gate gave it. How far a request had come when it failed decides whether it may be billed:

| phase        | when                                                                 |
|--------------|----------------------------------------------------------------------|
| NOTHING_SENT | no connection was had, or the request could not even be written      |
| ANSWERED     | the provider answered with an HTTP status of failure                 |
| UNKNOWN      | the rest: dropped, timed out, failed inside a stream, unreadable     |

A content filter is no failure but a reply, except where a provider makes an HTTP status of it.
"""

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NamedTuple

from msgspec import structs

from vegakit.config import environment_proxy
from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, OutputSpec, ToolSpec
from vegakit.errors import ErrorClass, Phase, SettingsError, UserError, WorldError
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers.access import (
    ModelName,
    ProviderAccess,
    ServerLimits,
    parse_limits,
)
from vegakit.providers.admission import use_admission
from vegakit.providers.catalog import features_of, listed_price
from vegakit.providers.provider import OutgoingRequest
from vegakit.providers.token_bounds import bound_of_messages, bound_of_shapes, bound_of_text
from vegakit.providers.transport import (
    BrokenError,
    ConnectionPool,
    Deadlines,
    HttpAnswer,
    proxy_secrets,
)
from vegakit.wires import (
    UNREADABLE,
    AnswerReader,
    AskForm,
    Header,
    ModelFeatures,
    Wire,
    WireFailure,
    output_tool,
)

_MAX_TOKENS = 4_096
_MAX_TOKENS_WITH_REASONING = 16_000
_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 30.0
"""Long enough for a loop that opens a thousand connections at once."""
_CONNECT_SHARE = 0.95
"""Of a short timeout: connecting ends before the whole call does, so that it is told that nothing
was sent."""
_REST_OF_STREAM_S = 0.05
"""How long the end of an HTTP body is waited for once the answer in it is whole. That is seldom:
providers send it with the last event."""
_LONGEST_WAIT_MS = 1e12
_FORBIDDEN = 403
_GIVEN_UP = frozenset({408, 499, 504, 524})
"""Statuses by which a gateway says that it waited no longer: who it asked may have answered."""
_MAX_BOUNDS = 64
_SHOWN = 300

_COMMON_HEADERS = {
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
    b"accept-encoding": b"identity",
    b"user-agent": b"vegakit",
}

_Shared = tuple[str, tuple[ToolSpec, ...], OutputSpec | None]


class ProviderModel:
    """Implements `ports.Model`. `timeout_ms` bounds a whole answer, in a stream each wait for more;
    without one it is ten minutes."""

    def __init__(self, name: ModelName, wire: Wire, access: ProviderAccess) -> None:
        self._name = name
        self._access = access
        self._wire = wire
        self._features = _features_of(name)
        fields = fixed_fields(name, access)
        self._whole = AskForm(self._features, stream=False, fields=fields)
        self._streamed = AskForm(self._features, stream=True, fields=fields)
        self._headers = _own_headers(self._wire.headers, access.headers)
        self._reach: _Reach | None = None
        self._bounds: list[tuple[_Shared, int]] = []
        self._on_limits: Callable[[ServerLimits], None] | None = None
        self.price: PriceRow | None = price_of(name, access)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """Return the name with the wire format before it."""
        return str(self._name)

    @property
    def context_tokens(self) -> int | None:
        """Return the size of the model's window; None if nobody knows it."""
        return self._features.context_tokens

    @property
    def default_max_tokens(self) -> int:
        """Return how long an answer may be if nobody says: longer for a model that reasons, whose
        thoughts are output too."""
        return max_tokens_if_unsaid(reasons=self._features.reasons)

    def bound_input(self, request: ModelRequest) -> int:
        """Return no fewer tokens than the provider will bill as input."""
        messages_bound = bound_of_messages(self._name.provider, self._name.model, request)
        return self._bound_of_shared(request) + messages_bound

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask once, and return the reply."""
        outgoing, headers, pool = await self._prepare(request, self._whole)
        timeout_s = timeout_of(request)
        use_admission()
        try:
            async with (
                asyncio.timeout(timeout_s),
                pool.post(outgoing.url, headers, outgoing.body, _deadlines(timeout_s)) as got,
            ):
                self._on_head(got)
                body = await _body_of(got)
        except TimeoutError:
            raise self._error(
                ErrorClass.TIMEOUT, f"no answer within {timeout_s:g} s", headers
            ) from None
        except BrokenError as error:
            raise self._broken(error, headers) from None
        except ValueError as error:
            raise self._unsendable(error, headers) from None
        if not got.is_success:
            raise self._refused(got, body, headers)
        decode = partial(self._wire.decode, body, output_tool(request, self._features))
        return self._reply(decode, headers)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Ask once, and yield the answer piece by piece, the whole reply last."""
        outgoing, headers, pool = await self._prepare(request, self._streamed)
        timeout_s = timeout_of(request)
        reader = self._wire.reader(output_tool(request, self._features))
        use_admission()
        try:
            async with pool.post(
                outgoing.url, headers, outgoing.body, _deadlines(timeout_s)
            ) as got:
                self._on_head(got)
                if not got.is_success:
                    raise self._refused(got, await _body_of(got), headers)
                ends_itself = not self._wire.ends_with_body
                async with aclosing(_until_end(got, reader, ends_itself)) as pieces:
                    async for piece in pieces:
                        for chunk in self._read(reader, piece, headers):
                            yield chunk
                if reader.ended:
                    # The provider has said all: nobody need wait for the connection to end. But it
                    # is used again only if its body is read, and whoever has the reply may leave.
                    if not got.whole:
                        await _read_rest(got)
                    yield self._reply(reader.reply, headers)
                    return
        except BrokenError as error:
            raise self._broken(error, headers) from None
        except ValueError as error:
            raise self._unsendable(error, headers) from None
        raise self._error(ErrorClass.CONNECTION, "its stream ended before its answer", headers)

    def subscribe_limits(self, listener: Callable[[ServerLimits], None]) -> None:
        """Tell the listener what the provider says of its limits, as soon as an answer begins, good
        or bad."""
        self._on_limits = listener

    async def aclose(self) -> None:
        """Let go of its connections; it may be asked again."""
        if self._reach is not None:
            self._reach.pool.close()

    def _read(
        self, reader: AnswerReader, piece: bytes, sent: tuple[Header, ...]
    ) -> list[ModelChunk]:
        try:
            chunks = reader.feed(piece)
        except UNREADABLE as error:
            raise self._unreadable(error, sent) from None
        if reader.failure:
            raise self._failed(reader.failure, Phase.UNKNOWN, sent)
        return chunks

    def _reply(self, decode: Callable[[], ModelReply], sent: tuple[Header, ...]) -> ModelReply:
        try:
            return self._named(decode())
        except WorldError as error:
            # A codec knows neither the model's name nor what must not be shown.
            raise self._error(error.error_class, str(error), sent) from None
        except UNREADABLE as error:
            raise self._unreadable(error, sent) from None

    def _named(self, reply: ModelReply) -> ModelReply:
        """Some formats do not say which model answered."""
        if reply.message.model:
            return reply
        message = structs.replace(reply.message, model=self._name.model)
        return structs.replace(reply, message=message)

    async def _prepare(
        self, request: ModelRequest, form: AskForm
    ) -> tuple[OutgoingRequest, tuple[Header, ...], ConnectionPool]:
        """Return the request as it is sent, its headers with the key in them, and the way there.
        Whatever is wrong here is wrong before anything is sent."""
        try:
            body = self._wire.encode(structs.replace(request, model=self._name.model), form)
        except (UserError, UnicodeError) as error:
            # What this format cannot say is found only now: nothing was sent, so nothing is due.
            raise self._error(ErrorClass.REJECTED, str(error), (), Phase.NOTHING_SENT) from None
        try:
            if self._reach is None:
                self._reach = _reach(self._name, self._access)
        except SettingsError as error:
            raise self._error(ErrorClass.REJECTED, str(error), (), Phase.NOTHING_SENT) from None
        url = self._reach.base_url + self._wire.target(self._name.model, form.stream)
        outgoing = OutgoingRequest(url, body)
        key = await key_of(self._name, self._access)
        try:
            signed = self._name.wire.authorize(key, outgoing)
            if inspect.isawaitable(signed):
                signed = await signed
        except SettingsError as error:
            raise _no_key(str(error)) from error
        except UnicodeError:
            variable = self._name.provider.key_variable
            raise _no_key(f"the key of {self._name} is none; check {variable}") from None
        given = {name for name, _ in self._headers}
        proof = (header for header in signed if header[0] not in given)
        return outgoing, (*self._headers, *proof), self._reach.pool

    def _bound_of_shared(self, request: ModelRequest) -> int:
        """The part that the requests of one agent have in common is bounded once. Agents are few
        and ask often, so a short list is quicker than any digest."""
        shared = (request.system, request.tools, request.output)
        for known, bound in self._bounds:
            if known == shared:
                return bound
        bound = bound_of_text(self._name.provider, request.system) + self._bound_of_shapes(request)
        self._bounds = [(shared, bound), *self._bounds[: _MAX_BOUNDS - 1]]
        return bound

    def _bound_of_shapes(self, request: ModelRequest) -> int:
        """By what the codec makes of them, since that is what is billed."""
        count = len(request.tools) + (request.output is not None)
        if not count:
            return 0
        shaped = structs.replace(request, messages=(), system="")
        bare = structs.replace(shaped, tools=(), output=None)
        with_shapes, without = (len(self._wire.encode(r, self._whole)) for r in (shaped, bare))
        return bound_of_shapes(self._name.provider, with_shapes - without, count)

    def _on_head(self, answer: HttpAnswer) -> None:
        if self._on_limits and (limits := parse_limits(answer.headers)):
            self._on_limits(limits)

    # What went wrong, in one form of words.

    def _refused(self, answer: HttpAnswer, body: bytes, sent: tuple[Header, ...]) -> WorldError:
        if 300 <= answer.status < 400:
            failure = WireFailure(
                ErrorClass.REJECTED,
                f"it answered with a redirect (status {answer.status}), which is not followed; "
                "check the provider's base_url",
            )
        else:
            failure = self._wire.failure(answer.status, body)
        phase = Phase.UNKNOWN if answer.status in _GIVEN_UP else Phase.ANSWERED
        if answer.status == _FORBIDDEN and failure.message:
            # It is seldom about the key: a model or a project may not be used.
            return self._error(failure.kind, failure.message, sent, phase)
        return self._failed(failure, phase, sent, wait_ms(answer.headers))

    def _failed(
        self,
        failure: WireFailure,
        phase: Phase,
        sent: tuple[Header, ...],
        retry_after_ms: int | None = None,
    ) -> WorldError:
        """The provider's own words, except about a key, which it may quote."""
        text = failure.message or "it gave no reason"
        if failure.kind is ErrorClass.AUTH:
            text = f"the key was not accepted; check {self._name.provider.key_variable}"
        return self._error(failure.kind, text, sent, phase, retry_after_ms)

    def _broken(self, error: BrokenError, sent: tuple[Header, ...]) -> WorldError:
        kind = ErrorClass.TIMEOUT if error.timed_out else ErrorClass.CONNECTION
        phase = Phase.UNKNOWN if error.sent else Phase.NOTHING_SENT
        return self._error(kind, str(error), sent, phase)

    def _unsendable(self, error: ValueError, sent: tuple[Header, ...]) -> WorldError:
        """The transport refused the URL or a header before anything was sent."""
        return self._error(ErrorClass.REJECTED, str(error), sent, Phase.NOTHING_SENT)

    def _unreadable(self, error: Exception, sent: tuple[Header, ...]) -> WorldError:
        text = f"its answer could not be read ({type(error).__name__})"
        return self._error(ErrorClass.SERVER, text, sent)

    def _error(
        self,
        kind: ErrorClass,
        text: str,
        sent: tuple[Header, ...],
        phase: Phase = Phase.UNKNOWN,
        retry_after_ms: int | None = None,
    ) -> WorldError:
        return WorldError(
            f"{self._name} failed ({kind}): {self._redacted(text, sent)}",
            kind,
            phase=phase,
            retry_after_ms=retry_after_ms,
        )

    def _redacted(self, text: str, sent: tuple[Header, ...]) -> str:
        """Strike out what was sent in headers of this call, should the provider repeat it: the key,
        which may stand behind the word Bearer, and the headers of the settings."""
        for secret in self._reach.secrets if self._reach else ():
            text = text.replace(secret, "…")
        ours = set(_COMMON_HEADERS.values()) | {v for _, v in self._wire.headers}
        for _, value in sent:
            if value in ours:
                continue
            whole = value.decode("latin-1")
            for secret in filter(None, (whole, whole.rpartition(" ")[2])):
                text = text.replace(secret, "…")
        return text[:_SHOWN]


def fixed_fields(name: ModelName, access: ProviderAccess) -> Mapping[str, object]:
    """Return what every request is sent with. Other servers that speak a provider's format need not
    know all of its words."""
    own_address = access.base_url is None
    return {**(name.wire.own_fields if own_address else {}), **name.wire.fields}


async def key_of(name: ModelName, access: ProviderAccess) -> str:
    """Read the key of a call. A call without one fails before anything is sent."""
    try:
        key = access.key()
        if inspect.isawaitable(key):
            key = await key
    except SettingsError as error:
        if name.provider.keyless:
            return ""
        raise _no_key(str(error)) from error
    except Exception as error:  # noqa: BLE001
        # The user's own function; its words may hold the key.
        raise _no_key(f"reading the key of {name} raised {type(error).__name__}") from None
    if not key and not name.provider.keyless:
        raise _no_key(f"{name} needs a key; set {name.provider.key_variable} in your shell")
    return key


def price_of(name: ModelName, access: ProviderAccess) -> PriceRow | None:
    """Return the price of a model: the user's own, the listed one, or none at all. On this machine
    a model costs nothing."""
    listed = access.price or listed_price(name.provider.name, name.model)
    if listed is None and name.provider.free_at_home and access.base_url is None:
        return PriceRow(str(name), (PriceTier(*[Money(0)] * 4),))
    return listed


def wait_ms(headers: Mapping[str, str]) -> int | None:
    """Return how long the provider asks to wait: in milliseconds, in seconds, or until a time,
    which is held against the answer's own Date."""
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1_000)):
        try:
            wait = float(headers[name]) * factor
        except (KeyError, ValueError):
            continue
        return max(0, round(wait)) if abs(wait) < _LONGEST_WAIT_MS else None
    try:
        until = parsedate_to_datetime(headers["retry-after"])
        wait_s = (until - parsedate_to_datetime(headers["date"])).total_seconds()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return max(0, round(wait_s * 1_000))


class _Reach(NamedTuple):
    """The way to a provider. `secrets` are what a proxy is told, which it may repeat."""

    base_url: str
    pool: ConnectionPool
    secrets: tuple[str, ...]


def _reach(name: ModelName, access: ProviderAccess) -> _Reach:
    base_url = name.wire.address(access.base_url)
    proxy = access.proxy or environment_proxy(base_url)
    try:
        pool = ConnectionPool(proxy=proxy)
    except ValueError as error:
        raise SettingsError(f"the proxy of a provider cannot be used: {error}") from None
    return _Reach(base_url, pool, proxy_secrets(proxy) if proxy else ())


def _features_of(name: ModelName) -> ModelFeatures:
    features = features_of(name.provider.name, name.model)
    beside_tools = re.match(name.provider.no_json_beside_tools, name.model) is None
    return structs.replace(features, json_beside_tools=beside_tools)


def _own_headers(wire: tuple[Header, ...], settings: Mapping[str, str]) -> tuple[Header, ...]:
    """A header of the settings goes before one of ours with the same name."""
    try:
        given = {n.lower().encode("latin-1"): v.encode("latin-1") for n, v in settings.items()}
    except UnicodeError:
        raise SettingsError("a header of a provider holds characters that no header can") from None
    return tuple({**_COMMON_HEADERS, **dict(wire), **given}.items())


def max_tokens_if_unsaid(*, reasons: bool) -> int:
    """Return how long an answer may be if nobody says: what a model thinks is output too."""
    return _MAX_TOKENS_WITH_REASONING if reasons else _MAX_TOKENS


def timeout_of(request: ModelRequest) -> float:
    """Return how long an answer is waited for, in seconds."""
    timeout_ms = request.settings.timeout_ms
    return _TIMEOUT_S if timeout_ms is None else timeout_ms / 1_000


def _deadlines(timeout_s: float) -> Deadlines:
    connect_s = min(timeout_s * _CONNECT_SHARE, _CONNECT_TIMEOUT_S)
    return Deadlines(connect_s, timeout_s, timeout_s, timeout_s)


async def _body_of(answer: HttpAnswer) -> bytes:
    """A refusal counts by its status, even if its words cannot be read."""
    try:
        return await answer.read()
    except BrokenError:
        if answer.is_success:
            raise
        return b""


async def _until_end(
    answer: HttpAnswer, reader: AnswerReader, ends_itself: bool
) -> AsyncGenerator[bytes]:
    """Yield the pieces of a stream up to its end. What breaks after the end takes nothing away."""
    try:
        async with aclosing(answer.pieces(ends_itself=ends_itself)) as pieces:
            async for piece in pieces:
                yield piece
                if reader.ended and ends_itself:
                    return
    except BrokenError:
        if not reader.ended:
            raise


async def _read_rest(answer: HttpAnswer) -> None:
    """Read what is left of a body whose answer is whole, so that its connection can be used again;
    if it does not come at once, the connection is given up."""
    try:
        async with asyncio.timeout(_REST_OF_STREAM_S):
            await answer.read()
    except (TimeoutError, BrokenError):
        return


def _no_key(message: str) -> WorldError:
    return WorldError(message, ErrorClass.AUTH, phase=Phase.NOTHING_SENT)
