"""A model that plans 355 agents: told the price before a cent is spent, it fixes its plan."""

import asyncio
import re

from tests.authored.stage import call, play
from vegakit.host import Agent
from vegakit.money import dollars
from vegakit.program import ProcessSpawned
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

PLAN = """\
fn main() -> int {
    let words = 0;
    let asked = [for i in range(355) { async reader <- "Summarise part {i}." }];
    for one in asked {
        words = words + len(str::split(await one, " "));
    }
    print("{len(asked)} parts");
    return words;
}
"""
REPAIRED = PLAN.replace("355", "60")


async def test_the_plan_is_refused_with_its_dear_line_and_then_runs() -> None:
    """Nothing is called before it is accepted; then it costs what its account says."""
    begun: list[str] = []

    def watch(rt: Runtime) -> None:
        rt.on(ProcessSpawned, lambda news: begun.append(news.path.rpartition("/")[2]))

    played = await play(call(PLAN), call(REPAIRED), answers="a b c", max_cost="$0.20", watch=watch)
    refused, ran = played.told
    assert refused.startswith("refused (cost), nothing was run: it may cost $0.2")
    assert "Most expensive is line 3: `reader <-`, at most 355 sends" in refused
    share = re.search(r"(\d+) % of today's count", refused)
    assert share is not None
    assert 355 * int(share[1]) // 100 >= 60
    assert "355 sends, at most 71 paid repeats" in refused
    assert "session budget $0.20 {" in refused
    assert played.last["result"] == 180
    assert played.last["printed"] == "60 parts\n"
    account = played.last["account"]
    assert account["calls"] == len(played.reader.requests) == 60
    assert dollars(account["spent"]) <= dollars(account["quote"]) <= dollars("$0.20")
    assert ran.count("$") == 2
    assert [name.partition("~")[0] for name in begun] == ["planner", "run_program", "reader"]


async def test_the_account_is_the_bill() -> None:
    """What the program spent and what its planner spent are what the ledger says."""
    played = await play(call(REPAIRED), answers="a b c", max_cost="$0.25")
    requests = played.reader.requests
    words = sum(played.reader.bound_input(request) for request in requests)
    billed = words * 1_000 + len(requests) * 3 * 5_000
    assert dollars(played.last["account"]["spent"]) == billed
    own = sum(played.planner.bound_input(request) for request in played.planner.requests)
    assert played.reply.cost - billed > own * 1_000


class Gathered:
    """A clock on which nobody's answer comes before as many wait for theirs."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._all_there = wanted, asyncio.Event()
        self.waiting = 0

    def now(self) -> int:
        return 0

    async def wait_until(self, at_ms: int) -> None:
        self.waiting += 1
        if self.waiting == self._wanted:
            self._all_there.set()
        await self._all_there.wait()


async def test_all_355_run_in_parallel_where_they_may_cost_it() -> None:
    """All are asked before the first is answered."""
    together = Gathered(355)
    model = ScriptedModel("fine", clock=together)
    reader = Agent("reader", model, "Read it.", max_tokens=100)
    async with asyncio.timeout(120):
        played = await play(call(PLAN), agents=[reader], max_cost="$2", window=0)
    assert played.last["account"]["calls"] == together.waiting == 355
