"""Commands of a tenant: given to exactly one handler of a topic, until one has handled them.

    send, query ──▶ waiting ──▶ taken ──▶ done | failed
                       ▲          │ the lease ended
                       └──────────┘            waiting, taken ──▶ expired

A command is a record like all others, written before it is acknowledged: no bus and no server can
lose it. The next one of a topic is the one whose time ends first. It is handed to one holder at a
time, with the number of the attempt; only the holder of the last attempt can answer, and the first
answer stands. What has ended is remembered for `KEEP_MS`, so that a caller who heard nothing may
ask again by the same id.
"""

from msgspec.structs import replace

from vegakit.control import (
    AnswerCommandRequest,
    CommandRecord,
    CommandStatus,
    OperationError,
    QueryRequest,
    RefusalCode,
    RenewCommandRequest,
    SendRequest,
    TakeCommandRequest,
)
from vegakit.kernel.tables import COMMAND, HANDLED, KernelTables, check_repeats
from vegakit.records import to_json

KEEP_MS = 86_400_000
MESSAGE_BYTES = 64 << 10
"""The largest message, command or answer, as JSON."""
_MOST_UNHANDLED = 10_000
_LOOKED_AT = 32


def check_size(what: str, value: object) -> bytes:
    """Return a value as JSON, or refuse one that is too large to be passed on."""
    body = to_json(value)
    if len(body) > MESSAGE_BYTES:
        raise OperationError(
            RefusalCode.INVALID,
            f"{what} is {len(body)} bytes of JSON and at most {MESSAGE_BYTES} are passed on; keep "
            "large values elsewhere and pass on where they are",
        )
    return body


def accept(
    tables: KernelTables, request: SendRequest | QueryRequest, key: str, by: str
) -> CommandRecord:
    """Take a command on. One that is there already is returned if it is the same."""
    is_query = isinstance(request, QueryRequest)
    there = _found(tables, key)
    if there is not None:
        pairs = {
            "topic": (there.topic, request.topic),
            "body": (there.body, request.body),
            "kind": (there.is_query, is_query),
            "user": (there.by, by),
        }
        check_repeats(f"command {key!r}", pairs, "id")
        return there
    check_size("the body", request.body)
    if sum(tables.records.counts(COMMAND.name).values()) >= _MOST_UNHANDLED:
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"{_MOST_UNHANDLED} commands of this tenant are not handled yet; start handlers that "
            "take them, and try again",
        )
    lasts_ms = request.wait_ms if isinstance(request, QueryRequest) else request.expires_in_ms
    command = CommandRecord(
        key,
        request.topic,
        by,
        tables.now,
        tables.now + lasts_ms,
        body=request.body,
        is_query=is_query,
        max_attempts=request.max_attempts,
    )
    return tables.put(COMMAND, command)


def is_waiting(tables: KernelTables, topic: str) -> bool:
    """Say whether a handler of the topic would find a command."""
    return bool(
        tables.records.find(COMMAND.name, state=CommandStatus.WAITING, owner=topic, limit=1)
    )


def take(tables: KernelTables, request: TakeCommandRequest) -> CommandRecord | None:
    """Hand out the next command of a topic; those whose time is over end on the way."""
    found, _ = tables.find(
        COMMAND, state=CommandStatus.WAITING, owner=request.topic, limit=_LOOKED_AT
    )
    for command in found:
        if command.expires_ms <= tables.now:
            _end(tables, command, CommandStatus.EXPIRED)
            continue
        taken = replace(
            command,
            status=CommandStatus.TAKEN,
            holder=request.holder,
            attempt=command.attempt + 1,
            lease_until_ms=tables.now + request.lease_ms,
        )
        return tables.put(COMMAND, taken)
    return None


def renew(tables: KernelTables, request: RenewCommandRequest) -> CommandRecord:
    """Keep a command for a holder who still handles it."""
    command = _held(tables, request.id, request.holder, request.attempt)
    return tables.put(COMMAND, replace(command, lease_until_ms=tables.now + request.lease_ms))


def answer(tables: KernelTables, request: AnswerCommandRequest) -> CommandRecord:
    """Take what came of a command. The same holder may say the same again."""
    check_size("the answer", request.answer)
    status = CommandStatus.FAILED if request.error else CommandStatus.DONE
    ended = tables.get(HANDLED, request.id)
    if ended is not None:
        said = (request.holder, request.attempt, status, request.answer, request.error)
        if (ended.holder, ended.attempt, ended.status, ended.answer, ended.error) == said:
            return ended
    command = _held(tables, request.id, request.holder, request.attempt)
    return _end(tables, command, status, answer=request.answer, error=request.error)


def settle_due(tables: KernelTables, key: str) -> None:
    """Carry out what time has brought about for a command that has not ended."""
    command = tables.get(COMMAND, key)
    if command is None:
        return
    is_over = command.expires_ms <= tables.now
    if is_over and (command.is_query or command.status is CommandStatus.WAITING):
        _end(tables, command, CommandStatus.EXPIRED)
        return
    if command.lease_until_ms is None or command.lease_until_ms > tables.now:
        return
    if command.attempt >= command.max_attempts:
        error = f"it was handed out {command.attempt} times, and no holder has answered"
        _end(tables, command, CommandStatus.FAILED, error=error)
    elif is_over:
        _end(tables, command, CommandStatus.EXPIRED)
    else:
        waits = replace(command, status=CommandStatus.WAITING, lease_until_ms=None)
        tables.put(COMMAND, waits)


def settled(tables: KernelTables, key: str) -> CommandRecord:
    """Return a command, after what time has brought about for it."""
    settle_due(tables, key)
    return need(tables, key)


def need(tables: KernelTables, key: str) -> CommandRecord:
    """Return a command, or refuse an operation on what is not there."""
    return _found(tables, key) or tables.need(COMMAND, key)


def forget(tables: KernelTables, key: str) -> None:
    """Forget a command that ended long ago."""
    tables.records.delete(HANDLED.name, key)


def _found(tables: KernelTables, key: str) -> CommandRecord | None:
    return tables.get(COMMAND, key) or tables.get(HANDLED, key)


def _held(tables: KernelTables, key: str, holder: str, attempt: int) -> CommandRecord:
    """Return the command that a holder has, or say that it has it no longer. A holder whose lease
    is over still has it while nobody else was handed it."""
    command = need(tables, key)
    is_late = command.is_query and command.expires_ms <= tables.now
    has_it = (command.status, command.holder, command.attempt) == (
        CommandStatus.TAKEN,
        holder,
        attempt,
    )
    if is_late or not has_it:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"{holder!r} no longer holds command {key[:80]!r}, attempt {attempt}: its lease ended, "
            "it was answered, or its time is over; drop what came of it",
        )
    return command


def _end(
    tables: KernelTables,
    command: CommandRecord,
    status: CommandStatus,
    *,
    answer: object = None,
    error: str = "",
) -> CommandRecord:
    tables.records.delete(COMMAND.name, command.id)
    ended = replace(
        command,
        status=status,
        lease_until_ms=None,
        answer=answer,
        error=error,
        ended_ms=tables.now,
    )
    return tables.put(HANDLED, ended)
