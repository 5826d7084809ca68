"""The kernel as tools of MCP, by the official client over a real socket: who may, bounds, questions
to people. That every tool works is in `test_http`, for all doors."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from tests.kernel.examples import TWO
from tests.kernel.serving import a_server, a_token
from tests.kernel.tools import ToolSite, a_tool_site, client_of
from tests.patience import PATIENCE_S
from vegakit.control import KERNEL_OPERATIONS
from vegakit.server import ROLES, HttpLimits, TokenRole

ASKS: dict[str, Any] = {
    "stages": [
        {"name": "draft", "agent": "writer", "default_next": "ask"},
        {"name": "ask", "agent": "person"},
    ],
    "agents": {
        "writer": {"model": "fast"},
        "person": {"asks": "clarification", "prompt": "May this be sent? {draft}"},
    },
}
PERMITS = ASKS | {"agents": ASKS["agents"] | {"person": {"asks": "confirmation", "prompt": "?"}}}


async def posted(
    site: ToolSite, token: str, method: str = "ping", params: object = None, **headers: str
) -> httpx2.Response:
    """A request by hand."""
    sent = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": method}
    asked |= {"params": params} if params else {}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        url = f"http://127.0.0.1:{site.port}/mcp"
        return await http.post(url, json=asked, headers=sent | headers)


async def test_a_role_is_shown_what_it_may_call_and_refused_the_rest() -> None:
    async with a_tool_site() as site:
        for role, rights in ROLES.items():
            client = await site.client(role)
            may = {name for name, row in KERNEL_OPERATIONS.items() if row.right in rights}
            assert {tool.name for tool in (await client.client.list_tools()).tools} == may
            for name in KERNEL_OPERATIONS:
                status, reply = await client.ask(name, colour="unknown")
                wanted = (400, "invalid") if name in may else (403, "forbidden")
                assert (status, reply["error"]["code"]) == wanted, (name, reply)
        status, reply = await (await site.client()).ask("nothing")
        assert (status, reply["error"]["code"]) == (404, "not_found")


async def test_who_is_let_in_is_decided_before_a_request_is_read() -> None:
    limits = HttpLimits(body_bytes=1_000)
    async with a_tool_site(limits) as site:
        token = await site.tokens.create("acme", "ann", TokenRole.WORKER)
        assert (await posted(site, token)).status_code == 200
        for wrong in ("x", "vega_0_0", f"{token}x"):
            reply = await posted(site, wrong)
            error = reply.json()["error"]
            assert (reply.status_code, error["data"]["code"]) == (401, "unauthenticated")
            assert "Authorization: Bearer TOKEN" in error["message"]
            told = pytest.RaisesExc(MCPError, match="Authorization: Bearer TOKEN")
            with pytest.RaisesGroup(told, flatten_subgroups=True):
                async with client_of(site.port, wrong):
                    pass
        own = f"http://127.0.0.1:{site.port}"
        for origin, status in ((own, 200), ("https://evil.example.com", 403), ("null", 403)):
            assert (await posted(site, token, Origin=origin)).status_code == status
        client = await site.client()
        with pytest.raises(MCPError, match="larger than 1000 bytes"):
            await client.ask("create_envelope", input="x" * 2_000)
        assert (await client.ask("create_envelope", input="x" * 200))[0] == 200
        async with httpx2.AsyncClient() as http:
            url, headers = f"{own}/mcp", {"Authorization": f"Bearer {token}"}
            assert (await http.get(url, headers=headers)).status_code == 405
            other = await http.post(f"{own}/v1/submit", json={}, headers=headers)
            assert other.status_code == 404, "only MCP is served here"
        [record] = [one for one in await site.tokens.list() if one.user == "ann"]
        await site.tokens.revoke(record.id)
        assert (await posted(site, token)).status_code == 401


async def test_calls_are_bounded_in_time_and_number() -> None:
    async with a_tool_site(HttpLimits(tenant_calls=1, tenant_waits=1)) as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        await client.ask("initialize_session", pid="p", pipeline=TWO)
        waits = {"pid": "p", "wait_ms": 60_000}
        hurried = await site.client(headers={"Vega-Timeout-Ms": "60"})
        status, reply = await hurried.ask("get_next_instruction", **waits)
        assert (status, reply["error"]["code"]) == (504, "deadline")
        # One that waits has the only place of its tenant for that; who only looks finds room.
        waiting = asyncio.ensure_future(client.ask("get_next_instruction", **waits))
        token = await site.tokens.create("acme", "bob", TokenRole.WORKER)
        call = {"name": "take_command", "arguments": {"topic": "t", "holder": "w"}}
        while (await posted(site, token, "tools/call", call)).status_code == 200:
            assert not waiting.done()
        assert (await posted(site, token, "tools/call", call)).status_code == 429
        assert (await posted(site, token)).status_code == 200
        waiting.cancel()


async def test_a_model_that_gave_no_answer_is_an_error() -> None:
    """With what it used, as over HTTP."""
    async with a_tool_site(latency_ms=60_000) as site:
        client = (await site.client()).client
        asked = {"model": "fast", "prompt": "Hi", "timeout_ms": 50}
        result = await client.call_tool("dispatch_inference", asked)
        page: Any = result.structured_content
        assert (result.is_error, page["failure"]) == (True, "timeout")
        assert page["metrics"] is not None


async def test_tools_that_end_something_say_so() -> None:
    async with a_tool_site() as site:
        tools = (await (await site.client()).client.list_tools()).tools
        ends = {one.name for one in tools if one.annotations and one.annotations.destructive_hint}
        assert ends == {
            "terminate_process",
            "terminate_session",
            "cancel_interrupt",
            "unregister_service",
        }


async def test_a_page_of_a_stream_goes_on_from_its_cursor() -> None:
    async with a_tool_site() as site:
        client = await site.client(headers={"Vega-Timeout-Ms": "300"})
        for number in range(3):
            await client.ask("create_process", pid=f"p{number}")
        _, page = await client.ask("watch_events", after=1)
        assert ([item["number"] for item in page["items"]], page["ended"]) == ([2, 3], True)
        _, page = await client.ask("watch_events", after=2, follow=True)
        assert ([item["number"] for item in page["items"]], page["ended"]) == ([3], False)


class Person:
    """Someone at a client, who says what they are asked to."""

    def __init__(self, action: Any, **content: Any) -> None:
        self.said = ElicitResult(action=action, content=content or None)
        self.asked: list[str] = []

    async def __call__(self, _: ClientRequestContext, asked: ElicitRequestParams) -> ElicitResult:
        self.asked.append(asked.message)
        return self.said


@pytest.mark.parametrize(
    ("pipeline", "person", "output"),
    [
        (ASKS, Person("accept", answer="yes, do"), "yes, do"),
        (PERMITS, Person("accept", approve=True), {"approved": True}),
        (PERMITS, Person("accept", approve=False), {"approved": False, "why": ""}),
        (PERMITS, Person("decline"), {"approved": False, "why": ""}),
    ],
)
async def test_a_person_at_the_client_answers_what_a_pipeline_asks(
    pipeline: dict[str, Any], person: Person, output: object
) -> None:
    """Within one call of the tool: it is answered with `input_required`, and repeated."""
    async with a_tool_site() as site:
        client = await site.client(elicitation_callback=person)
        status, page = await client.ask("execute_pipeline", pid="p", pipeline=pipeline)
        assert (status, page["ended"]) == (200, True), page
        kinds = [item["event"]["kind"] for item in page["items"]]
        assert kinds.count("interrupt_resolved") == len(person.asked) == 1
        _, shown = await client.ask("get_request_status", pid="p")
        assert shown["envelope"]["outputs"]["ask"] == output


async def test_who_may_not_answer_sees_the_question_and_is_not_asked() -> None:
    """Nor is one who is asked and says nothing asked again by the same call."""
    async with a_tool_site() as site:
        person = Person("accept", answer="by a worker")
        worker = await site.client(TokenRole.WORKER, elicitation_callback=person)
        status, page = await worker.ask("execute_pipeline", pid="p", pipeline=ASKS)
        assert (status, page["ended"], person.asked) == (200, False, [])
        asked = page["items"][-1]["event"]
        assert asked["kind"] == "interrupt_created"
        # Though it says that a person answered, its token may not.
        key = asked["detail"]["id"]
        result = await worker.client.call_tool(
            "execute_pipeline", {"pid": "p"}, input_responses={key: person.said}
        )
        assert result.structured_content is not None
        assert result.structured_content["error"]["code"] == "forbidden"
        silent = Person("cancel")
        hurried = {"Vega-Timeout-Ms": "1000"}
        operator = await site.client(elicitation_callback=silent, headers=hurried)
        status, page = await operator.ask("execute_pipeline", pid="p")
        assert (status, page["ended"], len(silent.asked)) == (200, False, 1)
        other = await site.client(tenant="other", elicitation_callback=person)
        status, reply = await other.ask("execute_pipeline", pid="p")
        assert (status, reply["error"]["code"], person.asked) == (404, "not_found", [])
        status, _ = await operator.ask(
            "resolve_interrupt", id=key, answer={"type": "Replied", "value": "go"}
        )
        assert status == 200
        _, page = await (await site.client()).ask("execute_pipeline", pid="p")
        assert page["ended"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_clients_of_both_protocols_are_served(mode: Any) -> None:
    async with a_tool_site() as site:
        client = await site.client(mode=mode)
        assert (await client.ask("submit", pid="p"))[0] == 200
        assert (await client.ask("get_process", pid="p"))[1]["state"] == "ready"


async def test_the_program_serves_it_beside_the_routes(tmp_path: Path) -> None:
    """On one port, with the same token; what one door did the other sees."""
    token = await asyncio.to_thread(a_token, tmp_path)
    with a_server(tmp_path, "--doors", "mcp,http") as server:
        server.call(token, "submit", pid="p1")
        assert f"{server.url}/mcp" in server.said
        async with client_of(server.port, token) as client:
            result = await client.call_tool("get_process", {"pid": "p1"})
            assert result.structured_content is not None
            assert result.structured_content["state"] == "ready"
