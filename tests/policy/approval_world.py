"""A host that asks people before it acts, one who attacks it, and a judge who saw it all.

The judge keeps no digests: it compares whole attempts and whole rules. Nothing may be executed
without exactly one approval of this very attempt, under these rules, by a person, given while the
question was open and not yet answered, still fresh, and not used before.
"""

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy import (
    Allowed,
    ApprovalPending,
    Approved,
    Attempt,
    Declined,
    Grant,
    InterruptAnswer,
    InterruptKind,
    InterruptRule,
    Interrupts,
    Permissions,
    Resume,
    RunCommand,
    apply_permission,
    parse_permission,
)
from vegakit.policy.interrupts import KindRule
from vegakit.policy.permissions import permit
from vegakit.records import from_json, to_json

TTL_MS, USE_WITHIN_MS, MAX_PENDING = 60, 40, 6
PEOPLE = ("ann", "bob")
ASKING = KindRule(TTL_MS, Resume(Declined()), needs_response=True, use_within_ms=USE_WITHIN_MS)
RULE = InterruptRule({InterruptKind.CONFIRMATION: ASKING}, max_pending=MAX_PENDING)
PERMISSIONS = Permissions(Grant(("process",), commands=("deploy **",)))
DEPLOY = Attempt(
    "here",
    Pid("program/agent#1"),
    "agent",
    "run",
    {"target": "test"},
    Digest("schema 1"),
    RunCommand(("deploy", "test")),
    contents={"deploy.sh": Digest("script 1")},
)


@dataclass
class Question:
    attempt: Attempt
    permissions: Permissions
    opened: int
    answers: list[tuple[int, str, InterruptAnswer]] = field(
        default_factory=list[tuple[int, str, InterruptAnswer]]
    )
    used: int = 0


@dataclass
class World:
    """`attempt` and `permissions` are what the host would do now, and under which rules."""

    chance: random.Random
    attempt: Attempt = DEPLOY
    permissions: Permissions = PERMISSIONS
    now: int = 1_000
    latest: int = 1_000
    interrupts: Interrupts = field(default_factory=lambda: Interrupts(RULE))
    questions: dict[InterruptId, Question] = field(default_factory=dict[InterruptId, Question])
    executed: int = 0

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.latest = max(self.latest, self.now)

    def restart(self) -> None:
        """All that is left is what was stored."""
        self.interrupts = from_json(Interrupts, to_json(self.interrupts))

    def run(self, attempt: Attempt | None = None, *, crash: bool = False) -> None:
        """One attempt. `crash`: stored, and dead before it acted; that is no execution."""
        attempt = attempt or self.attempt
        verdict = apply_permission(
            permit(self.permissions, attempt.wanted, sandboxed=attempt.sandboxed),
            self.permissions,
            attempt,
            self.interrupts,
            self.now,
        )
        if isinstance(verdict, ApprovalPending):
            asked = Question(attempt, self.permissions, self.latest)
            self.questions.setdefault(verdict.id, asked)
        if isinstance(verdict, Allowed):
            self.restart()
            self.judge(attempt, acted=not crash)

    def judge(self, attempt: Attempt, *, acted: bool) -> None:
        approved = [q for q in self.questions.values() if self.permits(q, attempt)]
        assert len(approved) == 1, "executed without exactly one live, unexpired, matching approval"
        approved[0].used += 1
        self.executed += acted

    def permits(self, question: Question, attempt: Attempt) -> bool:
        if (question.attempt, question.permissions) != (attempt, self.permissions):
            return False
        counted = [
            (at, answer)
            for at, by, answer in question.answers
            if by in PEOPLE and at < question.opened + TTL_MS
        ][:1]
        return not question.used and any(
            isinstance(answer, Approved) and self.latest < at + USE_WITHIN_MS
            for at, answer in counted
        )

    def answer(self, question_id: InterruptId, answer: InterruptAnswer, by: str) -> None:
        """Of what the question shows."""
        shown = self.interrupts.by_id[question_id].ask.action
        self.interrupts.answer(question_id, answer, by, shown, self.now)
        self.questions[question_id].answers.append((self.latest, by, answer))

    def some_question(self) -> InterruptId | None:
        return self.chance.choice([*self.questions]) if self.questions else None

    def change(self, **facts: object) -> None:
        self.attempt = replace(self.attempt, **facts)


def honest_step(world: World) -> None:
    """What goes on anyway."""
    question = world.some_question()
    person = world.chance.choice(PEOPLE)
    match world.chance.randrange(8):
        case 0 | 1 if question:
            world.answer(question, Approved(), person)
        case 2 if question and world.chance.random() < 0.3:
            world.answer(question, Declined(), person)
        case 3:
            world.pass_time(world.chance.choice([1, 5, 19, 39, 40, 59, 60, 61]))
        case 4:
            world.restart()
        case 5:
            world.interrupts.on_timer(world.now)
        case 6:
            world.run(crash=world.chance.random() < 0.2)
        case _:
            world.run(replace(world.attempt, place=f"place {world.chance.randrange(3)}"))


def begun(world: World) -> InterruptId | None:
    """Asked and approved, as it should be; the attack comes after."""
    world.attempt = replace(world.attempt, place=f"begun {len(world.questions)}")
    world.run()
    for question_id, question in world.questions.items():
        if question.attempt == world.attempt and question.permissions == world.permissions:
            world.answer(question_id, Approved(), world.chance.choice(PEOPLE))
            return question_id
    return None


STRICTER = replace(PERMISSIONS, rules=(parse_permission("ask process::exec deploy **"),))
