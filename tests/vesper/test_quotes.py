"""What verification costs: quotes, the wallet of a rollout, and judges that are paid by it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from campaigns.rollout_acceptance import BAD, GOOD, LEAST_CALLS, rolled_out

from vegakit.contracts import (
    STAGES,
    JudgeErrors,
    JudgeTally,
    Rollout,
    RolloutRoute,
    Tally,
    calls_to_stages,
)
from vegakit.conversation import ModelRequest, Text, Usage, UserMessage
from vegakit.errors import ErrorClass, InvalidRuleError, UserError
from vegakit.host import Agent, AskCost, cost_of_ask
from vegakit.money import dollars
from vegakit.providers import ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.testing import FakeClock
from vegakit.vesper import (
    PersonAction,
    RolloutMode,
    RolloutRule,
    by_field,
    exact,
    judge,
    render_rollout_quote,
    rollout,
)
from vegakit.vesper.quotes import QuotedPrices, quote_of

AT_ONCE = RolloutRule(calibration=0)
ANSWERS = [f"The answer to question {n} is {n}." for n in range(250)]


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    async def opened() -> Any:
        async with Runtime(observable=False, **options) as rt:
            return await work(rt)

    return asyncio.run(opened())


def says(text: str, output_tokens: int, name: str) -> Agent[str]:
    """An agent whose answers cost $1 and $5 per million tokens: one in, and so many out."""
    reply = ScriptedReply(text, usage=Usage(1, output_tokens))
    return Agent(name, model=ScriptedModel(reply, name=name), max_tokens=output_tokens)


LARGE, SMALL = says("yes", 1_000, "large"), says("yes", 100, "small")
PER_LARGE, PER_SMALL = dollars("$0.005001"), dollars("$0.000501")


async def raised_to(rolled: Any, mode: RolloutMode) -> None:
    while rolled.status().mode is not mode:
        await rolled.decide(PersonAction.PROMOTE, "ada")


# Judges.


def _text(request: ModelRequest) -> str:
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    return "".join(part.text for part in message.parts if isinstance(part, Text))


class Reader:
    """A judge's model: it reads what is behind the first colon, and is wrong when it is told to."""

    def __init__(self, wrong: Callable[[int], bool] = lambda _number: False) -> None:
        self.wrong, self.asked, self.is_out = wrong, 0, False
        self.model = ScriptedModel(self.answer, name="reader")

    def answer(self, request: ModelRequest) -> ScriptedReply:
        if self.is_out:
            return ScriptedReply(error=ErrorClass.SERVER)
        self.asked += 1
        one, two = re.findall(r"<(?:first|second)>\n(.*?)\n</", _text(request), re.DOTALL)
        same = one.rpartition(":")[2].strip() == two.rpartition(":")[2].strip()
        verdict = "same" if same is not self.wrong(self.asked) else "different"
        return ScriptedReply(output={"result": verdict}, usage=Usage(10, 2))

    def compare(self, answers: list[str] | None = None) -> Any:
        return judge(Agent("reader", model=self.model), answers=answers or ANSWERS)


def judged_rule(margin: float = 0.05) -> RolloutRule:
    return RolloutRule(calibration=0, margin=margin)


def test_a_judge_is_measured_first_and_once() -> None:
    """Each answer with itself and with the next one; its errors are in the rule, and kept."""

    async def work(rt: Runtime) -> tuple[list[int], JudgeErrors | None]:
        asked, errors = list[int](), None
        for _ in range(2):
            reader = Reader()
            async with rollout(
                rt, "j", reference=LARGE, candidate=SMALL, compare=reader.compare(),
                rule=judged_rule(),
            ) as rolled:  # fmt: skip
                asked.append(reader.asked)
                errors = rolled.status().rule.judge
        return asked, errors

    asked, errors = within(work)
    assert asked == [2 * len(ANSWERS), 0]
    assert errors == JudgeTally(Tally(250), Tally(250)).errors(0.0005)


@pytest.mark.parametrize(("margin", "asked"), [(0.01, 0), (0.04, 500)])
def test_a_judge_that_cannot_show_the_margin_is_refused(margin: float, asked: int) -> None:
    """Before it is asked if the pairs are too few for it, after it if it makes mistakes."""
    reader = Reader(wrong=lambda number: number % 50 == 0)

    async def work(rt: Runtime) -> None:
        rolled = rollout(
            rt, "j", reference=LARGE, candidate=SMALL, compare=reader.compare(),
            rule=judged_rule(margin),
        )  # fmt: skip
        with pytest.raises(InvalidRuleError, match="cannot be shown by it, nor a margin"):
            async with rolled:
                pass

    within(work)
    assert reader.asked == asked


@pytest.mark.parametrize(("candidate", "failures"), [("Sure: yes", 0), ("no", 1)])
def test_a_judge_compares_what_is_meant(candidate: str, failures: int) -> None:
    """The reference is asked again from the first call on, and a difference demotes nobody."""

    async def work(rt: Runtime) -> Rollout:
        async with rollout(
            rt, "j", reference=LARGE, candidate=says(candidate, 100, "other"),
            compare=Reader().compare(), rule=judged_rule(),
        ) as rolled:  # fmt: skip
            await raised_to(rolled, RolloutMode.DUAL_VERIFY)
            assert await rolled("?") == (candidate if not failures else "yes")
            await rolled.settle()
            return rolled.status()

    state = within(work)
    assert state.evidence.production == Tally(1, failures)
    assert (state.evidence.pairs.runs, state.mode) == (1, RolloutMode.DUAL_VERIFY)
    assert state.evidence.costs.judge.answers == 2


def test_an_outage_of_a_judge_is_no_evidence() -> None:
    """Neither for answers that differ nor for equal ones: else it would choose among calls."""

    async def work(rt: Runtime) -> Tally:
        reader = Reader()
        async with rollout(
            rt, "j", reference=LARGE, candidate=SMALL, compare=reader.compare(), rule=judged_rule()
        ) as rolled:
            reader.is_out = True
            assert await rolled("?") == "yes"
            await rolled.settle()
            return rolled.status().evidence.production

    assert within(work) == Tally()


def test_a_judge_without_a_verdict_has_not_said_same() -> None:
    """Texts that confuse it would drop out of the count else."""

    async def work(rt: Runtime) -> bool:
        babbler = Agent("babbler", model=ScriptedModel(["well"] * 9, name="babbler"))
        compare = judge(babbler, answers=ANSWERS)
        return (await compare.verdict(rt, "yes", "yes")).is_same

    assert within(work) is False


def test_a_judge_compares_one_field() -> None:
    """It is asked only where all else is the same; a missing text differs."""

    async def work(rt: Runtime) -> tuple[list[bool], int]:
        reader = Reader()
        compare = by_field({"why": reader.compare(), "sum": exact()})
        one = {"why": "a: x", "sum": 1}
        others = [{"why": "b: x", "sum": 1}, {"why": "y", "sum": 1}, {"why": "b: x", "sum": 2}]
        same = [(await compare.verdict(rt, one, other)).is_same for other in [*others, {"sum": 1}]]
        return same, reader.asked

    assert within(work) == ([True, False, False, False], 2)


def test_a_judge_without_known_pairs_is_refused() -> None:
    """Some must be the same and some must differ; and it is asked by a rollout only."""
    unknown: list[dict[str, Any]] = [{}, {"pairs": [("a", "b", False)]}, {"answers": ["a"]}]
    for known in unknown:
        with pytest.raises(UserError, match="some that are the same and some that differ"):
            judge(LARGE, **known)
    with pytest.raises(UserError, match="asked by a rollout"):
        judge(LARGE, answers=["a", "b"])("a", "b")


def test_a_comparison_may_wait() -> None:
    """An `async def` function compares as any other does."""

    async def slowly(one: str, two: str) -> bool:
        await asyncio.sleep(0)
        return one[0] == two[0]

    async def work(rt: Runtime) -> Tally:
        async with rollout(
            rt, "s", reference=LARGE, candidate=says("yeah", 1, "new"), compare=slowly, rule=AT_ONCE
        ) as rolled:
            await rolled("?")
            await rolled.settle()
            return rolled.status().evidence.production

    assert within(work) == Tally(1, 0)


# Quotes.


def spent_call_by_call(rule: RolloutRule, calls: tuple[int, ...], noisy: bool) -> tuple[float, int]:
    """Verification up to the last stage and the break-even, by adding up one call after another: 10
    for the reference, 1 for the candidate, 0.5 for a verdict, 7 for measuring the judge."""
    reference, candidate, judge_, total, verification = 10.0, 1.0, 0.5, 7.0, 7.0
    for call in range(1, 10**7):
        stage = max(n for n, entered in enumerate(calls) if entered < call) + 1
        share = STAGES[stage].candidate_share
        again = (reference + judge_) if noisy else 0.0
        if call <= rule.calibration:
            answer, other = reference, reference + judge_
        elif stage == len(STAGES) - 1:
            answer, other = candidate, rule.sample * (reference + judge_ + again)
        elif STAGES[stage].mode is RolloutMode.DUAL_VERIFY:
            answer, other = reference, candidate + judge_ + again
        else:
            answer = share * candidate + (1 - share) * reference
            other = share * reference + (1 - share) * candidate + judge_ + again
        total += answer + other
        verification += other if call <= calls[-1] else 0.0
        if total <= call * reference:
            return verification, call
    raise AssertionError("it never pays")


@pytest.mark.parametrize("noisy", [False, True])
def test_a_quote_is_what_calls_add_up_to(noisy: bool) -> None:
    """Call by call, up to the last stage and to break-even."""
    rule, prices = RolloutRule(is_noisy=noisy), QuotedPrices(10.0, 1.0, 0.5, 7.0)
    quote = quote_of("q", rule, prices, prices, is_noisy=noisy)
    calls = calls_to_stages(rule, is_noisy=noisy)
    verification, even = spent_call_by_call(rule, calls, noisy)
    assert quote.typical == ceil(verification - 1e-3)
    assert quote.break_even_calls is not None
    assert abs(quote.break_even_calls - even) <= 1
    assert [stage.calls for stage in quote.stages] == [*calls]


def test_a_quote_by_examples() -> None:
    """Both paths answer them in the shadow, which counts nowhere but in the wallet."""

    async def work(rt: Runtime) -> tuple[Any, Any, Any]:
        rolled = rollout(rt, "q", reference=LARGE, candidate=SMALL, budget="$5")
        before = await rolled.quote()
        quote = await rolled.quote(["Is it?", "Is it not?"])
        assert await rolled.spent() == 2 * (PER_LARGE + PER_SMALL)
        async with rolled:
            assert rolled.status().evidence.production.runs == 0
        return before, quote, render_rollout_quote(quote)

    before, quote, told = within(work)
    assert (before.typical, before.saves, before.at_most) == (None, None, dollars("$5"))
    assert (quote.reference, quote.candidate, quote.answers) == (PER_LARGE, PER_SMALL, 2)
    assert [stage.calls for stage in quote.stages] == [0, 1_100, 3_100, 8_908, 100_271]
    assert quote.break_even_calls > 100_271
    assert "its budget caps it" in told
    assert f"after {quote.break_even_calls:,} calls" in told
    assert "give quote(examples=[…])" in render_rollout_quote(before)


def test_a_quote_that_nothing_bounds_says_why() -> None:
    """A scripted model has no window; with a budget for each ask there is a bound."""

    async def work(rt: Runtime) -> list[Any]:
        capped = [
            Agent(a.name, model=a.model, budget="$0.01", max_tokens=100) for a in (LARGE, SMALL)
        ]
        pairs = [(LARGE, SMALL), capped]
        rule = RolloutRule(last=RolloutMode.CANARY)
        return [
            await rollout(rt, f"q{n}", reference=old, candidate=new, rule=rule).quote()
            for n, (old, new) in enumerate(pairs)
        ]

    unbounded, bounded = within(work, budget=None)
    assert unbounded.at_most is None
    assert "no known window" in render_rollout_quote(unbounded)
    assert bounded.at_most == 3_100 * dollars("$0.01")
    assert "both paths are paid at canary" in render_rollout_quote(bounded)


def test_an_ask_costs_no_more_than_its_bound() -> None:
    """Also if an empty answer is asked for again, and each is as long as it may be."""

    async def work(rt: Runtime) -> tuple[AskCost, int]:
        replies = [ScriptedReply(text, usage=Usage(1, 100)) for text in ("", "yes")]
        agent = Agent("late", model=ScriptedModel(replies), max_tokens=100)
        bound = cost_of_ask(agent, rt.model_registry, "?")
        return bound, (await rt.ask(agent, "?")).cost

    bound, cost = within(work)
    assert bound.most is not None
    assert bound.once < cost <= bound.most
    assert bound.answer_tokens == 100


def test_a_candidate_that_costs_more_never_pays() -> None:
    """The quote says so."""

    async def work(rt: Runtime) -> str:
        rolled = rollout(rt, "q", reference=SMALL, candidate=LARGE)
        return render_rollout_quote(await rolled.quote(["?"]))

    assert "does not pay: a call costs $0.0045" in within(work)


def test_calls_teach_the_quote() -> None:
    """Also where the rollout is opened elsewhere."""

    async def work(rt: Runtime) -> tuple[Any, Any]:
        async with rollout(rt, "q", reference=LARGE, candidate=SMALL, rule=AT_ONCE) as rolled:
            await rolled("?")
            await rolled.settle()
            open_ = await rolled.quote()
        return open_, await rollout(rt, "q", reference=LARGE, candidate=SMALL, rule=AT_ONCE).quote()

    open_, closed = within(work, budget=None)
    assert open_ == closed
    assert (open_.reference, open_.candidate, open_.answers) == (PER_LARGE, PER_SMALL, 1)


# The wallet.


def test_verification_is_never_overspent() -> None:
    """Two hundred calls at once: each is answered, some are compared, and the status says why not
    all are. What callers had is not in it."""

    async def work(rt: Runtime) -> tuple[Any, Any, Rollout]:
        async with rollout(
            rt, "w", reference=LARGE, candidate=SMALL, rule=AT_ONCE, budget="$0.03"
        ) as rolled:
            for _ in range(4):
                assert await asyncio.gather(*(rolled(f"{n}?") for n in range(50))) == ["yes"] * 50
                await rolled.settle()
            return await rolled.spent(), await rt.spent(), rolled.status()

    spent, in_all, state = within(work)
    runs = state.evidence.production.runs
    assert dollars("$0.02") < spent <= dollars("$0.03")
    assert spent == runs * PER_SMALL
    assert in_all == spent + 200 * PER_LARGE
    assert "raise it: rollout(…, budget=…)" in state.paused_because


def test_comparisons_leave_half_of_the_budget_to_answers() -> None:
    """Two rollouts without a budget of their own, one opened a second time, and a candidate that
    costs ten times as much: callers have their half, and the quote says so."""

    async def work(rt: Runtime) -> tuple[Any, Any, Rollout, str]:
        many = rollout(rt, "other", reference=SMALL, candidate=LARGE, rule=AT_ONCE)
        told = render_rollout_quote(await many.quote(["?"], asks=False))
        for name in ("one", "other", "one"):
            rolled = rollout(rt, name, reference=SMALL, candidate=LARGE, rule=AT_ONCE)
            async with rolled:
                for n in range(30):
                    assert await rolled(f"{n}?") == "yes"
                    await rolled.settle()
                spent = await rolled.spent()
        return spent, await rt.spent(), rolled.status(), told

    spent, in_all, state, told = within(work, budget="$0.2")
    compared = in_all - 90 * PER_SMALL
    assert dollars("$0.06") < compared <= dollars("$0.1")
    assert spent == state.evidence.production.runs * PER_LARGE == compared
    assert "half of the budget here, the share of $0." in state.paused_because
    assert "half of the budget here caps it" in told


def test_the_share_of_a_budget_with_a_period_is_of_each_period() -> None:
    """Half of what a day has, on the next day again."""

    async def work(rt: Runtime) -> list[int]:
        clock, runs = rt.clock, list[int]()
        assert isinstance(clock, FakeClock)
        async with rollout(rt, "d", reference=SMALL, candidate=LARGE, rule=AT_ONCE) as rolled:
            for _ in range(2):
                for n in range(10):
                    await rolled(f"{n}?")
                    await rolled.settle()
                runs.append(rolled.status().evidence.production.runs)
                clock.advance(86_400_000)
        return runs

    assert within(work, budget="$0.05/day", clock=FakeClock()) == [4, 8]


def test_runtimes_on_one_ledger_share_the_wallet(tmp_path: Path) -> None:
    """Each compares what fits, and together they do not pass the cap."""

    async def compare_many(rt: Runtime) -> int:
        async with rollout(
            rt, "w", reference=LARGE, candidate=SMALL, rule=AT_ONCE, budget="$0.02"
        ) as rolled:
            for _ in range(3):
                await asyncio.gather(*(rolled(f"{n}?") for n in range(20)))
                await rolled.settle()
            return rolled.status().evidence.production.runs

    async def work() -> tuple[tuple[int, ...], int]:
        ledger = tmp_path / "ledger.db"
        async with (
            Runtime(observable=False, ledger=ledger) as one,
            Runtime(observable=False, ledger=ledger) as two,
        ):
            runs = await asyncio.gather(compare_many(one), compare_many(two))
            async with rollout(
                one, "w", reference=LARGE, candidate=SMALL, rule=AT_ONCE, budget="$0.02"
            ) as rolled:
                return runs, await rolled.spent()

    runs, spent = asyncio.run(work())
    assert min(runs) > 0
    assert spent == sum(runs) * PER_SMALL <= dollars("$0.02")
    assert sum(runs) > 30


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        (RolloutMode.SHADOW, "old"),
        (RolloutMode.DUAL_VERIFY, "old"),
        (RolloutMode.DIRECT_ONLY, "new"),
    ],
)
def test_without_money_calls_are_answered(mode: RolloutMode, answer: str) -> None:
    """By the reference, until the candidate has earned all calls."""

    async def work(rt: Runtime) -> tuple[str, Rollout, Any]:
        old, new = says("old", 1, "old"), says("new", 1, "new")
        rule = RolloutRule(calibration=0, sample=1.0)
        async with rollout(
            rt, "w", reference=old, candidate=new, rule=rule, budget="$0.000001",
            compare=lambda _one, _two: True,
        ) as rolled:  # fmt: skip
            await raised_to(rolled, mode)
            said = await rolled("?")
            await rolled.settle()
            return said, rolled.status(), await rolled.spent()

    said, state, spent = within(work)
    assert (said, state.evidence.production.runs, spent) == (answer, 0, 0)
    assert state.paused_because
    assert state.mode is mode


def test_comparing_goes_on_when_the_budget_is_raised() -> None:
    """The same rollout goes on in the same wallet, and the pause is over."""

    async def work(rt: Runtime) -> list[tuple[int, bool]]:
        seen = list[tuple[int, bool]]()
        for budget in ("$0.006", "$0.012"):
            async with rollout(
                rt, "w", reference=LARGE, candidate=SMALL, rule=AT_ONCE, budget=budget
            ) as rolled:
                for n in range(20):
                    await rolled(f"{n}?")
                    await rolled.settle()
                state = rolled.status()
                seen.append((state.evidence.production.runs, bool(state.paused_because)))
        return seen

    (first, paused), (second, paused_too) = within(work)
    assert paused
    assert paused_too
    assert 0 < first < second


def test_a_callers_budget_is_for_its_answer() -> None:
    """Comparisons are paid where the rollout was opened."""

    async def work(rt: Runtime) -> tuple[Any, Any]:
        async with rollout(rt, "w", reference=SMALL, candidate=LARGE, rule=AT_ONCE) as rolled:
            with rt.budget("$0.0055"):
                await rolled("?")
                await rolled.settle()
                return await rt.spent(), rolled.status().evidence.production.runs

    assert within(work) == (PER_SMALL, 1)


def test_a_resumed_call_that_was_not_compared_stays_so(tmp_path: Path) -> None:
    """On another route it would perform its effects again."""

    async def work(rt: Runtime) -> RolloutRoute:
        async with rollout(rt, "w", reference=LARGE, candidate=SMALL, rule=AT_ONCE) as rolled:
            await raised_to(rolled, RolloutMode.DUAL_VERIFY)
            evidence = await rolled._evidence_of("")
            first = await evidence.open_call("0.1", "inputs", is_kept=True, is_paid=False)
            assert await evidence.open_call("0.1", "inputs", is_kept=True) == first
            return first

    route = within(work, journal=tmp_path / "run.db")
    assert not route.is_verifying
    assert not route.answers_by_candidate


# Over the wire: a part of `just rollouts full`.


@pytest.mark.parametrize(
    ("kind", "rate", "reached"),
    [("model to model", GOOD, RolloutMode.CANARY), ("agent to code", BAD, RolloutMode.SHADOW)],
)
def test_rollouts_over_the_wire(kind: str, rate: float, reached: RolloutMode) -> None:
    """What is as good is promoted and what is not is not, for the money that was quoted."""
    came = asyncio.run(rolled_out(kind, rate, LEAST_CALLS, RolloutMode.CANARY))
    stage = came.quote.stages[1]
    assert came.highest is reached
    assert came.wrong_answers == 0
    assert stage.typical is not None
    assert stage.at_most is not None
    assert came.verification <= stage.at_most
    assert came.verification == pytest.approx(stage.typical, rel=0.12)
