"""`rollout(…)`: a candidate beside what is trusted, for calls of production.

    async with Runtime() as rt, rollout(rt, "review", reference=old, candidate=new) as review:
        answer = await review("Review: …")

| mode             | the caller waits for   | in the background                              |
|------------------|------------------------|------------------------------------------------|
| `reference_only` | the reference          |                                                |
| `shadow`         | the reference          | the candidate in the shadow, compared          |
| `canary`, chosen | the candidate          | the reference in the shadow, compared          |
| `canary`, others | the reference          | the candidate in the shadow, compared          |
| `dual_verify`    | both, compared         | that they agree is kept                        |
| `direct_only`    | the candidate          | for 1 %: the reference in the shadow, compared |

A candidate that fails where it answers is counted as a difference, at once, and the reference
answers; a failure that says nothing of its answers is not, see `shadows`. What runs in the
background is paid by the rollout's own budget, see `quotes`; when that is gone nothing is compared,
and the reference answers, or at the last stage the candidate.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from secrets import token_hex
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast, overload

from msgspec import structs

from vegakit.concurrency import cancel_all
from vegakit.contracts import (
    CandidateUnavailable,
    Compared,
    ComparisonsPaused,
    InputSource,
    PersonAction,
    PersonDecided,
    ReferenceRepeated,
    Rollout,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    StageChange,
)
from vegakit.errors import Cancelled, Paused, StoreError, ToolCutOff, UserError
from vegakit.host import Agent, ProgramSend, retry_store
from vegakit.money import Dollars, Money
from vegakit.records import digest128
from vegakit.sdk import Runtime
from vegakit.vesper.comparisons import Comparison, Same, comparison_of, exact, joint_errors
from vegakit.vesper.evidence import (
    RolloutEvidence,
    RolloutSubject,
    initial_rollout,
    tidy_calls,
    told_unknown,
)
from vegakit.vesper.monitoring import CountedPath, RolloutAlerts, RolloutMetrics
from vegakit.vesper.paths import (
    CallInputs,
    ExecutionPath,
    PathAnswer,
    ToolLog,
    calls_before,
    inputs_of,
    path_of,
    text_in_program,
    titles_of,
)
from vegakit.vesper.quotes import RolloutQuote, VerificationWallet
from vegakit.vesper.shadows import (
    MAX_COMPARISONS,
    CheckedInput,
    ComparedCall,
    ComparisonFlights,
    InputClasses,
    ShadowRuns,
    came_of,
    checked_name,
    is_breach,
    is_outage,
    kept_id,
    says_nothing,
    unavailable,
)

P = ParamSpec("P")
T = TypeVar("T")

_Answered: TypeAlias = "tuple[object, Coroutine[Any, Any, None] | None]"
"""An answer, and the comparison that is to be made while the caller goes on."""

_log = logging.getLogger(__name__)


class RolledOut(Generic[P, T]):
    """A rollout that is called as its reference is. Of an agent one gets the output. Leaving its
    block waits for the comparisons that are in flight."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        reference: object,
        candidate: object,
        compare: Comparison,
        rule: RolloutRule,
        input_class: Callable[..., str] | None,
        on_change: Callable[[StageChange], object],
        budget: str | float | None = None,
        webhook: str | None = None,
    ) -> None:
        self.name, self._runtime, self._rule = checked_name(name), runtime, rule
        self._metrics = RolloutMetrics.of(runtime)
        self._reference: ExecutionPath = self._path_of(reference, "reference")
        self._candidate: ExecutionPath = self._path_of(candidate, "candidate")
        self._same, self._class_of = compare, InputClasses(name, input_class)
        self._alerts = RolloutAlerts(runtime, on_change, webhook)
        versions = self._reference.version, self._candidate.version
        titles = titles_of(reference, candidate, versions)
        self._subject = RolloutSubject(*titles, compare.name)
        paths = [*versions, compare.name, compare.version]
        judges, tested = [j.models(runtime) for j in compare.judges], [rule.margin, rule.alpha]
        self.version = digest128([paths, judges, tested, rule.is_noisy])[:12]
        self._wallet = VerificationWallet(
            runtime, f"{name}/{self.version}", budget, self._reference, self._candidate, compare
        )
        self._shadows = ShadowRuns(runtime, name, compare, self._wallet)
        self._paused: set[str] = set()
        self._evidence: dict[str, RolloutEvidence] = {}
        self._flights = ComparisonFlights(name)
        self._is_open = False

    async def __aenter__(self) -> Self:
        # The wallet is a part of the budget that holds here, and not of a caller's.
        await self._wallet.open()
        self._rule = await self._rule_measured()
        self._is_open = True
        await self._evidence_of("")
        return self

    async def _rule_measured(self) -> RolloutRule:
        """Return the rule with what the judges get wrong. What they could not show without any
        mistake is refused before they are asked."""
        rule = self._rule_without_mistakes()
        if not self._same.judges:
            return rule
        with self._wallet.entered():
            counts = [await each.measured(self._runtime) for each in self._same.judges]
        return structs.replace(rule, judge=joint_errors(counts, rule.alpha / 2))

    def _rule_without_mistakes(self) -> RolloutRule:
        best = [each.best for each in self._same.judges]
        return structs.replace(self._rule, judge=joint_errors(best, self._rule.alpha / 2))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        try:
            if error is None:
                await self.settle()
            else:
                await self._flights.cancel()
        finally:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            await self._alerts.aclose(waits=not is_cancelled)
            for evidence in self._evidence.values():
                await evidence.aclose()
                self._metrics.forget(evidence)
        if error is None and (journaled := self._runtime.journaled) is not None:
            with suppress(StoreError):  # what is not tidied now is the next time
                runs, now = await journaled.journal.runs(), self._runtime.clock.now()
                await tidy_calls(self._runtime.store, self.name, runs, now)

    async def settle(self) -> None:
        """Wait until the comparisons that are in flight are counted."""
        await self._flights.settle()

    def status(self, input_class: str = "") -> Rollout:
        """Return the state of the rollout, as this process knows it."""
        if input_class not in self._evidence:
            raise UserError(told_unknown(self.name, input_class, self._evidence))
        return self._evidence[input_class].machine

    def only_checks(self) -> None:
        """Say that nobody is answered here, so that comparisons may have all of the budget."""
        self._wallet.take_all()

    async def spent(self) -> Dollars:
        """Return what comparisons have cost; answers that callers had are not in it."""
        return await self._wallet.spent()

    async def quote(self, examples: Iterable[Any] = (), *, asks: bool = True) -> RolloutQuote:
        """Return what verification costs at most and typically, and after how many calls the
        candidate pays for it. An example is a prompt, or a tuple of what a call takes: both paths
        answer it in the shadow, to see what that costs; without `asks` nobody does, and answers are
        taken to be as long as they may. Without examples the calls so far say it.
        Nothing is counted as evidence, and the rollout need not be open."""
        machine = await self._machine_known()
        return await self._wallet.quote(self.name, machine, examples, asks=asks)

    async def _machine_known(self) -> Rollout:
        """Return the state, also of a rollout that is not open."""
        if self._is_open:
            return (await self._evidence_of("")).machine
        evidence = self._new_evidence("", self._rule_without_mistakes())
        await evidence.refresh()
        return evidence.machine

    async def decide(
        self, action: PersonAction, who: str, reason: str = "", input_class: str = ""
    ) -> StageChange | None:
        """Promote, demote or stop the rollout, whatever the evidence says. A candidate that broke
        its contract is not promoted to answer calls: that raises `UserError`."""
        evidence = await self._evidence_of(input_class)
        return await evidence.record(PersonDecided(action, who, reason))

    async def begin(self) -> bool:
        """Write the rollout down in the store before its first call, so that people see it there;
        return whether it is new. Of one with input classes each is written with its first call."""
        if self._class_of.has_several:
            return False
        return await (await self._evidence_of("")).begin()

    async def check(self, *args: P.args, **kwargs: P.kwargs) -> "CheckedInput":
        """Compare both paths on an input that was made for that, and count it apart from those of
        production. Nothing is performed: the tools of both are refused."""
        call = await self._begin(CallInputs(args, kwargs))
        try:
            return await self._check(call)
        finally:
            self._release(call)

    async def _check(self, call: ComparedCall) -> "CheckedInput":
        nothing = PathAnswer(None)
        reference = await self._shadows.run(self._reference, call, nothing)
        call.paid(reference, "reference")
        if isinstance(reference, Exception):  # it has failed itself, and says nothing
            await self._close(call)
            not_asked = Cancelled("it was not asked, since the reference has no answer")
            return CheckedInput.of(None, reference, not_asked)
        candidate = await self._shadows.run(self._candidate, call, nothing)
        call.paid(candidate, "candidate")
        agrees = await self._shadows.is_same(call, reference, candidate)
        if agrees is None:
            await self._close(call)
        else:
            event = Compared(agrees, source=InputSource.GENERATED, is_breach=is_breach(candidate))
            await self._record(call, event)
        return CheckedInput.of(agrees, reference, candidate)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Answer a call as the stage of the rollout says."""
        call = await self._begin(CallInputs(args, kwargs))
        return cast("T", await self._answer(call))

    @property
    def tool_names(self) -> frozenset[str]:
        """Return the names of the tools that one of the paths has."""
        return self._reference.tool_names | self._candidate.tool_names

    async def answer(self, send: ProgramSend) -> str:
        """Answer a send of a program in place of its agent. The comparison belongs to the send: the
        program pays for it, and what it began has ended when it ends, so the answer waits."""
        call = await self._begin(inputs_of(send))
        return text_in_program(send, await self._answer(call))

    async def _begin(self, inputs: CallInputs) -> ComparedCall:
        if not self._is_open:
            raise UserError(
                f"rollout {self.name} is not open; write: async with rollout(…) as {self.name}:"
            )
        digest = inputs.digest()
        word = self._class_of(inputs)
        evidence = await self._evidence_of(word or "")
        journaled = self._runtime.journaled
        # Of a call whose class nobody knows nothing is known that a candidate could answer it by.
        is_fresh, is_kept = await evidence.refresh() and word is not None, journaled is not None
        is_new = journaled is None or not journaled.is_resumed
        id_ = token_hex(8)
        if journaled is not None:
            name = f"{self.name}/{self.version}"
            id_ = kept_id(self._runtime, journaled.run.program, name, inputs)
        held: Money | None = Money(0)
        if is_fresh:
            held = await self._take(evidence, inputs, evidence.route(digest, id_))

        async def open_call() -> RolloutRoute:
            return await evidence.open_call(
                id_,
                digest,
                is_kept=is_kept,
                is_fresh=is_fresh,
                is_new=is_new,
                is_paid=held is not None,
            )

        # A call that may be made again waits for the store, as it waits for its journal: if nobody
        # knew its route after a kill, it could perform its effects on the other path once more.
        try:
            route = await (retry_store(self._runtime.clock, open_call) if is_kept else open_call())
        except BaseException:
            self._wallet.give_back(held or Money(0))
            evidence.repeating.discard(id_)
            raise
        before = inputs.copied() if route.is_verifying else inputs
        return ComparedCall(id_, is_kept, inputs, route, evidence, held or Money(0), [], before)

    async def _take(
        self, evidence: RolloutEvidence, inputs: CallInputs, route: RolloutRoute
    ) -> Money | None:
        """Hold what the comparison of a call may cost; return None if there is not so much."""
        amount = await self._wallet.take(inputs, route)
        if amount is not None:
            self._paused.discard(evidence.key)
        elif (reason := self._wallet.reason) and evidence.key not in self._paused:
            self._paused.add(evidence.key)
            _log.warning("rollout %s: calls are not compared: %s", self.name, reason)
            with suppress(StoreError):  # it is told to others only
                await evidence.record(ComparisonsPaused(reason))
        return amount

    def _release(self, call: ComparedCall) -> None:
        """Give back what was held for a call that is over."""
        self._wallet.give_back(call.held)
        call.evidence.repeating.discard(call.id)

    async def _evidence_of(self, word: str) -> RolloutEvidence:
        if word not in self._evidence:
            evidence = self._evidence[word] = self._new_evidence(word, self._rule)
            self._metrics.watch(evidence)
            with suppress(StoreError):  # then the reference answers until the store does
                await evidence.recover()
                await evidence.refresh()
        return self._evidence[word]

    def _new_evidence(self, word: str, rule: RolloutRule) -> RolloutEvidence:
        initial = initial_rollout(self.name, rule, self.version, word)
        store, clock = self._runtime.store, self._runtime.clock
        return RolloutEvidence(store, clock, initial, partial(self._tell, word), self._subject)

    def _tell(self, word: str, change: StageChange) -> None:
        self._alerts.tell(self._evidence[word].machine, change)

    def _path_of(self, given: object, role: str) -> ExecutionPath:
        return CountedPath(path_of(self._runtime, given, role), self.name, role, self._metrics)

    # Answers.

    async def _answer(self, call: ComparedCall) -> object:
        try:
            output, comparison = await self._perform(call)
            if comparison is not None:
                await self._later(call, comparison)
                return output
        except BaseException:
            self._release(call)
            raise
        self._release(call)
        return output

    async def _perform(self, call: ComparedCall) -> _Answered:
        """Answer a call by the path that its route says."""
        if call.route.is_verified and call.route.is_compared:
            return await self._verify(call)
        if call.route.answers_by_candidate:
            return await self._answer_by_candidate(call)
        performed = await self._reference.perform(call.inputs, call.log())
        if call.route.runs_candidate or call.route.repeats_reference:
            return performed.output, self._compare(call, performed.copied())
        if call.route.mode is not RolloutMode.REFERENCE_ONLY:
            await self._close(call)
        return performed.output, None

    async def _answer_by_candidate(self, call: ComparedCall) -> _Answered:
        log = ToolLog()
        # With tools it is not cut off: nobody would know whether what it had begun was done.
        timeout_s = None if self._candidate.tool_names else call.timeout_s
        try:
            answer = await came_of(self._candidate.perform(call.inputs, log), timeout_s)
        except asyncio.CancelledError:
            self._count_given_up(call)
            raise
        if isinstance(answer, ToolCutOff | Paused):
            # Nobody knows what the candidate has done, or it will do it when the run goes on: the
            # reference must not do it beside.
            raise answer
        if isinstance(answer, Exception):
            # What the candidate did before it failed is done: the reference goes on from there.
            call = call.by_reference(calls_before(answer, log))
            # Counted before the fallback: the next call must not meet the same failure.
            await self._fall_back(call, answer)
            fallback = await self._reference.perform(call.inputs, call.log())
            return fallback.output, None
        if call.route.is_compared:
            return answer.output, self._compare_answer(call, answer.copied())
        await self._close(call)
        return answer.output, None

    async def _fall_back(self, call: ComparedCall, came: PathAnswer | Exception) -> None:
        """Count what came of the candidate, and keep that the reference answers: with more money,
        or a provider that is back, a run that goes on would else ask the candidate, which would do
        once more what the reference did."""
        if is_outage(came):
            await self._record(call, unavailable(came))
        elif isinstance(came, PathAnswer) or says_nothing(came):
            await self._close(call, call.route)
        else:
            await self._record(call, Compared(agrees=False), None, came)
        if call.is_kept:
            await retry_store(self._runtime.clock, call.evidence.save_unsaved)

    async def _verify(self, call: ComparedCall) -> _Answered:
        """Answer with the candidate where both agree. Paths without tools run side by side."""
        if self.tool_names:
            performed = await self._reference.perform(call.inputs, ToolLog())
            other = await self._shadows.run(self._candidate, call, performed)
        else:
            candidate = asyncio.ensure_future(self._shadows.run(self._candidate, call))
            try:
                performed = await self._reference.perform(call.inputs, ToolLog())
                try:
                    other = await asyncio.shield(candidate)
                except asyncio.CancelledError:
                    self._count_given_up(call)
                    raise
            finally:
                await cancel_all([candidate])
        call.paid(performed, "reference")
        call.paid(other, "candidate")
        again = await self._agrees_again(call, performed)
        agrees = await self._shadows.is_same(call, performed, other)
        if agrees and isinstance(other, PathAnswer):
            # It demotes nothing, so nobody waits until the store has it.
            return other.output, self._record(call, Compared(agrees, again, is_answer=True))
        if agrees is None:
            # In a run that goes on the answer is the same one, whoever could answer by then.
            await self._fall_back(call.by_reference(), other)
        else:
            await self._record(call, Compared(agrees, again), performed, other)
        return performed.output, None

    # Comparisons.

    async def _compare(self, call: ComparedCall, performed: PathAnswer) -> None:
        """Compare what the reference performed with the candidate in the shadow."""
        call.paid(performed, "reference")
        again = await self._agrees_again(call, performed)
        if not call.route.runs_candidate:
            if again is None:
                await self._close(call)
            else:
                await self._record(call, ReferenceRepeated(again))
            return
        other = await self._shadows.run(self._candidate, call, performed)
        call.paid(other, "candidate")
        agrees = await self._shadows.is_same(call, performed, other)
        if agrees is not None:
            await self._record(call, Compared(agrees, again), performed, other)
        elif is_outage(other):
            await self._record(call, unavailable(other))
        else:
            await self._close(call)

    async def _compare_answer(self, call: ComparedCall, answer: PathAnswer) -> None:
        """Compare what the candidate performed with the reference in the shadow."""
        reference = await self._shadows.run(self._reference, call, answer)
        if isinstance(reference, Exception):  # it has failed itself, and says nothing
            await self._close(call)
            return
        call.paid(reference, "reference")
        call.paid(answer, "candidate")
        again = await self._agrees_again(call, reference)
        agrees = await self._shadows.is_same(call, reference, answer)
        if agrees is None:
            await self._close(call)
        else:
            event = Compared(agrees, again, is_answer=True)
            await self._record(call, event, reference, answer)

    async def _agrees_again(self, call: ComparedCall, performed: PathAnswer) -> bool | None:
        """Return whether the reference agrees with itself, if the route asks for that."""
        if not call.route.repeats_reference:
            return None
        again = await self._shadows.run(self._reference, call, performed)
        call.paid(again, "reference")
        return await self._shadows.is_same(call, performed, again)

    async def _record(
        self,
        call: ComparedCall,
        event: Compared | ReferenceRepeated | CandidateUnavailable,
        *came: PathAnswer | Exception | None,
    ) -> None:
        """Count what came of a call, and then keep what both paths said if they differ."""
        try:
            id_ = call.id if call.is_kept else ""
            if came and isinstance(event, Compared):
                event = structs.replace(event, is_breach=is_breach(came[-1]))
            if not isinstance(event, CandidateUnavailable):
                event = structs.replace(event, costs=call.total())
            await call.evidence.record(event, id_, call.route)
        except StoreError as error:
            # This process has acted on it already; others hear nothing, and run the reference.
            _log.warning("rollout %s: evidence could not be kept: %s", self.name, error)
        self._alerts.watch_outage(call.evidence.machine)
        if came and isinstance(event, Compared) and not event.agrees:
            self._flights.add(self._shadows.keep(call, *came))

    async def _close(self, call: ComparedCall, route: RolloutRoute | None = None) -> None:
        """Note that a call is over without evidence. How it was answered after all is waited for:
        its effects are not to be performed again on another route."""
        if not call.is_kept:
            return
        close = partial(call.evidence.close_call, call.id, route)
        if route is not None:
            await retry_store(self._runtime.clock, close)
            return
        with suppress(StoreError):
            await close()

    async def _later(self, call: ComparedCall, comparison: Coroutine[Any, Any, None]) -> None:
        """Make a comparison while the caller goes on; in a program it waits. Where too many are
        in flight, nothing is compared."""
        if call.inputs.send is not None:
            await comparison
            self._release(call)
            return
        release = partial(self._release, call)
        if not await self._flights.begin(comparison, release):
            release()
            self._count_missed(call, f"{MAX_COMPARISONS} comparisons are in flight, and none ends")

    def _count_given_up(self, call: ComparedCall) -> None:
        if call.route.is_compared or call.route.answers_by_candidate:
            self._count_missed(call, "the caller gave up while the candidate had no answer")

    def _count_missed(self, call: ComparedCall, reason: str) -> None:
        """Count a call that is not compared, while the caller goes on."""
        self._flights.add(self._record(call, unavailable(reason)))


@overload
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: Agent[T],
    candidate: "Agent[T] | Callable[..., Awaitable[T]]",
    compare: Comparison | Same = ...,
    rule: RolloutRule = ...,
    input_class: Callable[..., str] | None = ...,
    on_change: Callable[[StageChange], object] = ...,
    budget: str | float | None = ...,
    webhook: str | None = ...,
) -> RolledOut[..., T]: ...
@overload
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: Callable[P, Awaitable[T]],
    candidate: "Agent[T] | Callable[..., Awaitable[T]]",
    compare: Comparison | Same = ...,
    rule: RolloutRule = ...,
    input_class: Callable[..., str] | None = ...,
    on_change: Callable[[StageChange], object] = ...,
    budget: str | float | None = ...,
    webhook: str | None = ...,
) -> RolledOut[P, T]: ...
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: object,
    candidate: object,
    compare: Comparison | Same | None = None,
    rule: RolloutRule | None = None,
    input_class: Callable[..., str] | None = None,
    on_change: Callable[[StageChange], object] = lambda _change: None,
    budget: str | float | None = None,
    webhook: str | None = None,
) -> RolledOut[..., Any]:
    """Put a candidate under a rollout: an agent with another model or prompt, or an `async def`
    function without effects of its own. Evidence is kept in the runtime's store, by `name` and by
    what both paths and the comparison are; `input_class` names the class of a call's inputs, each
    of which is decided about apart; `on_change` is told every decision that is made here, and so is
    the URL of `webhook`, by POST, without anybody waiting for it. `budget` caps all that
    comparisons spend ("$5", or "$5/day"), inside of the runtime's; without it, all such rollouts
    may spend half of that. Answers that callers have are not in it."""
    how, rule = exact() if compare is None else comparison_of(compare), rule or RolloutRule()
    return RolledOut(
        runtime, name, reference, candidate, how, rule, input_class, on_change, budget, webhook
    )
