"""Waiting for money as a model, and a checker that believes nothing but its events.

    python -m campaigns.waiting_model 10000      ten thousand random histories

Clients share one ledger. Their calls draw on counters with caps, and some run inside of other calls
in flight, as a model that asks others does. A call that does not fit waits or is refused. At the
end every call that can end does so; then no call may still wait.

The ledger here decides. The checker reads the events in the order of their commits and decides anew
by playing: it ends calls and serves waiters in thought until nothing changes. So it judges any
ledger whose events are written in this form. Then the same histories run with planted faults, each
of which has to be found.
"""

import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["FAULTS", "Did", "Step", "check", "history", "main"]

CLIENTS = ("one", "two")
COUNTERS = ("all", "team")
STEPS = 40


class Did(StrEnum):
    """The kinds of steps. `SPENT` refuses a call that can never fit, `DEADLOCK` one that others, or
    the calls around it, would keep waiting for ever."""

    RESERVE = "reserve"
    WAIT = "wait"
    SPENT = "spent"
    DEADLOCK = "deadlock"
    END = "end"


@dataclass
class Step:
    """`counters` are those that the call draws on; `amount` is its reservation, or its bill."""

    did: Did
    call: str
    amount: int = 0
    client: str = ""
    counters: tuple[str, ...] = ()
    inside: str = ""


# The checker.


@dataclass
class _Checker:
    caps: dict[str, int]
    settled: dict[str, int] = field(default_factory=dict[str, int])
    begun: dict[str, Step] = field(default_factory=dict[str, Step])
    running: dict[str, Step] = field(default_factory=dict[str, Step])
    waiting: dict[str, Step] = field(default_factory=dict[str, Step])

    def see(self, step: Step) -> str:
        """Return what is wrong with the next step."""
        if step.did is Did.END:
            return self._end(step)
        self.begun[step.call] = step
        wrong = getattr(self, f"_{step.did}")(step)
        self.waiting.pop(step.call, None)
        if step.did is Did.RESERVE:
            self.running[step.call] = step
        elif step.did is Did.WAIT:
            self.waiting[step.call] = step
        return wrong

    def _end(self, step: Step) -> str:
        ended = self.running.pop(step.call)
        for counter in ended.counters:
            self.settled[counter] = self.settled.get(counter, 0) + step.amount
        return ""

    def _reserve(self, step: Step) -> str:
        if not self._fits(step, self.running.values()):
            return f"{step.call} passes a cap"
        for older in self.waiting.values():
            if older.call == step.call:
                return ""
            if _is_in_line(older, step) and _is_in_line(step, older):
                return f"{step.call} passes {older.call}, which came before it"
        return ""

    def _wait(self, step: Step) -> str:
        if not self._fits(step, ()):
            return f"{step.call} waits for what is spent"
        if not self._fits(step, self._around(step)):
            return f"{step.call} waits for what calls around it hold"
        return ""

    def _spent(self, step: Step) -> str:
        return f"{step.call} was refused as spent, and could fit" if self._fits(step, ()) else ""

    def _deadlock(self, step: Step) -> str:
        self.waiting.setdefault(step.call, step)
        stuck, held = self._stuck()
        if step.call not in stuck:
            return f"{step.call} was refused, and could be served"
        lacking = {
            counter
            for one in stuck.values()
            for counter in one.counters
            if self._lacks(one, counter, held)
        }
        helpful = [
            one.call
            for one in stuck.values()
            if any(lacking.intersection(outer.counters) for outer in self._around(one))
        ]
        if step.call != helpful[-1]:
            return f"{step.call} was refused, and {helpful[-1]} is the youngest"
        return ""

    def quiet(self) -> str:
        """Return who waits though every call that can end has ended."""
        return f"{', '.join(self.waiting)} wait for ever" if self.waiting else ""

    def _stuck(self) -> tuple[dict[str, Step], list[Step]]:
        """Play on: calls end for free unless a waiter runs inside of them, and waiters are served
        that fit. Return the waiters that remain, and the calls around them."""
        waiting = {call: one for call, one in self.waiting.items() if one.inside}
        while True:
            held = {o.call: o for one in waiting.values() for o in self._around(one)}
            served = [call for call, one in waiting.items() if self._fits(one, held.values())]
            if not served:
                return waiting, [*held.values()]
            for call in served:
                del waiting[call]

    def _around(self, step: Step) -> list[Step]:
        around: list[Step] = []
        while step.inside:
            step = self.begun[step.inside]
            if step.call in self.running:
                around.append(step)
        return around

    def _fits(self, step: Step, held: Iterable[Step]) -> bool:
        held = [*held]
        return not any(self._lacks(step, counter, held) for counter in step.counters)

    def _lacks(self, step: Step, counter: str, held: Iterable[Step]) -> bool:
        used = sum(one.amount for one in held if counter in one.counters)
        return self.settled.get(counter, 0) + used + step.amount > self.caps[counter]


def _is_in_line(older: Step, step: Step) -> bool:
    """Return whether two calls of a client stand in the same line."""
    is_plain = not older.inside and not step.inside
    return is_plain and older.client == step.client and older.counters == step.counters


def check(caps: dict[str, int], steps: Iterable[Step]) -> list[str]:
    """Return everything that is wrong, computed from the steps alone."""
    checker = _Checker(caps)
    wrong = [f"step {at}: {said}" for at, step in enumerate(steps) if (said := checker.see(step))]
    return [*wrong, said] if (said := checker.quiet()) else wrong


# The ledger that decides, and what may be wrong with it.


NO_RULE = "no deadlock rule"
OLDEST = "a deadlock refuses the oldest"
OWN = "a call waits for the money around it"
HASTY = "refused while others could end"
NEWCOMERS = "newcomers pass the line"
OVER = "a waiter is served without a look at the cap"
FAULTS = (NO_RULE, OLDEST, OWN, HASTY, NEWCOMERS, OVER)


class _World:
    """Clients and their ledger, and the steps of both."""

    def __init__(self, seed: int, fault: str) -> None:
        self.chance, self.fault = random.Random(seed), fault
        self.caps = {counter: self.chance.randrange(60, 140) for counter in COUNTERS}
        self.settled: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.steps: list[Step] = []
        self.running: dict[str, Step] = {}
        self.waiting: dict[str, Step] = {}
        self.made = 0

    def play(self, steps: int) -> None:
        """Begin calls and end calls; at the end, end all that can end."""
        for _ in range(steps):
            self.chance.choice([self._begin, self._begin, self._end])()
            self._look()
        while self._end():
            self._look()

    def _begin(self) -> None:
        chance, client = self.chance, self.chance.choice(CLIENTS)
        outer = [c for c, one in self.running.items() if one.client == client]
        inside = chance.choice(outer) if outer and chance.random() < 0.5 else ""
        counters = chance.choice([("all",), ("all", "team")])
        self.made += 1
        amount = chance.randrange(5, 70)
        self._ask(Step(Did.WAIT, f"call {self.made}", amount, client, counters, inside))

    def _ask(self, step: Step) -> None:
        """Reserve for a call that comes, or let it wait, or refuse it."""
        if not self._fits(step, {}):
            self._say(step, Did.SPENT)
        elif self._has_line(step) or not self._fits(step, self.running):
            self._say(step, Did.WAIT)
        else:
            self._say(step, Did.RESERVE)

    def _has_line(self, step: Step) -> bool:
        others = self.waiting.values()
        ahead = any(_is_in_line(one, step) for one in others if one.call != step.call)
        return ahead and self.fault != NEWCOMERS

    def _say(self, step: Step, did: Did) -> None:
        said = Step(did, step.call, step.amount, step.client, step.counters, step.inside)
        self.waiting.pop(step.call, None)
        if did is Did.RESERVE:
            self.running[step.call] = said
        if did is Did.WAIT:
            self.waiting[step.call] = said
            if self._refuses(step.call):
                del self.waiting[step.call]
                said.did = Did.DEADLOCK
        self.steps.append(said)

    def _end(self) -> bool:
        """End a call in flight that no other call runs inside of."""
        outer = {one.inside for one in (*self.running.values(), *self.waiting.values())}
        ends = [call for call in self.running if call not in outer]
        if not ends:
            return False
        one = self.running.pop(self.chance.choice(ends))
        bill = self.chance.choice([0, one.amount // 3, one.amount])
        for counter in one.counters:
            self.settled[counter] += bill
        self.steps.append(Step(Did.END, one.call, bill))
        return True

    def _look(self) -> None:
        """Let every waiter look again until none has news, the first of each line first."""
        has_news = True
        while has_news:
            has_news = False
            ahead: list[Step] = []
            for one in [*self.waiting.values()]:
                if not any(_is_in_line(older, one) for older in ahead):
                    has_news |= self._looked(one)
                ahead += [one] if one.call in self.waiting else []

    def _looked(self, one: Step) -> bool:
        if not self._fits(one, {}):
            self._say(one, Did.SPENT)
        elif self._fits(one, self.running) or self.fault == OVER:
            self._say(one, Did.RESERVE)
        elif self._refuses(one.call):
            self._say_deadlock(one)
        else:
            return False
        return True

    def _say_deadlock(self, one: Step) -> None:
        del self.waiting[one.call]
        self.steps.append(
            Step(Did.DEADLOCK, one.call, one.amount, one.client, one.counters, one.inside)
        )

    def _refuses(self, call: str) -> bool:
        """Return whether a deadlock refuses a waiter."""
        if self.fault == NO_RULE or not self.waiting[call].inside:
            return False
        stuck, needed = self._stuck()
        if self.fault == OWN and len(stuck) == 1:
            return False
        helpful = [
            name
            for name in stuck
            if any(needed.intersection(o.counters) for o in self._around(stuck[name]).values())
        ]
        return bool(helpful) and helpful[0 if self.fault == OLDEST else -1] == call

    def _stuck(self) -> tuple[dict[str, Step], set[str]]:
        """Return the deadlocked waiters, and the counters in which they do not fit."""
        stuck = {name: one for name, one in self.waiting.items() if one.inside}
        if self.fault == HASTY:
            return stuck, {*COUNTERS}
        while True:
            around: dict[str, Step] = {}
            for one in stuck.values():
                around |= self._around(one)
            short = {name: self._short(one, around) for name, one in stuck.items()}
            if all(short.values()):
                return stuck, {counter for counters in short.values() for counter in counters}
            stuck = {name: stuck[name] for name, counters in short.items() if counters}

    def _around(self, one: Step) -> dict[str, Step]:
        around: dict[str, Step] = {}
        while one.inside:
            one = self.running[one.inside]
            around[one.call] = one
        return around

    def _fits(self, step: Step, held: dict[str, Step]) -> bool:
        return not self._short(step, held)

    def _short(self, step: Step, held: dict[str, Step]) -> list[str]:
        """Return the counters in which a call does not fit beside these."""
        short: list[str] = []
        for counter in step.counters:
            used = sum(one.amount for one in held.values() if counter in one.counters)
            if self.settled[counter] + used + step.amount > self.caps[counter]:
                short.append(counter)
        return short


def history(seed: int, fault: str = "", steps: int = STEPS) -> tuple[dict[str, int], list[Step]]:
    """Return the caps and the steps of one random history."""
    world = _World(seed, fault)
    world.play(steps)
    return world.caps, world.steps


def main(histories: int = 1_000) -> int:
    """Judge so many histories, and a tenth of them, at least 300, with each fault."""
    wrong = [(seed, said[0]) for seed in range(histories) if (said := check(*history(seed)))]
    for seed, said in wrong[:5]:
        print(f"history {seed}: {said}")
    deadlocks = sum(_deadlocks(histories))
    print(f"waiting: {histories:,} histories, {deadlocks:,} with a deadlock, {len(wrong)} broken")
    missed = 0
    planted = max(300, histories // 10)
    for fault in FAULTS:
        count = sum(bool(check(*history(seed, fault))) for seed in range(planted))
        missed += not count
        print(f"planted: {fault}: found in {count:,} of {planted:,}")
    return int(bool(wrong) or missed > 0)


def _deadlocks(histories: int) -> Iterator[bool]:
    for seed in range(histories):
        yield any(step.did is Did.DEADLOCK for step in history(seed)[1])


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
