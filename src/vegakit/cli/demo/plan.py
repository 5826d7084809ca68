"""`vega demo plan`: a model plans 355 agents, is told what they may cost before anything is spent,
fixes its plan, and runs it.

It needs no key and no network: only the models are scripted.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

import msgspec

from vegakit.cli.demo.screen import BOLD, DIM, demo_parser
from vegakit.cli.look import PIPE, LivePlace, Look, Paint, Tone, bar, look_of, print_json
from vegakit.conversation import ModelReply, ModelRequest, Text, ToolMessage, UserMessage
from vegakit.errors import BugError
from vegakit.host import Agent, run_program
from vegakit.lang import AgentSpec, ModelTerms, check_program, quote
from vegakit.money import Money, dollars, format_money, in_dollars
from vegakit.policy import unmarked
from vegakit.prices import PAID_REPEATS, PriceRow, PriceTier
from vegakit.program import ProcessSpawned, Wallet
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

# Who plays in `vega demo plan`: a planner that writes programs, and the agents that they ask.
#
# planner ─── run_program ─┬─ skimmer    quick and cheap, says how much a page matters
#                          └─ analyst    slow and expensive, reads a page


AGENTS, MAX_COST = 355, "$1"

PLAN = f"""\
fn main() -> [str] {{
    let notes = [for page in range({AGENTS}) {{
        async analyst <- "What does page {{page}} say?"
    }}];
    return [for note in notes {{ await note }}];
}}
"""
FIXED_PLAN = f"""\
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
TASK = "Read the report, 355 pages. What matters?"

_SKIMS, _SKIMS_TOKENS = "Answer with one word.", 20
_READS, _READS_TOKENS = "Answer with one line.", 300
_PLANS_MS, _READS_MS, _SKIMS_MS = 900, 1_400, 600


def _price(name: str, given: str, said: str) -> PriceRow:
    """A million tokens."""
    per = dollars(given)
    return PriceRow(name, (PriceTier(per, dollars(said), cache_read=per, cache_write=per),))


class TimedModel(ScriptedModel):
    """A model that takes its time, for each question its own; `busy_ms` is what all of them
    took."""

    def __init__(self, script: Any, name: str, price: PriceRow, usual_ms: float) -> None:  # noqa: ANN401
        super().__init__(script, name, price=price, context_tokens=32_000)
        self._usual_ms = usual_ms
        self.busy_ms = 0.0
        self.done = 0

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Answer after the time that the question takes."""
        takes_ms = self._usual_ms * (0.4 + _page(request) * 37 % 100 / 50)
        await asyncio.sleep(takes_ms / 1000)
        self.busy_ms += takes_ms
        reply = await super().ask(request)
        self.done += 1
        return reply


def planner(
    tell: Callable[[list[str]], None], pace: float
) -> tuple[Agent[str], TimedModel, TimedModel]:
    """Return a model that writes programs; `tell` is called with what its tool told it, before it
    goes on."""
    quick, deep = _price("quick", "$0.10", "$0.40"), _price("deep", "$3", "$15")
    skims = TimedModel(_matters, "quick", quick, _SKIMS_MS * pace)
    reads = TimedModel(_says, "deep", deep, _READS_MS * pace)
    agents = [
        Agent("skimmer", skims, _SKIMS, max_tokens=_SKIMS_TOKENS),
        Agent("analyst", reads, _READS, max_tokens=_READS_TOKENS),
    ]
    tool = run_program(agents, max_cost=MAX_COST)
    plans = ScriptedModel(_writing(tell), "deep", price=deep, latency_ms=int(_PLANS_MS * pace))
    return Agent("planner", plans, "Plan, then answer.", tools=[tool]), skims, reads


def typical_cost(skims: TimedModel, reads: TimedModel) -> Money:
    """Return what the fixed plan usually costs with these agents."""
    agents = (
        f'agent skimmer {{ model quick  system "{_SKIMS}"  max_tokens {_SKIMS_TOKENS} }}\n'
        f'agent analyst {{ model deep  system "{_READS}"  max_tokens {_READS_TOKENS} }}\n'
    )
    checked, _ = check_program(agents + FIXED_PLAN, "plan.vega", lambda _: None)

    def terms(spec: AgentSpec) -> ModelTerms:
        model = skims if spec.name == "skimmer" else reads
        assert model.price is not None
        most = model.default_max_tokens
        return ModelTerms(model.price, model.context_tokens, most, model.bound_input)

    assert checked is not None
    return Money(quote(checked, terms, repeats=PAID_REPEATS, typical=True).typical or 0)


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
        source = FIXED_PLAN if told else PLAN
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


# `vega demo plan`: a model plans 355 agents, is told what that may cost before a cent is spent,
# fixes its plan, and runs it. No key and no network: only the models are scripted.


_FAST = 0.05
_TITLE = "No key, no network, scripted models: a planner writes programs, Vega holds their budget."
_FRAME_S, _BAR = 0.1, 30
_INDENT = " " * 11
_RED, _GREEN, _YELLOW, _CYAN = Tone.BAD, Tone.OK, Tone.ASK, Tone.WORK


class PlanSummary(msgspec.Struct, frozen=True):
    """The figures of the demo. `alone_s` is how long the calls take one
    after another; `asked` are the calls of programs before the first was accepted, which are
    none."""

    refusal: str
    asked: int
    account: dict[str, Any]
    calls: int
    spent: Money
    ledger: Money
    wall_s: float
    alone_s: float
    answer: str
    processes_left: int

    @property
    def holds(self) -> bool:
        """Whether the demo has shown what it promises."""
        return self.spent == self.ledger and not self.asked and not self.processes_left


def run_plan(arguments: Sequence[str]) -> int:
    """Run `vega demo plan`."""
    chosen = demo_parser(
        "vega demo plan",
        "Watch a model plan 355 agents, be refused with the price, and fix its plan.",
        faster="twenty times faster",
    ).parse_args(arguments)
    out = None if chosen.json else sys.stdout
    screen = PlanScreen(out, PIPE if out is None else look_of(out))
    try:
        facts = asyncio.run(play(screen, _FAST if chosen.fast else 1.0))
    except KeyboardInterrupt:
        return 130
    if chosen.json:
        print_json(in_dollars(facts))
    return 0 if facts.holds else 1


class PlanScreen:
    """The screen of the demo: lines for whoever reads, and in a terminal one that moves; None shows
    nothing."""

    def __init__(self, out: TextIO | None, look: Look) -> None:
        self._out = out
        self._look = look
        self.paint: Paint = look.paint
        self._place = LivePlace(out) if out is not None and look.moves else None
        self._frame: list[str] = []
        self.width = look.width or 100

    def show(self, *lines: str) -> None:
        """Print lines, above the one that moves. A reader that leaves early, like `head`, is no
        failure of the demo."""
        told = [part for line in lines for part in self._folded(line)]
        if self._place is not None:
            self._place.draw(self._frame, told)
        elif self._out is not None:
            with suppress(BrokenPipeError):
                self._out.write("".join(f"{line}\n" for line in told))
                self._out.flush()

    def _folded(self, line: str) -> list[str]:
        """Break a line that has no colour in it where it does not fit."""
        line = self._look.text(line)
        return self._look.fold(line, _INDENT) if line.isprintable() and line else [line]

    def source(self, text: str, expensive_line: int = 0) -> None:
        """Print a program with line numbers; its most expensive line is marked."""
        rows = enumerate(text.rstrip().splitlines(), 1)
        for number, line in rows:
            shown = f"    {number:2} │ {line}"
            mark = f"{self.paint(shown, _RED)}  {self.paint('◂ most expensive', _RED)}"
            self.show(mark if number == expensive_line else self.paint(shown, _CYAN))

    @asynccontextmanager
    async def watch(self, skims: TimedModel, reads: TimedModel) -> AsyncGenerator[None]:
        """Show how many calls are made while the block runs."""
        if self._place is None:
            yield
            return
        turning = asyncio.ensure_future(self._turn(skims, reads))
        try:
            yield
        finally:
            turning.cancel()
            await asyncio.wait([turning])
            self._frame = []
            self._place.close()

    async def _turn(self, skims: TimedModel, reads: TimedModel) -> None:
        while True:
            if skims.done:
                told = f"{skims.done:3} of {AGENTS} skimmed, {reads.done} read"
                wide = max(0, min(_BAR, self.width - len(told) - 6))
                self._frame = [f"    {bar(self._look, AGENTS, skims.done, 0, wide)} {told}"]
                self.show()
            await asyncio.sleep(_FRAME_S)


async def play(screen: PlanScreen, pace: float) -> PlanSummary:
    """Play the demo, and return what it came to."""
    paint, told, asked = screen.paint, list[str](), list[int]()
    screen.show(f"  {paint(_TITLE, DIM)}", "", f"  {paint('task', BOLD)}     {TASK}")
    may = f"programs of at most {MAX_COST}, for a cheap skimmer and an expensive analyst"
    screen.show(f"  {paint('leave', BOLD)}    {may}", "")

    def hear(results: list[str]) -> None:
        told[:] = results
        asked.append(len(skims.requests) + len(reads.requests))
        _tell(screen, results)

    agent, skims, reads = planner(hear, pace)
    async with Runtime("$10", name="demo-plan", lookahead=0, observable=False) as rt:
        began, wallets = rt.clock.now(), rt.program.machine.state.wallets
        usual = typical_cost(skims, reads)
        rt.on(ProcessSpawned, lambda news: _tell_accepted(screen, wallets.get(news.path), usual))
        async with screen.watch(skims, reads):
            reply = await rt.ask(agent, TASK)
        wall_ms = rt.clock.now() - began
        left = len(rt.program.machine.state.processes)
        spent = Money(10_000_000_000 - (await rt.remaining() or 0))
    facts = PlanSummary(
        told[0],
        asked[1],
        _account(told[1]),
        len(skims.requests) + len(reads.requests),
        Money(reply.cost),
        spent,
        wall_ms / 1000,
        (skims.busy_ms + reads.busy_ms) / 1000,
        reply.text,
        left,
    )
    _show_end(screen, facts)
    return facts


def _account(told: str) -> dict[str, Any]:
    """Return the account of a program that has run; its planner knows no third one."""
    try:
        return json.loads(unmarked(told))["account"]
    except ValueError:
        raise BugError(f"the fixed program of the demo was refused: {told}") from None


def _tell(screen: PlanScreen, results: list[str]) -> None:
    paint = screen.paint
    if not results:
        screen.show(f"  {paint('planner', BOLD)}  writes a program for {AGENTS} agents")
    elif len(results) == 1:
        price = results[0].partition("nothing was run: ")[2].partition(". ")[0]
        screen.source(PLAN, expensive_line=_line_in(results[0]))
        price, _, leave = price.partition("; ")
        screen.show(
            f"  {paint('vega', _YELLOW)}     {paint('refused', _YELLOW)}, {price};",
            f"           {leave}",
        )
        screen.show(f"           {paint('nothing was called, nothing spent', DIM)}", "")
        screen.show(f"  {paint('planner', BOLD)}  fixes it: skim all, read the best five")
        screen.source(FIXED_PLAN)


def _tell_accepted(screen: PlanScreen, wallet: Wallet | None, usual: Money) -> None:
    """Tell of a process that has a wallet of its own: here only a program that was accepted has
    one."""
    if wallet is not None and wallet.cap is not None:
        most, paint = format_money(wallet.cap), screen.paint
        figures = f"typical {format_money(usual)}, at most {most}"
        screen.show(f"  {paint('vega', _GREEN)}     {paint('accepted', _GREEN)}, {figures}", "")


def _line_in(refusal: str) -> int:
    number = refusal.partition("Most expensive is line ")[2].partition(":")[0]
    return int(number) if number.isdecimal() else 0


def _show_end(screen: PlanScreen, facts: PlanSummary) -> None:
    paint, account = screen.paint, facts.account
    rows = {
        "quote": f"{account['quote']} at most, known before the first call",
        "spent": f"{account['spent']} by the program in {account['calls']} calls; "
        f"{format_money(facts.spent)} with the planner",
        "time": f"{facts.wall_s:.1f} s; one call after another takes {facts.alone_s:.1f} s",
        "books": "ledger and account agree" if facts.spent == facts.ledger else "they differ",
        "left": f"{facts.processes_left} processes",
    }
    screen.show(*(f"  {paint(f'{name:9}', BOLD)}{text}" for name, text in rows.items()))
    screen.show("", f"  {paint('answer', BOLD)}   {facts.answer}", "")
    screen.show(f"  {paint('next', BOLD)}     {paint('vega demo', _CYAN)}  a team that crashes")
