"""The scripted model: it answers from a script, without a network, a key or a wait."""

import asyncio
import re
import tomllib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Finish,
    Media,
    Message,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    Usage,
    UserMessage,
    UserPart,
)
from vegakit.errors import ErrorClass, Phase, UserError, WorldError
from vegakit.money import dollars
from vegakit.ports import Clock
from vegakit.prices import PriceRow, PriceTier
from vegakit.records import to_json

# What a scripted model answers: in turn, by text, by a function, or from a file.
#
# | a reply is            | the model                                                              |
# |-----------------------|------------------------------------------------------------------------|
# | text                  | says it                                                                |
# | a dict, ScriptedReply | says its text or output, makes its calls, then raises its error        |
# | a ModelReply          | answers with exactly it                                                |
# | a WorldError          | raises it                                                              |
# | a function            | answers with what it returns for the request                           |
#
# A file is JSON or TOML with `replies`, a list, or `matches`, a table from text to reply; its
# `latency_ms` is how long each answer takes.


_SHOWN = 200


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A scripted call asks for the tool `name` with `arguments`."""

    name: str
    arguments: Any = {}


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`output` is any JSON, said as text. `usage` not given is counted in words; None is not known.

    An `error` comes after what is said, as when a stream breaks; `phase` not given follows from it.
    `latency_ms` not given is the model's.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    output: Any = UNSET
    usage: Usage | UnsetType | None = UNSET
    finish: Finish | None = None
    error: ErrorClass | None = None
    phase: Phase | None = None
    retry_after_ms: int | None = None
    latency_ms: int | None = None


ParsedReply: TypeAlias = ScriptedReply | ModelReply | WorldError
ReplySpec: TypeAlias = str | Mapping[str, Any] | ParsedReply
ScriptedAnswer: TypeAlias = ReplySpec | Callable[[ModelRequest], ReplySpec]
ReplyChooser: TypeAlias = Callable[[ModelRequest], ScriptedAnswer]
ReplyScript: TypeAlias = (
    str
    | ParsedReply
    | Callable[[ModelRequest], ReplySpec]
    | Sequence[ScriptedAnswer]
    | Mapping[str, ScriptedAnswer | Sequence[ScriptedAnswer]]
)


def make_chooser(script: ReplyScript) -> ReplyChooser:
    """Begins the script from its start; a list keeps its place in what is returned."""
    if not isinstance(script, Mapping):
        return _one_or_many(script)
    by_text = cast("Mapping[str, ScriptedAnswer | Sequence[ScriptedAnswer]]", script)
    return _by_text({text: _one_or_many(replies) for text, replies in by_text.items()})


def _one_or_many(replies: ScriptedAnswer | Sequence[ScriptedAnswer]) -> ReplyChooser:
    if isinstance(replies, Sequence) and not isinstance(replies, str):
        return _in_turn([_checked(reply) for reply in cast("Sequence[ScriptedAnswer]", replies)])
    reply = _checked(replies)
    return lambda _: reply


def _in_turn(replies: Sequence[ScriptedAnswer]) -> ReplyChooser:
    left = iter(replies)

    def choose(request: ModelRequest) -> ScriptedAnswer:
        for reply in left:
            return reply
        raise _no_reply(
            f"the script had {len(replies)} replies and all are used; the request that finds none "
            f"says {_last_text(request)[:_SHOWN]!r}; add a reply, or see why there is one more"
        )

    return choose


def _by_text(choosers: Mapping[str, ReplyChooser]) -> ReplyChooser:
    def choose(request: ModelRequest) -> ScriptedAnswer:
        said = _last_text(request)
        for text, chosen in choosers.items():
            if text in said:
                return chosen(request)
        known = ", ".join(map(repr, choosers)) or "nothing"
        raise _no_reply(
            f"the script has no reply to {said[:_SHOWN]!r}; it knows {known}; "
            "add a text that it contains, or '' for all others"
        )

    return choose


def _no_reply(message: str) -> WorldError:
    """Return what a provider would say that refuses a request: it costs nothing, is not tried
    again, and a run that it failed goes on when the script is corrected."""
    return WorldError(message, ErrorClass.REJECTED, phase=Phase.NOTHING_SENT)


def _last_text(request: ModelRequest) -> str:
    """Of the user: the rounds of tool results that follow a question keep its text."""
    asked = [message for message in request.messages if isinstance(message, UserMessage)]
    parts = asked[-1].parts if asked else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


def _checked(reply: ScriptedAnswer) -> ScriptedAnswer:
    """A misspelled reply shows when the model is made, not when it is asked."""
    return reply if callable(reply) else parse_reply(reply)


def parse_reply(reply: ReplySpec) -> ParsedReply:
    """Turn text, or a mapping of its fields, into a `ScriptedReply`; anything else is a reply
    already. Raises `UserError` for a mapping that is none."""
    if isinstance(reply, str):
        return ScriptedReply(reply)
    if not isinstance(reply, Mapping):
        return reply
    try:
        return msgspec.convert(dict(reply), ScriptedReply)
    except msgspec.ValidationError as error:
        fields = ", ".join(ScriptedReply.__struct_fields__)
        raise UserError(
            f"{reply} is no reply of a script: {error}; a reply is text or has some of {fields}"
        ) from error


class ScriptFile(Struct, forbid_unknown_fields=True):
    """A script as a file holds it; `latency_ms` is how long each answer takes, so that there
    is something to watch and to kill."""

    replies: list[Any] = []
    matches: dict[str, Any] = {}
    latency_ms: int = 0

    def __post_init__(self) -> None:
        if bool(self.replies) == bool(self.matches):
            what = "both `replies` and `matches`" if self.replies else "no reply"
            raise ValueError(f"a script has either `replies` or `matches`, and this has {what}")

    @property
    def script(self) -> ReplyScript:
        """Return what it answers."""
        return self.matches or self.replies


def read_script(path: str | Path) -> ScriptFile:
    """TOML by its name, else JSON."""
    read = tomllib.loads if Path(path).suffix == ".toml" else msgspec.json.decode
    try:
        content = read(Path(path).read_text("utf-8"))
        read_as: list[Any] | ScriptFile = msgspec.convert(content, list[Any] | ScriptFile)
        return read_as if isinstance(read_as, ScriptFile) else ScriptFile(read_as)
    except OSError as error:
        raise UserError(
            f"the script {Path(path).absolute()} cannot be read: {error.strerror}; correct its "
            'name, or write it: a list of replies such as ["Hello"]'
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the script {path} cannot be used: {error}; write a list of replies such as "
            '["Hello"], or a table `matches` from text to reply'
        ) from error


# A model that answers as its script says, without a network, a key or a wait.
#
# Tokens are words: those of a request are its bound and its bill. An answer of more words than
# `max_tokens` is billed as `max_tokens`, as no provider bills more.


_IN, _OUT = dollars(1), dollars(5)
SCRIPTED_PRICE = PriceRow("scripted", (PriceTier(_IN, _OUT, cache_read=_IN, cache_write=_IN),))
_PIECE = re.compile(r"\s*\S+|\s+$")
_MAY_BE_BILLED = {ErrorClass.TIMEOUT, ErrorClass.CONNECTION}


class ScriptedModel:
    """Implements `ports.Model`; `requests` are all that came. Each word is a token: $1 per million
    input tokens, $5 per million output tokens."""

    def __init__(
        self,
        script: ReplyScript,
        name: str = "scripted",
        *,
        price: PriceRow | None = SCRIPTED_PRICE,
        latency_ms: int = 0,
        clock: Clock | None = None,
        context_tokens: int | None = None,
        default_max_tokens: int = 4096,
    ) -> None:
        self.name = name
        self.price = price
        self.context_tokens = context_tokens
        self.default_max_tokens = default_max_tokens
        self.requests: list[ModelRequest] = []
        self._choose = make_chooser(script)
        self._latency_ms = latency_ms
        self._clock = clock

    @classmethod
    def from_file(cls, path: str | Path, **settings: Any) -> "ScriptedModel":  # noqa: ANN401
        """Read the script from a file, TOML by its name, else JSON."""
        read = read_script(path)
        settings.setdefault("latency_ms", read.latency_ms)
        return cls(read.script, **settings)

    def bound_input(self, request: ModelRequest) -> int:
        return sum(len(text.split()) for text in _texts(request))

    async def ask(self, request: ModelRequest) -> ModelReply:
        reply, error = await self._answer(request)
        if error is not None:
            raise error
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        reply, error = await self._answer(request)
        for delta in _deltas(reply.message):
            yield delta
            await asyncio.sleep(0)
        if error is not None:
            raise error
        yield reply

    async def aclose(self) -> None:
        """Nothing is open; every model that is built by name can be closed."""

    async def _answer(self, request: ModelRequest) -> tuple[ModelReply, WorldError | None]:
        """What is said, and what is raised after it."""
        self.requests.append(request)
        answer = self._choose(request)
        fixed = ScriptedReply() if callable(answer) else parse_reply(answer)
        reply_ms = fixed.latency_ms if isinstance(fixed, ScriptedReply) else None
        await self._wait(self._latency_ms if reply_ms is None else reply_ms)
        match parse_reply(answer(request)) if callable(answer) else fixed:
            case WorldError() as error:
                return ModelReply(AssistantMessage(()), None), error
            case ModelReply() as reply:
                return reply, None
            case ScriptedReply() as scripted:
                return self._reply(scripted, request), _error(scripted)

    async def _wait(self, latency_ms: int) -> None:
        if self._clock is None:
            await asyncio.sleep(latency_ms / 1000)
        else:
            await self._clock.wait_until(self._clock.now() + latency_ms)

    def _reply(self, scripted: ScriptedReply, request: ModelRequest) -> ModelReply:
        message = AssistantMessage(tuple(self._parts(scripted)), self.name)
        usage = self._count(message, request) if scripted.usage is UNSET else scripted.usage
        usual = Finish.TOOL_CALLS if scripted.calls else Finish.STOP
        return ModelReply(message, usage, scripted.finish or usual)

    def _parts(self, scripted: ScriptedReply) -> Iterator[AssistantPart]:
        text = scripted.text if scripted.output is UNSET else to_json(scripted.output).decode()
        if text:
            yield Text(text)
        for index, call in enumerate(scripted.calls):
            yield ToolCall(f"call_{len(self.requests)}_{index}", call.name, call.arguments)

    def _count(self, message: AssistantMessage, request: ModelRequest) -> Usage:
        said = sum(len(text.split()) for text in _words_of(message))
        return Usage(self.bound_input(request), min(said, request.settings.max_tokens))


def _error(scripted: ScriptedReply) -> WorldError | None:
    if scripted.error is None:
        return None
    usual = Phase.UNKNOWN if scripted.error in _MAY_BE_BILLED else Phase.ANSWERED
    return WorldError(
        f"{scripted.error}, as scripted",
        scripted.error,
        phase=scripted.phase or usual,
        retry_after_ms=scripted.retry_after_ms,
    )


def _deltas(message: AssistantMessage) -> Iterator[ModelChunk]:
    calls = 0
    for part in message.parts:
        match part:
            case Text(text):
                yield from map(TextDelta, _PIECE.findall(text))
            case Reasoning(text):
                yield from map(ReasoningDelta, _PIECE.findall(text))
            case ToolCall():
                yield ToolCallStarted(part.name, calls)
                calls += 1


def _texts(request: ModelRequest) -> Iterator[str]:
    yield request.system
    for spec in (*request.tools, request.output):
        if spec is not None:
            yield to_json(spec).decode()
    for message in request.messages:
        yield from _words_of(message)


def _words_of(message: Message) -> Iterator[str]:
    if isinstance(message, ToolMessage):
        yield from (result.content for result in message.results)
    else:
        yield from (_words(part) for part in message.parts)


def _words(part: UserPart | AssistantPart) -> str:
    match part:
        case Text(text) | Reasoning(text):
            return text
        case ToolCall():
            return f"{part.name} {to_json(part.arguments).decode()}"
        case Media(media_type):
            return media_type
