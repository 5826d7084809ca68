"""The quota against the list of everything that was ever recorded."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vegakit.policy import (
    Consumption,
    Dimension,
    Quota,
    QuotaExceeded,
    QuotaRule,
    SoftWallReached,
    WithinQuota,
)
from vegakit.records import from_json, to_json

COUNTED = [
    "input_tokens",
    "output_tokens",
    "context_tokens",
    "model_calls",
    "tool_calls",
    "agent_hops",
    "iterations",
    "money",
]
SOFT_MS, HARD_MS, STARTED_MS = 40, 100, 7

amounts = st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 6), max_size=4)
limits = st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 20), max_size=5)


class QuotaAgainstHistory(RuleBasedStateMachine):
    @initialize(limits=limits, hard=st.booleans(), soft=st.booleans())
    def start(self, limits: dict[str, Any], hard: bool, soft: bool) -> None:
        self.limits: dict[str, Any] = limits | ({"wall_ms": HARD_MS} if hard else {})
        soft_ms = SOFT_MS if soft else None
        self.quota = Quota(QuotaRule(**self.limits, soft_wall_ms=soft_ms), STARTED_MS)
        self.must_warn = soft
        self.history: list[dict[str, int]] = []
        self.now = STARTED_MS

    def used(self, name: str) -> int:
        if name == "wall_ms":
            return self.now - STARTED_MS
        recorded = [usage.get(name, 0) for usage in self.history]
        return max(recorded, default=0) if name == "context_tokens" else sum(recorded)

    def fits(self, name: str, wanted: int) -> bool:
        """Try it: would the history with this one more be over the limit?"""
        if name not in self.limits:
            return True
        if name == "wall_ms":
            return self.now - STARTED_MS < HARD_MS
        self.history.append({name: wanted})
        after = self.used(name)
        self.history.pop()
        return after <= self.limits[name]

    @rule(ms=st.sampled_from([0, 1, 20, 39, 40, 60]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(usage=amounts)
    def usage_is_recorded(self, usage: dict[str, Any]) -> None:
        self.quota.record(Consumption(**usage))
        self.history.append(usage)

    @rule(wanted=amounts)
    def a_step_asks(self, wanted: dict[str, Any]) -> None:
        verdict = self.quota.check(Consumption(**wanted), self.now)
        over = [n for n in [*COUNTED, "wall_ms"] if not self.fits(n, wanted.get(n, 0))]
        if over:
            name = over[0]
            asked = 1 if name == "wall_ms" else wanted.get(name, 0)
            limit = self.limits[name]
            assert verdict == QuotaExceeded(Dimension(name), limit, self.used(name), asked)
            return
        warns = self.must_warn and self.now - STARTED_MS >= SOFT_MS
        expected = SoftWallReached(SOFT_MS, self.now - STARTED_MS) if warns else None
        assert verdict == WithinQuota(expected)
        self.must_warn = self.must_warn and not warns

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Quota, to_json(self.quota))
        assert copy == self.quota
        self.quota = copy

    @invariant()
    def what_is_used_is_what_was_recorded(self) -> None:
        for name in COUNTED:
            assert getattr(self.quota.used, name) == self.used(name)

    @invariant()
    def what_remains_is_the_most_that_fits(self) -> None:
        remaining = self.quota.remaining(self.now)
        for name in COUNTED:
            room = getattr(remaining, name)
            assert (room is None) == (name not in self.limits)
            if room is not None:
                assert not self.fits(name, room + 1)
                assert self.fits(name, room) or room == 0
        wall = max(0, HARD_MS - (self.now - STARTED_MS)) if "wall_ms" in self.limits else None
        assert remaining.wall_ms == wall


TestQuota = QuotaAgainstHistory.TestCase
