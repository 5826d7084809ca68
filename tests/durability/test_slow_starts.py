"""A slow start stalls nobody: models are built in a thread, and before a lease is taken."""

import asyncio
import threading
from pathlib import Path

from tests.durability.commands import Home
from tests.patience import wait_until
from vegakit import Agent, Runtime
from vegakit.ports import Model
from vegakit.providers import ScriptedModel
from vegakit.testing import Provider

PROGRAM = """
agent A { model "slow one" }
agent B { model "slow two" }
fn main() -> str { return A <- "hi"; }
"""


class Slow:
    """Loading the libraries of a provider: holds its thread until the loop has moved on."""

    def __init__(self) -> None:
        self.ticks = 0
        self.built: list[str] = []

    def __call__(self, name: str) -> Model:
        assert threading.current_thread() is not threading.main_thread(), "built on the loop"
        before = self.ticks
        wait_until(lambda: self.ticks >= before + 3)
        self.built.append(name)
        return ScriptedModel(lambda _: "yes", name)

    async def tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


async def test_an_agent_is_asked_while_the_loop_goes_on() -> None:
    """A hundred who ask at once wait for one model, built once."""
    slow = Slow()
    ticking = asyncio.ensure_future(slow.tick())
    asked = Agent("guide", "slow one", max_tokens=10)
    async with Runtime("$1", models=slow) as rt:
        replies = await asyncio.gather(*(rt.ask(asked, f"{number}") for number in range(100)))
    ticking.cancel()
    assert [reply.text for reply in replies] == ["yes"] * 100
    assert slow.built == ["slow one"]


async def test_a_program_is_deployed_while_the_loop_goes_on(tmp_path: Path) -> None:
    """With every model that it names."""
    slow = Slow()
    ticking = asyncio.ensure_future(slow.tick())
    (tmp_path / "main.vega").write_text(PROGRAM)
    async with Runtime("$1", models=slow) as rt:
        assert await rt.run(rt.load(tmp_path / "main.vega")) == "yes"
    ticking.cancel()
    assert slow.built == ["slow one", "slow two"]


def test_a_run_builds_its_models_before_it_takes_a_lease(tmp_path: Path) -> None:
    """One that cannot be built leaves nothing behind: no ledger or journal was opened."""
    with Provider().in_thread() as provider:
        home = Home(tmp_path, provider)
        home.write('agent A { model "scripted:nowhere.json" }\nfn main() { A <- "hi"; }\n')
        ended = home.vega("run", "main.vega")
    assert ended.status == 1
    assert "nowhere.json" in ended.err
    assert list(home.data.glob("*.db")) == []
