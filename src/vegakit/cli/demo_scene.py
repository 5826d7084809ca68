"""What happens in `vega demo`: real processes, wallets, breakers and traces; only the model is
scripted. Whatever happens is told as it happens."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from vegakit.cli.demo_cast import BUDGET, OUTAGE, SOURCES, TEAM, critic, open_ms, team
from vegakit.errors import AgentFailed, BudgetExceeded, CircuitOpen
from vegakit.money import show
from vegakit.program import BreakerClosed, BreakerOpened, ProcessRestarted
from vegakit.runtime import Process, Reply, Runtime

__all__ = ["Happened", "Mark", "Scene", "Seen"]


class Mark(StrEnum):
    BEGAN = "began"
    DONE = "done"
    CRASHED = "crashed"
    RESTARTED = "restarted"
    REFUSED = "refused"
    FAILED = "failed"
    OPENED = "opened"


class Happened(Struct, frozen=True):
    """`note` is what remains to be seen of it in the tree."""

    at_ms: int
    mark: Mark
    who: str
    text: str
    note: str


class Seen(Struct):
    """`refusal` is the wallet's, `not_sent` the open breaker's; `useful` is what those answers
    cost, in nano-dollars, that somebody got."""

    crash: str = ""
    restarts: int = 0
    back_after_ms: float = 0.0
    refusal: str = ""
    breaker_opened: int = 0
    not_sent: str = ""
    breaker_closed: int = 0
    useful: int = 0


class Scene:
    def __init__(self, rt: Runtime, tell: Callable[[Happened], None], pace: float) -> None:
        self._rt, self._tell, self._pace = rt, tell, pace
        self._critic = critic(pace)
        self._reviews = 0
        self._crashed_s: float | None = None
        self.began_ms = 0
        self.seen = Seen()

    async def play(self) -> None:
        rt = self._rt
        rt.on(ProcessRestarted, self._on_restarted)
        rt.on(BreakerOpened, self._on_opened)
        rt.on(BreakerClosed, self._on_closed)
        members = team(self._review, self._pace)
        self.began_ms = rt.clock.now()
        rt.spawn(members)
        self._say(Mark.BEGAN, TEAM, f"seven processes, two supervisors, {BUDGET} for all", "")
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
        self._say(Mark.DONE, "reviewer", remark, "asked for a change")
        draft = await self._ask("writer", f"Write it again. {remark}", "second draft")
        remark = await self._member("reviewer").ask(draft)
        self._say(Mark.DONE, "reviewer", remark, "approved")

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
        self.seen.useful += reply.cost
        return reply.text

    async def _draw(self) -> None:
        await asyncio.sleep(0.8 * self._pace)
        try:
            await self._ask("illustrator", "Draw the release.", "drew it")
        except BudgetExceeded as refused:
            self.seen.refusal = str(refused)
            self._say(Mark.REFUSED, "illustrator", str(refused), "refused, nothing sent")

    async def _announce(self) -> None:
        await asyncio.sleep(0.3 * self._pace)
        for attempt in range(1, OUTAGE + 1):
            try:
                await self._ask("announcer", "Announce 1.4.", "announced")
            except AgentFailed as failed:
                if not self.seen.breaker_opened:
                    self._say(Mark.FAILED, "announcer", f"failed: {failed}", f"failed {attempt}×")
        try:
            await self._ask("announcer", "Announce 1.4.", "announced")
        except CircuitOpen as refused:
            self.seen.not_sent = str(refused)
            self._say(Mark.REFUSED, "announcer", str(refused), "breaker open, nothing sent")
        await asyncio.sleep((open_ms(self._pace) + 100) / 1000)
        await self._ask("announcer", "Announce 1.4.", "announced")

    async def _ask(self, name: str, prompt: str, done: str) -> str:
        reply: Reply[str] = await self._member(name).ask(prompt)
        self.seen.useful += reply.cost
        who = name.rpartition("/")[2]
        self._say(Mark.DONE, who, reply.text, done)
        return reply.text

    def _member(self, name: str) -> Process[Any]:
        return Process(self._rt.program, f"{TEAM}/{name}")

    def _on_restarted(self, news: ProcessRestarted) -> None:
        self.seen.restarts += 1
        self.seen.crash = news.cause.detail
        self._say(Mark.CRASHED, "reviewer", f"crashed: {news.cause.detail}", "crashed")

    def _on_back(self, after_ms: float) -> None:
        self.seen.back_after_ms = after_ms
        spent = show(self._member("reviewer").spent)
        text = f"back in {after_ms:.1f} ms: same message, same wallet ({spent} used)"
        self._say(Mark.RESTARTED, "reviewer", text, "restarted")

    def _on_opened(self, _: BreakerOpened) -> None:
        self.seen.breaker_opened += 1
        text = f"its breaker opened: {OUTAGE} failures in a row"
        self._say(Mark.OPENED, "announcer", text, "breaker open")

    def _on_closed(self, _: BreakerClosed) -> None:
        self.seen.breaker_closed += 1
        text = "its breaker closed: the provider is back"
        self._say(Mark.DONE, "announcer", text, "breaker closed")

    def _say(self, mark: Mark, who: str, text: str, note: str) -> None:
        if mark not in (Mark.BEGAN, Mark.DONE):
            self._rt.tracer.event(f"{who} {mark}: {text}")
        at_ms = self._rt.clock.now() - self.began_ms
        self._tell(Happened(at_ms, mark, who, text, note))
