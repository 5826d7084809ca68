"""The breaker against a model that knows no states, only the history of what happened."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from vegakit.policy import Breaker, BreakerChange, BreakerRule, BreakerState, NotYet, Permit
from vegakit.records import from_json, to_json


class Era:
    """The model's word for a stretch of history between two changes of state."""

    def __init__(self, kind: str, since: int) -> None:
        self.kind = kind
        self.since = since
        self.out: set[Permit] = set()
        self.results: list[bool] = []

    def failures_in_a_row(self) -> int:
        return next((n for n, ok in enumerate(reversed(self.results)) if ok), len(self.results))


class BreakerAgainstHistory(RuleBasedStateMachine):
    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.rule = BreakerRule(threshold=3, reset_after_ms=100, probes=2)
        self.breaker = Breaker(self.rule)
        self.now = 0
        self.era = Era("closed", 0)
        self.era_of: dict[Permit, Era] = {}

    def start_era(self, kind: str) -> None:
        self.era = Era(kind, self.now)

    def live(self, permit: Permit) -> bool:
        return self.era_of[permit] is self.era and permit in self.era.out

    @rule(ms=st.sampled_from([0, 1, 50, 99, 100, 101]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(target=permits, callers=st.sampled_from([1, 2, 5]))
    def callers_ask(self, callers: int):
        return multiple(*(p for _ in range(callers) if (p := self.one_asks()) is not None))

    def one_asks(self) -> Permit | None:
        rested = self.now - self.era.since >= self.rule.reset_after_ms
        spent = len(self.era.out) + sum(self.era.results)
        if self.era.kind == "closed" or (self.era.kind == "half" and spent < self.rule.probes):
            expected = True
        else:
            expected = rested
            if rested:
                self.start_era("half")
        verdict = self.breaker.admit(self.now)
        assert isinstance(verdict, Permit) == expected
        if isinstance(verdict, NotYet):
            assert verdict.wait_ms == self.era.since + self.rule.reset_after_ms - self.now
            return None
        self.era.out.add(verdict)
        self.era_of[verdict] = self.era
        return verdict

    @rule(permit=permits, ok=st.booleans())
    def result_arrives(self, permit: Permit, ok: bool) -> None:
        report = self.breaker.on_success if ok else self.breaker.on_failure
        change = report(permit, self.now)
        if not self.live(permit):
            assert change is None
            return
        if self.era.kind == "half":
            self.era.out.discard(permit)
        self.era.results.append(ok)
        if self.era.kind == "closed":
            expected = self.era.failures_in_a_row() == self.rule.threshold
            assert change == (BreakerChange.OPENED if expected else None)
            if expected:
                self.start_era("open")
        elif not ok:
            assert change is BreakerChange.OPENED
            self.start_era("open")
        elif len(self.era.results) == self.rule.probes:
            assert change is BreakerChange.CLOSED
            self.start_era("closed")
        else:
            assert change is None

    @rule(permit=permits)
    def call_is_cancelled(self, permit: Permit) -> None:
        self.breaker.on_cancelled(permit)
        if self.live(permit) and self.era.kind == "half":
            self.era.out.discard(permit)

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Breaker, to_json(self.breaker))
        assert copy == self.breaker
        self.breaker = copy

    @invariant()
    def states_agree(self) -> None:
        names = {"closed": "closed", "open": "open", "half": "half_open"}
        assert self.breaker.state is BreakerState(names[self.era.kind])

    @invariant()
    def it_is_never_stuck(self) -> None:
        later = from_json(Breaker, to_json(self.breaker))
        assert isinstance(later.admit(self.now + self.rule.reset_after_ms), Permit)


TestBreaker = BreakerAgainstHistory.TestCase
