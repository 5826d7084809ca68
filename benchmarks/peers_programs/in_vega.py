"""Our own way, in a process that may be killed: `python -m … PLAN URL FOLDER`.

Prints what the planner said last. The ledger and the journal are files in the folder.
"""

import asyncio
import sys
from pathlib import Path

from benchmarks.peers_programs.plans import CAP, MODEL
from vegakit.host import Agent, run_program
from vegakit.policy import RetryRule
from vegakit.providers import ProviderAccess, build_model
from vegakit.sdk import Runtime
from vegakit.store import SqliteJournal, SqliteLedger

__all__ = ["MAX_TOKENS", "open_reader"]

MAX_TOKENS = 1_250


def open_reader(url: str) -> Agent[str]:
    model = build_model(f"openai-chat:{MODEL}", ProviderAccess(lambda: "any", base_url=f"{url}/v1"))
    retry = RetryRule()
    return Agent("reader", model, "Be brief.", max_tokens=MAX_TOKENS, retry=retry)


async def live(plan: str, url: str, folder: Path) -> str:
    reader = open_reader(url)
    most = "$5" if plan in ("rounds", "sixty") else f"${CAP}"
    planner = Agent(
        "planner", reader.model, tools=[run_program([reader], max_cost=most)], retry=reader.retry
    )
    journal, ledger = SqliteJournal(folder / "run.db"), SqliteLedger(folder / "ledger.db")
    async with Runtime("$100", journal=journal, ledger=ledger) as rt:
        return (await rt.ask(planner, f"plan {plan}")).text


if __name__ == "__main__":
    print(asyncio.run(live(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
