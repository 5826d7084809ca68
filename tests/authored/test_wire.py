"""The whole way over sockets: official SDKs, a provider on loopback, a planner that mends."""

import json

import pytest

from tests.runtime.test_wire import WIRES, on_wire
from vegakit.host import Agent, run_program
from vegakit.sdk import Runtime
from vegakit.testing import Provider, ProviderReply, ProviderRequest, ProviderToolCall

PLAN = """\
fn main() -> [str] {
    let all = [for i in range(COUNT) { async reader <- "part {i}" }];
    return [for one in all { await one }];
}
"""


def answer(request: ProviderRequest) -> ProviderReply:
    """A planner has tools; it mends what was refused."""
    if not request.tools:
        return ProviderReply(f"<{request.text}>")
    if request.tool_results == 0:
        return ProviderReply(
            calls=(ProviderToolCall("run_program", {"source": PLAN.replace("COUNT", "355")}),)
        )
    if "refused (cost)" in request.raw.decode() and request.tool_results == 1:
        return ProviderReply(
            calls=(ProviderToolCall("run_program", {"source": PLAN.replace("COUNT", "4")}),)
        )
    return ProviderReply("Four parts.")


@pytest.mark.parametrize("wire", WIRES)
def test_a_program_is_refused_mended_and_run_over_the_wire(wire: str) -> None:
    """Seven requests in all: three of the planner's, and none for what was refused."""

    async def work(rt: Runtime, provider: Provider) -> None:
        reader = Agent("reader", model=wire, max_tokens=100)
        tool = run_program([reader], max_cost="$0.10")
        planner = Agent("planner", model=wire, tools=[tool], max_tokens=2_000)
        reply = await rt.ask(planner, "go")
        assert reply.text == "Four parts."
        asked = [request.text for request in provider.requests if not request.tools]
        assert sorted(asked) == [f"part {n}" for n in range(4)]
        assert len(provider.requests) == 3 + 4
        told = json.dumps([json.loads(request.raw) for request in provider.requests][-1])
        assert "<part 3>" in told
        assert reply.cost == await rt.spent()

    on_wire(wire, answer, work)
