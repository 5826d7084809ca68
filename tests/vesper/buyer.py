"""A run whose agents order things: `python -m tests.vesper.buyer FOLDER MODE KILLED_AT [program]`,
with a rollout that is called, or that stands in a program.

It is recorded, and killed by itself at its model call of that number, if it is not 0. What its tool
orders is a line in a file, which is what the far end has seen. Started again it goes on.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.host import Agent
from vegakit.providers.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.vesper import PersonAction, RolloutMode, RolloutRule, rollout

ITEMS = ("tea", "rum", "ale")


def agent(name: str, orders: Path, killed_at: int, numbers: Iterator[int]) -> Agent[str]:
    def order(item: str) -> str:
        """Order an item."""
        with orders.open("a", encoding="utf-8") as file:
            file.write(f"{item}\n")
        return f"ordered {item}"

    def answer(request: ModelRequest) -> ScriptedReply:
        if next(numbers) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(request.messages[-1], ToolMessage):
            return ScriptedReply("done")
        item = next(each for each in ITEMS if each in str(request.messages))
        return ScriptedReply(calls=(ScriptedCall("order", {"item": item}),))

    return Agent(name, model=ScriptedModel(answer, name=name), tools=[order])


PROGRAM = """
agent Buyer { model large  tools [order]  budget $0.50 }

fn main() -> [str] {
    return [for item in ["tea", "rum", "ale"] { Buyer <- "Buy {item}." }];
}
"""


async def main(folder: Path, mode: RolloutMode, killed_at: int, *, in_program: bool) -> None:
    numbers = count(1)
    old, new = (agent(name, folder / "orders", killed_at, numbers) for name in ("old", "new"))
    rule = RolloutRule(calibration=0, sample=1.0)
    async with (
        Runtime(journal=folder / "run.db", observable=False, models=ScriptedModel) as rt,
        rollout(rt, "buy", reference=old, candidate=new, rule=rule) as buy,
    ):
        while buy.status().mode is not mode:
            await buy.decide(PersonAction.PROMOTE, "ada")
        answers = list[str]()
        if in_program:
            file = folder / "buy.vega"
            file.write_text(PROGRAM, encoding="utf-8")
            program = rt.load(file, tools=old.tools).with_agents({"Buyer": buy})
            answers = await program.main()
        for item in () if in_program else ITEMS:
            answers.append(await buy(f"Buy {item}."))
            # A kill during a tool call is a person's to decide about, in any run: so no
            # tool is called while a comparison asks the model at which the process is killed.
            await buy.settle()
        counted = buy.status().evidence.production
        print(*answers, counted.runs, counted.failures)


if __name__ == "__main__":
    called = main(
        Path(sys.argv[1]), RolloutMode(sys.argv[2]), int(sys.argv[3]), in_program=len(sys.argv) > 4
    )
    asyncio.run(called)
