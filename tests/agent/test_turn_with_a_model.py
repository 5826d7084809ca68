"""A turn and a scripted model, with the smallest host there can be between them."""

import asyncio

from tests.agent.turns import PROMPT, restored, rule, said, user
from vegakit.agent import (
    AskModel,
    CallTools,
    Finished,
    HistoryPolicy,
    ToolOutcome,
    Turn,
    TurnFailed,
)
from vegakit.conversation import Message
from vegakit.providers import ScriptedModel


async def carry_out(
    turn: Turn, model: ScriptedModel, history: tuple[Message, ...] = ()
) -> Finished | TurnFailed:
    """Stored and loaded between any two steps."""
    count = model.bound_input
    action = turn.start(PROMPT, history, count=count)
    while not isinstance(action, Finished | TurnFailed):
        turn = restored(turn)
        if isinstance(action, CallTools):
            sums = {p.index: ToolOutcome(str(sum(p.call.arguments.values()))) for p in action.calls}
            action = turn.on_tools(sums, count=count)
        elif isinstance(action, AskModel):
            action = turn.on_reply(await model.ask(action.request), count=count)
        else:
            action = turn.on_summary(await model.ask(action.request), count=count)
    return action


def test_two_sums_and_an_answer() -> None:
    """Two model calls, two tool calls, one conversation."""
    both = [{"name": "add", "arguments": {"a": a, "b": 2}} for a in (1, 2)]
    model = ScriptedModel([{"calls": both}, "3 and 4"])
    ended = asyncio.run(carry_out(Turn(rule()), model))
    assert isinstance(ended, Finished)
    assert (ended.output_text, ended.steps) == ("3 and 4", 2)
    assert [type(m).__name__ for m in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]


def test_a_long_conversation_is_summarised_by_the_model_itself() -> None:
    """The summary is bought as a step of the turn."""
    history = (user("so many words " * 2), said("and as many back")) * 31
    model = ScriptedModel(["They spoke.", "Done."])
    made = rule(tools=(), history=HistoryPolicy.SUMMARISE, context_tokens=400)
    ended = asyncio.run(carry_out(Turn(made), model, history))
    assert isinstance(ended, Finished)
    assert (ended.steps, ended.dropped.exchanges) == (2, 17)
    assert model.requests[1].messages[0] == user("Summary of the earlier conversation: They spoke.")
