"""Agents for a web application: an ASGI router to be mounted, with a budget for each user.

    app.mount("/agents", vega_router({"assistant": assistant}, rt, identify=user_of))

| request        | response                                                                       |
|----------------|--------------------------------------------------------------------------------|
| `POST /NAME`   | the answer as JSON; as server-sent events, in the words of AG-UI, for who      |
|                | accepts `text/event-stream` or says `"stream": true`                           |
| `GET /health`  | 200 and the names of the agents while the runtime is open, else 503            |
| `GET /metrics` | what the runtime counted, as Prometheus reads it; `identify` must know who asks |

A body has a `prompt`, or `messages` of which the last is the user's, as AG-UI sends them. A refusal
has a status, a code and a sentence: 402 if the user's budget does not hold another call, 429 if too
many are in flight. A request from a page of another site is refused: 403 for its `Origin`, 421 for
a `Host` that is not yours, by which such a page reaches your machine (DNS rebinding). When a client
is gone its run is cancelled: the connection to the model is closed, and what cannot be known to be
free is charged.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import aclosing, contextmanager
from inspect import isawaitable
from secrets import token_hex
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct, ValidationError, field, json as msgspec_json, to_builtins

from vegakit.control import MessageRole, OperationError, RefusalCode
from vegakit.conversation import AssistantMessage, Message, Text, UserMessage
from vegakit.errors import (
    BudgetExceeded,
    CircuitOpen,
    RateLimited,
    Timeout,
    UserError,
    VegaError,
    did_you_mean,
)
from vegakit.host import Agent, Reply, StreamEvent, TextChunk, ToolCalled, ToolReturned, TurnEnded
from vegakit.money import Dollars
from vegakit.sdk import Runtime
from vegakit.server.admission import end_task
from vegakit.server.asgi import (
    STATUS,
    AsgiApp,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    ClientGoneError,
    EventStream,
    header,
    is_loopback,
    misaddressed,
    path_of,
    read_json_body,
    send_json,
    send_refusal,
    until_gone,
)

_LOG = logging.getLogger("vegakit")

Identify: TypeAlias = Callable[[AsgiScope], "Awaitable[str | None] | str | None"]
"""Says which user a request is of; None refuses it."""

_RESERVED = ("health", "metrics")
_QUIET_S = 15.0
_PORT = re.compile(r":[0-9]*$")
_NOT_MEANT = (
    "this request names another host, or is from a page of another site; if both are yours, write "
    'vega_router(…, hosts=["app.example.com"])'
)
_ANYBODY = "anybody"


class RouterLimits(Struct, frozen=True):
    """Bounds what a router takes on, of all users and of one."""

    body_bytes: int = 1 << 20
    runs: int = 256
    user_runs: int = 8
    run_s: float = 600


def vega_router(
    agents: Mapping[str, Agent[Any]],
    runtime: Runtime,
    *,
    identify: Identify | None = None,
    user_budget: str | float | None = None,
    limits: RouterLimits | None = None,
    hosts: Collection[str] = (),
) -> AsgiApp:
    """Return an ASGI application that serves agents by their names. Open the runtime in the
    lifespan of your application: `async with rt: yield`.

    Args:
        agents: The agents by the names that clients call them by.
        runtime: The runtime that runs them.
        identify: Says whose request it is. Without it all are one user.
        user_budget: What each user may spend, as in "$1/day", on the ledger of the runtime.
        limits: Bounds what the router takes on.
        hosts: The hosts of your application as browsers name them, with a port that is not the
            usual one, and those of its pages. Without them a page must be of the host that it
            calls, and without `identify` that is an address of this machine.
    """
    for name in agents:
        if name in _RESERVED or quote(name, safe="") != name:
            raise UserError(
                f"an agent cannot be served as {name!r}; write another name than "
                f"{' and '.join(_RESERVED)}, of letters, digits, '_' and '-'"
            )
    limits = limits or RouterLimits()
    return _Router(dict(agents), runtime, identify, user_budget, limits, hosts=hosts)


class UiMessage(Struct, frozen=True):
    """A message as a front end sends it."""

    role: str
    content: str = ""


class AgentCall(Struct, frozen=True, rename="camel"):
    """The body of a call. `thread_id` and `run_id` are told again; tools and state of the front end
    are not used."""

    prompt: str = ""
    messages: tuple[UiMessage, ...] = ()
    stream: bool = False
    thread_id: str = ""
    run_id: str = field(default_factory=lambda: token_hex(8))
    tools: tuple[Any, ...] = ()

    def said(self) -> tuple[str, tuple[Message, ...]]:
        """Return the prompt, and what was said before it."""
        messages = [one for one in self.messages if one.role in {*MessageRole}]
        prompt = self.prompt
        if not prompt and messages and messages[-1].role == MessageRole.USER:
            prompt = messages.pop().content
        if not prompt:
            raise OperationError(
                RefusalCode.INVALID, 'there is nothing to answer; send {"prompt": "…"}'
            )
        if self.tools:
            raise OperationError(
                RefusalCode.INVALID,
                "tools of a front end are not called here; give the agent its tools on the server",
            )
        return prompt, tuple(map(_message, messages))


def _message(said: UiMessage) -> Message:
    parts = (Text(said.content),)
    return UserMessage(parts) if said.role == MessageRole.USER else AssistantMessage(parts)


class _Refusal(Struct, frozen=True):
    status: int
    code: str
    text: str


_WORLD = _Refusal(502, "model_failed", "the model did not answer; try again in a moment")
_FAILURES: Final[tuple[tuple[type[Exception], _Refusal], ...]] = (
    (Timeout, _Refusal(504, "timeout", "the agent took too long; ask for less, or again")),
    (RateLimited, _Refusal(429, "rate_limited", "the model is busy; try again in a moment")),
    (CircuitOpen, _Refusal(503, "unavailable", "the model is not available; try again later")),
    (VegaError, _WORLD),
)
"""What a user is told of an error: its own words name models, files and accounts."""


class _Router:
    def __init__(
        self,
        agents: dict[str, Agent[Any]],
        runtime: Runtime,
        identify: Identify | None,
        user_budget: str | float | None,
        limits: RouterLimits,
        *,
        hosts: Collection[str],
    ) -> None:
        self._agents, self._runtime, self._identify = agents, runtime, identify
        self._user_budget, self._limits = user_budget, limits
        self._hosts = hosts
        self._in_flight: Counter[str | None] = Counter()

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)

    async def _live(self, receive: AsgiReceive, send: AsgiSend) -> None:
        """Open the runtime where this is the whole application; one that is mounted has no life of
        its own."""
        await receive()
        async with self._runtime:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        stream, user = EventStream(send), _ANYBODY
        try:
            name = path_of(scope).strip("/")
            is_shown = scope["method"] == "GET" and name in _RESERVED
            is_probe = is_shown and name == "health"  # of a load balancer, by our address
            if not is_probe and (status := self._misaddressed(scope)):
                await send_refusal(send, status, RefusalCode.FORBIDDEN.value, _NOT_MEANT)
                return
            self._check_open()
            if is_probe:
                await send_json(send, 200, {"status": "ok", "agents": [*self._agents]})
                return
            user = await self._user(scope)
            if is_shown:
                await self._show_metrics(send)
                return
            agent = self._agent(name, scope["method"])
            with self._counted(user):
                await self._call(agent, user, scope, receive, send, stream)
        except ClientGoneError:
            return
        except OperationError as error:
            refusal = _Refusal(STATUS[error.code], error.code.value, str(error))
        except BudgetExceeded as error:
            refusal = self._over_budget(user, error)
        except Exception as error:  # noqa: BLE001  (a client is told, and the server goes on)
            _LOG.warning("an agent failed for a user", exc_info=error)
            bug = _Refusal(500, "bug", "this is a bug of the server; its log says more")
            found = (refusal for kind, refusal in _FAILURES if isinstance(error, kind))
            refusal = next(found, bug)
        else:
            return
        if stream.has_begun:
            told = {"type": "RUN_ERROR", "message": refusal.text, "code": refusal.code}
            await stream.event("RUN_ERROR", told)
            await stream.end()
        else:
            await send_refusal(send, refusal.status, refusal.code, refusal.text)

    def _misaddressed(self, scope: AsgiScope) -> int | None:
        """Return the status for a request that does not mean us. Where everybody may call, a page
        whose name leads to this machine could, too: only names of this machine are ours then."""
        name = _PORT.sub("", header(scope, b"host")).strip("[]")
        is_ours = self._hosts or self._identify is not None or is_loopback(name)
        return misaddressed(scope, self._hosts) if is_ours else 421

    async def _show_metrics(self, send: AsgiSend) -> None:
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = self._runtime.metrics_text().encode()
        await send({"type": "http.response.body", "body": body})

    def _check_open(self) -> None:
        try:
            _ = self._runtime.program
        except UserError:
            raise CircuitOpen("the runtime is not open: `async with rt:` in the lifespan") from None

    def _agent(self, name: str, method: str) -> Agent[Any]:
        if name not in self._agents:
            raise OperationError(
                RefusalCode.NOT_FOUND,
                f"there is no agent {name[:80]!r}; {did_you_mean(name[:80], self._agents)}",
            )
        if method != "POST":
            raise OperationError(RefusalCode.INVALID, f"write: POST /{name}")
        return self._agents[name]

    async def _user(self, scope: AsgiScope) -> str:
        if self._identify is None:
            return _ANYBODY
        found = self._identify(scope)
        user = await found if isawaitable(found) else found
        if not user:
            raise OperationError(RefusalCode.UNAUTHENTICATED, "say who you are, and ask again")
        return user

    @contextmanager
    def _counted(self, user: str) -> Generator[None]:
        limits = self._limits
        for who, most in ((None, limits.runs), (user, limits.user_runs)):
            if self._in_flight[who] >= most:
                raise OperationError(
                    RefusalCode.EXHAUSTED, f"{most} answers are in flight; wait for one to end"
                )
        self._in_flight.update([None, user])
        try:
            yield
        finally:
            self._in_flight.subtract([None, user])
            if not self._in_flight[user]:
                del self._in_flight[user]

    async def _call(
        self,
        agent: Agent[Any],
        user: str,
        scope: AsgiScope,
        receive: AsgiReceive,
        send: AsgiSend,
        stream: EventStream,
    ) -> None:
        body = await read_json_body(scope, receive, self._limits.body_bytes)
        try:
            call = msgspec_json.decode(body or b"{}", type=AgentCall)
        except (ValidationError, ValueError, RecursionError) as error:
            raise OperationError(RefusalCode.INVALID, str(error)) from error
        is_stream = call.stream or "text/event-stream" in header(scope, b"accept")
        events = self._events(agent, user, call, is_stream=is_stream)
        reply = await self._told(events, call, receive, stream if is_stream else None)
        if is_stream:
            await stream.end()
        else:
            await send_json(send, 200, answer_of(reply))

    async def _events(
        self, agent: Agent[Any], user: str, call: AgentCall, *, is_stream: bool
    ) -> AsyncGenerator[StreamEvent[Any]]:
        prompt, history = call.said()
        budgeted = self._runtime.budget(self._user_budget, f"user {quote(user, safe='')}")
        with budgeted:
            ask = self._runtime.ask(agent, prompt, history=history, timeout=self._limits.run_s)
        # Its budget is that of the line above; nothing of this block may outlive it, as what comes
        # next runs in whichever task reads the next event.
        async with aclosing(ask.events(stream=is_stream)) as events:
            async for event in events:
                yield event

    async def _told(
        self,
        events: AsyncGenerator[StreamEvent[Any]],
        call: AgentCall,
        receive: AsgiReceive,
        stream: EventStream | None,
    ) -> Reply[Any]:
        """Tell what happens while the client is there, and return the reply. When it is gone the
        run is cancelled."""
        telling = _UiEvents(call)
        gone = asyncio.ensure_future(until_gone(receive))
        coming: asyncio.Future[StreamEvent[Any] | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait(
                    {coming, gone}, timeout=_QUIET_S, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    raise ClientGoneError
                if not coming.done():
                    if stream is not None and stream.has_begun:
                        await stream.keep_alive()
                    continue
                event, coming = coming.result(), None
                assert event is not None, "a stream ends with its reply"
                if stream is not None:
                    for told in telling.of(event):
                        await stream.event(told["type"], told)
                if isinstance(event, TurnEnded):
                    return event.reply
        finally:
            # In this order: a generator cannot be closed while it is waited for.
            await end_task(coming)
            await events.aclose()
            await end_task(gone)

    def _over_budget(self, user: str, error: BudgetExceeded) -> _Refusal:
        """The user's own budget is theirs to know; that of the server is not."""
        if f"user {quote(user, safe='')}" in str(error):
            text = (
                f"your budget of {self._user_budget} does not hold another call of this agent; "
                "wait for its next period, or ask for less"
            )
            return _Refusal(402, "budget_exceeded", text)
        _LOG.warning("an agent was not asked for a user: %s", error)
        return _Refusal(503, "unavailable", "the agent cannot be paid for now; try again later")


def answer_of(reply: Reply[Any]) -> dict[str, Any]:
    """Return a reply as JSON has it."""
    output: Any = reply.output
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json")
    usage = reply.usage
    return {
        "text": reply.text,
        "output": to_builtins(output),
        "finish": reply.finish,
        "cost_usd": float(Dollars.of_nanos(int(reply.cost)).usd),
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }


class _UiEvents:
    """The events of a run in the words of AG-UI."""

    def __init__(self, call: AgentCall) -> None:
        self._of_run = {"threadId": call.thread_id or call.run_id, "runId": call.run_id}
        self._has_begun = False
        self._messages = self._tools = 0
        self._open = ""
        self._called: dict[int, str] = {}

    def of(self, event: StreamEvent[Any]) -> Iterator[dict[str, Any]]:
        """Yield what a front end is told of an event."""
        if not self._has_begun:
            self._has_begun = True
            yield {"type": "RUN_STARTED", **self._of_run}
        if isinstance(event, TextChunk):
            if not self._open:
                self._messages += 1
                self._open = f"{self._of_run['runId']}-{self._messages}"
                yield {
                    "type": "TEXT_MESSAGE_START",
                    "messageId": self._open,
                    "role": "assistant",
                }
            if event.text:
                yield {
                    "type": "TEXT_MESSAGE_CONTENT",
                    "messageId": self._open,
                    "delta": event.text,
                }
            return
        if self._open:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._open}
            self._open = ""
        if isinstance(event, ToolCalled):
            yield from self._tool_called(event)
        elif isinstance(event, ToolReturned):
            key = self._called.pop(event.index, "")
            yield {
                "type": "TOOL_CALL_RESULT",
                "messageId": f"{key}-result",
                "toolCallId": key,
                "content": event.content,
                "role": "tool",
            }
        elif isinstance(event, TurnEnded):
            result = answer_of(event.reply)
            yield {"type": "RUN_FINISHED", **self._of_run, "result": result}

    def _tool_called(self, event: ToolCalled) -> Iterator[dict[str, Any]]:
        self._tools += 1
        key = f"{self._of_run['runId']}-tool-{self._tools}"
        self._called[event.index] = key
        yield {"type": "TOOL_CALL_START", "toolCallId": key, "toolCallName": event.name}
        arguments = json.dumps(to_builtins(event.arguments))
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": key}
