"""What a second attempt at a call does, told by what the first one left behind."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from tests.durable.stage import until
from vegakit.conversation import ModelReply, ModelRequest, ModelSettings
from vegakit.durable import Deployment
from vegakit.durable.deployment import Activities
from vegakit.durable.messages import ActivityInput, ActivityResult
from vegakit.effects import (
    CallModel,
    CallTool,
    EffectPath,
    EffectRequest,
    Incarnation,
    Site,
    effect,
)
from vegakit.errors import StoreError
from vegakit.events import Answered, Crashed, EffectCancelled, Unknown
from vegakit.host import Agent
from vegakit.ids import HolderId, ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.policy import ClaimState
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore, SqliteLedger

CALL = CallModel(ModelRequest("scripted", (), ModelSettings(100)), Money(500), ScopeId(""))
LOOKS: list[str] = []


def look(at: str) -> str:
    LOOKS.append(at)
    return "seen"


class Hanging(ScriptedModel):
    async def ask(self, request: ModelRequest) -> ModelReply:
        return await asyncio.Future()


class Broken(ScriptedModel):
    def __init__(self, error: Exception) -> None:
        super().__init__("never")
        self._error = error

    async def ask(self, request: ModelRequest) -> ModelReply:
        raise self._error


def work(request: EffectRequest = CALL, **more: Any) -> ActivityInput:
    path = EffectPath(
        TenantId("t"), ProgramId("p"), (Incarnation("a", 1),), Site("send", 1), (0, 0)
    )
    return ActivityInput(effect(path, request), "guide", "a", **more)


class Bench:
    def __init__(self, deployment: Deployment, runtime: Runtime) -> None:
        self.ledger, self.runtime = deployment.ledger, runtime
        self.activities = Activities(deployment, runtime, deployment.registry(runtime))

    def at(self, attempt: int) -> ActivityEnvironment:
        env = ActivityEnvironment()
        env.info = dataclasses.replace(env.info, attempt=attempt)
        return env

    async def call(self, given: ActivityInput, attempt: int = 1) -> Any:
        is_model = isinstance(given.effect.request, CallModel)
        act = self.activities.call_model if is_model else self.activities.call_tool
        performed: ActivityResult = await self.at(attempt).run(act, given)
        assert performed.digest == given.effect.digest
        return performed.outcome

    async def send(self, given: ActivityInput) -> None:
        """As a worker did that died then."""
        scope, now = self.runtime.budgets.root, self.runtime.clock.now()
        holder = HolderId("a worker that died")
        await self.ledger.renew(holder, now + 60_000)
        key = given.effect.key
        await self.ledger.reserve(key, 1, scope, Money(500), holder, now)


@asynccontextmanager
async def bench(folder: Path, model: Any = None) -> AsyncGenerator[Bench]:
    agent = Agent("guide", model or ScriptedModel("yes"), tools=[look])
    deployment = Deployment([agent], SqliteLedger(folder / "ledger.db"), MemoryStore())
    async with deployment.runtime() as runtime:
        yield Bench(deployment, runtime)


async def test_what_was_sent_is_unknown(tmp_path: Path) -> None:
    """Charged in full, and not sent again."""
    async with bench(tmp_path) as here:
        await here.send(work())
        assert await here.call(work(), attempt=2) == Unknown(Money(500))
        claim = (await here.ledger.claims([work().effect.key]))[work().effect.key][0]
        assert claim.state is ClaimState.UNKNOWN


async def test_what_was_billed_is_unknown_at_its_bill(tmp_path: Path) -> None:
    """The answer is lost, its price is not."""
    async with bench(tmp_path) as here:
        await here.send(work())
        await here.ledger.answer(work().effect.key, 1, Money(42), here.runtime.clock.now())
        assert await here.call(work(), attempt=2) == Unknown(Money(42))


async def test_what_was_turned_away_goes_on(tmp_path: Path) -> None:
    """A worker died after a 429: nothing is under way, nothing was billed, so it is asked again."""
    model = ScriptedModel("yes")
    async with bench(tmp_path, model) as here:
        await here.send(work())
        await here.ledger.answer(work().effect.key, 1, Money(0), here.runtime.clock.now())
        outcome = await here.call(work(), attempt=2)
        assert isinstance(outcome, Answered)
        claim = (await here.ledger.claims([work().effect.key]))[work().effect.key][1]
        assert (claim.state, claim.charged) == (ClaimState.ANSWERED, outcome.charged)
        assert len(model.requests) == 1


async def test_what_was_not_claimed_is_done(tmp_path: Path) -> None:
    """And a third attempt finds the answer that the second one kept."""
    model = ScriptedModel("yes")
    async with bench(tmp_path, model) as here:
        done = await here.call(work(), attempt=2)
        assert isinstance(done, Answered)
        again = await here.call(work(), attempt=3)
        assert again.charged == done.charged
        assert len(model.requests) == 1


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_tool_is_repeated_only_if_it_may_be(tmp_path: Path, idempotent: bool) -> None:
    """Else nobody knows whether it was done."""
    LOOKS.clear()
    async with bench(tmp_path) as here:
        given = work(CallTool("look", {"at": "it"}, ScopeId(""), idempotent))
        outcome = await here.call(given, attempt=2)
        assert isinstance(outcome, Answered if idempotent else Unknown)
        assert (["it"] if idempotent else []) == LOOKS


async def test_the_aftermath_of_a_cancel(tmp_path: Path) -> None:
    """Cancelled before any worker had it, or while a dead one had sent it."""
    async with bench(tmp_path) as here:
        act = here.activities.find_outcome
        given = work(cancelled=True)
        assert (await here.at(1).run(act, given)).outcome == EffectCancelled()
        await here.send(given)
        assert (await here.at(1).run(act, given)).outcome == EffectCancelled(Money(500))
        assert (await here.at(1).run(act, work())).outcome == Unknown(Money(500))


async def test_a_bug_is_an_outcome_and_a_failing_store_is_not(tmp_path: Path) -> None:
    """Temporal tries again what a store could not do."""
    other = tmp_path / "other"
    other.mkdir()
    async with bench(tmp_path, Broken(ZeroDivisionError("by nought"))) as here:
        outcome = await here.call(work())
        assert isinstance(outcome, Crashed)
        assert outcome.reason == "ZeroDivisionError: by nought"
    async with bench(other, Broken(StoreError("the disk is full"))) as here:
        with pytest.raises(StoreError):
            await here.call(work())


@pytest.mark.parametrize("wanted", [True, False])
async def test_only_the_program_cancels(tmp_path: Path, wanted: bool) -> None:
    """A worker that shuts down leaves the call to another, which finds it charged."""
    async with bench(tmp_path, Hanging("never")) as here:
        env = here.at(1)
        calling = asyncio.ensure_future(env.run(here.activities.call_model, work()))
        await until(lambda: here.ledger.claims([work().effect.key]))
        details = ActivityCancellationDetails(cancel_requested=wanted, worker_shutdown=not wanted)
        env.cancel(details)
        if wanted:
            outcome = (await calling).outcome
            assert isinstance(outcome, EffectCancelled)
            assert outcome.charged > 0
        else:
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert isinstance(await here.call(work(), attempt=2), Unknown)
