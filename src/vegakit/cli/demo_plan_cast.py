"""Who plays in `vega demo plan`: a planner that writes programs, and the agents that they ask.

planner ─── run_program ─┬─ skimmer    quick and cheap, says how much a page matters
                         └─ analyst    slow and dear, reads a page
"""

import asyncio
from collections.abc import Callable
from typing import Any

from vegakit.conversation import ModelReply, ModelRequest, Text, ToolMessage, UserMessage
from vegakit.models import ScriptedModel
from vegakit.money import dollars
from vegakit.prices import PriceRow, PriceTier
from vegakit.runtime import Agent, run_program

__all__ = ["AGENTS", "ANSWER", "MAX_COST", "MENDED", "PLAN", "TOLD", "Pace", "planner"]

AGENTS, MAX_COST = 355, "$1"

PLAN = f"""\
fn main() -> [str] {{
    let notes = [for page in range({AGENTS}) {{
        async analyst <- "What does page {{page}} say?"
    }}];
    return [for note in notes {{ await note }}];
}}
"""
MENDED = f"""\
fn main() -> [str] {{
    let asked = [for page in range({AGENTS}) {{
        async skimmer <- "Does page {{page}} matter, yes or no?"
    }}];
    let best = [];
    for page, told in asked {{
        let word = await told;
        if word == "yes" {{ best = best + [page]; }}
    }}
    print("{{len(best)}} of {{len(asked)}} pages matter");
    let notes = [for page in list::take(best, 5) {{
        async analyst <- "What does page {{page}} say?"
    }}];
    return [for note in notes {{ await note }}];
}}
"""
ANSWER = "Five pages matter; each has a line in the notes."
TOLD = "Read the report, 355 pages. What matters?"

_PLANS_MS, _READS_MS, _SKIMS_MS = 900, 1_400, 600


def _price(name: str, given: str, said: str) -> PriceRow:
    """A million tokens."""
    per = dollars(given)
    return PriceRow(name, (PriceTier(per, dollars(said), cache_read=per, cache_write=per),))


class Pace(ScriptedModel):
    """One that takes its time, each question its own; `busy_ms` is what all of them took."""

    def __init__(self, script: Any, name: str, price: PriceRow, usual_ms: float) -> None:  # noqa: ANN401
        super().__init__(script, name, price=price, context_tokens=32_000)
        self._usual_ms = usual_ms
        self.busy_ms = 0.0
        self.done = 0

    async def ask(self, request: ModelRequest) -> ModelReply:
        takes_ms = self._usual_ms * (0.4 + _page(request) * 37 % 100 / 50)
        await asyncio.sleep(takes_ms / 1000)
        self.busy_ms += takes_ms
        reply = await super().ask(request)
        self.done += 1
        return reply


def planner(tell: Callable[[list[str]], None], pace: float) -> tuple[Agent[str], Pace, Pace]:
    """`tell` hears what its tool told it, before it goes on."""
    quick, deep = _price("quick", "$0.10", "$0.40"), _price("deep", "$3", "$15")
    skims = Pace(_matters, "quick", quick, _SKIMS_MS * pace)
    reads = Pace(_says, "deep", deep, _READS_MS * pace)
    agents = [
        Agent("skimmer", skims, "Answer with one word.", max_tokens=20),
        Agent("analyst", reads, "Answer with one line.", max_tokens=300),
    ]
    tool = run_program(agents, max_cost=MAX_COST)
    plans = ScriptedModel(_writing(tell), "deep", price=deep, latency_ms=int(_PLANS_MS * pace))
    return Agent("planner", plans, "Plan, then answer.", tools=[tool]), skims, reads


def _writing(tell: Callable[[list[str]], None]) -> Callable[[ModelRequest], Any]:
    def answer(request: ModelRequest) -> Any:  # noqa: ANN401
        told = [
            result.content
            for message in request.messages
            if isinstance(message, ToolMessage)
            for result in message.results
        ]
        tell(told)
        if len(told) > 1:
            return ANSWER
        source = MENDED if told else PLAN
        return {"calls": [{"name": "run_program", "arguments": {"source": source}}]}

    return answer


def _page(request: ModelRequest) -> int:
    message = request.messages[-1]
    text = "".join(
        part.text
        for part in (message.parts if isinstance(message, UserMessage) else ())
        if isinstance(part, Text)
    )
    numbers = [int(word) for word in text.split() if word.isdecimal()]
    return numbers[0] if numbers else 0


def _matters(request: ModelRequest) -> str:
    return "yes" if _page(request) * 73 % 100 > 96 else "no"


def _says(request: ModelRequest) -> str:
    return f"Page {_page(request)} says what it says."
