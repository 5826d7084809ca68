"""One model of one provider: asks once over one connection, and says what came of it.

Nothing is retried, redirected or sent twice here: each request uses up the admission that the
gate gave it. How far a request had come when it failed decides whether it may be billed:

| phase        | when                                                                 |
|--------------|----------------------------------------------------------------------|
| NOTHING_SENT | no byte of the request was written: no connection, no key, no words  |
| ANSWERED     | the provider answered with an HTTP status of failure                 |
| UNKNOWN      | the rest: dropped, timed out, failed inside a stream, unreadable     |

A content filter is no failure but a reply, except where a provider makes an HTTP status of it.
"""

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from msgspec import structs

from vegakit.config import environment_proxy
from vegakit.conversation import (
    ModelChunk,
    ModelReply,
    ModelRequest,
    OutputSpec,
    ReasoningDelta,
    TextDelta,
    ToolSpec,
    Usage,
)
from vegakit.errors import ErrorClass, Phase, SettingsError, UserError, WorldError
from vegakit.prices import PriceRow
from vegakit.providers.access import (
    ModelName,
    ProviderAccess,
    ServerLimits,
    fixed_fields,
    key_of,
    no_key,
    parse_limits,
    price_of,
    wait_ms,
)
from vegakit.providers.admission import RequestAdmission, use_admission
from vegakit.providers.answer import (
    LARGEST_BODY,
    UNREADABLE_ANSWER,
    BrokenError,
    Deadlines,
    HttpAnswer,
    RequestStage,
    check_no_page,
)
from vegakit.providers.catalog import features_of, saves_by_cache
from vegakit.providers.provider import OutgoingRequest
from vegakit.providers.token_bounds import input_counting
from vegakit.providers.transport import ConnectionPool, bundle_context, proxy_secrets
from vegakit.wires import (
    UNREADABLE,
    AnswerReader,
    AskForm,
    Header,
    ModelFeatures,
    UnfinishedAnswerError,
    Wire,
    WireFailure,
    output_tool,
    with_fields,
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
_THEIRS = 500
_FORBIDDEN = 403
_GIVEN_UP = frozenset({408, 499, 504, 524})
"""Statuses by which a gateway says that it waited no longer: who it asked may have answered."""
_ID = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)
_MAX_BOUNDS = 64
_MOST_TOKENS = 100_000_000
"""Ten times the largest window of any model: no single call has more."""
_LONGEST_TOKEN = 256
"""Letters that one token may stand for: twice the longest of any tokenizer, which is of spaces."""
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
        is_own = name.wire.is_own(access.base_url)
        self.counting = input_counting(name.provider, name.model, is_own=is_own)
        self.tokenizer = self.counting.tokenizer
        self.price: PriceRow | None = price_of(name, access)
        self._whole = AskForm(
            self._features,
            fields=fixed_fields(name, access),
            cache=access.cache and saves_by_cache(self.price),
            elsewhere=not is_own,
        )
        self._streamed = structs.replace(self._whole, stream=True)
        self._headers = _own_headers(self._wire.headers, access.headers)
        self._reach: _Reach | None = None
        self._bounds: list[tuple[_Shared, int]] = []
        self._on_limits: Callable[[ServerLimits], None] | None = None

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
        """Return how long an answer may be if nobody says: longer where thoughts are output too."""
        return max_tokens_if_unsaid(reasons=self._features.reasons)

    def bound_input(self, request: ModelRequest) -> int:
        """Return no fewer tokens than the provider will bill as input."""
        return self._bound_of_shared(request) + self.counting.bound_of_messages(request)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask once, and return the reply."""
        admission = use_admission()
        outgoing, headers, pool = await self._prepare(request, self._whole)
        sent = _Sent(headers, admission)
        timeout_s, deadlines = timeout_of(request), _deadlines(timeout_of(request))
        try:
            async with (
                asyncio.timeout(timeout_s),
                pool.post(
                    outgoing.url, headers, outgoing.body, deadlines, admission.on_write
                ) as got,
            ):
                self._on_head(got, admission)
                body = await _body_of(got)
                check_no_page(body if got.is_success else b"")
        except TimeoutError:
            phase = Phase.NOTHING_SENT if admission.unsent else Phase.UNKNOWN
            text = f"no answer within {timeout_s:g} s"
            raise self._error(ErrorClass.TIMEOUT, text, sent, phase) from None
        except BrokenError as error:
            raise self._broken(error, sent) from None
        except ValueError as error:
            raise self._unsendable(error, sent) from None
        if not got.is_success:
            raise self._refused(got, body, sent)
        decode = partial(self._wire.decode, body, output_tool(request, self._features))
        return self._reply(decode, sent)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Ask once, and yield the answer piece by piece, the whole reply last."""
        admission = use_admission()
        outgoing, headers, pool = await self._prepare(request, self._streamed)
        sent = _Sent(headers, admission)
        deadlines = _deadlines(timeout_of(request))
        carrier = output_tool(request, self._features)
        reader = self._wire.reader(carrier)
        plain = _PlainBody(is_possible=not self._wire.streams_objects)
        try:
            async with pool.post(
                outgoing.url, headers, outgoing.body, deadlines, admission.on_write
            ) as got:
                self._on_head(got, admission)
                if not got.is_success:
                    raise self._refused(got, await _body_of(got), sent)
                most = request.settings.max_tokens
                async with aclosing(self._heard(got, reader, plain, sent, most)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                if plain.body:
                    decode = partial(self._wire.decode, bytes(plain.body), carrier)
                    for chunk in _told_whole(self._reply(decode, sent)):
                        yield chunk
                    return
                if reader.ended:
                    # The provider has said all: nobody need wait for the connection to end. But it
                    # is used again only if its body is read, and whoever has the reply may leave.
                    if not got.whole:
                        await _read_rest(got)
                    yield self._reply(reader.reply, sent)
                    return
        except BrokenError as error:
            raise self._broken(error, sent) from None
        except ValueError as error:
            raise self._unsendable(error, sent) from None
        raise self._error(ErrorClass.CONNECTION, "its stream ended before its answer", sent)

    def subscribe_limits(self, listener: Callable[[ServerLimits], None]) -> None:
        """Tell the listener what the provider says of its limits, as soon as an answer begins, good
        or bad."""
        self._on_limits = listener

    async def aclose(self) -> None:
        """Let go of its connections; it may be asked again."""
        if self._reach is not None:
            self._reach.pool.close()

    async def _heard(
        self,
        got: HttpAnswer,
        reader: AnswerReader,
        plain: "_PlainBody",
        sent: "_Sent",
        max_tokens: int,
    ) -> AsyncGenerator[ModelChunk]:
        """Yield what the pieces of a stream complete, and its end. Not all servers keep to the
        length they are told: whoever leaves closes the connection, so that the answer ends. The
        bytes are bounded too: the arguments of a call have no letters that are counted."""
        letters_left = max_tokens * _LONGEST_TOKEN
        bytes_left = LARGEST_BODY + max_tokens * 1_000
        async with aclosing(_until_end(got, reader, not self._wire.ends_with_body)) as pieces:
            async for piece in pieces:
                if not plain.takes(piece):
                    for chunk in self._read(reader, piece, sent):
                        if isinstance(chunk, TextDelta | ReasoningDelta):
                            letters_left -= len(chunk.text)
                        yield chunk
                bytes_left -= len(piece)
                if min(letters_left, bytes_left) < 0:
                    raise self._error(
                        ErrorClass.SERVER,
                        f"its answer is longer than max_tokens ({max_tokens}) allows, and was cut "
                        "off; this server seems to know no limit, so set one where it is started",
                        sent,
                    )
        for chunk in self._read_end(reader, got, sent):
            yield chunk

    def _read(self, reader: AnswerReader, piece: bytes, sent: "_Sent") -> list[ModelChunk]:
        try:
            chunks = reader.feed(piece)
        except UNREADABLE:
            raise self._unreadable(sent) from None
        if reader.failure:
            raise self._failed(reader.failure, Phase.UNKNOWN, sent)
        return chunks

    def _read_end(self, reader: AnswerReader, got: HttpAnswer, sent: "_Sent") -> list[ModelChunk]:
        """Take what the end of a body completes, if it came whole. What is left of an answer that
        was broken off is no event."""
        if not got.whole or (reader.ended and not self._wire.ends_with_body):
            return []
        try:
            chunks = reader.close()
        except UNREADABLE:
            return []
        if reader.failure and not reader.ended:
            raise self._failed(reader.failure, Phase.UNKNOWN, sent)
        return chunks

    def _reply(self, decode: Callable[[], ModelReply], sent: "_Sent") -> ModelReply:
        try:
            return self._named(decode())
        except UnfinishedAnswerError as error:
            if sent.admission is not None:
                sent.admission.usage = _believed(error.usage)
            raise self._error(error.error_class, str(error), sent) from None
        except WorldError as error:
            # A codec knows neither the model's name nor what must not be shown.
            raise self._error(error.error_class, str(error), sent) from None
        except UNREADABLE:
            raise self._unreadable(sent) from None

    def _named(self, reply: ModelReply) -> ModelReply:
        """Some formats do not say which model answered. Counts that cannot be are none: the answer
        is charged as reserved. So is an answer whose words nobody counted."""
        usage = _believed(reply.usage)
        if usage and not usage.output_tokens and reply.message.parts:
            usage = None
        if usage is not reply.usage:
            reply = structs.replace(reply, usage=usage)
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
            asked = structs.replace(request, model=self._name.model)
            body = self._wire.encode(asked, self._with_effort(asked, form))
        except (UserError, UnicodeError) as error:
            # What this format cannot say is found only now: nothing was sent, so nothing is due.
            raise self._error(
                ErrorClass.REJECTED, str(error), _NOTHING, Phase.NOTHING_SENT
            ) from None
        try:
            if self._reach is None:
                self._reach = _reach(self._name, self._access)
        except SettingsError as error:
            raise self._error(
                ErrorClass.REJECTED, str(error), _NOTHING, Phase.NOTHING_SENT
            ) from None
        url = self._reach.base_url + self._wire.target(self._name.model, form.stream)
        outgoing = OutgoingRequest(url, body)
        key = await key_of(self._name, self._access)
        try:
            signed = self._name.wire.authorize(key, outgoing)
            if inspect.isawaitable(signed):
                signed = await signed
        except SettingsError as error:
            raise no_key(str(error)) from error
        except UnicodeError:
            variable = self._name.provider.key_variable
            raise no_key(f"the key of {self._name} is none; check {variable}") from None
        given = {name for name, _ in self._headers}
        proof = (header for header in signed if header[0] not in given)
        return outgoing, (*self._headers, *proof), self._reach.pool

    def _with_effort(self, request: ModelRequest, form: AskForm) -> AskForm:
        """A model that is told to reason takes no temperature, which most refuse then."""
        effort = request.settings.effort
        if effort is None:
            return form
        if form.features.effort is None:
            raise UserError(
                f"effort is {effort}, and {self._name.model} cannot be told how much to reason; "
                "leave effort out, or take a model that reasons"
            )
        told = self._wire.effort(request, effort, form.features)
        features = structs.replace(form.features, reasons=True, temperature=False)
        return structs.replace(form, features=features, fields=with_fields({**told}, form.fields))

    def _bound_of_shared(self, request: ModelRequest) -> int:
        """The part that the requests of one agent have in common is bounded once. Agents are few
        and ask often, so a short list is quicker than any digest."""
        shared = (request.system, request.tools, request.output)
        for known, bound in self._bounds:
            if known == shared:
                return bound
        bound = self.counting.bound_of_text(request.system) + self._bound_of_shapes(request)
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
        return self.counting.bound_of_shapes(with_shapes - without, count)

    def _on_head(self, answer: HttpAnswer, admission: RequestAdmission) -> None:
        admission.request_id = _shown_id(answer.headers.get(self._wire.request_id, ""))
        if self._on_limits and (limits := parse_limits(answer.headers)):
            self._on_limits(limits)

    # What went wrong, in one form of words.

    def _refused(self, answer: HttpAnswer, body: bytes, sent: "_Sent") -> WorldError:
        if 300 <= answer.status < 400:
            failure = WireFailure(
                ErrorClass.REJECTED,
                f"it answered with a redirect (status {answer.status}), which is not followed; "
                "check the provider's base_url",
            )
        else:
            failure = self._wire.failure(answer.status, body)
        if answer.status >= _THEIRS:  # by its number their status page and other people name it
            said = failure.message or "it gave no reason"
            failure = WireFailure(failure.kind, f"HTTP {answer.status}: {said}")
        phase = Phase.UNKNOWN if answer.status in _GIVEN_UP else Phase.ANSWERED
        if answer.status == _FORBIDDEN and failure.message:
            # It is seldom about the key: a model or a project may not be used.
            return self._error(failure.kind, failure.message, sent, phase)
        return self._failed(failure, phase, sent, wait_ms(answer.headers))

    def _failed(
        self,
        failure: WireFailure,
        phase: Phase,
        sent: "_Sent",
        retry_after_ms: int | None = None,
    ) -> WorldError:
        """The provider's own words, except about a key, which it may quote."""
        text = failure.message or "it gave no reason"
        if failure.kind is ErrorClass.AUTH:
            text = f"the key was not accepted; check {self._name.provider.key_variable}"
        return self._error(failure.kind, text, sent, phase, retry_after_ms)

    def _broken(self, error: BrokenError, sent: "_Sent") -> WorldError:
        kind = ErrorClass.TIMEOUT if error.timed_out else ErrorClass.CONNECTION
        phase = Phase.UNKNOWN if error.sent else Phase.NOTHING_SENT
        return self._error(kind, str(error), sent, phase)

    def _unsendable(self, error: Exception, sent: "_Sent") -> WorldError:
        """The codec, the settings or the transport refused before anything was sent."""
        return self._error(ErrorClass.REJECTED, str(error), sent, Phase.NOTHING_SENT)

    def _unreadable(self, sent: "_Sent") -> WorldError:
        return self._error(ErrorClass.SERVER, UNREADABLE_ANSWER, sent)

    def _error(
        self,
        kind: ErrorClass,
        text: str,
        sent: "_Sent",
        phase: Phase = Phase.UNKNOWN,
        retry_after_ms: int | None = None,
    ) -> WorldError:
        request = f" (request {sent.request_id})" if sent.request_id else ""
        return WorldError(
            f"{self._name} failed ({kind}): {self._redacted(text, sent)}{request}{kind.next_step}",
            kind,
            phase=phase,
            retry_after_ms=retry_after_ms,
        )

    def _redacted(self, text: str, sent: "_Sent") -> str:
        """Strike out what was sent in headers of this call, should the provider repeat it: the key,
        which may stand behind the word Bearer, and the headers of the settings."""
        for secret in self._reach.secrets if self._reach else ():
            text = text.replace(secret, "…")
        ours = set(_COMMON_HEADERS.values()) | {v for _, v in self._wire.headers}
        for _, value in sent.headers:
            if value in ours:
                continue
            whole = value.decode("latin-1")
            for secret in filter(None, (whole, whole.rpartition(" ")[2])):
                text = text.replace(secret, "…")
        return text[:_SHOWN]


def _believed(usage: Usage | None) -> Usage | None:
    """Return what may be billed by; None for counts that cannot be."""
    if usage is None or not all(0 <= n <= _MOST_TOKENS for n in structs.astuple(usage)):
        return None
    return usage


class _Sent(NamedTuple):
    """A call as far as an error needs it: what must not be shown of it, and by which name its
    provider knows it."""

    headers: tuple[Header, ...]
    admission: RequestAdmission | None = None

    @property
    def request_id(self) -> str:
        return self.admission.request_id if self.admission else ""


_NOTHING = _Sent(())


def _shown_id(text: str) -> str:
    """What a stranger wrote is shown only if it looks like a name."""
    return text if _ID.fullmatch(text) else ""


class _Reach(NamedTuple):
    """The way to a provider. `secrets` are what a proxy is told, which it may repeat."""

    base_url: str
    pool: ConnectionPool
    secrets: tuple[str, ...]


def _reach(name: ModelName, access: ProviderAccess) -> _Reach:
    base_url = name.wire.address(access.base_url)
    proxy = access.proxy or environment_proxy(base_url)
    tls = None if access.ca_bundle is None else bundle_context(access.ca_bundle)
    try:
        pool = ConnectionPool(proxy=proxy, tls=tls)
    except ValueError as error:
        raise SettingsError(f"the proxy of a provider cannot be used: {error}") from None
    return _Reach(base_url, pool, proxy_secrets(proxy) if proxy else ())


def _features_of(name: ModelName) -> ModelFeatures:
    known, model = name.provider, name.model
    beside, maps = re.match(known.no_json_beside_tools, model) is None, not known.closes_json
    return structs.replace(features_of(known.name, model), json_beside_tools=beside, json_maps=maps)


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


class _PlainBody:
    """A body that is one object though a stream was asked for: an error from before the stream, or
    the answer of a server that does not stream."""

    __slots__ = ("_is_first", "_is_possible", "body")

    def __init__(self, *, is_possible: bool) -> None:
        self._is_possible, self._is_first = is_possible, True
        self.body = bytearray()

    def takes(self, piece: bytes) -> bool:
        """Take a piece of such a body; return false for a piece of a stream."""
        check_no_page(piece if self._is_first else b"")
        self._is_first = False
        if not self.body and not (self._is_possible and piece.lstrip()[:1] == b"{"):
            self._is_possible = False
            return False
        self.body += piece
        if len(self.body) > LARGEST_BODY:
            raise BrokenError(RequestStage.BETWEEN, "the body of the answer is too long")
        return True


def _told_whole(reply: ModelReply) -> Iterator[ModelChunk]:
    """Yield an answer that came in one, as a stream tells it."""
    if reply.message.text:
        yield TextDelta(reply.message.text)
    yield reply


async def _read_rest(answer: HttpAnswer) -> None:
    """Read what is left of a body whose answer is whole, so that its connection can be used again;
    if it does not come at once, the connection is given up."""
    try:
        async with asyncio.timeout(_REST_OF_STREAM_S):
            await answer.read()
    except (TimeoutError, BrokenError):
        return
