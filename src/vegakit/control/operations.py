"""The operations on a running system: one table, and the Protocols whose methods its rows name.

    caller ── socket line, MCP call, command line ──▶ row: right? request? ──▶ method ──▶ reply

A row says all that a translation needs, so that a new one (HTTP, gRPC) is written once and not for
each operation, and a new operation is one row and one method. A method takes the fields of its
request as arguments, so that a runtime near by and one far away are called alike. An implementation
need not have every method: it offers those rows whose methods it has.
"""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct, convert, structs

from vegakit.control.messages import (
    AnswerRequest,
    CardRequest,
    CheckReply,
    CostReply,
    EmptyRequest,
    ExplainReply,
    KillRequest,
    KillResult,
    Language,
    LogEntry,
    LogsRequest,
    ProcessView,
    ProgramRequest,
    RunReply,
    RunRequest,
    RuntimeView,
)
from vegakit.control.questions import Question
from vegakit.errors import UserError
from vegakit.ids import Digest

RequestT = TypeVar("RequestT", bound=Struct)
ReplyT = TypeVar("ReplyT")


class Right(StrEnum):
    """A right that a caller has. To answer is a right of its own, because an answer counts as that
    of a person: a program that may start and end work must still not approve it. So is to
    administer: nobody raises the budget of the tenant that they work for."""

    READ = "read"
    ACT = "act"
    ANSWER = "answer"
    ADMINISTER = "administer"


ALL_RIGHTS: Final = frozenset(Right)


class ReplyShape(StrEnum):
    """A list is complete when the method returns; a stream may go on for as long as it is read.
    Both are carried value by value, so that no reply outgrows a line."""

    ONE = "one"
    LIST = "list"
    STREAM = "stream"


class Operation(Struct, Generic[RequestT, ReplyT], frozen=True):
    """One row of the table. `reply` is the type of one value; `idempotent` says that a caller who
    heard no reply may ask again without harm, `destructive` that it ends what cannot be begun
    again."""

    name: str
    request: type[RequestT]
    reply: type[ReplyT]
    right: Right
    description: str
    idempotent: bool = True
    shape: ReplyShape = ReplyShape.ONE
    destructive: bool = False


INFO = Operation(
    "info", EmptyRequest, RuntimeView, Right.READ, "Show a runtime as a whole: its clock and money."
)
PS = Operation(
    "ps",
    EmptyRequest,
    ProcessView,
    Right.READ,
    "Show what runs now: each process, its state and its money.",
    shape=ReplyShape.LIST,
)
LOGS = Operation(
    "logs",
    LogsRequest,
    LogEntry,
    Right.READ,
    "Show what a process and those below it did last.",
    shape=ReplyShape.STREAM,
)
KILL = Operation(
    "kill",
    KillRequest,
    KillResult,
    Right.ACT,
    "End a process: this incarnation, after which its supervisor decides; or with its tree, for "
    "good and with all that it started.",
    idempotent=False,
)
INTERRUPTS = Operation(
    "interrupts",
    EmptyRequest,
    Question,
    Right.READ,
    "Show what people are asked and have not answered, exactly and whole.",
    shape=ReplyShape.LIST,
)
ANSWER = Operation(
    "answer",
    AnswerRequest,
    type(None),
    Right.ANSWER,
    "Answer what an agent or a program asks a person; an answer is final.",
    idempotent=False,
)
CARD = Operation(
    "card",
    CardRequest,
    str,
    Right.READ,
    "The whole language on one page. Read it before you write a program.",
)
CHECK = Operation(
    "check",
    ProgramRequest,
    CheckReply,
    Right.READ,
    "All that is wrong with a program, with lines and suggested edits. Calls no model.",
)
COST = Operation(
    "cost",
    ProgramRequest,
    CostReply,
    Right.READ,
    "What a program may cost at most, send by send, and what is left here. Calls no model.",
)
EXPLAIN = Operation(
    "explain",
    ProgramRequest,
    ExplainReply,
    Right.READ,
    "What a program may ask, call and touch, what of it is not granted, what runs at once and what "
    "waits for what. Calls no model.",
)
RUN = Operation(
    "run",
    RunRequest,
    RunReply,
    Right.ACT,
    "Run a program to its end: its result, what it printed and what it spent. It is checked and "
    "priced first; a refusal says what to change, and nothing was spent. To cancel the request "
    "ends the run.",
    idempotent=False,
)

OPERATIONS: Final[dict[str, Operation[Any, Any]]] = {
    row.name: row
    for row in (CARD, CHECK, COST, EXPLAIN, RUN, INFO, PS, KILL, LOGS, INTERRUPTS, ANSWER)
}


class ProcessControl(Protocol):
    """The operations on the processes of a running system and on their questions to people."""

    async def info(self) -> RuntimeView:
        """Return the runtime as a whole."""
        ...

    async def ps(self) -> list[ProcessView]:
        """Return every process in tree order: each before what is below it."""
        ...

    def logs(self, id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry]:  # noqa: A002
        """Yield what is remembered of a process and of those below it; with `follow`, go on."""
        ...

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End this incarnation, after which the supervisor decides; with `tree` end it for good,
        with all below it. Return when nothing of it is left, or with a count of what is."""
        ...

    async def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered, the oldest first."""
        ...

    async def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
    ) -> None:
        """Answer a question: `True`, `False`, yes or no for an approval, text for anything else. If
        `action` is given and is no longer what the question is about, the answer is refused."""
        ...


class ProgramControl(Protocol):
    """The operations on programs that a caller sends or names."""

    async def card(self, language: Language = "vega") -> str:
        """Return the language card."""
        ...

    async def check(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> CheckReply:
        """Return all that is wrong with a program."""
        ...

    async def cost(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> CostReply:
        """Return the quote of a program."""
        ...

    async def explain(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> ExplainReply:
        """Return what a program may touch, and what waits for what in it."""
        ...

    async def run(
        self,
        *,
        source: str = "",
        path: str = "",
        language: Language = "vega",
        arguments: tuple[Any, ...] = (),
        budget: str = "",
    ) -> RunReply:
        """Run a program to its end."""
        ...


class Control(ProcessControl, ProgramControl, Protocol):
    """Every operation of the table."""


class RefusalCode(StrEnum):
    """The kinds of refusal, so that each door can say it in its own way: HTTP by a status, gRPC by
    a code. `exhausted` passes by itself; `budget_exceeded` says that money or a quota holds no
    other call, and asking again does not change that."""

    INVALID = "invalid"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    EXHAUSTED = "exhausted"
    BUDGET_EXCEEDED = "budget_exceeded"
    FORBIDDEN = "forbidden"
    UNAUTHENTICATED = "unauthenticated"


class OperationError(UserError):
    """An operation was refused and has changed nothing."""

    def __init__(self, code: RefusalCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def offered_by(control: type) -> dict[str, Operation[Any, Any]]:
    """Return the rows whose methods a class has, in the order of the table."""
    return {name: row for name, row in OPERATIONS.items() if hasattr(control, name)}


def select(
    name: str, offered: Mapping[str, Operation[Any, Any]], rights: Collection[Right]
) -> Operation[Any, Any]:
    """Return the row of this name, unless it is not offered or the caller lacks its right."""
    row = offered.get(name)
    if row is None:
        raise OperationError(
            RefusalCode.NOT_FOUND,
            f"there is no operation {name[:80]!a}; there are: {', '.join(offered)}",
        )
    if row.right not in rights:
        had = ", ".join(sorted(rights)) or "none"
        raise OperationError(
            RefusalCode.FORBIDDEN,
            f"{name} needs the right to {row.right}, and this caller has: {had}; ask whoever "
            "started what you call",
        )
    return row


def request_from(row: Operation[RequestT, Any], fields: Mapping[str, Any]) -> RequestT:
    """Return the request that these fields of JSON say, or raise `msgspec.ValidationError`."""
    return convert(dict(fields), row.request)


async def values(
    control: object, row: Operation[RequestT, ReplyT], request: RequestT
) -> AsyncGenerator[ReplyT]:
    """Call the method that the row names, and yield its reply value by value."""
    reply = getattr(control, row.name)(**structs.asdict(request))
    match row.shape:
        case ReplyShape.ONE:
            yield await reply
        case ReplyShape.LIST:
            for value in await reply:
                yield value
        case ReplyShape.STREAM:
            async with aclosing(reply):
                async for value in reply:
                    yield value
