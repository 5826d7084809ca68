"""Quotes a rollout before it starts: what verification costs, when it pays; and holds its money.

A call that is compared costs more than its answer, and that more is verification. The answer itself
is the caller's, whichever path gives it:

| stage            | the caller pays       | verification pays                                    |
|------------------|-----------------------|------------------------------------------------------|
| calibration      | the reference         | the reference again, one verdict of the judge        |
| shadow, canary   | the path that answers | the other path; of a noisy reference the reference   |
|                  |                       | again; a verdict of the judge on each                |
| dual_verify      | the reference         | the candidate, and the same                          |
| direct_only      | the candidate         | for the sample: the reference, and the same          |

Break-even is the call at which all that was spent since the start, verification too, is no more
than the reference alone would have cost by then:

    calls to the last stage  +  verification by then  /  what each call saves from then on

Typical amounts are means of answers that were paid for: of examples, or of the calls so far. Counts
are those without any difference, which is the least; "at most" is with every answer as long and as
often retried as it may be, and no more than the budget.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from math import ceil
from typing import Any, NamedTuple, cast

from msgspec import Struct, structs

from vegakit.contracts import (
    STAGES,
    CallCosts,
    PathCost,
    Rollout,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    calls_to_stages,
)
from vegakit.errors import StoreError
from vegakit.host import AskCost, rule_of
from vegakit.ids import ScopeId
from vegakit.money import Dollars, Money, format_money, priced
from vegakit.policy import ScopeRule
from vegakit.sdk import Runtime
from vegakit.vesper.comparisons import Comparison
from vegakit.vesper.paths import CallInputs, ExecutionPath

_MOST_COUNTED = 100
"""Examples whose cost is looked at, spread over all of them, where nobody is asked."""
_SHARE, _SHARED_BY = "rollouts", 2
"""The budget of all rollouts that have none of their own, and which part of the one around it."""
_FIRST = 1
"""The stage that a rollout starts at: the shadow."""


class QuotedStage(Struct, frozen=True):
    """A stage, after how many calls it is entered if all of them agree, and what verification has
    cost by then."""

    mode: RolloutMode
    candidate_share: float
    calls: int
    typical: Money | None
    at_most: Money | None


class RolloutQuote(Struct, frozen=True):
    """The quote of a rollout. `reference`, `candidate` and `judge` are what one answer costs
    typically; `typical` and `at_most` are for all verification up to the last stage, `saves` is
    what a call saves from then on. None is not known, or nothing bounds it, for the reason `why`.
    `answers` is how many answers of the candidate typical amounts are the mean of; 0 if nobody was
    asked, and each answer is taken to come at once and to be as long as it may. `examples` is how
    many inputs were given; comparing all of them once costs `examples_typical`, and no more than
    `examples_at_most`."""

    name: str
    is_noisy: bool
    stages: tuple[QuotedStage, ...]
    reference: Money | None
    candidate: Money | None
    judge: Money | None
    typical: Money | None
    at_most: Money | None
    saves: Money | None
    budget: Money | None = None
    break_even_calls: int | None = None
    break_even_at_most: int | None = None
    answers: int = 0
    why: str = ""
    examples: int = 0
    examples_typical: Money | None = None
    examples_at_most: Money | None = None
    is_share: bool = False
    """The budget was not given: it is half of what the budget around it has."""


class QuotedPrices(NamedTuple):
    """Holds what an answer of each path and a verdict cost, and what measuring the judge does."""

    reference: float | None
    candidate: float | None
    judge: float | None
    measuring: float | None = 0.0

    @property
    def known(self) -> tuple[float, float, float, float] | None:
        """Return all of them, if all are known."""
        one, two, three, four = self
        if one is None or two is None or three is None or four is None:
            return None
        return one, two, three, four

    def verification(
        self, rule: RolloutRule, calls: Sequence[int], *, is_noisy: bool, is_net: bool = False
    ) -> list[int]:
        """Return what verification costs up to each of the stages, entered after `calls`; net of
        what callers save by then, whose answers the candidate gives in a canary."""
        if self.known is None:
            return []
        reference, candidate, judge, total = self.known
        again = reference + judge if is_noisy else 0.0
        amounts, before = [ceil(total)], rule.calibration
        total += before * (reference + judge)
        for stage, after in zip(STAGES[_FIRST:], calls[1:], strict=False):
            is_verified = stage.mode is RolloutMode.DUAL_VERIFY
            share = 0.0 if is_verified or is_net else stage.candidate_share
            other = share * reference + (1.0 - share) * candidate
            total += (after - before) * (other + judge + again)
            amounts.append(ceil(total))
            before = after
        return amounts

    def saved(self, rule: RolloutRule, *, is_noisy: bool) -> float | None:
        """Return what a call at the last stage saves, with the sample that is still compared."""
        if self.known is None:
            return None
        reference, candidate, judge, _ = self.known
        compared = (reference + judge) * (2 if is_noisy else 1)
        return reference - candidate - rule.sample * compared


def typical_prices(costs: CallCosts, judged: bool, pairs: int) -> QuotedPrices:
    """Return the means of what was paid."""
    verdict = costs.judge.mean if judged else 0.0
    measuring = None if verdict is None else verdict * pairs
    return QuotedPrices(costs.reference.mean, costs.candidate.mean, verdict, measuring)


def most_prices(
    reference: AskCost, candidate: AskCost, judges: Sequence[AskCost], pairs: Sequence[int]
) -> tuple[QuotedPrices, str]:
    """Return bounds of what is paid, and why there is none."""
    bounds = [each.most for each in judges]
    known = [each for each in bounds if each is not None]
    verdict = sum(known) if len(known) == len(bounds) else None
    measuring = None
    if verdict is not None:
        measuring = float(sum(most * count for most, count in zip(known, pairs, strict=True)))
    why = next((each.why for each in (reference, candidate, *judges) if each.most is None), "")
    # Which path is the other one depends on the call: the more expensive one bounds it.
    either = None
    if reference.most is not None and candidate.most is not None:
        either = max(reference.most, candidate.most)
    return QuotedPrices(reference.most, either, verdict, measuring), why


def quote_of(
    name: str,
    rule: RolloutRule,
    typical: QuotedPrices,
    most: QuotedPrices,
    *,
    is_noisy: bool,
    budget: Money | None = None,
    answers: int = 0,
    why: str = "",
) -> RolloutQuote:
    """Return the quote of a rollout at these prices."""
    calls = calls_to_stages(rule, is_noisy=is_noisy)
    usual = typical.verification(rule, calls, is_noisy=is_noisy)
    bounds = [_least(one, budget) for one in most.verification(rule, calls, is_noisy=is_noisy)]
    bounds = bounds or [budget] * len(calls)
    rows = zip(STAGES[_FIRST:], calls, usual or [None] * len(calls), bounds, strict=False)
    stages = tuple(
        QuotedStage(stage.mode, stage.candidate_share, entered, _whole(spent), bound)
        for stage, entered, spent, bound in rows
    )
    saved = typical.saved(rule, is_noisy=is_noisy)
    net = typical.verification(rule, calls, is_noisy=is_noisy, is_net=True)
    last = stages[-1]
    pays = saved is not None and saved > 0 and last.mode is RolloutMode.DIRECT_ONLY
    return priced(
        RolloutQuote(
            name,
            is_noisy,
            tuple(map(priced, stages)),
            _whole(typical.reference),
            _whole(typical.candidate),
            _whole(typical.judge),
            last.typical,
            last.at_most,
            _whole(saved),
            budget,
            _break_even(last.calls, _whole(net[-1]), saved) if pays else None,
            _break_even(last.calls, last.at_most, saved) if pays else None,
            answers,
            why,
        )
    )


def _with_examples(
    quote: RolloutQuote,
    count: int,
    typical: QuotedPrices,
    most: QuotedPrices,
    paths: tuple[AskCost, AskCost],
) -> RolloutQuote:
    """Return a quote with what it costs to compare its examples once."""
    usual = None if typical.known is None else sum(typical.known[:3]) * count + typical.known[3]
    bound = None
    if most.known is not None:
        either = sum(path.most or 0 for path in paths)
        bound = ceil((either + most.known[2]) * count + most.known[3])
    return priced(
        structs.replace(
            quote,
            examples=count,
            examples_typical=_whole(usual) if count else None,
            examples_at_most=_least_of(bound, quote.budget) if count else None,
        )
    )


def _least_of(*amounts: int | None) -> Money | None:
    known = [each for each in amounts if each is not None]
    return Money(min(known)) if known else None


def _inputs_of(example: object) -> CallInputs:
    """Return an example as a call: a prompt, a tuple of arguments, or a call as it is."""
    if isinstance(example, CallInputs):
        return example
    return CallInputs(cast("Any", example) if isinstance(example, tuple) else (example,), {})


def _size_of(call: CallInputs) -> int:
    """Return how long a call is, by what it may cost."""
    return len(" ".join(map(str, (*call.args, *call.options.values()))).encode())


def _break_even(calls: int, verification: Money | None, saved: float | None) -> int | None:
    if verification is None or saved is None:
        return None
    return calls + ceil(verification / saved)


def _least(amount: int, budget: Money | None) -> Money:
    return Money(amount) if budget is None else min(Money(amount), budget)


def _whole(amount: float | None) -> Money | None:
    return None if amount is None else Money(round(amount))


def render_rollout_quote(quote: RolloutQuote) -> str:
    """Return a quote for people."""
    at_most = "without a bound" if quote.at_most is None else f"at most {_told(quote.at_most)}"
    typical = "" if quote.typical is None else f", typical {_told(quote.typical)}"
    longer = " and none is longer than these inputs" if quote.examples else ""
    lines = [f"verification of {quote.name}: {at_most}{typical}, if all calls agree{longer}"]
    if quote.typical is not None and not quote.answers:
        lines.append("  typical is with each answer as long as it may be: nobody was asked yet")
    if quote.at_most is not None and quote.at_most == quote.budget:
        capped = "half of the budget here caps it" if quote.is_share else "its budget caps it"
        lines.append(f"  {capped}: without more, comparing may end before the last stage")
    elif quote.at_most is None:
        lines.append(f"  {quote.why or 'nothing bounds it'}; give it one: rollout(…, budget='$5')")
    for stage in quote.stages[1:]:
        spent = "" if stage.typical is None else f"  {_told(stage.typical):>12}"
        share = f"{stage.mode} {stage.candidate_share:.0%}"
        lines.append(f"  {share:<18} after {stage.calls:>9,} calls{spent}")
    lines.append(_told_break_even(quote))
    if quote.examples:
        lines.append(_told_examples(quote))
    return "\n".join(lines)


def _told_examples(quote: RolloutQuote) -> str:
    most, usual = quote.examples_at_most, quote.examples_typical
    at_most = "without a bound" if most is None else f"at most {_told(most)}"
    typical = "" if usual is None else f", typical {_told(usual)}"
    inputs = "this input" if quote.examples == 1 else f"these {quote.examples:,} inputs"
    return f"comparing {inputs}: {at_most}{typical}"


def _told_break_even(quote: RolloutQuote) -> str:
    if quote.stages[-1].mode is not RolloutMode.DIRECT_ONLY:
        return f"no call saves: both paths are paid at {quote.stages[-1].mode}, its last stage"
    if quote.saves is None:
        return (
            "what a call saves is not known yet; give quote(examples=[…]), or --inputs where it is "
            "started at a terminal, or let calls come first"
        )
    if quote.break_even_calls is None:
        return f"the candidate does not pay: a call costs {_told(Money(-quote.saves))} more with it"
    worst = quote.break_even_at_most
    later = "" if worst is None else f", {worst:,} if verification costs all it may"
    return (
        f"the candidate pays for it after {quote.break_even_calls:,} calls{later}: "
        f"each saves {_told(quote.saves)} then"
    )


def _told(amount: Money) -> str:
    return format_money(amount)


# The wallet: a budget inside that of the runtime, which the ledger keeps.
#
# A comparison begins only if all that it asks once fits beside those in flight. So what is left out
# for want of money is chosen before anybody knows whether the answers differ; if a comparison ended
# for it in the middle, those that agree would be cheaper to count than those that do not.


class VerificationWallet:
    """The money of a rollout's comparisons, of all processes that share the ledger of the runtime.
    `reason` says why none is begun, empty while there is money."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        allowance: str | float | None,
        reference: ExecutionPath,
        candidate: ExecutionPath,
        comparison: Comparison,
    ) -> None:
        self._runtime, self._name, self._rule = runtime, name, rule_of(allowance)
        self._reference, self._candidate = reference, candidate
        self._comparison, self._allowance = comparison, allowance
        self._scope: ScopeId | None = None
        self._share: ScopeId | None = None
        self._has_all = allowance is not None
        self._held = 0
        self._verdict: Money | None = None
        self.reason = ""

    @property
    def _cap(self) -> Money | None:
        return self._rule.cap

    def take_all(self) -> None:
        """Let comparisons have all of the budget around them: nobody else is answered from it."""
        self._has_all = True

    async def open(self) -> None:
        """Make it a part of the budget that holds here, with the cap of this rollout, whatever the
        ledger knows from an earlier one."""
        budgets = self._runtime.budgets
        if (rule := await self._share_rule()) is not None:
            self._share, self._rule = budgets.across_incarnations(_SHARE, rule), rule
        await budgets.ready(self._part())

    async def _share_rule(self) -> ScopeRule | None:
        """Return what all rollouts without a budget of their own may spend together: half of what
        is left of the budget around them, and of one with a period half of each. If they could
        spend all of it, the shadow would refuse callers what the reference alone would answer."""
        budgets, room = self._runtime.budgets, await self._runtime.remaining()
        if self._has_all or room is None or (self._scope is not None and self._share is None):
            return None
        around = (await budgets.figures(budgets.current)).rule
        if around.cap is not None and around.period is not None:
            return ScopeRule(Money(around.cap // _SHARED_BY), period=around.period)
        # What they spent before is no longer left, but was a part of what they share.
        half = ScopeRule(Money(int(room) // _SHARED_BY))
        used = (await budgets.figures(budgets.across_incarnations(_SHARE, half))).used
        return ScopeRule(Money((int(room) + used) // _SHARED_BY))

    def _part(self) -> ScopeId:
        if self._scope is None:
            budgets, name = self._runtime.budgets, f"rollout:{self._name}"
            rule = self._rule if self._share is None else ScopeRule(None)
            with budgets.entered(self._share or budgets.current):
                self._scope = budgets.across_incarnations(name, rule)
        return self._scope

    def entered(self) -> AbstractContextManager[None]:
        """Let what is asked inside be paid by this wallet."""
        return self._runtime.budgets.entered(self._part())

    async def spent(self) -> Dollars:
        """Return what comparisons have cost."""
        if self._scope is None:
            await self.open()
        return Dollars.of_nanos((await self._runtime.budgets.figures(self._part())).ever)

    async def take(self, inputs: CallInputs, route: RolloutRoute) -> Money | None:
        """Hold what the comparison of a call may cost, and return that; None if there is not so
        much. The ledger refuses what goes beyond the cap in any case. That of a send of a program
        is paid from the part of the send."""
        if self._cap is None or not route.is_verifying or inputs.send is not None:
            return Money(0)
        amount = await self._cost_of(inputs, route)
        self._held += amount  # before the ledger is awaited, so that others see it
        try:
            capped = self._share or self._part()
            settled = (await self._runtime.budgets.figures(capped)).settled
        except BaseException as error:
            self._held -= amount
            if isinstance(error, StoreError):
                return None
            raise
        if settled + self._held <= self._cap:
            self.reason = ""
            return amount
        self._held -= amount
        if settled + amount > self._cap:
            self.reason = self._told_gone(self._cap, settled, amount)
        return None

    def give_back(self, amount: Money) -> None:
        """End the holding of an amount that was taken."""
        self._held -= amount

    def _told_gone(self, cap: Money, settled: int, amount: Money) -> str:
        named = self._allowance if isinstance(self._allowance, str) else format_money(cap)
        whose = "its budget" if self._share is None else "half of the budget here, the share"
        return (
            f"of {whose} of {named} for comparisons {format_money(max(0, cap - settled))} is "
            f"left, and the next may cost {format_money(amount)}; raise it: rollout(…, budget=…)"
        )

    async def _cost_of(self, inputs: CallInputs, route: RolloutRoute) -> Money:
        """Return what all that a comparison asks costs at most, if each is answered at once."""
        reference = await self._reference.first_call(inputs)
        total = reference if route.repeats_reference else 0
        if route.runs_candidate:
            is_reference = route.answers_by_candidate and not route.is_verified
            total += reference if is_reference else await self._candidate.first_call(inputs)
        verdicts = int(route.repeats_reference) + int(route.is_compared)
        return Money(total + verdicts * await self._cost_of_verdict())

    async def _cost_of_verdict(self) -> Money:
        if self._verdict is None:
            paths = await self._reference.bound(None), await self._candidate.bound(None)
            judges = await self._judges(*paths)
            self._verdict = Money(sum(each.once for each in judges))
        return self._verdict

    async def _judges(self, *paths: AskCost) -> list[AskCost]:
        tokens = max(path.answer_tokens for path in paths)
        return [await each.bound(self._runtime, tokens) for each in self._comparison.judges]

    async def quote(
        self, name: str, machine: Rollout, examples: Iterable[Any], *, asks: bool = True
    ) -> RolloutQuote:
        """Return the quote of a rollout in this state; with `asks`, ask both paths for the
        examples."""
        calls = [_inputs_of(each) for each in examples]
        if self._scope is None and asks and calls:
            await self.open()
        share = None if self._scope is not None else await self._share_rule()
        costs = machine.evidence.costs
        for inputs in calls if asks else ():
            costs = costs.plus(await self._tried(inputs))
        longest = max(calls, key=_size_of, default=None)
        paths = await self._reference.bound(longest), await self._candidate.bound(longest)
        judges = await self._judges(*paths)
        pairs = [len(each.pairs) for each in self._comparison.judges]
        most, why = most_prices(*paths, judges, pairs)
        typical = typical_prices(costs, bool(judges), sum(pairs))
        if calls and typical.known is None:
            typical = await self._prices_unasked(calls, judges, sum(pairs))
        quote = quote_of(
            name,
            machine.rule,
            typical,
            most,
            is_noisy=machine.is_noisy,
            budget=self._cap if share is None else share.cap,
            answers=costs.candidate.answers,
            why=why,
        )
        quote = structs.replace(quote, is_share=bool(share or self._share))
        return _with_examples(quote, len(calls), typical, most, paths)

    async def _prices_unasked(
        self, calls: Sequence[CallInputs], judges: Sequence[AskCost], pairs: int
    ) -> QuotedPrices:
        """Return what answers cost that come at once and are as long as they may be: the mean over
        some of the calls."""
        some = calls[:: ceil(len(calls) / _MOST_COUNTED)]
        reference, candidate = [
            sum([await path.first_call(each) for each in some]) / len(some)
            for path in (self._reference, self._candidate)
        ]
        verdict = float(sum(each.once for each in judges))
        return QuotedPrices(reference, candidate, verdict, verdict * pairs)

    async def _tried(self, inputs: CallInputs) -> CallCosts:
        with self.entered():
            reference = await self._reference.shadow(inputs, ())
            candidate = await self._candidate.shadow(inputs, reference.calls)
            both = reference.output, candidate.output
            verdict = await self._comparison.verdict(self._runtime, *both)
        paid = PathCost(1, reference.nanos), PathCost(1, candidate.nanos)
        return CallCosts(*paid, verdict.cost)
