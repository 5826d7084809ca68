"""The life of a process as a client drives it, and the SQL statements that the kernel runs for it.

The statements are recorded while the kernel carries out each call once, so that whoever replays
them sends the same ones in the same transactions, whatever the kernel does today. Names in them are
marks of a fixed length, in whose place a replay puts those of another process.
"""

from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from msgspec import Struct

from vegakit.concurrency import SteadyClock
from vegakit.control import (
    CreateProcessRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    ListProcessesRequest,
    NextInstructionRequest,
    RecordUsageRequest,
    ReportRequest,
    SessionReply,
    TransitionRequest,
    WatchRequest,
)
from vegakit.kernel import Kernel, TenantKernel
from vegakit.policy import (
    Consumption,
    Pipeline,
    ProcessState,
    QuotaRule,
    Stage,
    StageCompleted,
    TaskId,
)
from vegakit.server import TokenRole, Tokens
from vegakit.server.protobuf import kernel_messages
from vegakit.store import open_tenants
from vegakit.store.postgres.connection import PostgresSession

__all__ = ["LIFE", "MARK", "PLENTY", "SHARED", "Call", "Recorded", "Statement", "record", "wire"]

MARK, ENVELOPE_MARK = "p" * 26, "e" * 26
"""As long as the ids that the kernel makes."""
SHARED = "shared by all clients"
PLENTY = 1_000_000_000
_PIPELINE = Pipeline(
    (Stage("draft", agent="writer", default_next="check"), Stage("check", agent="reader"))
)
_TEXT = "A paragraph as a stage hands it on, neither long nor short. " * 4
_METRICS = ExecutionMetrics(llm_calls=1, tokens_in=400, tokens_out=200, duration_ms=900)


class Call(NamedTuple):
    """An operation of the table, and what it is asked."""

    name: str
    request: Struct


def _report(task: str) -> ReportRequest:
    return ReportRequest(MARK, TaskId(task), StageCompleted({"text": _TEXT}), _METRICS)


def _usage(pid: str) -> RecordUsageRequest:
    used = Consumption(model_calls=1, input_tokens=400, output_tokens=200)
    return RecordUsageRequest(pid, used, usage_id=f"of {MARK}")


LIFE = (
    Call("create_process", CreateProcessRequest(MARK, quota=QuotaRule(model_calls=1_000))),
    Call("transition_state", TransitionRequest(MARK, ProcessState.READY)),
    Call("initialize_session", InitializeSessionRequest(MARK, _PIPELINE, {"topic": "birds"})),
    Call("get_next_instruction", NextInstructionRequest(MARK)),
    Call("report_agent_result", _report("draft#1")),
    Call("record_usage", _usage(MARK)),
    Call("get_next_instruction", NextInstructionRequest(MARK)),
    Call("report_agent_result", _report("check#2")),
    Call("record_usage", _usage(SHARED)),
    Call("list_processes", ListProcessesRequest(limit=20)),
    Call("watch_events", WatchRequest()),
    Call("transition_state", TransitionRequest(MARK, ProcessState.TERMINATED, reason="done")),
)
"""The cursor of `watch_events` is the client's own: the last event that it has seen."""


class Wire(NamedTuple):
    """How an operation is called over gRPC."""

    path: str
    request_bytes: Callable[[Any], bytes]
    reply_class: Any
    reply_bytes: Callable[[Any], bytes]


def wire(name: str) -> Wire:
    """Return how the operation of this name is called."""
    messages = kernel_messages()
    for service, methods in messages.schema.services.items():
        for method in methods:
            if method.row.name == name:
                return Wire(
                    f"/vega.kernel.v1.{service}/{method.name}",
                    messages.bytes_of(method.request),
                    messages.message_class(method.reply),
                    messages.bytes_of(method.reply),
                )
    raise LookupError(name)


# What the kernel asks of its database.


class Statement(NamedTuple):
    """A statement with `%s` for its values."""

    text: str
    values: list[Any]


class Recorded(Struct):
    """What was sent to the database for a call, and how many bytes it replied."""

    name: str
    statements: list[Statement]
    reply_bytes: int


@contextmanager
def _overheard() -> Generator[list[Statement]]:
    heard: list[Statement] = []
    execute: Any = PostgresSession.execute

    def listen(self: PostgresSession, statement: str, values: Any = ()) -> Any:
        heard.append(Statement(statement.replace("?", "%s"), list(values)))
        return execute(self, statement, values)

    with mock.patch.object(PostgresSession, "execute", listen):
        yield heard


async def record(place: str, tenant: str) -> list[Recorded]:
    """Carry the life out once, token included, and return what was sent for each of its calls."""
    clock = SteadyClock()
    with _overheard() as heard:
        store = open_tenants(place)
        async with aclosing(store):
            tokens = Tokens(store, clock)
            token = await tokens.create(tenant, "ann", TokenRole.OPERATOR)
            identity = await tokens.authenticate(token)
            assert identity is not None
            kernel = TenantKernel(Kernel(store, clock), identity.caller)
            shared = CreateProcessRequest(SHARED, quota=QuotaRule(model_calls=PLENTY))
            await kernel.create_process(shared)
            found, envelope = list[Recorded](), ENVELOPE_MARK
            for call in LIFE:
                heard.clear()
                assert await tokens.authenticate(token)
                request: Any = call.request
                if call.name == "watch_events":
                    events = kernel.watch_events(WatchRequest(after=1))
                    sizes = [len(wire(call.name).reply_bytes(one)) async for one in events]
                    found.append(Recorded(call.name, [*heard], sum(sizes) // len(sizes)))
                    continue
                reply = await getattr(kernel, call.name)(request)
                if isinstance(reply, SessionReply):
                    envelope = reply.envelope.id
                size = len(wire(call.name).reply_bytes(reply))
                found.append(Recorded(call.name, [*heard], size))
    for one in found:
        one.statements = [
            Statement(text, [_marked(value, envelope) for value in values])
            for text, values in one.statements
        ]
    return found


def _marked(value: Any, envelope: str) -> Any:
    """Put the mark of the envelope in the place of the id that the kernel made."""
    if isinstance(value, bytes):
        return value.replace(envelope.encode(), ENVELOPE_MARK.encode())
    return value.replace(envelope, ENVELOPE_MARK) if isinstance(value, str) else value
