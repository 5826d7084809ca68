"""The table of operations: it agrees with its Protocol, and each translation follows it."""

import asyncio
import inspect
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec import NODEFAULT, Struct, structs

from vegakit.control import (
    ALL_RIGHTS,
    OPERATIONS,
    BlockingControlClient,
    ControlClient,
    LogEntry,
    Operation,
    ReplyShape,
    Right,
    offered_by,
    select,
)
from vegakit.control.operations import Control
from vegakit.control.sockets import find
from vegakit.durable import ProgramHandle
from vegakit.errors import UserError
from vegakit.sdk import ControlServer, Runtime, RuntimeControl
from vegakit.server import Operations
from vegakit.server.mcp import MCP_TOOLS

SHAPES: dict[ReplyShape, Any] = {ReplyShape.LIST: list, ReplyShape.STREAM: AsyncGenerator}


def disagreements(
    table: Mapping[str, Operation[Any, Any]],
    control: type,
    replies: Mapping[type, Any] | None = None,
) -> list[str]:
    """Names the methods of `control` that are not what their rows say. A method may take more than
    its request has, if it can be left out. `replies` are spelled otherwise there."""
    found = [name for name, row in table.items() if name != row.name or not hasattr(control, name)]
    for name, row in table.items():
        if name in found:
            continue
        hints = get_type_hints(getattr(control, name))
        shaped = SHAPES[row.shape][row.reply] if row.shape in SHAPES else row.reply
        shaped = (replies or {}).get(row.reply, shaped)
        parameters = inspect.signature(getattr(control, name)).parameters
        needed = {n for n, one in parameters.items() if one.default is one.empty} - {"self"}
        fields = {one.name: one for one in structs.fields(row.request)}
        taken = {n: (hints[n], parameters[n].default) for n in fields if n in parameters}
        said = {
            n: (hint, inspect.Parameter.empty if one.default is NODEFAULT else one.default)
            for (n, one), hint in zip(
                fields.items(), get_type_hints(row.request).values(), strict=True
            )
        }
        if hints["return"] != shaped or taken != said or not needed <= {*fields}:
            found.append(name)
    return found


def methods_of(control: type) -> set[str]:
    return {name for name in dir(control) if not name.startswith("_")}


def test_table_and_protocol_agree() -> None:
    """In names, fields, types, defaults and replies."""
    assert disagreements(OPERATIONS, Control) == []
    assert methods_of(Control) == {*OPERATIONS}
    assert all(row.description.endswith(".") for row in OPERATIONS.values())


class Other:
    async def kill(self, id: str, *, tree: bool = True) -> str:  # noqa: A002
        return f"{id}{tree}"

    async def ps(self, at: str) -> list[Any]:
        return [at]


def test_a_disagreement_is_seen() -> None:
    """Planted faults: another reply, another default, something needed that no request has."""
    rows = {name: OPERATIONS[name] for name in ("kill", "ps", "logs")}
    assert disagreements(rows, Other) == ["logs", "kill", "ps"]


PROCESSES = ["info", "ps", "kill", "logs", "interrupts", "answer"]
PROGRAMS = ["card", "check", "cost", "explain", "run"]


@pytest.mark.parametrize(
    ("control", "names"),
    [
        (RuntimeControl, PROCESSES),
        (ControlClient, PROCESSES),
        (Operations, [*PROGRAMS, "info", "ps", "kill", "interrupts"]),
    ],
)
def test_implementations_agree(control: type, names: list[str]) -> None:
    """With the rows that they offer."""
    offered = offered_by(control)
    assert disagreements(offered, control) == []
    assert [*offered] == names


@pytest.mark.parametrize("control", [BlockingControlClient, ProgramHandle])
def test_what_is_called_alike_is_alike(control: type) -> None:
    """Whoever awaits nothing, and whose program is on Temporal, says it in the same words. A
    program on Temporal is run by the name that workers know, so its `run` is another."""
    shared = {name: row for name, row in offered_by(control).items() if name != "run"}
    blocking = {LogEntry: Iterator[LogEntry]} if control is BlockingControlClient else {}
    assert {"kill", "interrupts", "answer"} <= {*shared}
    assert disagreements(shared, control, blocking) == []


def test_no_mcp_client_answers_for_a_person() -> None:
    """Whatever the server implements: the right is not theirs."""
    rights = {tool.row.right for tool in MCP_TOOLS.values()}
    assert rights == {Right.READ, Right.ACT}
    assert [*MCP_TOOLS] == [*PROGRAMS, "ps", "kill", "interrupts"]


def test_what_is_not_offered_or_not_granted_is_refused() -> None:
    """Each with what there is, or what is missing."""
    offered = offered_by(RuntimeControl)
    assert select("kill", offered, ALL_RIGHTS) is OPERATIONS["kill"]
    with pytest.raises(UserError, match="no operation 'run'; there are: info, ps, kill, logs"):
        select("run", offered, ALL_RIGHTS)
    with pytest.raises(
        UserError, match=r"answer needs the right to answer, .* has: act, read; ask"
    ):
        select("answer", offered, {Right.READ, Right.ACT})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            b'{"v":1,"verb":"kill","id":"a"}',
            "kill needs the right to act, and this caller has: read",
        ),
        (b'{"v":1,"verb":"logs","id":"a","soon":1}', "unknown field `soon`"),
        (b'{"v":1,"verb":"logs"}', "missing required field `id`"),
        (b'{"v":2,"verb":"logs","soon":1}', "in version 1, not 'logs' in version 2"),
        (b'{"v":1,"verb":"run"}', "this runtime knows info, ps, kill, logs, interrupts, answer in"),
        (b"[]", "Expected `object`"),
    ],
)
async def test_the_socket_refuses(tmp_path: Path, line: bytes, says: str) -> None:
    """Whatever the table does not say, and what the caller may not do."""
    async with Runtime(observable=ControlServer(tmp_path, rights={Right.READ})) as rt:
        rt.spawn(idle, name="a")
        with socket.socket(socket.AF_UNIX) as calling:
            calling.connect(str(find(None, tmp_path)))
            calling.sendall(line + b"\n")
            reply = await asyncio.to_thread(calling.makefile("rb").read)
        assert says in reply.decode()
        assert len(rt.ps()) == 1


async def idle(message: object) -> None: ...


class EchoRequest(Struct, frozen=True):
    text: str
    times: int = 1


async def test_an_operation_is_a_row_and_a_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket and its client need to be told nothing else."""

    async def echo(self: RuntimeControl, text: str, times: int = 1) -> list[str]:
        return [text] * times

    row = Operation("echo", EchoRequest, str, Right.READ, "Echo.", shape=ReplyShape.LIST)
    monkeypatch.setitem(OPERATIONS, "echo", row)
    monkeypatch.setattr(RuntimeControl, "echo", echo, raising=False)
    async with Runtime(observable=ControlServer(tmp_path)) as _:
        client = ControlClient(find(None, tmp_path))
        assert await client.every(row, EchoRequest("hello", 2)) == ["hello", "hello"]
