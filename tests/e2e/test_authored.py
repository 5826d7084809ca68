"""A real small model that writes programs: what it writes is refused in words that it reads, what
it chooses is accepted, runs on the same model, and is billed to the token."""

from typing import Any

from tests.e2e.test_small_model import an_agent, url, with_runtime
from vegakit.conversation import Conversation, ToolMessage, ToolSpec
from vegakit.host import Agent, RunProgram, run_program
from vegakit.sdk import Runtime

__all__ = ["url"]

GOOD = 'fn main() -> str { let a = small <- "Say yes."; return a; }'
DEAR = 'for i in range(3550000) { small <- "Say yes."; }'


def planner(source: dict[str, Any]) -> Agent[Any]:
    """A grammar holds its model to this schema of a source."""
    tool: RunProgram = run_program([an_agent(max_tokens=40)], max_cost="$0.01", teach=False)
    parameters = {"type": "object", "properties": {"source": source}, "required": ["source"]}
    tool.spec = ToolSpec(tool.spec.name, "Run a program.", parameters)
    return an_agent(tools=[tool], budget="$0.05")


def told(messages: Conversation) -> str:
    [message] = [one for one in messages.messages if isinstance(one, ToolMessage)]
    return message.results[0].content


def test_what_the_model_writes_is_answered(url: str) -> None:
    """It was never taught the language: the refusal is a result like another."""

    async def work(rt: Runtime) -> None:
        free = {"type": "string", "minLength": 10, "maxLength": 60}
        reply = await rt.ask(planner(free), "Write a program that asks small to say yes.")
        assert told(reply.messages).startswith(("refused (", '<untrusted>\n{"'))
        assert reply.text.strip()
        assert reply.steps == 2

    with_runtime(url, work)


def test_what_the_model_chooses_runs_on_the_model(url: str) -> None:
    """One is accepted and asks the same model again; the other is refused with its price."""

    async def work(rt: Runtime) -> None:
        ran = await rt.ask(planner({"enum": [GOOD]}), "Run the program.")
        assert told(ran.messages).startswith('<untrusted>\n{"result":"')
        assert '"calls":1' in told(ran.messages)
        assert ran.cost == await rt.spent()
        refused = await rt.ask(planner({"enum": [DEAR]}), "Run the program.")
        assert told(refused.messages).startswith("refused (cost)")
        assert ran.cost + refused.cost == await rt.spent()

    with_runtime(url, work)
