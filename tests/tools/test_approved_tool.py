"""A tool that a person must approve."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied
from vegakit.ids import Digest, Pid
from vegakit.policy import (
    Allowed,
    ApprovalPending,
    Approved,
    Attempt,
    Denied,
    Grant,
    Interrupts,
    Permissions,
    Use,
    apply_permission,
)
from vegakit.policy.permissions import permit
from vegakit.tools.functions import ApprovedTool, Proposal


async def nothing(_arguments: Mapping[str, Any]) -> dict[str, Digest]:
    return {}


class Echo:
    """Says how often it was called, with what; `answer` may be something else."""

    spec = ToolSpec("echo", "Echoes.", {"type": "object"})
    idempotent, timeout_ms = True, 1_000

    def __init__(self, answer: Callable[[], Awaitable[str]] | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer
        self.contents: Callable[..., Awaitable[dict[str, Digest]]] = nothing

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        self.calls.append(dict(arguments))
        return await self._answer() if self._answer else f"{len(self.calls)} {deps}"


WANTED = Use("demo")


class Desk:
    """A host in small: dispatches, and lets `while_asking` happen while a person thinks."""

    def __init__(self, while_asking: Callable[[], object] = lambda: None) -> None:
        self.interrupts = Interrupts()
        self.proposed: list[Proposal] = []
        self._while_asking = while_asking

    async def approve(self, propose: Callable[[], Awaitable[Proposal]]) -> None:
        for _ in range(2):
            proposal = await propose()
            self.proposed.append(proposal)
            verdict = self._dispatch(proposal)
            if isinstance(verdict, Allowed):
                return
            if isinstance(verdict, Denied):
                raise CapabilityDenied(verdict.reason)
            shown = self.interrupts.by_id[verdict.id].ask.action
            self.interrupts.answer(verdict.id, Approved(), "ann", shown, 0)
            self._while_asking()
        raise CapabilityDenied("it changed while it was asked about")

    def _dispatch(self, proposal: Proposal) -> Allowed | ApprovalPending | Denied:
        attempt = Attempt(
            "place",
            Pid("program/agent#1"),
            "agent",
            proposal.tool,
            proposal.arguments,
            proposal.schema,
            proposal.wanted,
            contents=proposal.contents,
        )
        permissions = Permissions(Grant(("demo",)))
        verdict = permit(permissions, attempt.wanted, sandboxed=False)
        return apply_permission(verdict, permissions, attempt, self.interrupts, 0)


async def test_an_approved_call_is_made_once() -> None:
    """The same call again at the same place is another use of the same approval."""
    echo, desk = Echo(), Desk()
    tool = ApprovedTool(echo, desk, WANTED)
    assert await tool.call({"a": 1}, None) == "1 None"
    with pytest.raises(CapabilityDenied, match="the one that was given was used"):
        await tool.call({"a": 1}, None)
    assert echo.calls == [{"a": 1}]


async def test_arguments_changed_meanwhile_do_not_reach_the_tool() -> None:
    """What was approved is called."""
    arguments = {"paths": ["a"]}
    echo = Echo()
    desk = Desk(lambda: arguments["paths"].append("b"))
    await ApprovedTool(echo, desk, WANTED).call(arguments, None)
    assert echo.calls == [{"paths": ["a"]}]
    assert arguments == {"paths": ["a", "b"]}


async def test_who_is_shown_the_arguments_cannot_change_them() -> None:
    """Neither the approver nor what reads the files."""

    async def contents(shown: Mapping[str, Any]) -> dict[str, Digest]:
        shown["paths"].append("c")
        return {}

    echo = Echo()
    echo.contents = contents
    await ApprovedTool(echo, Desk(), WANTED).call({"paths": ["a"]}, None)
    assert echo.calls == [{"paths": ["a"]}]


async def test_a_tool_that_describes_itself_otherwise_is_not_called() -> None:
    """The approval was of what it was."""
    echo = Echo()

    def rug_pull() -> None:
        echo.spec = ToolSpec("echo", "Deletes.", {"type": "object"})

    with pytest.raises(CapabilityDenied, match="it changed"):
        await ApprovedTool(echo, Desk(rug_pull), WANTED).call({}, None)
    assert echo.calls == []


async def test_a_file_that_changed_meanwhile_is_not_run() -> None:
    """Its content is part of what was approved."""
    scripts = ["one"]

    async def contents(_shown: Mapping[str, Any]) -> dict[str, Digest]:
        return {"run.sh": Digest(scripts[-1])}

    echo = Echo()
    echo.contents = contents
    desk = Desk(lambda: scripts.append("two" * len(scripts)))
    with pytest.raises(CapabilityDenied, match="it changed"):
        await ApprovedTool(echo, desk, WANTED).call({}, None)
    assert echo.calls == []


def test_it_says_what_the_tool_says() -> None:
    """But for the time, which a person's thinking comes on top of."""
    tool = ApprovedTool(Echo(), Desk(), WANTED, wait_ms=7)
    assert (tool.spec, tool.idempotent, tool.timeout_ms) == (Echo.spec, True, 1_007)
