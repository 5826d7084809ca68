"""The gate: how each ending is charged, what is retried, who waits, and that nothing leaks."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from tests.patience import pass_virtual_time
from vegakit.conversation import (
    AssistantMessage,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Text,
    TextDelta,
    Usage,
    UserMessage,
)
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    CircuitOpen,
    ErrorClass,
    Paused,
    Phase,
    RateLimited,
    WorldError,
)
from vegakit.host import Account, Agent, Gate, Limiter, LimiterRules, ModelCall
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period, dollars
from vegakit.policy import (
    LEASE_MS,
    Admission,
    Backoff,
    BreakerRule,
    ClaimState,
    OnExceed,
    Rate,
    RateRule,
    RateStrategy,
    RetryRule,
    ScopeRule,
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger
from vegakit.testing import VirtualClock, run_virtual

ROOT, ME = ScopeId("root"), HolderId("me")
WORST = Money(1_000 + 100 * 5_000)
"""One word in at $1 a million, at most a hundred out at $5."""
QUICK = Backoff(1, 1.0, 1)
MINUTE_MS = 60_000
REFUSED_BY = {OnExceed.BLOCK: BudgetExceeded, OnExceed.ASK: Paused}


def reply(tokens: int | None) -> ModelReply:
    usage = None if tokens is None else Usage(1, tokens)
    return ModelReply(AssistantMessage((Text("ok"),)), usage)


def fails(error_class: ErrorClass, phase: Phase, retry_after_ms: int | None = None) -> WorldError:
    return WorldError("as scripted", error_class, phase=phase, retry_after_ms=retry_after_ms)


class Bench:
    """A gate on a ledger in memory and on virtual time."""

    def __init__(
        self,
        *script: Any,
        cap: str = "$1",
        rate: RateRule | None = None,
        breaker: BreakerRule | None = None,
        on_exceed: OnExceed = OnExceed.BLOCK,
        ledger: MemoryLedger | None = None,
        **settings: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.ledger = MemoryLedger() if ledger is None else ledger
        self.model = ScriptedModel(list(script), **settings)
        self.gate = Gate(self.ledger, self.clock, ME)
        rules = LimiterRules(rate or RateRule(), breaker or BreakerRule())
        self.limiter = Limiter("scripted", rules, self.clock)
        self.rule = ScopeRule(dollars(cap), on_exceed)
        self.account = Account()
        self.calls = self.took_ms = 0

    def call(self, most: int = 100, **changes: Any) -> ModelCall:
        self.calls += 1
        request = ModelRequest("scripted", (UserMessage((Text("hi"),)),), ModelSettings(most))
        settings: dict[str, Any] = {"retry": RetryRule(max_attempts=3, backoff=QUICK)} | changes
        key = EffectKey(f"call{self.calls}")
        return ModelCall(self.model, request, key, ROOT, self.limiter, **settings)

    async def ask(self, account: Account | None = None, **changes: Any) -> ModelReply:
        chunks = self.gate.chunks(self.call(**changes), account or self.account)
        async with aclosing(chunks):
            [reply] = [chunk async for chunk in chunks if isinstance(chunk, ModelReply)]
        return reply

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def opened() -> Any:
            await self.ledger.renew(ME, self.clock.now() + 60_000)
            await self.ledger.open(ROOT, self.rule, 0)
            began = self.clock.now()
            try:
                return await work
            finally:
                self.took_ms = self.clock.now() - began

        return run_virtual(opened())

    @property
    def figures(self) -> tuple[int, int]:
        scope = self.ledger._budget.scopes.by_id[ROOT]
        return scope.settled, scope.reserved


def test_an_answer_is_charged_its_bill() -> None:
    """Ten tokens out, not the hundred reserved."""
    bench = Bench(reply(10))
    assert bench.run(bench.ask()).message.text == "ok"
    assert bench.figures == (51_000, 0)
    assert (bench.account.charged, bench.account.reserved) == (51_000, WORST)


@pytest.mark.parametrize("usage", [None, Usage(-5, 1), Usage(1, -1)])
def test_an_answer_without_a_believable_usage_is_charged_as_reserved(usage: Usage | None) -> None:
    """A missing or negative count does not make a call free."""
    bench = Bench(ModelReply(AssistantMessage((Text("ok"),)), usage))
    bench.run(bench.ask())
    assert bench.figures == (WORST, 0)


def test_a_bill_above_the_reservation_is_charged_and_reported() -> None:
    """The next call waits until it fits."""
    bench = Bench(reply(1_000_000), "never said", cap="$0.01")
    bench.run(bench.ask())
    assert bench.account.charged == 5_000_001_000
    assert [type(notice).__name__ for notice in bench.account.notices] == ["CapOverrun"]
    with pytest.raises(BudgetExceeded):
        run_virtual(bench.ask())


@pytest.mark.parametrize(
    ("phase", "charged"),
    [(Phase.NOTHING_SENT, 0), (Phase.ANSWERED, 0), (Phase.UNKNOWN, WORST)],
)
def test_a_failure_is_charged_by_how_far_it_came(phase: Phase, charged: int) -> None:
    """What may have been billed is charged; what was refused or never sent is not."""
    bench = Bench(fails(ErrorClass.CONNECTION, phase))
    with pytest.raises(WorldError):
        bench.run(bench.ask())
    assert bench.figures == (charged, 0)
    assert bench.account.charged == charged


def test_a_class_named_by_the_rule_is_tried_again() -> None:
    """Three attempts, each reserved anew; those that were not billed are not charged."""
    overloaded = fails(ErrorClass.OVERLOADED, Phase.ANSWERED)
    bench = Bench(overloaded, overloaded, reply(10))
    bench.run(bench.ask())
    assert len(bench.account.failures) == 2
    assert bench.account.reserved == 3 * WORST
    assert bench.figures == (51_000, 0)


def test_what_may_have_been_billed_is_told_to_the_program() -> None:
    """It reserves in its wallets before it asks again."""
    bench = Bench(fails(ErrorClass.TIMEOUT, Phase.UNKNOWN), "never said")
    with pytest.raises(WorldError):
        bench.run(bench.ask())
    assert len(bench.model.requests) == 1
    assert bench.figures == (WORST, 0)


def test_requests_made_before_count_as_attempts() -> None:
    """Two of three were made by the program: one is left."""
    bench = Bench(*[fails(ErrorClass.OVERLOADED, Phase.ANSWERED)] * 2)
    with pytest.raises(WorldError):
        bench.run(bench.ask(attempts=2))
    assert len(bench.model.requests) == 1
    assert len(bench.account.failures) == 1


def test_attempts_end() -> None:
    """The last failure is what the caller sees."""
    bench = Bench(*[fails(ErrorClass.OVERLOADED, Phase.ANSWERED)] * 3)
    with pytest.raises(WorldError, match="as scripted"):
        bench.run(bench.ask())
    assert len(bench.model.requests) == 3


def test_other_classes_are_not_tried_again() -> None:
    """A rejected request is rejected again."""
    bench = Bench(fails(ErrorClass.REJECTED, Phase.ANSWERED))
    with pytest.raises(WorldError):
        bench.run(bench.ask())
    assert len(bench.model.requests) == 1


def test_a_refusal_says_what_it_could_cost_why_and_what_to_set() -> None:
    """And nothing was sent."""
    bench = Bench("never said", cap="$0.0001")
    with pytest.raises(BudgetExceeded) as refused:
        bench.run(bench.ask())
    assert str(refused.value) == (
        "a call of scripted could cost $0.000501 (max_tokens 100), but budget 'root' has $0.0001 "
        "left of $0.0001: $0.00 spent, $0.00 reserved by calls under way; raise the budget, or "
        "lower max_tokens"
    )
    assert bench.model.requests == []


def test_a_model_without_a_price_is_not_called() -> None:
    """What cannot be capped is refused, with the lines to add."""
    bench = Bench("never said", price=None)
    with pytest.raises(BudgetExceeded, match=r'\[prices."scripted"\] input = "\$1" output = "\$5"'):
        bench.run(bench.ask())
    assert bench.model.requests == []


def test_a_closed_scope_refuses() -> None:
    """And says what to do."""
    bench = Bench("never said")

    async def ask_inside() -> None:
        await bench.ledger.close(ROOT)
        with pytest.raises(BudgetExceeded, match="inside its `with` block"):
            await bench.ask()

    bench.run(ask_inside())


def test_a_lease_that_is_gone_refuses_nobody() -> None:
    """Who reserves is alive: it has one again."""
    bench = Bench("yes")

    async def ask() -> None:
        bench.ledger._budget.leases.clear()
        await bench.ask()
        assert bench.ledger._budget.leases == {ME: bench.clock.now() + LEASE_MS}

    bench.run(ask())


def test_whoever_waits_for_budget_is_served_when_others_settle() -> None:
    """Ten calls, room for two at a time: all are answered, never more than two under way."""
    bench = Bench(*[reply(1)] * 10, cap="$0.0012", latency_ms=1)

    async def ten() -> list[ModelReply]:
        return await asyncio.gather(
            *(bench.ask(Account(), budget_wait_ms=MINUTE_MS) for _ in range(10))
        )

    assert len(bench.run(ten())) == 10
    assert bench.figures == (10 * 6_000, 0)


def test_waiting_for_budget_ends_at_the_deadline() -> None:
    """Then it is a refusal."""
    bench = Bench(reply(1), reply(1), cap="$0.0009", latency_ms=300)

    async def two() -> None:
        first = asyncio.ensure_future(bench.ask(Account()))
        await pass_virtual_time(0.01)
        deadline = bench.clock.now() + 60
        with pytest.raises(BudgetExceeded, match="its timeout passed before any of it came free"):
            await bench.ask(budget_wait_ms=MINUTE_MS, deadline_ms=deadline)
        await first

    bench.run(two())


def test_a_call_that_can_never_fit_does_not_wait() -> None:
    """Not even when everything under way turned out to be free."""
    bench = Bench("never said", cap="$0.0001")
    with pytest.raises(BudgetExceeded):
        bench.run(bench.ask(budget_wait_ms=MINUTE_MS))
    assert bench.took_ms == 0


def test_a_wait_lasts_as_long_as_the_budget_moves() -> None:
    """Each call takes 40 s and there is room for one at a time, so the last waits six minutes."""
    bench = Bench(*[reply(1)] * 10, cap="$0.0006", latency_ms=40_000)

    async def ten() -> None:
        asks = (bench.ask(Account(), budget_wait_ms=MINUTE_MS) for _ in range(10))
        await asyncio.gather(*asks)

    bench.run(ten())
    assert bench.took_ms >= 400_000
    assert bench.figures == (10 * 6_000, 0)


@pytest.mark.parametrize("rule", [OnExceed.BLOCK, OnExceed.ASK])
def test_calls_that_wait_for_money_that_nobody_frees_are_refused_together(rule: OnExceed) -> None:
    """A dead process holds it. All calls are refused when nothing has moved for their minute, and
    nothing is sent."""
    bench = Bench("never said", cap="$0.0009", on_exceed=rule)

    async def ten() -> list[Any]:
        dead, call = HolderId("dead"), EffectKey("forgotten")
        await bench.ledger.reserve(call, 1, ROOT, WORST, dead, 0, lease_ms=LEASE_MS)
        asks = (bench.ask(Account(), budget_wait_ms=MINUTE_MS) for _ in range(10))
        return await asyncio.gather(*asks, return_exceptions=True)

    refusals = bench.run(ten())
    assert [type(one) for one in refusals] == [REFUSED_BY[rule]] * 10
    assert MINUTE_MS <= bench.took_ms <= MINUTE_MS + 1_000
    assert bench.model.requests == []


def test_calls_wait_in_the_order_they_came() -> None:
    """A small one does not pass a large one that came before it."""
    bench = Bench(*[reply(1)] * 4, cap="$0.0009", latency_ms=10)
    ended: list[str] = []

    async def ask(name: str, tokens: int) -> None:
        await bench.ask(Account(), most=tokens, budget_wait_ms=MINUTE_MS)
        ended.append(name)

    async def in_turn() -> None:
        async with asyncio.TaskGroup() as group:
            for name, tokens in (("first", 100), ("large", 170), ("small", 90), ("last", 10)):
                group.create_task(ask(name, tokens))
                await pass_virtual_time(0.001)

    bench.run(in_turn())
    assert ended.index("large") < ended.index("small")


def test_a_call_that_comes_later_does_not_pass_the_line() -> None:
    """Small calls keep coming and would fit; a large one that waits is served before them."""
    bench = Bench(*[reply(1)] * 8, cap="$0.0009", latency_ms=100)
    ended: list[str] = []

    async def ask(name: str, tokens: int, wait_ms: int = MINUTE_MS) -> None:
        await bench.ask(Account(), most=tokens, budget_wait_ms=wait_ms)
        ended.append(name)

    async def in_turn() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask("first", 100))
            group.create_task(ask("large", 170))
            for number in range(5):
                await pass_virtual_time(0.06)
                group.create_task(ask(f"small {number}", 10))
            group.create_task(ask("not waiting", 1, 0))

    bench.run(in_turn())
    assert ended[:2] == ["first", "large"]


def test_a_call_that_is_cancelled_while_it_waits_leaves_no_waiter() -> None:
    """Nor does one that is served."""
    bench = Bench(reply(1), reply(1), cap="$0.0011", latency_ms=100)
    outer, other = EffectKey("outer"), EffectKey("other")

    async def use() -> None:
        waiters = bench.ledger._budget.waiters
        for key in (outer, other):
            await bench.ledger.reserve(key, 1, ROOT, WORST, ME, 0)
        settings: dict[str, Any] = {"inside": (outer,), "budget_wait_ms": MINUTE_MS}
        cancelled = asyncio.ensure_future(bench.ask(Account(), **settings))
        served = asyncio.ensure_future(bench.ask(Account(), **settings))
        await pass_virtual_time(0.2)
        assert [*waiters] == ["call1", "call2"]
        cancelled.cancel()
        await pass_virtual_time(0.01)
        assert [*waiters] == ["call2"]
        await bench.ledger.answer(other, 1, Money(0), 0)
        await served
        assert waiters == {}

    bench.run(use())


class Counting(MemoryLedger):
    """Counts how often somebody looks at a budget."""

    looks = 0

    def counter(self, owner: ScopeId, period: Period | None, now: int) -> Any:
        self.looks += 1
        return super().counter(owner, period, now)


def test_only_the_first_of_a_line_looks_at_the_ledger() -> None:
    """A hundred calls that wait look no oftener than one call would."""
    ledger = Counting()
    bench = Bench(reply(1), cap="$0.0006", latency_ms=50_000, ledger=ledger)

    async def many() -> list[Any]:
        first = asyncio.ensure_future(bench.ask(Account()))
        await pass_virtual_time(0.01)
        deadline = bench.clock.now() + 10_000
        waits: dict[str, Any] = {"budget_wait_ms": MINUTE_MS, "deadline_ms": deadline}
        asks = (bench.ask(Account(), **waits) for _ in range(100))
        refusals = await asyncio.gather(*asks, return_exceptions=True)
        await first
        return refusals

    assert {type(one) for one in bench.run(many())} == {BudgetExceeded}
    assert ledger.looks <= 10_000 // 50 + 100


def test_an_open_breaker_refuses_without_sending() -> None:
    """Two failures open it; the third call is not made."""
    script = [fails(ErrorClass.SERVER, Phase.ANSWERED)] * 2
    bench = Bench(*script, "never said", breaker=BreakerRule(threshold=2))

    async def three() -> None:
        for _ in range(2):
            with pytest.raises(WorldError):
                await bench.ask()
        with pytest.raises(CircuitOpen, match="catch CircuitOpen"):
            await bench.ask()

    bench.run(three())
    assert len(bench.model.requests) == 2
    assert bench.figures == (0, 0)


async def test_a_breaker_of_an_agent_takes_the_place_of_its_models() -> None:
    """A tolerant agent goes on where the model's breaker would refuse it, and its failures do not
    open that one for others: each of them has its own patience."""
    model = ScriptedModel([fails(ErrorClass.SERVER, Phase.ANSWERED)] * 8 + ["yes"])
    once = RetryRule(max_attempts=1)
    tolerant = Agent("t", model=model, retry=once, breaker=BreakerRule(threshold=100))
    plain = Agent("p", model=model, retry=once)
    rules = LimiterRules(RateRule(), BreakerRule(threshold=2))
    async with Runtime(limits=lambda _: rules) as rt:
        for _ in range(6):
            with pytest.raises(AgentFailed, match="as scripted"):
                await rt.ask(tolerant, "?")
        for _ in range(2):
            with pytest.raises(AgentFailed, match="as scripted"):
                await rt.ask(plain, "?")
        with pytest.raises(CircuitOpen):
            await rt.ask(plain, "?")
        assert (await rt.ask(tolerant, "?")).text == "yes"


def test_a_rate_limit_that_rejects_says_so() -> None:
    """And how to wait instead."""
    once = RateRule(requests=Rate(1, 60_000, 1), strategy=RateStrategy.REJECT)
    bench = Bench(reply(1), "never said", rate=once)

    async def two() -> None:
        await bench.ask()
        with pytest.raises(RateLimited, match="strategy = 'queue'"):
            await bench.ask()

    bench.run(two())


def test_slots_bound_what_is_under_way() -> None:
    """Six calls of 5 ms through two slots: never more than two at once, all answered."""
    under_way, most = 0, 0

    class Counting(ScriptedModel):
        async def ask(self, request: ModelRequest) -> ModelReply:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            try:
                return await super().ask(request)
            finally:
                under_way -= 1

    bench = Bench(rate=RateRule(slots=2))
    bench.model = Counting([reply(1)] * 6, latency_ms=5)

    async def six() -> None:
        await asyncio.gather(*(bench.ask(Account()) for _ in range(6)))

    bench.run(six())
    assert most == 2


def test_a_stream_passes_deltas_and_ends_with_the_reply() -> None:
    """The reply comes after it was settled, so its cost is known."""
    bench = Bench("one two three")

    async def streamed() -> list[Any]:
        call = bench.call(stream=True)
        return [chunk async for chunk in bench.gate.chunks(call, bench.account)]

    *deltas, last = bench.run(streamed())
    assert (
        "".join(chunk.text for chunk in deltas if isinstance(chunk, TextDelta)) == "one two three"
    )
    assert isinstance(last, ModelReply)
    assert bench.account.first_chunk_ms is not None
    assert bench.figures == (1_000 + 3 * 5_000, 0)


def test_a_stream_that_has_spoken_is_not_begun_again() -> None:
    """Its prefix was seen; the failure is raised after it and all of it is charged."""
    bench = Bench({"text": "one two", "error": "timeout"}, "never said")

    async def streamed() -> None:
        chunks = bench.gate.chunks(bench.call(stream=True), bench.account)
        assert [await anext(chunks), await anext(chunks)] == [TextDelta("one"), TextDelta(" two")]
        await anext(chunks)

    with pytest.raises(WorldError):
        bench.run(streamed())
    assert len(bench.model.requests) == 1
    assert bench.figures == (WORST, 0)


def test_a_stream_that_fails_to_open_is_tried_again() -> None:
    """Nobody has seen anything yet."""
    bench = Bench(fails(ErrorClass.OVERLOADED, Phase.ANSWERED), "one")

    async def streamed() -> int:
        return len([c async for c in bench.gate.chunks(bench.call(stream=True), bench.account)])

    assert bench.run(streamed()) == 2
    assert len(bench.account.failures) == 1


def test_a_stream_left_early_is_charged_in_full() -> None:
    """Nobody knows how much the provider had made by then."""
    bench = Bench("one two three four")

    async def left() -> None:
        chunks = bench.gate.chunks(bench.call(stream=True), bench.account)
        await anext(chunks)
        await chunks.aclose()

    bench.run(left())
    assert bench.figures == (WORST, 0)


def test_what_the_model_is_asked_is_marked_as_sent() -> None:
    """If we die now, it may be billed, so whoever finds the claim charges it."""
    states: list[ClaimState] = []

    class Looking(ScriptedModel):
        async def ask(self, request: ModelRequest) -> ModelReply:
            states.extend(claim.state for claim in bench.ledger._budget.claims.values())
            return await super().ask(request)

    bench = Bench()
    bench.model = Looking([reply(1)])
    bench.run(bench.ask())
    assert states == [ClaimState.SENT]


def test_a_cancellation_before_the_model_is_asked_costs_nothing() -> None:
    """Though the ledger had marked the call as sent while we waited for its word."""

    class Hesitant(MemoryLedger):
        def __init__(self) -> None:
            super().__init__()
            self.reserved, self.told = asyncio.Event(), asyncio.Event()

        async def reserve(self, *claim: Any, **how: Any) -> Admission:
            verdict = await super().reserve(*claim, **how)
            self.reserved.set()
            await self.told.wait()
            return verdict

    bench = Bench("never said")
    bench.ledger = ledger = Hesitant()
    bench.gate = Gate(ledger, bench.clock, ME)

    async def cancelled() -> None:
        task = asyncio.ensure_future(bench.ask())
        await ledger.reserved.wait()
        task.cancel()
        await asyncio.wait([task])

    bench.run(cancelled())
    assert bench.model.requests == []
    assert bench.figures == (0, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cancellation_at_any_step_leaks_nothing(stream: bool) -> None:
    """Whatever was reserved is released, or charged if it was sent."""
    for step in range(25):
        bench = Bench("one two three", rate=RateRule(slots=1))

        async def cancelled(bench: Bench = bench, step: int = step) -> None:
            async def consume() -> None:
                async for _ in bench.gate.chunks(bench.call(stream=stream), bench.account):
                    pass

            task = asyncio.ensure_future(consume())
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        bench.run(cancelled())
        settled, reserved = bench.figures
        assert reserved == 0
        assert settled in (0, WORST, 1_000 + 3 * 5_000)
        assert settled == bench.account.charged
        claims = bench.ledger._budget.claims.values()
        assert all(claim.state is not ClaimState.SENT for claim in claims)
        assert not bench.limiter._limiter.in_flight
