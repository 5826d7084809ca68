"""Supervision on real processes: trees of the runtime against trees of `otp_model`."""

from collections import Counter
from random import Random

from hypothesis import given, settings, strategies as st

from tests.runtime.processes.supervised import CRASHED, NORMAL, Troupe
from tests.runtime.processes.supervision_oracle import Branch, Leaf, LeafProcess, Oracle, Tie
from vegakit.policy import (
    Backoff,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    RestartStrategy,
)
from vegakit.sdk import Runtime
from vegakit.testing import VirtualClock, run_virtual

NEVER_RESTART = (RestartStrategy.STOP, RestartStrategy.ESCALATE)
FULL_SIZE = 1000
ENOUGH_MS = 600_000

REASONS = {
    "normal": NORMAL,
    "crash": CRASHED,
    "shutdown": ExitReason(ExitKind.SHUTDOWN),
    "killed": ExitReason(ExitKind.KILLED),
    "escalated": ExitReason(ExitKind.ESCALATED),
    "bad mood": ExitReason(ExitKind.CRASHED, "bad mood"),
}
BY_ITSELF = ("normal", "crash")

met: Counter[tuple[str, str, str]] = Counter()
seen: Counter[str] = Counter()


def any_branch(chance: Random, depth: int, type_: ChildType) -> Branch:
    strategy, allowed = chance.choice(list(RestartStrategy)), chance.randint(0, 3)
    may_wait = strategy not in NEVER_RESTART and allowed and chance.random() < 0.4
    backoff = Backoff(chance.randint(20, 900), 2.0, 1_700) if may_wait else None
    rule = RestartRule(strategy, allowed, chance.choice([700, 5_000, 60_000]), backoff)
    names = "abcd"[: chance.randint(1, 4)]
    return Branch(rule, {name: any_child(chance, depth - 1) for name in names}, type_)


def any_child(chance: Random, depth: int) -> Branch | Leaf:
    type_ = chance.choice(list(ChildType))
    if depth > 0 and chance.random() < 0.4:
        return any_branch(chance, depth, type_)
    return Leaf(type_, chance.choice([1, 137, 1_009]))


class History:
    """One tree, grown and hit; all of it follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.root = any_branch(self.chance, 3, ChildType.PERMANENT)

    def cleanup_ms(self, path: str, generation: int) -> int:
        chance = Random(f"{self.seed} {path} {generation}")
        return chance.choice([0, 0, chance.randint(1, 2_000)])

    async def live(self) -> None:
        clock = VirtualClock()
        async with Runtime(clock=clock) as rt:
            troupe = Troupe(rt, clock, self.cleanup_ms)
            start = clock.now()
            troupe.spawn(self.root)
            oracle = Oracle(self.root, self.cleanup_ms, start)
            at = start
            for _ in range(self.chance.randint(1, 15)):
                at += self.chance.choice([2, 53, 211, 701, 1_301])
                await self.wait(at, clock, oracle)
                self.hit(troupe, oracle)
            await self.wait(at + self.chance.choice([3, 3_001]), clock, oracle)
            troupe.end("root", kill=False)
            oracle.stop()
            await self.wait(at + ENOUGH_MS, clock, oracle)
            assert troupe.log == oracle.log
            assert rt.program.machine.state.processes == {}
            assert rt.program.machine.state.supervisors == {}

    async def wait(self, until: int, clock: VirtualClock, oracle: Oracle) -> None:
        await clock.wait_until(until)
        oracle.run_until(until)

    def hit(self, troupe: Troupe, oracle: Oracle) -> None:
        leaves = list(oracle.leaves())
        if not leaves or oracle.root.gone:
            return
        leaf = self.chance.choice(leaves)
        if self.chance.random() < 0.15:
            kill = self.chance.random() < 0.5
            seen["killed" if kill else "ended"] += 1
            troupe.end(leaf.path, kill=kill)
            oracle.end(leaf, kill=kill)
        else:
            self.lose(troupe, oracle, leaf, self.chance.choice(list(REASONS)))

    def lose(self, troupe: Troupe, oracle: Oracle, leaf: LeafProcess, how: str) -> None:
        if leaf.phase == "up":
            met[leaf.group.branch.rule.strategy, leaf.spec.type, how] += 1
        if how not in BY_ITSELF:
            troupe.exit(leaf.path, how)
        elif leaf.phase != "up":
            return
        else:
            troupe.ends_by_itself(leaf.path, leaf.generation, crashes=how == "crash")
        oracle.lose(leaf, REASONS[how], by_itself=how in BY_ITSELF)


def test_real_processes_live_as_the_model_says() -> None:
    """Starts, cancellations, restarts, exits and giving up, each at its time and in its order."""

    @settings(deadline=None)
    @given(st.integers(0, 2**32))
    def lived(seed: int) -> None:
        seen["histories"] += 1
        try:
            run_virtual(History(seed).live())
        except Tie:
            seen["ties"] += 1

    lived()
    print(table())
    print(dict(seen))
    if settings().max_examples >= FULL_SIZE:
        assert never_met() == []
    assert seen["ties"] < seen["histories"] / 10


def table() -> str:
    lines = [f"{'':24}" + "".join(f"{reason:>12}" for reason in REASONS)]
    for strategy in RestartStrategy:
        for kind in ChildType:
            counts = (f"{met[strategy, kind, reason]:>12}" for reason in REASONS)
            lines.append(f"{strategy + ' ' + kind:24}" + "".join(counts))
    return "\n".join(lines)


def never_met() -> list[tuple[str, str, str]]:
    every = [(s, k, r) for s in RestartStrategy for k in ChildType for r in REASONS]
    return [place for place in every if not met[place]]
