"""Every known attack on an approval, on a real runtime, in many schedules with restarts."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.policy.sizes import CORPORA, SCHEDULES
from tests.runtime.oversight.approvals import (
    FAILED,
    MAX_OPEN,
    TTL_MS,
    USE_WITHIN_MS,
    World,
    honest_step,
    owner_of,
)
from vegakit.effects import CallTool
from vegakit.errors import ProgramChanged, UserError
from vegakit.host import approvals as permitting, effect_handlers as toolcalls
from vegakit.ids import Digest
from vegakit.policy import Interrupt, Interrupts, approvals as dispatching

KNOWN = [
    msgspec.json.decode(line)["id"] for line in (CORPORA / "hitl.jsonl").read_bytes().splitlines()
]
STEPS = 8


async def other_arguments(world: World) -> None:
    """Changed in place, in the very object that waits for the approval."""
    question = await world.job()
    waiting = [
        flight.effect.request
        for flight in world.rt.program.machine.state.effects_in_flight.values()
    ]
    changed = [one.arguments for one in waiting if isinstance(one, CallTool)]
    for arguments in changed:
        arguments["target"] = f"live {len(world.jobs)}"
    if question:
        await world.answer(question.id, yes=True, by="ann")


async def replay(world: World) -> None:
    """The same answer again, also after the action was begun and cut off."""
    world.dies_when_it_acts = world.chance.random() < 0.5
    question = await world.job()
    for _ in range(2 if question else 0):
        assert question is not None
        await world.answer(question.id, yes=True, by="ann")
        await world.settle()
    await world.restart()
    if question:
        await world.answer(question.id, yes=True, by="bob")


async def one_for_another(world: World) -> None:
    one, other = await world.job(), await world.job()
    if one and other:
        with pytest.raises(UserError, match="not what was shown"):
            await world.rt.approvals.answer(one.id, True, "ann", other.action)
    await world.settle()


async def after_expiry(world: World) -> None:
    """In the last millisecond, and the one after."""
    question = await world.job()
    await world.wait(TTL_MS - world.chance.randrange(2))
    if question:
        await world.answer(question.id, yes=True, by="bob")


async def clock_set_back(world: World) -> None:
    question = await world.job()
    await world.wait(TTL_MS)
    await world.die()
    world.clock.advance(world.chance.choice([0, USE_WITHIN_MS]))
    late = world.clock.now()
    world.clock._now_ms -= 3_600_000
    await world.begin()
    if question:
        await world.answer(question.id, yes=True, by="ann")
        world.shown[question.id].answers[-1] = (late, "ann", True)
    await world.settle()
    world.clock.advance(3_600_000)


async def approve_and_deny(world: World) -> None:
    question = await world.job()
    if question:
        answers = [("ann", True), ("bob", False)]
        world.chance.shuffle(answers)
        given = [world.answer(question.id, yes=yes, by=by) for by, yes in answers]
        await asyncio.gather(*given)


async def other_rules(world: World) -> None:
    question = await world.job()
    if world.chance.random() < 0.5:
        await world.die()
        world.rules = 1 - world.rules
        await world.begin()
    else:
        world.schema = 1 - world.schema
    if question:
        await world.answer(question.id, yes=True, by="ann")


async def without_a_name(world: World) -> None:
    question = await world.job()
    if question:
        await world.answer(question.id, yes=True, by="")


async def misleading_text(world: World) -> None:
    question = await world.job(f"\u202etsil\x1b[2K\r\U000e0041 d\u0435ploy {len(world.jobs)}")
    if question:
        assert question.text.isascii()
        assert question.text.isprintable()
        assert "\\u202e" in question.text


async def flood(world: World) -> None:
    """Beyond the cap nobody is asked, and nothing runs."""
    for _ in range(2 * MAX_OPEN):
        await world.job()
    assert len(world.rt.interrupts()) <= MAX_OPEN


async def own_answer(world: World) -> None:
    """Itself, its next life, its sibling; by name, or from within."""
    question = await world.job()
    if question is None:
        return
    owner = owner_of(world, question.id)
    program = owner.partition("/")[0]
    who = world.chance.choice([owner, f"{owner}0", f"{program}/friend#1"])
    await world.answer(question.id, yes=True, by=who)

    async def friend(message: object) -> str:
        try:
            await world.rt.answer(question.id, True, by="ann")
        except UserError:
            return "refused"
        return "answered"

    assert await world.rt.spawn(friend).ask("please") == "refused"


async def other_script(world: World) -> None:
    question = await world.job()
    world.script += 1
    if question:
        await world.answer(question.id, yes=True, by="ann")


ATTACKS: dict[str, Callable[[World], Awaitable[None]]] = {
    "hitl-001": other_arguments,
    "hitl-002": replay,
    "hitl-003": one_for_another,
    "hitl-004": after_expiry,
    "hitl-005": clock_set_back,
    "hitl-006": approve_and_deny,
    "hitl-007": other_rules,
    "hitl-008": without_a_name,
    "hitl-009": misleading_text,
    "hitl-010": flood,
    "hitl-011": own_answer,
    "hitl-012": other_script,
}


async def schedule(attack: Callable[[World], Awaitable[None]], seed: int) -> int:
    """A program whose past was changed does not go on when it is resumed: that ends it, too."""
    world = World(seed)
    FAILED.clear()
    try:
        with suppress(ProgramChanged):
            await world.begin()
            for _ in range(STEPS):
                await (attack if world.chance.random() < 0.4 else honest_step)(world)
                await world.settle()
    finally:
        await world.die()
    return len(world.executed)


def run_schedules(attack_id: str, schedules: int) -> int:
    first = random.Random(attack_id).randrange(10**6)
    seeds = range(first, first + schedules)
    return sum(asyncio.run(schedule(ATTACKS[attack_id], seed)) for seed in seeds)


@pytest.mark.parametrize("attack_id", KNOWN)
def test_nothing_runs_without_its_own_approval(attack_id: str) -> None:
    """And what was approved does run: the judge has something to judge."""
    schedules = max(5, SCHEDULES // 10)
    executed = run_schedules(attack_id, schedules)
    print(f"{attack_id}: {schedules} schedules, {executed} executions, each approved")
    assert executed >= schedules // 10


def test_every_known_attack_is_carried_out() -> None:
    """And none that nobody knows."""
    assert sorted(ATTACKS) == sorted(KNOWN)


_use = Interrupts.use
_action = dispatching._action
_attempt = permitting._attempt


def forgets(**facts: object) -> Callable[..., object]:
    return lambda permissions, attempt, wanted: _action(
        permissions, replace(attempt, **facts), wanted
    )


def never_late(self: Interrupts, question: Any, answer: Any, by: str, action: Any, now: int) -> Any:
    """An answer counts whenever it comes."""
    expires = getattr(self.by_id.get(question), "expires_ms", None) or now
    self.latest_ms = 0
    return _answer(self, question, answer, by, action, min(now, expires - 1))


def anybody(self: Interrupts, question: Any, answer: Any, by: str, action: Any, now: int) -> Any:
    return _answer(self, question, answer, "somebody", action, now)


def uses_again(self: Interrupts, interrupt_id: Any, action: Any, now: int) -> Any:
    """Forgets that it was used."""
    before = self.by_id.get(interrupt_id)
    verdict = _use(self, interrupt_id, action, now)
    if isinstance(verdict, Interrupt) and before is not None:
        self.by_id[interrupt_id] = before
    return verdict


_answer = Interrupts.answer
SHARED = (toolcalls, "deepcopy", lambda arguments: arguments)
FAULTS: dict[str, tuple[str, list[tuple[object, str, object]]]] = {
    "not bound to arguments": (
        "hitl-001",
        [SHARED, (dispatching, "_action", forgets(arguments=None))],
    ),
    "used twice": ("hitl-002", [(Interrupts, "use", uses_again)]),
    "late": (
        "hitl-004",
        [(Interrupts, "answer", never_late), (Interrupts, "on_timer", lambda self, now: [])],
    ),
    "not bound to the schema": (
        "hitl-007",
        [(dispatching, "_action", forgets(schema=Digest("")))],
    ),
    "by nobody": ("hitl-008", [(Interrupts, "answer", anybody)]),
    "not bound to files": ("hitl-012", [(dispatching, "_action", forgets(contents={}))]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_runtime_that_is_wrong_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the judge can tell."""
    attack_id, patches = FAULTS[fault]
    for place, name, wrong in patches:
        monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError, match=r"ran without|ran twice"):
        run_schedules(attack_id, 40)
