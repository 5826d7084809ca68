"""A planner whose model sends programs as the test says, and the agents that they may ask."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.host import Agent, Reply, run_program
from vegakit.policy import unmarked
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

__all__ = ["Played", "call", "play", "results"]


def call(*sources: str, name: str = "run_program", **more: Any) -> dict[str, Any]:
    """One answer that calls the tool, once for each source."""
    return {"calls": [{"name": name, "arguments": {"source": source} | more} for source in sources]}


def results(requests: Sequence[ModelRequest]) -> list[str]:
    """All that the model was told by its tools, in order."""
    if not requests:
        return []
    messages = requests[-1].messages
    return [
        result.content
        for message in messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


class Played:
    """What became of one turn: `told` are the results of its tool calls."""

    def __init__(self, reply: Reply[str], planner: ScriptedModel, reader: ScriptedModel) -> None:
        self.reply, self.planner, self.reader = reply, planner, reader
        self.told = results(planner.requests)

    @property
    def last(self) -> dict[str, Any]:
        return json.loads(unmarked(self.told[-1]))


async def play(
    *script: Any,
    answers: Any = "fine",
    latency_ms: int = 0,
    budget: str = "$10",
    watch: Callable[[Runtime], Any] | None = None,
    planner: dict[str, Any] | None = None,
    window: int | None = None,
    **options: Any,
) -> Played:
    """Nothing of a program may be left when the turn is over."""
    reader_model = ScriptedModel(answers, latency_ms=latency_ms)
    planner_model = ScriptedModel([*script, "done"])
    reader = Agent("reader", reader_model, "Read it.", max_tokens=100)
    agents = options.pop("agents", [reader])
    tool = run_program(agents, **options)
    agent = Agent("planner", planner_model, "Plan.", tools=[tool], **planner or {})
    async with Runtime(budget, lookahead=window) as rt:
        if watch is not None:
            watch(rt)
        reply = await rt.ask(agent, "go")
        state, code = rt.program.machine.state, rt.program.registry.code
        assert not state.authored
        assert not [path for path in state.processes if "run_program" in path]
        assert not [name for name in code if "!" in name]
        assert await rt.spent() == reply.cost
    return Played(reply, planner_model, reader_model)
