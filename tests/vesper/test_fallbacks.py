"""Candidates that could not be asked: what the reference does for them is done once, and nobody is
blamed for an outage."""

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.vesper.test_monitoring import receiver
from tests.vesper.test_rollouts import AT_ONCE, ORDERS, Shop, buyer, raised_to, within
from vegakit.contracts import CandidateUnavailable, Compared, Evidence, Rollout, Tally
from vegakit.errors import ErrorClass
from vegakit.host import Agent
from vegakit.money import NANOS, Money
from vegakit.policy import RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ProviderAccess, build_model
from vegakit.providers.scripted import ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.testing.provider.script import Failure
from vegakit.testing.provider.server import Provider
from vegakit.vesper import RolloutMode, RolloutRule, rollout

EVERY = RolloutRule(calibration=0, sample=1.0)


class CutOffError(Exception):
    """Ends a run before it is done."""


def costly(shop: Shop, script: list[Any], max_tokens: int = 100) -> Agent[str]:
    """A candidate that is billed $1,000 per million tokens of its answers."""
    tier = PriceTier(Money(0), Money(1_000 * NANOS), Money(0), Money(0))
    model = ScriptedModel(script, name="costly", price=PriceRow("costly", (tier,)))
    return Agent("buyer", model=model, tools=[shop.order], max_tokens=max_tokens)


@pytest.mark.parametrize("mode", [RolloutMode.DIRECT_ONLY, RolloutMode.DUAL_VERIFY])
@pytest.mark.parametrize("first", [[], [ORDERS["rum"]]])
def test_more_money_does_not_repeat_what_the_reference_did(
    mode: RolloutMode, first: list[Any], tmp_path: Path
) -> None:
    """The budget refused the candidate, before or after it ordered something, and the reference
    answered; the run goes on with a budget that would hold the candidate, which is not asked."""
    shop, answers = Shop(), list[str]()

    async def work(rt: Runtime) -> None:
        candidate = costly(shop, [*first, ORDERS["tea"], "done by the candidate"] * 3)
        async with rollout(
            rt,
            "buy",
            reference=buyer(shop, "tea"),
            candidate=candidate,
            rule=EVERY,
            compare=lambda _one, _two: True,
        ) as buy:
            if not answers:
                await raised_to(buy, mode)
            answers.append(await buy("Buy tea."))
            await buy.settle()
        if len(answers) == 1:
            raise CutOffError

    # An answer holds $0.10, and what it says costs $0.002: the first call fits, the second not.
    small = "$0.1005" if first else "$0.05"
    with pytest.raises(CutOffError):
        within(work, journal=tmp_path / "run.db", budget=small)
    done = [*shop.orders]
    within(work, journal=tmp_path / "run.db", budget="$5")
    ordered_first = ["rum"] if first and mode is RolloutMode.DIRECT_ONLY else []
    assert done == [*ordered_first, "tea"]
    assert shop.orders == done, "nothing is done again"
    assert answers == ["done", "done"]


# Outages.


ONCE = RetryRule(max_attempts=1)
MODES = (RolloutMode.SHADOW, RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY)


def asked_of(candidate: Agent[str], mode: RolloutMode, calls: int = 1, **options: Any) -> Rollout:
    """The state after some calls at a mode, all of which the reference answered."""

    async def work(rt: Runtime) -> Rollout:
        trusted = Agent("sorter", model=ScriptedModel("yes", name="large"))
        async with rollout(
            rt, "sort", reference=trusted, candidate=candidate, rule=EVERY, **options
        ) as sort:
            await raised_to(sort, mode)
            for number in range(calls):
                assert await sort(f"Number {number}?") == "yes"
                await sort.settle()
            return sort.status()

    return within(work)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("error", [*ErrorClass])
def test_an_outage_is_no_evidence_and_a_refusal_is(error: ErrorClass, mode: RolloutMode) -> None:
    """A provider that could not be asked would have answered nobody knows what; one that would not
    answer this request has answered."""
    own = {ErrorClass.REJECTED, ErrorClass.CONTENT_FILTER, ErrorClass.CONTEXT_LENGTH}
    model = ScriptedModel([ScriptedReply(error=error)], name="small")
    state = asked_of(Agent("sorter", model=model, retry=ONCE), mode)
    failed = Tally(1, 1) if error in own else Tally()
    assert (state.evidence.production, state.unavailable) == (failed, int(error not in own))
    assert state.mode is (RolloutMode.SHADOW if error in own else mode)


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_outages_over_the_wire_are_known(status: int) -> None:
    """Nobody listens there, or what does has no answer; each is asked in every mode."""
    with Provider([Failure(status)] * 9).in_thread() as provider, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = provider.url if status else f"http://127.0.0.1:{unused.getsockname()[1]}"
        for mode in MODES:
            model = build_model("openai:gpt-4o", ProviderAccess(lambda: "k", url + "/v1"))
            state = asked_of(Agent("sorter", model=model, max_tokens=20, retry=ONCE), mode)
            assert (state.evidence.production, state.unavailable) == (Tally(), 1)
            assert state.mode is mode


def test_answers_of_the_wrong_type_are_evidence() -> None:
    """The candidate was asked, and came to no answer that fits."""

    async def work(rt: Runtime) -> Rollout:
        old, new = (
            Agent(
                "counter",
                model=ScriptedModel([ScriptedReply(output={"result": said})] * 9, name=f"{said}"),
                output_type=int,
            )
            for said in (7, "many")
        )
        async with rollout(rt, "count", reference=old, candidate=new, rule=AT_ONCE) as count:
            await raised_to(count, RolloutMode.DIRECT_ONLY)
            assert await count("How many?") == 7
            return count.status()

    state = within(work)
    assert (state.evidence.production, state.unavailable) == (Tally(1, 1), 0)
    assert state.mode is RolloutMode.SHADOW


def test_frequent_outages_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """To the log and the webhook; nobody decided anything, so nobody hears of a decision."""

    async def work(rt: Runtime) -> tuple[list[Any], list[Any]]:
        out = Agent(
            "sorter",
            model=ScriptedModel([ScriptedReply(error=ErrorClass.SERVER)] * 30, name="small"),
            retry=ONCE,
        )
        changes = list[Any]()
        async with receiver() as hook:
            async with rollout(
                rt, "sort", reference=Agent("sorter", model=ScriptedModel("yes", name="large")),
                candidate=out, rule=EVERY, webhook=hook.url, on_change=changes.append,
            ) as sort:  # fmt: skip
                for number in range(30):
                    await sort(f"{number}?")
                    await sort.settle()
            return hook.bodies, changes

    with caplog.at_level(logging.WARNING, "vegakit.vesper.monitoring"):
        [alert], changes = within(work)
    assert changes == []
    assert (alert["before"], alert["after"], alert["is_promotion"]) == ("shadow", "shadow", False)
    assert "could not be asked in 10 calls, while 0 were compared" in alert["text"]
    assert [one.getMessage() for one in caplog.records] == [alert["text"]]


def test_an_outage_is_over_after_a_hundred_calls() -> None:
    """What is told is taken back, and told again if it comes again."""
    machine = Rollout("r", AT_ONCE, Evidence("v1"))
    told = list[bool]()
    for _ in range(2):
        for event in [CandidateUnavailable("away")] * 10 + [Compared(agrees=True)] * 191:
            machine.step(event)
            told.append(bool(machine.unavailable_because))
    assert [told[at] for at in (8, 9, 100, 199, 200)] == [False, True, True, True, False]
    assert [told[at] for at in (209, 210)] == [False, True]
    assert machine.unavailable == 20
    assert machine.evidence.production == Tally(382)
