"""A run whose agents order things: `python -m tests.vesper.buyer FOLDER MODE KILLED_AT [HOW]`.

It is recorded, and killed by itself at its model call of that number, if it is not 0. What its tool
orders is a line in a file, which is what the far end has seen. Started again it goes on. `HOW` is
`fails` if the candidate fails after it has ordered, `orders` if it is killed when it has ordered so
often, before the tool has said so, and `program` if the rollout stands in a program.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.errors import ErrorClass
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.vesper import PersonAction, RolloutMode, RolloutRule, rollout

ITEMS = ("tea", "rum", "ale")


def agent(name: str, orders: Path, killed_at: int, numbers: Iterator[int], how: str) -> Agent[str]:
    def die_at(number: int) -> None:
        if next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def order(item: str) -> str:
        """Order an item."""
        with orders.open("a", encoding="utf-8") as file:
            file.write(f"{item}\n")
        if how == "orders":
            die_at(killed_at)
        return f"ordered {item}"

    def answer(request: ModelRequest) -> ScriptedReply:
        if how != "orders":
            die_at(killed_at)
        if isinstance(request.messages[-1], ToolMessage):
            is_failing = how == "fails" and name == "new"
            return ScriptedReply("done", error=ErrorClass.REJECTED if is_failing else None)
        item = next(each for each in ITEMS if each in str(request.messages))
        return ScriptedReply(calls=(ScriptedCall("order", {"item": item}),))

    return Agent(name, model=ScriptedModel(answer, name=name), tools=[order])


PROGRAM = """
agent Buyer { model large  tools [order]  budget $0.50 }

fn main() -> [str] {
    return [for item in ["tea", "rum", "ale"] { Buyer <- "Buy {item}." }];
}
"""


async def main(folder: Path, mode: RolloutMode, killed_at: int, how: str = "") -> None:
    in_program = how == "program"
    numbers = count(1)
    old, new = (agent(name, folder / "orders", killed_at, numbers, how) for name in ("old", "new"))
    rule = RolloutRule(calibration=0, sample=1.0)
    async with (
        Runtime(journal=folder / "run.db", observable=False, models=ScriptedModel) as rt,
        rollout(rt, "buy", reference=old, candidate=new, rule=rule) as buy,
    ):
        while buy.status().mode is not mode and not buy.status().held_because:
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
    asyncio.run(main(Path(sys.argv[1]), RolloutMode(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
