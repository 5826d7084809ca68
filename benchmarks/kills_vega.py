"""A Vega program that is killed: the rounds of asks of `kills_program`, three at a time.

What it prints is its answers; a life that is killed leaves none.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.kills_program import (
    BUDGET,
    MODEL,
    ROUNDS,
    Doom,
    DoomedJournal,
    DoomedModel,
    Fault,
)
from vegakit.lang import check, compile_program
from vegakit.models import ProviderAccess, build_model
from vegakit.program import Printed
from vegakit.runtime import Runtime, VegaProgram
from vegakit.store import SqliteLedger

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["live_vega"]

SOURCE = f"""
agent Asker {{ model "{MODEL}"  max_tokens 100 }}

// A call that was cut off is not sent again by itself: the program asks anew.
fn ask(text: str) -> str {{
    while true limit 50 {{
        try {{
            return Asker <- text;
        }} catch AgentFailed {{
            trace::event("cut off");
        }}
    }}
    return "";
}}

fn main(rounds: int) -> int {{
    let last = "start";
    print(last);
    for round in range(rounds) {{
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
    return rounds;
}}
"""


def live_vega(
    journal: Path, url: str, doom: tuple[str, int], says: "Connection", fault: Fault | None = None
) -> None:
    if fault is not None:
        fault()
    asyncio.run(_live(journal, url, Doom(*doom), says))


async def _live(journal: Path, url: str, doom: Doom, says: "Connection") -> None:
    """It says its answers while its run is not over: who is killed after that has no next life."""
    model = DoomedModel(build_model(MODEL, ProviderAccess(lambda: "any", base_url=url)), doom)
    ledger = SqliteLedger(journal.with_suffix(".ledger.db"))
    printed: list[str] = []
    async with Runtime(
        BUDGET, journal=DoomedJournal(journal, doom), ledger=ledger, models=lambda _: model
    ) as rt:
        rt.on(Printed, lambda news: printed.append(news.text))
        says.send("up")
        assert await rt.run(VegaProgram(_MODULE, Path()), ROUNDS) == ROUNDS
        says.send(printed)


_CHECKED, _FOUND = check(SOURCE, "main.vega", lambda _path: None)
assert _CHECKED is not None, _FOUND
_MODULE = compile_program(_CHECKED)
