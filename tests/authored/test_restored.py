"""A written program in a state that another host takes up: its source is all that travels."""

from typing import Any

import pytest

from tests.authored.stage import call
from tests.program.rooms import Room
from vegakit.conversation import ModelReply, ToolMessage
from vegakit.effects import CallModel
from vegakit.errors import ProgramChanged
from vegakit.events import Answered
from vegakit.host import Agent, Registry, run_program
from vegakit.money import Money
from vegakit.program import Code, Event
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

SOURCE = """
agent Own { model "scripted"  max_tokens 20 }
fn main() -> str {
    let a = reader <- "one";
    print(a);
    let b = Own <- "two {a}";
    return b;
}
"""


def code(**options: Any) -> Code:
    """As another worker would make it: nothing of it is shared."""
    model = ScriptedModel("?", context_tokens=9_000)
    reader = Agent("reader", model, max_tokens=30)
    tool = run_program([reader], teach=False, **options)
    rt = Runtime()
    registry = Registry(rt.model_registry, lambda: rt.admission_service)
    registry.register(Agent("planner", model, tools=[tool], budget="$2", max_tokens=20))
    return registry.code


class Relay(Room):
    """After every step another worker goes on."""

    def step(self, event: Event) -> list[Any]:
        self.code = code()
        self.machine = type(self.machine)(self.machine.state, self.code)
        return super().step(event)


async def said(script: Any, effect: Any) -> Answered:
    assert isinstance(effect.request, CallModel)
    reply = await ScriptedModel([script]).ask(effect.request.request)
    assert isinstance(reply, ModelReply)
    return Answered(reply, Money(1_000))


async def test_each_worker_makes_the_same_bodies_from_the_source() -> None:
    """Through JSON and a fresh registry after each step, as on Temporal."""
    room = Relay(code())
    planner = room.spawn("planner")
    ask = room.prompt(planner)
    script: list[Any] = [call(SOURCE), "uno", "dos", "done"]
    for answer in script:
        effect = room.only(CallModel)
        if answer == "done":
            told = effect.request.request.messages[-1]
            assert isinstance(told, ToolMessage)
            assert '"result":"dos"' in told.results[0].content
            assert '"printed":"uno\\n"' in told.results[0].content
            assert '"calls":2' in told.results[0].content
        room.answer(await said(answer, effect), effect)
    assert room.told(ask)["text"] if isinstance(room.told(ask), dict) else room.told(ask).text
    assert room.state.authored == {}
    assert room.state.wallets.keys() == {planner}


async def test_who_would_not_accept_it_does_not_go_on() -> None:
    """A worker with another leave is told so, and does not run what it did not admit."""
    room = Room(code())
    room.prompt(room.spawn("planner"))
    room.answer(await said(call(SOURCE), room.only(CallModel)))
    assert len(room.state.authored) == 1
    room.machine = type(room.machine)(room.machine.state, code(max_cost="$0.000001"))
    [path] = room.state.authored
    with pytest.raises(ProgramChanged, match="is not by this one: refused"):
        room.machine._core.body_of(room.state.processes[path])  # pyright: ignore[reportPrivateUsage]
