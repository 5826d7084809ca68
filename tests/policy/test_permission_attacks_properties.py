"""Every known attack on an approval, in many schedules with restarts: nothing runs unapproved."""

import random
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from tests.policy.approval_world import (
    DEPLOY,
    MAX_PENDING,
    PERMISSIONS,
    STRICTER,
    TTL_MS,
    USE_WITHIN_MS,
    World,
    begun,
    honest_step,
)
from tests.policy.sizes import CORPORA, SCHEDULES
from vegakit.ids import Digest
from vegakit.policy import (
    Approved,
    Declined,
    Interrupt,
    Interrupts,
    RunCommand,
    approvals as dispatching,
)

CORPUS = CORPORA / "hitl.jsonl"
KNOWN = [msgspec.json.decode(line)["id"] for line in CORPUS.read_bytes().splitlines()]
STEPS = 12
LIVE = {"target": "live"}


def other_arguments(world: World) -> None:
    """In the very object that was approved, if it can be, or in a new one."""
    begun(world)
    world.change(arguments=LIVE)
    world.run()
    world.change(arguments={"target": "test"}, wanted=RunCommand(("deploy", "live")))
    world.run()
    world.change(wanted=DEPLOY.wanted)


def replay(world: World) -> None:
    begun(world)
    for _ in range(3):
        world.run()
        world.chance.choice([world.restart, lambda: None])()


def one_for_another(world: World) -> None:
    """A click on one question is presented for the other, both ways."""
    one = begun(world)
    world.change(arguments=LIVE)
    world.run()
    other = [*world.questions][-1]
    if one and other != one:
        shown = world.interrupts.by_id[one].ask.action
        world.interrupts.answer(other, Approved(), "ann", shown, world.now)
        target = world.interrupts.by_id[other].ask.action
        assert target is not None
        assert not isinstance(world.interrupts.use(one, target, world.now), Interrupt)
    world.run()
    world.change(arguments=DEPLOY.arguments)


def after_expiry(world: World) -> None:
    """Answered in the last millisecond and the one after; used likewise."""
    question = begun(world)
    world.pass_time(USE_WITHIN_MS - world.chance.randrange(2))
    world.run()
    world.change(place=f"late {len(world.questions)}")
    world.run()
    question = [*world.questions][-1] if world.questions else None
    world.pass_time(TTL_MS - world.chance.randrange(2))
    if question:
        world.answer(question, Approved(), "bob")
    world.run()


def clock_set_back(world: World) -> None:
    world.run()
    question = world.some_question()
    world.pass_time(TTL_MS)
    if question:
        world.interrupts.on_timer(world.now)
        world.pass_time(-3_600_000)
        world.answer(question, Approved(), "ann")
        world.run(world.questions[question].attempt)
    world.now = world.latest


def approve_and_deny(world: World) -> None:
    world.change(place=f"both {len(world.questions)}")
    world.run()
    question = [*world.questions][-1] if world.questions else None
    answers = [("ann", Approved()), ("bob", Declined())]
    world.chance.shuffle(answers)
    for person, answer in answers if question else []:
        assert question is not None
        world.answer(question, answer, person)
    world.run()


def other_rules_after_restart(world: World) -> None:
    begun(world)
    world.restart()
    if world.chance.random() < 0.5:
        world.permissions = STRICTER
    else:
        world.change(schema=Digest("schema 2"))
    world.run()
    world.permissions = PERMISSIONS
    world.change(schema=DEPLOY.schema)


def without_a_name(world: World) -> None:
    world.run()
    if question := world.some_question():
        world.answer(question, Approved(), "")
    world.run()


def misleading_text(world: World) -> None:
    """People read code points, and the question can be asked."""
    world.change(arguments={"target": "\u202etsil\x1b[2K\r\U000e0041 d\u0435ploy"})
    asked = len(world.questions)
    world.run()
    if len(world.questions) > asked:
        text = world.interrupts.by_id[[*world.questions][-1]].ask.text
        assert text.isascii()
        assert text.isprintable()
        assert "\\u202e" in text
    world.change(arguments=DEPLOY.arguments)


def flood(world: World) -> None:
    """Beyond the cap nobody is asked, and nothing runs."""
    for number in range(3 * MAX_PENDING):
        world.run(replace(world.attempt, place=f"flood {number}"))
    pending = [one for one in world.interrupts.by_id.values() if one.status == "pending"]
    assert len(pending) <= MAX_PENDING


def own_answer(world: World) -> None:
    """Itself, its next life, its sibling."""
    world.run()
    if question := world.some_question():
        who = world.chance.choice(["program/agent#1", "program/agent#2", "program/friend#1"])
        world.answer(question, Approved(), who)
        world.run(world.questions[question].attempt)


def other_script(world: World) -> None:
    begun(world)
    world.change(contents={"deploy.sh": Digest("script 2")})
    world.run()
    world.change(contents={})
    world.run()
    world.change(contents=DEPLOY.contents)


ATTACKS: dict[str, Callable[[World], None]] = {
    "hitl-001": other_arguments,
    "hitl-002": replay,
    "hitl-003": one_for_another,
    "hitl-004": after_expiry,
    "hitl-005": clock_set_back,
    "hitl-006": approve_and_deny,
    "hitl-007": other_rules_after_restart,
    "hitl-008": without_a_name,
    "hitl-009": misleading_text,
    "hitl-010": flood,
    "hitl-011": own_answer,
    "hitl-012": other_script,
}


def run_schedules(attack: Callable[[World], None], schedules: int) -> int:
    executed = 0
    for seed in range(schedules):
        world = World(random.Random(seed))
        for _ in range(STEPS):
            step = attack if world.chance.random() < 0.25 else honest_step
            step(world)
        executed += world.executed
    return executed


@pytest.mark.parametrize("attack_id", KNOWN)
def test_nothing_runs_without_its_own_approval(attack_id: str) -> None:
    """And what was approved does run: the judge has something to judge."""
    assert run_schedules(ATTACKS[attack_id], SCHEDULES) > SCHEDULES // 20


def test_every_known_attack_is_carried_out() -> None:
    """And none that nobody knows."""
    assert sorted(ATTACKS) == sorted(KNOWN)


def uses_again(self: Interrupts, interrupt_id, action, now):
    """Forgets that it was used."""
    before = self.by_id.get(interrupt_id)
    verdict = _use(self, interrupt_id, action, now)
    if isinstance(verdict, Interrupt) and before is not None:
        self.by_id[interrupt_id] = before
    return verdict


def never_late(self: Interrupts, interrupt_id, action, now):
    kept = self.by_id.get(interrupt_id)
    until = None if kept is None else kept.use_before_ms
    return _use(self, interrupt_id, action, now if until is None else min(now, until - 1))


def trusts_the_clock(self: Interrupts, now: int) -> int:
    self.latest_ms = now
    return now


def forgets(**facts: object) -> Callable[..., object]:
    def action(permissions, attempt, wanted):
        return _action(permissions, replace(attempt, **facts), wanted)

    return action


def under_any_rules(_permissions, attempt, wanted):
    return _action(PERMISSIONS, attempt, wanted)


def as_it_was_asked(permissions, attempt, _wanted):
    return _action(permissions, attempt, DEPLOY.wanted)


_use = Interrupts.use
_action = dispatching._action
FAULTS: list[tuple[str, object, str, object]] = [
    ("hitl-001", dispatching, "_action", forgets(arguments=None)),
    ("hitl-001", dispatching, "_action", as_it_was_asked),
    ("hitl-002", Interrupts, "use", uses_again),
    ("hitl-004", Interrupts, "use", never_late),
    ("hitl-005", Interrupts, "_advance", trusts_the_clock),
    ("hitl-007", dispatching, "_action", forgets(schema=Digest(""))),
    ("hitl-007", dispatching, "_action", under_any_rules),
    ("hitl-011", dispatching, "_of_one_program", lambda who, owner: False),
    ("hitl-012", dispatching, "_action", forgets(contents={})),
]


@pytest.mark.parametrize(
    ("attack_id", "place", "name", "fault"),
    FAULTS,
    ids=[f"{attack} {name}" for attack, _, name, _ in FAULTS],
)
def test_a_host_that_is_wrong_is_found(
    attack_id: str, place: object, name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the judge can tell."""
    monkeypatch.setattr(place, name, fault)
    with pytest.raises(AssertionError, match="executed without"):
        run_schedules(ATTACKS[attack_id], 100)
