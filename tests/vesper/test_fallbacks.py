"""Candidates that could not be asked: what the reference does for them is done once, and nobody is
blamed for an outage."""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.vesper.test_monitoring import receiver
from tests.vesper.test_rollouts import (
    AT_ONCE,
    ORDERS,
    Shop,
    buyer,
    double,
    raised_to,
    within,
    wrong,
)
from vegakit.contracts import CandidateUnavailable, Compared, Evidence, Rollout, Tally
from vegakit.errors import ErrorClass
from vegakit.host import Agent
from vegakit.money import NANOS, Money
from vegakit.policy import RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ProviderAccess, ScriptedModel, ScriptedReply, build_model
from vegakit.sdk import Runtime
from vegakit.testing import Failure, Provider
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
    assert (
        "10 calls had no answer of the candidate to compare, while 0 were compared" in alert["text"]
    )
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


# Candidates that fail in ways of their own.


async def same(number: int) -> int:
    return number


async def cancels(number: int) -> int:
    raise asyncio.CancelledError


async def exits(number: int) -> int:
    raise SystemExit(3)


async def hangs(number: int) -> int:
    await asyncio.Event().wait()
    return number


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("candidate", [cancels, exits, hangs])
def test_whatever_a_candidate_does_the_caller_is_answered(
    candidate: Any, mode: RolloutMode
) -> None:
    """By the reference; that it cancels itself, ends the process or hangs is a difference."""

    async def work(rt: Runtime) -> Rollout:
        rule = RolloutRule(calibration=0, sample=1.0, timeout_s=0.05)
        async with rollout(rt, "s", reference=same, candidate=candidate, rule=rule) as asked:
            await raised_to(asked, mode)
            assert await asked(7) == 7
            await asked.settle()
            return asked.status()

    state = within(work)
    assert state.evidence.production == Tally(1, 1)
    assert state.mode is RolloutMode.SHADOW


def test_answers_that_cannot_be_compared_differ() -> None:
    """Else a candidate that answers nothing, where the comparison expects fields, would pass."""

    async def total(number: int) -> Any:
        return {"total": number}

    async def nothing(number: int) -> Any:
        return None if number % 5 == 0 else {"total": number}

    async def work(rt: Runtime) -> Tally:
        async with rollout(
            rt, "t", reference=total, candidate=nothing, rule=AT_ONCE,
            compare=lambda one, two: one["total"] == two["total"],
        ) as asked:  # fmt: skip
            for number in range(10):
                await asked(number)
            await asked.settle()
            return asked.status().evidence.production

    assert within(work) == Tally(10, 2)


def test_a_candidate_that_hangs_in_the_shadow_holds_nobody_up() -> None:
    """Comparisons have so much room; calls beyond it are not compared, which is told, and nothing
    is promoted meanwhile."""

    async def work(rt: Runtime) -> Rollout:
        is_over = asyncio.Event()

        async def late(number: int) -> int:
            await is_over.wait()
            return number

        async with rollout(rt, "s", reference=same, candidate=late, rule=AT_ONCE) as asked:
            async with asyncio.timeout(PATIENCE_S):
                assert [await asked(number) for number in range(200)] == [*range(200)]
            is_over.set()
            await asked.settle()
            return asked.status()

    state = within(work)
    assert (state.evidence.production, state.unavailable) == (Tally(64), 136)
    assert "64 comparisons are in flight" in state.unavailable_because


@pytest.mark.parametrize("mode", [RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY])
def test_callers_that_give_up_are_counted(mode: RolloutMode) -> None:
    """A candidate is not promoted by the calls that it answers in time alone."""

    async def work(rt: Runtime) -> Rollout:
        async with rollout(rt, "s", reference=same, candidate=hangs, rule=EVERY) as asked:
            await raised_to(asked, mode)
            for number in range(10):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await asked(number)
            await asked.settle()
            return asked.status()

    state = within(work)
    assert (state.evidence.production, state.unavailable) == (Tally(), 10)
    assert "the caller gave up" in state.unavailable_because


def test_nothing_is_promoted_while_calls_are_often_not_compared() -> None:
    """Those may be the ones that differ; it goes on when that is over."""
    machine = Rollout("r", AT_ONCE, Evidence("v1", production=Tally(998)))
    for _ in range(10):
        machine.step(CandidateUnavailable("away"))
    assert [machine.step(Compared(agrees=True)) for _ in range(3)] == [None] * 3
    blocked = machine.next_stage()
    assert blocked is not None
    assert "10 calls had no answer" in blocked.blocked
    changes = [machine.step(Compared(agrees=True)) for _ in range(200)]
    assert [change.after for change in changes if change is not None] == [2]


@pytest.mark.parametrize("mode", MODES)
def test_what_a_caller_or_a_path_changes_is_compared_as_it_was(mode: RolloutMode) -> None:
    """Comparisons are made later, on copies of the inputs and of the answer."""

    def grow() -> Any:
        async def grown(items: list[int]) -> dict[str, Any]:
            items.append(len(items))
            return {"items": [*items]}

        return grown

    async def work(rt: Runtime) -> Tally:
        async with rollout(rt, "g", reference=grow(), candidate=grow(), rule=EVERY) as asked:
            await raised_to(asked, mode)
            for _ in range(5):
                given = [7]
                answer = await asked(given)
                assert answer == {"items": [7, 1]}
                answer["items"].clear()
                given.clear()
            await asked.settle()
            return asked.status().evidence.production

    assert within(work) == Tally(5)


def test_a_candidate_is_not_paid_for_what_cannot_be_compared() -> None:
    """The budget holds the candidate and not the reference: of an input nobody is asked."""
    free = ScriptedModel("yes", name="small")

    async def work(rt: Runtime) -> Any:
        async with rollout(
            rt,
            "c",
            reference=costly(Shop(), ["yes"]),
            candidate=Agent("a", model=free, max_tokens=5),
            rule=AT_ONCE,
        ) as asked:
            return await asked.check("Is it?")

    checked = within(work, budget="$0.05")
    assert checked.agrees is None
    assert "was not asked" in str(checked.candidate)
    assert free.requests == []


# Inputs whose class nobody knows.


def _no_class(number: int) -> Any:
    return {1: "odd", 2: 7, 3: None, 4: "e\x1b[0m", 5: "e" * 101}[number]


@pytest.mark.parametrize("mode", MODES)
def test_inputs_without_a_class_are_answered_by_the_reference(
    mode: RolloutMode, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the function of the user does instead of naming one; people are told, and nothing is
    counted."""

    async def work(rt: Runtime) -> list[Rollout]:
        async with rollout(
            rt, "d", reference=double, candidate=wrong, rule=EVERY, input_class=_no_class
        ) as doubled:
            await raised_to(doubled, mode)
            assert [await doubled(number) for number in (1, 2, 3, 4, 5, 13)] == [2, 4, 6, 8, 10, 26]
            await doubled.settle()
            return [doubled.status(), doubled.status("odd")]

    unknown, odd = within(work)
    assert (unknown.mode, unknown.evidence.production) == (mode, Tally())
    assert odd.evidence.production == Tally(1)
    told = [each.getMessage() for each in caplog.records if "input_class" in each.getMessage()]
    assert len(told) == 5
    assert "input_class raised KeyError: 13" in told[-1]
    assert "input_class returned 7, and not a text of at most 100 characters" in told[0]
