"""A program that a model wrote, and that is killed: the rounds of asks of `kills_program`.

Its planner answers from a script and costs nothing; what it is told of the program is checked too.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaigns.kills_program import (
    BUDGET,
    MODEL,
    ROUNDS,
    Doom,
    DoomedJournal,
    DoomedModel,
    Fault,
)
from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.host import Agent, run_program
from vegakit.money import Money
from vegakit.policy import RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.program import Printed
from vegakit.providers import ProviderAccess, ScriptedModel, build_model
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["live_authored"]

_FREE = PriceRow("planner", (PriceTier(*4 * [Money(0)]),))
SOURCE = f"""
fn ask(text: str) -> str {{
    while true limit 8 {{
        try {{
            return asker <- text;
        }} catch AgentFailed {{
            trace::event("cut off");
        }}
    }}
    return "";
}}

fn main() -> int {{
    let last = "start";
    print(last);
    for round in range({ROUNDS}) {{
        let a = "";
        let b = "";
        let c = "";
        parallel {{
            a = ask("0: {{last}}");
            b = ask("1: {{last}}");
            c = ask("2: {{last}}");
        }}
        print(a);
        print(b);
        print(c);
        last = c;
    }}
    return {ROUNDS};
}}
"""


def live_authored(
    journal: Path, url: str, doom: tuple[str, int], says: "Connection", fault: Fault | None = None
) -> None:
    if fault is not None:
        fault()
    asyncio.run(_live(journal, url, Doom(*doom), says))


async def _live(journal: Path, url: str, doom: Doom, says: "Connection") -> None:
    model = DoomedModel(build_model(MODEL, ProviderAccess(lambda: "any", base_url=url)), doom)
    again = RetryRule()
    asker = Agent("asker", model, max_tokens=100)
    tool = run_program([asker], max_cost="$900", teach=False)
    planner = Agent(
        "planner",
        ScriptedModel(_plan, "planner", price=_FREE),
        tools=[tool],
        budget="$1000",
        retry=again,
    )
    ledger = SqliteLedger(journal.with_suffix(".ledger.db"))
    printed: list[str] = []
    async with Runtime(BUDGET, journal=DoomedJournal(journal, doom), ledger=ledger) as rt:
        rt.on(Printed, lambda news: printed.append(news.text))
        says.send("up")
        assert (await rt.ask(planner, "go")).text == "done"
        says.send(printed)


def _plan(request: ModelRequest) -> Any:
    """By what it is told, not by how often it was asked: an earlier life may have been asked."""
    last = request.messages[-1]
    if not isinstance(last, ToolMessage):
        return {"calls": [{"name": "run_program", "arguments": {"source": SOURCE}}]}
    told = last.results[0].content
    return "done" if f'"result":{ROUNDS},' in told else f"wrong: {told}"
