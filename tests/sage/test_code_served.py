"""The coding agent for MCP clients and over HTTP: who may do what, where, and for how much."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from tests.sage.scene import Scene, calls, scene
from vegakit.control import OperationError
from vegakit.errors import UserError
from vegakit.ids import TenantId
from vegakit.kernel import KernelCaller
from vegakit.sage import SageMode, SageQuestion, SageTurn
from vegakit.server import CodePlan, CodeSessions
from vegakit.server.code_mcp import CodeMcp
from vegakit.server.code_sessions import (
    CODE_OPERATIONS,
    AnswerCodeRequest,
    BeginCodeRequest,
    CodeEvent,
    CodeEventsRequest,
    CodeSessionRequest,
    EventLog,
    ListCodeRequest,
    PromptCodeRequest,
    TenantCode,
)
from vegakit.server.kernel_app import openapi
from vegakit.testing import ProviderReply, ProviderRequest


def says(request: ProviderRequest) -> ProviderReply:
    if request.tool_results == 0 and "write" in request.text:
        return calls(("write", {"path": "a.txt", "content": "a\n"}))
    if "slow" in request.text:
        return ProviderReply("At last.", delay_ms=60_000)
    return ProviderReply("Done.")


@pytest.fixture
def made(tmp_path: Path) -> Generator[Scene]:
    with scene(tmp_path, says) as here, here.inside():
        yield here


# MCP.


async def said(client: Client, tool: str, **given: Any) -> tuple[Any, str, bool]:
    result = await client.call_tool(tool, given)
    (part,) = result.content
    return result.structured_content, getattr(part, "text", ""), bool(result.is_error)


async def test_a_session_goes_on_is_listed_exported_and_undone(made: Scene) -> None:
    door = CodeMcp(made.folder, mode="auto")
    async with Client(door.server()) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "code",
            "list_sessions",
            "export_session",
            "undo",
            "redo",
        ]
        page, text, failed = await said(client, "code", prompt="Please write it.")
        assert (text, failed, page["events"]) == ("Done.", False, None)
        assert (made.folder / "a.txt").read_text() == "a\n"
        again, _, _ = await said(client, "code", prompt="More.", session=page["session"])
        assert again["run"] == page["run"]
        assert again["end"]["spent_usd"] > page["end"]["spent_usd"]
        (one,) = (await said(client, "list_sessions"))[0]["sessions"]
        assert (one["run"], one["turns"]) == (page["run"], 2)
        _, text, _ = await said(client, "export_session", session=page["run"])
        assert "Please write it." in text
        for _ in range(2):
            await said(client, "undo")
        assert not (made.folder / "a.txt").exists()
        await said(client, "redo")
        assert (made.folder / "a.txt").exists()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"prompt": "Go.", "mode": "auto"}, "allows more than ask"),
        ({"prompt": "Go.", "budget": "$2"}, "at most $1"),
        ({"prompt": "Go.", "session": "none"}, "there is no session"),
        ({"prompt": " "}, "prompt is empty"),
        ({"prompt": "Go.", "folder": "/"}, "does not take this"),
        ({"session": "", "prompt": 7}, "does not take this"),
    ],
)
async def test_a_call_asks_for_less_and_never_for_more(
    made: Scene, given: dict[str, Any], why: str
) -> None:
    async with Client(CodeMcp(made.folder, mode="ask", budget="$1").server()) as client:
        _, text, failed = await said(client, "code", **given)
        assert failed
        assert why in text
    assert made.bodies == []


@pytest.mark.parametrize("approve", [True, False])
async def test_a_person_at_the_client_is_asked(made: Scene, *, approve: bool) -> None:
    asked: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        del context
        asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": approve})

    door = CodeMcp(made.folder, mode="ask")
    async with Client(door.server(), elicitation_callback=person) as client:
        page, _, _ = await said(client, "code", prompt="Please write it.")
        assert page["end"]["reason"] == "done"
    assert len(asked) == 1
    assert '"path":"a.txt"' in asked[0]
    assert (made.folder / "a.txt").exists() == approve


async def test_a_client_that_asks_nobody_is_told_what_was_refused(made: Scene) -> None:
    async with Client(CodeMcp(made.folder, mode="ask").server()) as client:
        page, text, _ = await said(client, "code", prompt="Please write it.")
        assert page["end"]["refused"] == 1
        assert "a.txt" in page["refused"][0]
        assert "nobody can be asked" in text
    assert not (made.folder / "a.txt").exists()


# HTTP.


def code_of(
    made: Scene, tenant: str = "acme", mode: SageMode = SageMode.AUTO
) -> tuple[CodeSessions, TenantCode]:
    sessions = CodeSessions(CodePlan({"acme": {"work": made.folder}}, "$1", mode))
    return sessions, caller_of(sessions, tenant)


def caller_of(sessions: CodeSessions, tenant: str) -> TenantCode:
    return TenantCode(sessions, KernelCaller(TenantId(tenant), "ann"))


async def test_events_are_numbered_and_outlive_the_server(made: Scene) -> None:
    sessions, code = code_of(made)
    run = (await code.begin_code_session(BeginCodeRequest())).run
    began = await code.prompt_code_session(PromptCodeRequest(run, "Please write it."))
    first = [one async for one in code.stream_code_events(CodeEventsRequest(run, began.after))]
    assert [one.number for one in first] == [*range(1, len(first) + 1)]
    assert (first[0].kind, first[-1].kind) == ("session", "end")
    await sessions.aclose()
    # Another server, or this one after a kill.
    _, code = code_of(made)
    again = [one async for one in code.stream_code_events(CodeEventsRequest(run, 3))]
    assert again == first[3:]
    began = await code.prompt_code_session(PromptCodeRequest(run, "More."))
    assert began.after == len(first)
    (row,) = (await code.list_code_sessions(ListCodeRequest())).sessions
    assert (row.folder, row.info.run) == ("work", run)
    found = await code.export_code_session(CodeSessionRequest(run))
    assert "Please write it." in found.markdown
    [one async for one in code.stream_code_events(CodeEventsRequest(run, began.after))]


async def test_a_tenant_reaches_its_own_folders_only(made: Scene) -> None:
    sessions, code = code_of(made)
    run = (await code.begin_code_session(BeginCodeRequest(folder="work"))).run
    other = caller_of(sessions, "other")
    assert (await other.list_code_sessions(ListCodeRequest())).sessions == ()
    attempts: list[Any] = [
        other.begin_code_session(BeginCodeRequest()),
        other.begin_code_session(BeginCodeRequest(folder="work")),
        other.prompt_code_session(PromptCodeRequest(run, "Go.")),
        other.cancel_code_turn(CodeSessionRequest(run)),
        other.answer_code_question(AnswerCodeRequest(run, "0", True)),
        other.export_code_session(CodeSessionRequest(run)),
        anext(other.stream_code_events(CodeEventsRequest(run))),
        code.begin_code_session(BeginCodeRequest(folder=str(made.folder))),
        code.begin_code_session(BeginCodeRequest(folder="..")),
    ]
    for attempt in attempts:
        with pytest.raises(OperationError) as refused:
            await attempt
        assert refused.value.code == "not_found"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (BeginCodeRequest(budget="$2"), "at most"),
        (BeginCodeRequest(mode=SageMode.AUTO), "allows more"),
        (BeginCodeRequest(model="scripted:/etc/passwd"), "a model is named"),
        (BeginCodeRequest(name="x\x1b]0;owned\x07"), "cannot be the name of a session; take"),
    ],
)
async def test_a_request_asks_for_less_and_never_for_more(
    made: Scene, request_: BeginCodeRequest, why: str
) -> None:
    _, code = code_of(made, mode=SageMode.ASK)
    with pytest.raises(UserError, match=why):
        await code.begin_code_session(request_)


async def test_a_question_is_answered_once_by_its_id(made: Scene) -> None:
    _, code = code_of(made, mode=SageMode.ASK)
    run = (await code.begin_code_session(BeginCodeRequest())).run
    await code.prompt_code_session(PromptCodeRequest(run, "Please write it."))
    with pytest.raises(OperationError, match="at work"):
        await code.prompt_code_session(PromptCodeRequest(run, "More."))
    async for one in code.stream_code_events(CodeEventsRequest(run)):
        if isinstance(one.event, SageQuestion):
            (row,) = (await code.list_code_sessions(ListCodeRequest())).sessions
            assert [asked.id for asked in row.questions] == [one.event.id]
            assert one.event.call == "1.1.0"
            with pytest.raises(UserError, match="no open question"):
                await code.answer_code_question(AnswerCodeRequest(run, one.event.id[:6], True))
            answer = AnswerCodeRequest(run, one.event.id, True)
            await code.answer_code_question(answer)
            with pytest.raises(UserError, match="no open question"):
                await code.answer_code_question(answer)
    assert (made.folder / "a.txt").exists()


async def test_a_server_that_ends_cuts_a_turn_off_and_the_next_goes_on(made: Scene) -> None:
    sessions, code = code_of(made)
    run = (await code.begin_code_session(BeginCodeRequest())).run
    await code.prompt_code_session(PromptCodeRequest(run, "Be slow."))
    events = code.stream_code_events(CodeEventsRequest(run, follow=True))
    async for one in events:
        if isinstance(one.event, SageTurn):
            break
    await sessions.aclose()
    rest = [one async for one in events]
    assert all(one.kind != "end" or one.event.reason == "interrupted" for one in rest)  # pyright: ignore[reportAttributeAccessIssue]
    (row,) = (await caller_of(sessions, "acme").list_code_sessions(ListCodeRequest())).sessions
    assert row.info.state == "cut off"


async def test_a_line_that_was_cut_off_is_no_event(tmp_path: Path) -> None:
    path = tmp_path / "events" / "log.jsonl"
    log = EventLog(path)
    for number in range(450):
        log.append(SageTurn(number, "one\u2028line"))
    with path.open("ab") as file:
        file.write(b'{"type":"turn","tu')
    log = EventLog(path)
    assert log.last == 450
    log.append(SageTurn(450, "after"))
    log, told = EventLog(path), list[CodeEvent]()
    while page := log.read(len(told)):
        told += page
    assert [one.number for one in told] == [*range(1, 452)]
    assert [one.event for one in told[449:]] == [
        SageTurn(449, "one\u2028line"),
        SageTurn(450, "after"),
    ]
    assert log.read(10**12) == log.read(451) == []


def test_routes_are_described_where_they_are_served() -> None:
    names = {f"/v1/{name}" for name in CODE_OPERATIONS}
    assert names <= openapi(with_code=True)["paths"].keys()
    assert not names & openapi()["paths"].keys()
    stream = openapi(with_code=True)["paths"]["/v1/stream_code_events"]["post"]
    assert "text/event-stream" in stream["responses"]["200"]["content"]
    json.dumps(openapi(with_code=True))


def test_roles_hold() -> None:
    """As on every other route: by the right that a row names."""
    rights = {row.name: row.right for row in CODE_OPERATIONS.values()}
    assert rights["answer_code_question"] == "answer"
    assert {name for name, right in rights.items() if right == "read"} == {
        "stream_code_events",
        "list_code_sessions",
        "export_code_session",
    }
    assert all(hasattr(TenantCode, name) for name in rights)
