"""Interrupts against a model that keeps no state: it reads the whole history again each time.

The promise under test: nothing is executed without exactly one live, unexpired, matching approval,
whatever the schedule, with the clock set back and the machine stored and loaded anywhere.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy import (
    Approved,
    Declined,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    InterruptRequest,
    InterruptRule,
    Interrupts,
    Replied,
    Resume,
    TakeErrorNext,
    TerminalReason,
    Terminate,
)
from vegakit.policy.interrupts import KindRule
from vegakit.records import from_json, to_json

KIND = InterruptKind
EXPIRY: dict[InterruptKind, Any] = {
    KIND.CONFIRMATION: Resume(Declined()),
    KIND.CLARIFICATION: TakeErrorNext(TerminalReason.TIMEOUT),
    KIND.TIMEOUT: Terminate(TerminalReason.TIMEOUT),
}
TTL_MS = {KIND.CONFIRMATION: 20, KIND.CLARIFICATION: 30, KIND.TIMEOUT: 10}
USE_WITHIN_MS = 15
MAX_PENDING = 2
RULE = InterruptRule(
    {
        kind: KindRule(
            ttl_ms,
            EXPIRY[kind],
            needs_response=kind is not KIND.TIMEOUT,
            use_within_ms=USE_WITHIN_MS if kind is KIND.CONFIRMATION else None,
        )
        for kind, ttl_ms in TTL_MS.items()
    },
    max_pending=MAX_PENDING,
)

NAMES = [InterruptId(name) for name in ("i1", "i2", "i3", "i4")]
IDS = st.sampled_from(NAMES)
PICKS = st.integers(0, len(NAMES) - 1)
OWNERS = st.sampled_from(["p/a#1", "p/b#1"]).map(Pid)
ACTIONS = st.sampled_from(["rm", "mv"]).map(Digest)
KINDS = st.sampled_from([KIND.CONFIRMATION] * 3 + [*TTL_MS, KIND.CHECKPOINT])
ANSWERS = st.sampled_from([Approved(), Approved(), Declined(), Replied("x")])
PEOPLE = st.sampled_from(["ann", "ann", "bob", "", "p/a#1", "p/a#2", "p/b#1"])


@dataclass
class Happened:
    at: int
    what: str
    who: str = ""
    more: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Story:
    """What the history says of one interrupt."""

    ask: InterruptRequest
    opened: int
    status: str = "pending"
    settled: int = 0
    approvals: list[Happened] = field(default_factory=list[Happened])
    withdrawn: bool = False
    uses: list[int] = field(default_factory=list[int])

    @property
    def ends(self) -> float:
        if self.ask.kind is KIND.CHECKPOINT:
            return float("inf")
        if self.ask.expires_ms is not None:
            return self.ask.expires_ms
        return self.opened + TTL_MS[self.ask.kind]

    def counts(self, answer: Happened) -> bool:
        person = answer.who.split("#")[0]
        words = isinstance(answer.more["answer"], Replied)
        return (
            self.status == "pending"
            and answer.at < self.ends
            and person not in {"", self.ask.owner.split("#")[0]}
            and answer.more["action"] == self.ask.action
            and words == (self.ask.kind is not KIND.CONFIRMATION)
        )

    def permits(self, use: Happened) -> bool:
        return (
            len(self.approvals) == 1
            and not self.uses
            and not self.withdrawn
            and use.at - self.approvals[0].at < USE_WITHIN_MS
            and use.more["action"] == self.ask.action
        )

    def over(self, before: int) -> bool:
        live = bool(self.approvals) and not self.uses and not self.withdrawn
        lapsed = not live or self.approvals[0].at + USE_WITHIN_MS < before
        return self.status != "pending" and self.settled < before and lapsed


def read(history: list[Happened], name: str) -> Story | None:
    story: Story | None = None
    for happened in history:
        if happened.what == "open" and happened.who == name and story is None:
            story = Story(happened.more["ask"], happened.at)
        elif story is not None:
            story = tell(story, happened, name)
    return story


def tell(story: Story, happened: Happened, name: str) -> Story | None:
    about = happened.more.get("id") == name
    match happened.what:
        case "answer" if about and story.counts(happened):
            story.status, story.settled = "resolved", happened.at
            if happened.more["answer"] == Approved():
                story.approvals.append(happened)
        case "timer" if story.status == "pending" and happened.at >= story.ends:
            story.status, story.settled = "expired", happened.at
        case "use" if about and story.permits(happened):
            story.uses.append(happened.at)
        case "cancel" if about:
            if story.status == "pending":
                story.status, story.settled = "cancelled", happened.at
            story.withdrawn = True
        case "reap" if story.over(happened.at):
            return None
        case _:
            pass
    return story


class InterruptsAgainstHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.interrupts = Interrupts(RULE)
        self.clock = 0
        self.latest = 0
        self.history: list[Happened] = []

    def happened(self, what: str, who: str = "", **more: Any) -> Happened:
        self.latest = max(self.latest, self.clock)
        event = Happened(self.latest, what, who, more)
        self.history.append(event)
        return event

    def story(self, name: str) -> Story | None:
        return read(self.history, name)

    def stories(self, status: str) -> list[Story]:
        stories = [self.story(name) for name in NAMES]
        return [story for story in stories if story and story.status == status]

    def pending(self) -> list[Story]:
        return [story for story in self.stories("pending") if story.ends < float("inf")]

    @rule(ms=st.sampled_from([1, 1, 4, 7, 14, 15, 20, -10, -50]))
    def time_passes(self, ms: int) -> None:
        self.clock = max(0, self.clock + ms)

    @rule(name=IDS, kind=KINDS, owner=OWNERS, action=ACTIONS, own_time=st.none() | st.just(7))
    def asked(
        self,
        name: InterruptId,
        kind: InterruptKind,
        owner: Pid,
        action: Digest,
        own_time: int | None,
    ) -> None:
        expires_ms = None if own_time is None else self.clock + own_time
        ask = InterruptRequest(name, kind, owner, "?", action, expires_ms)
        wanted = kind in {KIND.CONFIRMATION, KIND.CLARIFICATION}
        taken = self.story(name) is not None
        crowded = wanted and len(self.pending()) >= MAX_PENDING
        verdict = self.interrupts.open(ask, self.clock)
        assert isinstance(verdict, Interrupt) == (not taken and not crowded)
        if isinstance(verdict, Interrupt):
            self.happened("open", name, ask=ask)
        else:
            self.happened("nothing")

    @rule(name=IDS, answer=ANSWERS, by=PEOPLE, action=ACTIONS)
    def answered(self, name: InterruptId, answer: Any, by: str, action: Digest) -> None:
        before = self.interrupts.by_id.get(name)
        told = self.story(name)
        event = self.happened("answer", by, id=name, answer=answer, action=action)
        verdict = self.interrupts.answer(name, answer, by, action, self.clock)
        assert isinstance(verdict, Interrupt) == (told is not None and told.counts(event))
        if isinstance(verdict, Interrupt):
            assert (verdict.answer, verdict.answered_by) == (answer, by)
        else:
            assert self.interrupts.by_id.get(name) == before

    @rule(pick=PICKS, by=st.sampled_from(["ann", "bob"]))
    def one_is_approved_as_it_should_be(self, pick: int, by: str) -> None:
        if stories := self.stories("pending"):
            ask = stories[pick % len(stories)].ask
            self.answered(ask.id, Approved(), by, ask.action or Digest(""))

    @rule(name=IDS, action=ACTIONS)
    def executed(self, name: InterruptId, action: Digest) -> None:
        before = self.interrupts.by_id.get(name)
        told = self.story(name)
        use = self.happened("use", id=name, action=action)
        verdict = self.interrupts.use(name, action, self.clock)
        assert isinstance(verdict, Interrupt) == (told is not None and told.permits(use))
        if isinstance(verdict, InterruptRefusal):
            assert self.interrupts.by_id.get(name) == before

    @rule(name=IDS, owner=OWNERS, action=ACTIONS, ms=st.sampled_from([0, 1, 14, 15]))
    def one_is_asked_approved_and_executed(
        self, name: InterruptId, owner: Pid, action: Digest, ms: int
    ) -> None:
        self.asked(name, KIND.CONFIRMATION, owner, action, None)
        self.answered(name, Approved(), "ann", action)
        self.clock += ms
        self.executed(name, action)

    @rule(pick=PICKS, times=st.integers(1, 2), action=st.none() | ACTIONS)
    def what_was_answered_is_executed(self, pick: int, times: int, action: Digest | None) -> None:
        if stories := self.stories("resolved"):
            ask = stories[pick % len(stories)].ask
            for _ in range(times):
                self.executed(ask.id, action or ask.action or Digest(""))

    def cancelled(self, name: InterruptId) -> None:
        verdict = self.interrupts.cancel(name, self.clock)
        told = self.story(name)
        live = told and told.approvals and not told.uses and not told.withdrawn
        pending = told and told.status == "pending"
        assert isinstance(verdict, Interrupt) == bool(live or pending)
        self.happened("cancel", id=name)

    @rule(what=st.sampled_from(["timer", "timer", "timer", "cancel", "reap"]), pick=PICKS)
    def something_ends(self, what: str, pick: int) -> None:
        match what:
            case "timer":
                self.timer_fires()
            case "cancel":
                self.cancelled(NAMES[pick])
            case _:
                self.interrupts.reap(self.latest)
                self.history.append(Happened(self.latest, "reap"))

    def timer_fires(self) -> None:
        self.happened("nothing")
        due = sorted((s.ends, s.ask.id) for s in self.pending() if s.ends <= self.latest)
        expired = self.interrupts.on_timer(self.clock)
        assert [e.id for e in expired] == [name for _, name in due]
        assert all(e.consequence == EXPIRY[e.kind] for e in expired)
        self.happened("timer")

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Interrupts, to_json(self.interrupts))
        assert copy == self.interrupts
        self.interrupts = copy

    @invariant()
    def every_standing_agrees(self) -> None:
        for name in NAMES:
            told, kept = self.story(name), self.interrupts.by_id.get(name)
            assert (told is None) == (kept is None)
            if told and kept:
                assert kept.status == told.status
                assert (kept.used_ms is not None) == bool(told.uses)

    @invariant()
    def the_next_expiry_is_the_earliest(self) -> None:
        ends = [story.ends for story in self.pending()]
        assert (
            self.interrupts.deadlines[0][0] == min(ends) if ends else not self.interrupts.deadlines
        )


TestInterrupts = InterruptsAgainstHistory.TestCase
