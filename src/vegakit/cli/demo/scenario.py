"""The scenario of `vega demo` is a team that writes release notes, on scripted models.

    release ─┬─ researchers ─── commits, issues, benchmarks    at once
             ├─ writer                                         has a tool
             ├─ reviewer ─── critic                            crashes once
             ├─ illustrator                                    has too small a wallet
             └─ announcer                                      its provider is down for a while

Processes, wallets, breakers and traces are real; only the models are scripted.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from vegakit.errors import AgentFailed, BudgetExceeded, CircuitOpen
from vegakit.host import Agent, Child, Process, Reply, Supervisor
from vegakit.money import Money, dollars, format_money
from vegakit.policy import BreakerRule, RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.program import BreakerClosed, BreakerOpened, ProcessRestarted
from vegakit.providers import ScriptedAnswer, ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import FunctionTool

# Who plays in `vega demo`: a team that writes release notes, on scripted models.
#
#     release ─┬─ researchers ─── commits, issues, benchmarks    at once
#              ├─ writer                                         has a tool
#              ├─ reviewer ─── critic                            crashes once
#              ├─ illustrator                                    has too small a wallet
#              └─ announcer                                      its provider is down for a while
#
# `pace` stretches or shrinks every wait; the open breaker's only so far that a call still meets
# it.


TEAM, BUDGET = "release", "$1"
SOURCES = {
    "commits": (214, "commit 4f1c9e fixes how the parser reads nested lists", 1500),
    "issues": (63, "issue: restart loses the message when a child crashes early", 1100),
    "benchmarks": (48, "benchmark spawn: 31 microseconds before, 19 after, on one core", 1300),
}
"""How many lines each researcher reads, what they look like, how many milliseconds it takes."""

OUTAGE = 3
"""As many failures in a row open the breaker."""

_IN, _OUT = dollars(10), dollars(50)
_PRICE = PriceRow("scripted", (PriceTier(_IN, _OUT, cache_read=_IN, cache_write=_IN),))
_ONCE = RetryRule(max_attempts=1)

_FINDINGS = {
    "commits": "Three matter: nested lists, faster spawns, one rename.",
    "issues": "Two old bugs are gone: the lost message, the slow start.",
    "benchmarks": "Spawning takes 19 µs instead of 31; nothing is slower.",
}
_DRAFTS: list[ScriptedAnswer] = [
    {"calls": [{"name": "changelog", "arguments": {"version": "1.3"}}]},
    "1.4: nested lists parse, spawning takes 19 µs.",
    "1.4: a crash loses no message. Spawning takes 19 µs.",
]


def team(review: Callable[[str], Any], pace: float) -> Supervisor:
    """Return the team of the demo."""
    researchers = [
        Child(_agent(name, _FINDINGS[name], SOURCES[name][2], pace), wallet="$0.05")
        for name in SOURCES
    ]
    return Supervisor(
        "restart",
        [
            Supervisor("restart", researchers, name="researchers"),
            Child(_writer(pace), wallet="$0.20"),
            Child(review, "reviewer", wallet="$0.05"),
            Child(_agent("illustrator", "A picture.", 900, pace, max_tokens=2000), wallet="$0.01"),
            Child(_announcer(pace), wallet="$0.05"),
        ],
        name=TEAM,
    )


def open_ms(pace: float) -> int:
    """Return how long the breaker stays open, also for a machine that takes its time."""
    return max(1000, int(1500 * pace))


def critic(pace: float) -> Agent[str]:
    """Return the agent that criticises."""
    return _agent("critic", ["Lead with what users feel.", "Good. Ship it."], 700, pace)


def _agent(
    name: str,
    script: ScriptedAnswer | list[ScriptedAnswer],
    latency_ms: int,
    pace: float,
    *,
    provider: str = "scripted",
    max_tokens: int = 300,
    **more: Any,  # noqa: ANN401
) -> Agent[str]:
    model = ScriptedModel(script, provider, price=_PRICE, latency_ms=int(latency_ms * pace))
    system = f"You are the {name} of a release team. Be brief."
    return Agent(name, model, system, max_tokens=max_tokens, **more)


def _writer(pace: float) -> Agent[str]:
    async def changelog(version: str) -> str:
        """What the notes of an earlier version said."""
        await asyncio.sleep(0.3 * pace)
        return f"{version}: agents have wallets. Short lines, no adjectives."

    tool = FunctionTool(changelog, idempotent=True)
    return _agent("writer", _DRAFTS, 700, pace, tools=[tool])


def _announcer(pace: float) -> Agent[str]:
    down: list[ScriptedAnswer] = [{"error": "unavailable"}] * OUTAGE
    breaker = BreakerRule(threshold=OUTAGE, reset_after_ms=open_ms(pace))
    script = [*down, "Posted."]
    provider = "scripted:mail"
    return _agent("announcer", script, 400, pace, provider=provider, retry=_ONCE, breaker=breaker)


# What happens in `vega demo`: real processes, wallets, breakers and traces; only the model is
# scripted. Whatever happens is told as it happens.


class ScenarioEventKind(StrEnum):
    """The kinds of events that the demo tells."""

    BEGAN = "began"
    DONE = "done"
    CRASHED = "crashed"
    RESTARTED = "restarted"
    REFUSED = "refused"
    FAILED = "failed"
    OPENED = "opened"


class ScenarioEvent(Struct, frozen=True):
    """An event that the demo tells; `note` is what remains to be seen of it in the tree."""

    at_ms: int
    mark: ScenarioEventKind
    who: str
    text: str
    note: str


class ScenarioResult(Struct):
    """The result of the demo. `refusal` is the wallet's, `not_sent` the open breaker's; `useful` is
    what those answers cost that somebody got."""

    crash: str = ""
    restarts: int = 0
    back_after_ms: float = 0.0
    refusal: str = ""
    breaker_opened: int = 0
    not_sent: str = ""
    breaker_closed: int = 0
    useful: Money = Money(0)


class ReleaseScenario:
    """The story of the demo: a release is prepared, and things go wrong."""

    def __init__(self, rt: Runtime, tell: Callable[[ScenarioEvent], None], pace: float) -> None:
        self._rt, self._tell, self._pace = rt, tell, pace
        self._critic = critic(pace)
        self._reviews = 0
        self._crashed_s: float | None = None
        self.began_ms = 0
        self.seen = ScenarioResult()

    async def play(self) -> None:
        """Play the story on a runtime."""
        rt = self._rt
        rt.on(ProcessRestarted, self._on_restarted)
        rt.on(BreakerOpened, self._on_opened)
        rt.on(BreakerClosed, self._on_closed)
        members = team(self._review, self._pace)
        self.began_ms = rt.clock.now()
        rt.spawn(members)
        self._say(
            ScenarioEventKind.BEGAN, TEAM, f"seven processes, two supervisors, {BUDGET} for all", ""
        )
        async with asyncio.TaskGroup() as plot:
            plot.create_task(self._write_notes())
            plot.create_task(self._draw())
            plot.create_task(self._announce())

    async def _write_notes(self) -> None:
        async with asyncio.TaskGroup() as research:
            reading = [research.create_task(self._read(name)) for name in SOURCES]
        findings = " ".join([task.result() for task in reading])
        draft = await self._ask("writer", f"Write the notes of 1.4. {findings}", "first draft")
        remark = await self._member("reviewer").ask(draft)
        self._say(ScenarioEventKind.DONE, "reviewer", remark, "asked for a change")
        draft = await self._ask("writer", f"Write it again. {remark}", "second draft")
        remark = await self._member("reviewer").ask(draft)
        self._say(ScenarioEventKind.DONE, "reviewer", remark, "approved")

    async def _read(self, name: str) -> str:
        count, line, _ = SOURCES[name]
        lines = f"{line}\n" * count
        return await self._ask(f"researchers/{name}", lines, f"read {count} {name}")

    async def _review(self, draft: str) -> str:
        """The body of the reviewer, with a bug that shows once: at the second draft."""
        now_s = asyncio.get_running_loop().time()
        if self._crashed_s is not None:
            self._on_back(1000 * (now_s - self._crashed_s))
        elif self._reviews:
            self._crashed_s = now_s
            raise KeyError("score")
        self._reviews += 1
        reply = await self._rt.spawn(self._critic).ask(draft)
        self.seen.useful = Money(self.seen.useful + reply.cost)
        return reply.text

    async def _draw(self) -> None:
        await asyncio.sleep(0.8 * self._pace)
        try:
            await self._ask("illustrator", "Draw the release.", "drew it")
        except BudgetExceeded as refused:
            self.seen.refusal = str(refused)
            self._say(
                ScenarioEventKind.REFUSED, "illustrator", str(refused), "refused, nothing sent"
            )

    async def _announce(self) -> None:
        await asyncio.sleep(0.3 * self._pace)
        for attempt in range(1, OUTAGE + 1):
            try:
                await self._ask("announcer", "Announce 1.4.", "announced")
            except AgentFailed as failed:
                if not self.seen.breaker_opened:
                    self._say(
                        ScenarioEventKind.FAILED,
                        "announcer",
                        f"failed: {failed}",
                        f"failed {attempt}×",
                    )
        try:
            await self._ask("announcer", "Announce 1.4.", "announced")
        except CircuitOpen as refused:
            self.seen.not_sent = str(refused)
            self._say(
                ScenarioEventKind.REFUSED, "announcer", str(refused), "breaker open, nothing sent"
            )
        await asyncio.sleep((open_ms(self._pace) + 100) / 1000)
        await self._ask("announcer", "Announce 1.4.", "announced")

    async def _ask(self, name: str, prompt: str, done: str) -> str:
        reply: Reply[str] = await self._member(name).ask(prompt)
        self.seen.useful = Money(self.seen.useful + reply.cost)
        who = name.rpartition("/")[2]
        self._say(ScenarioEventKind.DONE, who, reply.text, done)
        return reply.text

    def _member(self, name: str) -> Process[Any]:
        return Process(self._rt.program, f"{TEAM}/{name}")

    def _on_restarted(self, news: ProcessRestarted) -> None:
        self.seen.restarts += 1
        self.seen.crash = news.cause.detail
        self._say(ScenarioEventKind.CRASHED, "reviewer", f"crashed: {news.cause.detail}", "crashed")

    def _on_back(self, after_ms: float) -> None:
        self.seen.back_after_ms = after_ms
        spent = format_money(self._member("reviewer").spent)
        text = f"back in {after_ms:.1f} ms: same message, same wallet ({spent} used)"
        self._say(ScenarioEventKind.RESTARTED, "reviewer", text, "restarted")

    def _on_opened(self, _: BreakerOpened) -> None:
        self.seen.breaker_opened += 1
        text = f"its breaker opened: {OUTAGE} failures in a row"
        self._say(ScenarioEventKind.OPENED, "announcer", text, "breaker open")

    def _on_closed(self, _: BreakerClosed) -> None:
        self.seen.breaker_closed += 1
        text = "its breaker closed: the provider is back"
        self._say(ScenarioEventKind.DONE, "announcer", text, "breaker closed")

    def _say(self, mark: ScenarioEventKind, who: str, text: str, note: str) -> None:
        if mark not in (ScenarioEventKind.BEGAN, ScenarioEventKind.DONE):
            self._rt.tracer.event(f"{who} {mark}: {text}")
        at_ms = self._rt.clock.now() - self.began_ms
        self._tell(ScenarioEvent(at_ms, mark, who, text, note))
