"""A real runtime that asks people before it acts, one who attacks it, and a judge who saw it all.

The judge knows what people were shown and said, and what the tool was given when it ran. It keeps
no digests and asks the runtime nothing: whatever runs must have exactly one approval, of these
arguments, with this tool, script and rules, by a person, given in time, fresh, and not used before.

Only the store and the journal outlive a restart; all on a clock that the schedule moves.
"""

import asyncio
import json
import random
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from vegakit.config import CutOffTools, ResumeTarget
from vegakit.control import Question
from vegakit.conversation import ModelRequest, ToolMessage, ToolSpec
from vegakit.errors import UserError
from vegakit.host import Agent, PermissionPolicy
from vegakit.ids import Digest, Pid
from vegakit.policy import InterruptRule, PermissionMode
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryJournal, MemoryStore
from vegakit.testing import FakeClock

TTL_MS, USE_WITHIN_MS, MAX_OPEN = 60_000, 600_000, 6
PEOPLE = ("ann", "bob")
RULES = (["ask tool::deploy"], ["ask tool::deploy", "ask tool"])
_TARGET = re.compile(r'deploy \{"target":"(.*?)"\}')


class CutOffError(Exception):
    pass


@dataclass
class Shown:
    target: str
    versions: tuple[int, int, int]
    at: int
    answers: list[tuple[int, str, bool]] = field(default_factory=list[tuple[int, str, bool]])
    used: bool = False

    def permits(self, target: str, versions: tuple[int, int, int], now: int) -> bool:
        counted = [
            (at, yes) for at, by, yes in self.answers if by in PEOPLE and at < self.at + TTL_MS
        ][:1]
        fresh = any(yes and now < at + USE_WITHIN_MS for at, yes in counted)
        return (self.target, self.versions) == (target, versions) and fresh and not self.used


class World:
    """`schema`, `script` and `rules` are the versions in force."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.store, self.journal = MemoryStore(), MemoryJournal()
        self.schema = self.script = self.rules = 0
        self.jobs: list[str] = []
        self.shown: dict[str, Shown] = {}
        self.executed: list[str] = []
        self.dies_when_it_acts = False
        self.rt: Runtime
        self._open = AsyncExitStack()

    # What the agent can do

    idempotent, timeout_ms = False, 60_000

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("deploy", f"Version {self.schema}.", {"type": "object"})

    async def contents(self, arguments: Mapping[str, Any]) -> dict[str, Digest]:
        return {"deploy.sh": Digest(f"script {self.script}")}

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Here the judge looks."""
        target, now = _plain(arguments["target"]), self.clock.now()
        approved = [one for one in self.shown.values() if one.permits(target, self.versions, now)]
        assert_one(approved, f"{target} ran without exactly one live, unexpired, matching approval")
        approved[0].used = True
        self.executed.append(target)
        if self.dies_when_it_acts:
            await asyncio.Event().wait()
        return "deployed"

    @property
    def versions(self) -> tuple[int, int, int]:
        return self.schema, self.script, self.rules

    # What goes on

    async def begin(self) -> None:
        schema, self.schema = self.schema, 0
        asking = PermissionPolicy(RULES[self.rules], PermissionMode.ASK, TTL_MS)
        rt = Runtime(
            permissions=asking,
            journal=self.journal,
            store=self.store,
            clock=self.clock,
            name="g14",
            # A program continues after a restart in the middle of a tool.
            resume=ResumeTarget(tools=CutOffTools.SKIP),
        )
        self.rt = await self._open.enter_async_context(rt)
        rt.approvals.questions._interrupts.rule = InterruptRule(max_pending=MAX_OPEN)
        rt.on(Question, self._on_shown)
        self.agent = rt.spawn(Agent("agent", model=ScriptedModel(_say), tools=[self]))
        for job in self.jobs:
            self.agent.tell(job)
        self.schema = schema
        await self.settle()

    async def die(self) -> None:
        """All that is left is what was stored."""
        with suppress(CutOffError):
            async with self._open:
                raise CutOffError
        self._open = AsyncExitStack()

    async def restart(self) -> None:
        await self.die()
        self.dies_when_it_acts = False
        await self.begin()

    async def settle(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)
        _check(self)

    async def job(self, target: str = "") -> Question | None:
        """A new job; what is asked about it, if it is."""
        self.jobs.append(target or f"target {len(self.jobs)}")
        self.agent.tell(self.jobs[-1])
        await self.settle()
        asked = [
            q for q in self.rt.interrupts() if self.shown[q.id].target == _plain(self.jobs[-1])
        ]
        return asked[0] if asked else None

    async def answer(self, question: str, *, yes: bool, by: str) -> None:
        self.shown[question].answers.append((self.clock.now(), by, yes))
        with suppress(UserError):
            await self.rt.approvals.questions.answer(question, yes, by)

    async def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        await self.settle()

    def some_question(self) -> str | None:
        return self.chance.choice(list(self.shown)) if self.shown else None

    def _on_shown(self, question: Question) -> None:
        found = _TARGET.search(question.text)
        assert found, question.text
        now = self.clock.now()
        assert question.id not in self.shown
        self.shown[question.id] = Shown(found[1], self.versions, now)


async def honest_step(world: World) -> None:
    question, person = world.some_question(), world.chance.choice(PEOPLE)
    match world.chance.randrange(7):
        case 0 | 1 if question:
            await world.answer(question, yes=True, by=person)
        case 2 if question and world.chance.random() < 0.3:
            await world.answer(question, yes=False, by=person)
        case 3:
            await world.wait(world.chance.choice([1, 30_000, TTL_MS - 1, TTL_MS, USE_WITHIN_MS]))
        case 4:
            await world.restart()
        case _:
            await world.job()
    await world.settle()


def owner_of(world: World, question: str) -> Pid:
    interrupts: Any = world.rt.approvals.questions._interrupts
    asks = [one.ask for one in interrupts.by_id.values()]
    return next(ask.owner for ask in asks if world.shown[question].target in ask.text)


def assert_one(found: list[Shown], otherwise: str) -> None:
    if len(found) != 1:
        FAILED.append(otherwise)
        raise AssertionError(otherwise)


FAILED: list[str] = []
"""A tool's failure is told to the model; the judge's must be told to the test."""


def _check(world: World) -> None:
    if FAILED:
        failed = FAILED.copy()
        FAILED.clear()
        raise AssertionError(failed[0])
    doubles = {target for target in world.executed if world.executed.count(target) > 1}
    assert not doubles, f"ran twice: {doubles}"


def _say(request: ModelRequest) -> Any:
    last: Any = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "done"
    return {"calls": [{"name": "deploy", "arguments": {"target": last.parts[0].text}}]}


def _plain(target: str) -> str:
    """As people see it."""
    return json.dumps(target)[1:-1]
