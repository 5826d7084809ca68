"""A step is described as far as its order matters, and each link between steps has its reason
(pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from vegakit.lang.analysis.dataflow import DataflowLink, DataflowStep, LinkKind, StepKind
from vegakit.lang.analysis.effects import NO_EFFECTS, EffectSet, conflict, paths_touch
from vegakit.lang.analysis.speculation import PAUSES, changes, few, only_reads, told_changes
from vegakit.lang.diagnostics import count_steps

# What a step does, as far as its order matters: what it touches, whom it asks, what it holds up.
#
# | a step is kept in order when it                | others behind it                        |
# |------------------------------------------------|-----------------------------------------|
# | prints, spawns                                 | may start before it                     |
# | writes, posts, runs commands, is unknown       | wait if they conflict                   |
# | asks an agent with a breaker or a rate limit,  | may start before it                     |
# | or with tools that ask, pause or print         |                                         |
# | asks a process with its own supervisor         | wait if they conflict with any agent    |
# | opens a session, or spawns with a wallet       | wait if they send                       |
# | sends under a budget of its own                | wait until the program comes to it      |
# | asks a person, sleeps, looks at the budget,    | wait: it is a barrier                   |
# | links, monitors                                |                                         |
#
# A process that remembers answers one ask after another, in the order of the program. Which sends
# and calls are kept in order is asked of `SpeculationRules`, as the machine does.


class StepAction(Struct, frozen=True):
    """`order` says why it is kept in order. `agents` are who remembers what it asks them through
    `handles`. `barrier` is what it is called where others wait for it. `carves` is of what sets
    money aside, `uncounted` of what sends nobody knows how often, `bars` of what cannot be stepped
    over while its branch is not decided, `unnamed` of what sends to processes, `own_budget` of
    a send with a budget of its own. `path` is of what touches one path, and empty if that is only
    known when the program runs."""

    effects: EffectSet = NO_EFFECTS
    order: str = ""
    lasts: bool = True
    later: bool = False
    agents: frozenset[str] = frozenset()
    handles: frozenset[int] | None = None
    barrier: str = ""
    carves: bool = False
    uncounted: bool = False
    bars: bool = False
    unnamed: bool = False
    own_budget: bool = False
    path: str | None = None


class HoldKind(StrEnum):
    """The kinds of steps that wait for a step, or for the decision of a block, besides those
    that need it."""

    ALL = "all"
    BUDGETS = "all, until a send with a budget of its own is come to"
    ROUNDS = "all, until that of the last round is"
    SENDS = "sends"
    READS = "reads"
    PROCESSES = "processes that remember"

    def holds(self, act: StepAction) -> bool:
        """Return whether a step that does this waits."""
        match self:
            case HoldKind.ALL | HoldKind.BUDGETS | HoldKind.ROUNDS:
                return True
            case HoldKind.SENDS:
                return bool(act.effects.sends)
            case HoldKind.READS:
                return bool(act.effects.reads or act.effects.gets)
            case HoldKind.PROCESSES:
                return bool(act.agents)


_HOLD_LINKS = {
    HoldKind.ALL: LinkKind.BARRIER,
    HoldKind.BUDGETS: LinkKind.BARRIER,
    HoldKind.ROUNDS: LinkKind.BARRIER,
    HoldKind.SENDS: LinkKind.BARRIER,
    HoldKind.READS: LinkKind.CONFLICT,
    HoldKind.PROCESSES: LinkKind.SAME,
}
_STOPPING = ("budget::", "link")
_BRIEF = ("budget::", "trace::", "time::now", "process::self", "process::yield", "print", "link")


def library_action(name: str, effects: EffectSet) -> StepAction:
    """Return what a call of a library function does."""
    lasts = not name.startswith(_BRIEF)
    if name in PAUSES or name.startswith(_STOPPING):
        order = "in order: it asks a person" if effects.asks_people else f"in order: {name}"
        return StepAction(effects, order, lasts, barrier=name, bars=True)
    if name == "print":
        return StepAction(effects, "in order: it prints", lasts)
    if changes(effects):
        return StepAction(effects, f"in order: it {told_changes(effects)}", lasts)
    return StepAction(effects, "" if only_reads(effects) else f"in order: {name}", lasts)


def clash(one: StepAction, other: StepAction) -> str:
    """Return what the two cannot do in another order; empty when they can."""
    if not conflict(one.effects, other.effects):
        return ""
    for effects in (one.effects, other.effects):
        if effects.posts or effects.commands or effects.servers or effects.unknown:
            strong = EffectSet(
                posts=effects.posts,
                commands=effects.commands,
                servers=effects.servers,
                unknown=effects.unknown,
            )
            return f"conflicts with all: {told_changes(strong)}"
    if one.effects.asks_people or other.effects.asks_people:
        return "" if one.barrier or other.barrier else "a person is asked there, who may say no"
    paths = {one.path, other.path}
    may = "" in paths
    shared = _shared(one.effects, other.effects)
    return f"conflicts over {shared}{', unless the paths differ' if may else ''}"


def _shared(one: EffectSet, other: EffectSet) -> str:
    count_steps(8)
    pairs = [(mine, theirs) for mine in one.writes for theirs in other.reads | other.writes]
    pairs += [(mine, theirs) for mine in other.writes for theirs in one.reads]
    return few({mine for mine, theirs in pairs if paths_touch(mine, theirs)})


def _is_known(act: StepAction) -> bool:
    """Return whether it is known which spawns made the process it asks."""
    return act.handles is not None and min(act.handles, default=0) >= 0


def may_be_one(one: StepAction, other: StepAction) -> bool:
    """Return whether both may ask the same process."""
    if not one.agents & other.agents:
        return False
    if one.handles is None or other.handles is None or one.handles & other.handles:
        return True
    return min(one.handles | other.handles, default=0) < 0


# The notes of a walk: every step, and the links between them, each with its reason.
#
# Sets of steps are numbers, a bit for each.


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the steps in a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True)
class StepEntry:
    """`before` is all that it waits for, through others too, and `implied` what it waits for
    through others; `waits`: for a value, or for a round before."""

    step: DataflowStep
    act: StepAction
    before: int = 0
    implied: int = 0
    waits: bool = False


@dataclass(slots=True)
class GraphBuilder:
    """Links only grow, so a loop may be walked as often as one likes. What it keeps of the steps
    besides is what would else be looked for among all of them at each: `_changing` are those that
    change something or ask a person, `_later` those that are not waited for, `_asking` those that
    ask a process of an agent, `_through` those that ask through a handle, `_anyhow` those whose
    handle is not known. `_covered` is all that the steps of `_covering` wait for."""

    entries: list[StepEntry] = field(default_factory=list)
    _links: dict[tuple[int, int, LinkKind, int | None], tuple[str, bool]] = field(
        default_factory=dict
    )
    _turns: dict[tuple[int, int], None] = field(default_factory=dict)
    _gates: dict[tuple[int, HoldKind], tuple[str, set[int]]] = field(default_factory=dict)
    _children: dict[int, list[int]] = field(default_factory=dict)
    _changing: int = 0
    _later: int = 0
    _asking: dict[str, int] = field(default_factory=dict)
    _through: dict[int, int] = field(default_factory=dict)
    _anyhow: int = 0
    _covering: int = 0
    _covered: int = 0

    @property
    def links(self) -> int:
        """Return how many links there are."""
        return len(self._links) + len(self._turns)

    def add(self, step: DataflowStep, act: StepAction) -> None:
        """Note a step, which has the next number."""
        number, bit = len(self.entries), 1 << len(self.entries)
        self.entries.append(StepEntry(step, act))
        if step.parent is not None:
            self._children.setdefault(step.parent, []).append(number)
        if changes(act.effects) or act.effects.asks_people:
            self._changing |= bit
        if act.later:
            self._later |= bit
        for agent in act.agents:
            self._asking[agent] = self._asking.get(agent, 0) | bit
        if act.agents and not _is_known(act):
            self._anyhow |= bit
        for handle in act.handles or ():
            self._through[handle] = self._through.get(handle, 0) | bit

    def link(
        self,
        before: int,
        after: int,
        why: LinkKind,
        text: str,
        round_of: int | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """Let a step wait for another. Several reasons of one kind are told together; one for which
        all of it is waited for is told instead of one for which it has only to have `begun`."""
        count_steps()
        key = before, after, why, round_of
        known, was_begun = self._links.get(key, ("", True))
        if begun and not was_begun:
            return
        if why is LinkKind.NEEDS:
            names = {*known.split(", "), text} - {""}
            text = ", ".join(sorted(names))
        self._links[key] = text, begun
        entry, first = self.entries[after], self.entries[before]
        entry.waits |= why is LinkKind.NEEDS or round_of is not None
        # What may not run at all stands for nothing that has to be done before. What the program
        # has to come to is not done, but all that it waits for is.
        is_due = entry.step.rare or not first.step.rare
        is_due &= first.act.own_budget or not begun
        if round_of is None and before != after and is_due:
            entry.implied |= first.before
            entry.before |= first.before | (0 if begun else 1 << before)
            if self._covering >> after & 1:
                self._covered |= entry.before

    def gate(
        self, gate: HoldKind, mask: int, number: int, text: str, loop: int | None = None
    ) -> None:
        """Let a step wait for these, if the gate is for its kind: in the same round the latest
        first, since what that waits for needs no link of its own."""
        entry, begun = self.entries[number], gate is HoldKind.ROUNDS
        if not gate.holds(entry.act):
            return
        if loop is not None:
            for before in bits(mask):
                self.link(before, number, _HOLD_LINKS[gate], text, loop, begun=begun)
            return
        mask &= ~(1 << number)
        while mask := mask & ~entry.implied:
            before = mask.bit_length() - 1
            mask ^= 1 << before
            self.link(before, number, _HOLD_LINKS[gate], text, begun=begun)

    def is_behind(self, number: int, deciders: int) -> bool:
        """Return whether a step may begin only when these are decided, since it waits for all that
        they wait for. What is kept in order does anyway, and is left out."""
        entry = self.entries[number]
        due = 0
        for one in bits(deciders):
            due |= self.entries[one].before
        return not entry.step.order and not due & ~entry.before

    def open_gate(self, gate: HoldKind, mask: int, text: str, loops: Sequence[int]) -> None:
        """Remember a gate: it holds up the next round of these loops as well."""
        for one in bits(mask):
            _, known = self._gates.get((one, gate), ("", set[int]()))
            self._gates[one, gate] = text, known.union(loops)

    def inside(self, number: int) -> list[StepEntry]:
        """Return what stands in a block, at any depth."""
        found, due = list[StepEntry](), [*self._children.get(number, ())]
        while due:
            one = due.pop()
            found.append(self.entries[one])
            due += self._children.get(one, ())
        return found

    def loops_around(self, number: int, block: int | None = None) -> Iterator[int]:
        """Yield the loops around a step, or only those that stand in a block around it."""
        at = self.entries[number].step.parent
        while at is not None and at != block:
            step = self.entries[at].step
            if step.kind is StepKind.LOOP:
                yield at
            at = step.parent

    def order(self, number: int, passed: int, text: str) -> None:
        """Let a step wait for all that the program has passed when it comes here."""
        known = self.entries[number].before | 1 << number
        for before in bits(self.last_of(passed) & ~known):
            self.link(before, number, LinkKind.ORDER, text)

    def last_of(self, mask: int) -> int:
        """Return those that no other of them waits for. A program asks for more and more of them
        as it goes on: what the ones before wait for is kept."""
        if self._covering & ~mask:
            self._covering = self._covered = 0
        fresh = mask & ~self._covering
        count_steps(fresh.bit_count() // 4)
        for one in bits(fresh):
            self._covered |= self.entries[one].before
        self._covering = mask
        return mask & ~self._covered

    def beside(self, number: int, seen: int, passed: int) -> None:
        """Link a step to what it may not overtake of what it has seen, the latest first: what that
        waits for needs no link of its own. One that was begun and not waited for may conflict
        before it is waited for."""
        rivals, entry = self._rivals(number, seen), self.entries[number]
        begun = self._later & (-1 if self._changing >> number & 1 else self._changing)
        while rivals := rivals & (begun | ~entry.implied):
            count_steps()
            before = rivals.bit_length() - 1
            rivals ^= 1 << before
            if not entry.implied >> before & 1:
                self._link_same(before, number)
            text = self._clash(before, number)
            if text and self.entries[before].act.later:
                self.order(number, passed, text)
                begun = 0
            elif text:
                self.link(before, number, LinkKind.CONFLICT, text)

    def _rivals(self, number: int, among: int) -> int:
        """Return which of these may conflict with a step or ask the same process."""
        others = among & ~(1 << number)
        if self._changing >> number & 1:
            return others
        return others & (self._changing | self._asking_same(number))

    def _asking_same(self, number: int) -> int:
        """Return what may ask the process that a step asks."""
        act, same = self.entries[number].act, 0
        for agent in act.agents:
            same |= self._asking[agent]
        if act.agents and _is_known(act):
            through = self._anyhow
            for handle in act.handles or ():
                through |= self._through[handle]
            same &= through
        return same

    def _clash(self, before: int, number: int) -> str:
        one, other = self.entries[before], self.entries[number]
        return clash(one.act, other.act) if one.step.lasts and other.step.lasts else ""

    def _link_same(self, before: int, number: int, round_of: int | None = None) -> None:
        if may_be_one(self.entries[before].act, self.entries[number].act):
            self.link(before, number, LinkKind.SAME, "same process", round_of)

    def take_turns(self, tasks: Sequence[int]) -> None:
        """Note which steps of tasks that run beside each other may ask the same process, which
        answers one after the other."""
        older = 0
        for task in tasks:
            for number in bits(task):
                count_steps()
                for before in bits(self._asking_same(number) & older):
                    if may_be_one(self.entries[before].act, self.entries[number].act):
                        count_steps()
                        self._turns[before, number] = None
            older |= task

    def carry(self, loop: int, body: int, passed: int) -> None:
        """Link what a round of the loop waits for of the round before. `passed` is what is done
        when the program comes to the end of a round."""
        often = sum(1 << one for one in bits(body & passed) if not self.entries[one].step.rare)
        last = self.last_of(often)
        among = body | sum(1 << entry.step.id for entry in self.inside(loop))
        gates = [
            (one, gate, text)
            for (one, gate), (text, loops) in self._gates.items()
            if among >> one & 1 and loop in loops
        ]
        for number in bits(body):
            text = self.entries[number].step.order
            for before in bits(last) if text else ():
                self.link(before, number, LinkKind.ORDER, text, loop)
            for before in (*bits(self._rivals(number, body)), number):
                count_steps()
                self._carry_rival(before, number, loop, body)
            for before, gate, why in gates:
                self.gate(gate, 1 << before, number, why, loop)

    def _carry_rival(self, before: int, number: int, loop: int, body: int) -> None:
        if not all(self._is_fresh(one, loop, body) for one in (before, number)):
            self._link_same(before, number, loop)
        text = self._clash(before, number)
        if text and not self.entries[before].act.later:
            self.link(before, number, LinkKind.CONFLICT, text, loop)

    def _is_fresh(self, number: int, loop: int, body: int) -> bool:
        """Return whether the process it asks is another one in every round."""
        made = self.entries[number].act.handles or frozenset()
        return bool(made) and all(body >> one & 1 if one >= 0 else one == ~loop for one in made)

    def come_again(self, loop: int, number: int, body: int, passed: int, text: str) -> int:
        """Let what stands behind a step wait for all of the round before, since the program comes
        to the step then. Return the last of a round."""
        often = sum(1 << one for one in bits(body & passed) if not self.entries[one].step.rare)
        last = self.last_of(often)
        for before in bits(last):
            for after in bits(body >> number + 1):
                self.link(before, after + number + 1, LinkKind.BARRIER, text, loop)
        return last

    def read_in_turn(self, loop: int, passed: int, text: str) -> int:
        """Let a round wait for the last of what the round before passed, and return these."""
        often = sum(1 << one for one in bits(passed) if not self.entries[one].step.rare)
        last = self.last_of(often)
        for before in bits(last):
            self.link(before, loop, LinkKind.ORDER, text, loop)
        return last

    def barrier_text(self, number: int) -> str:
        """Return why steps behind this barrier wait: its kind, and its line."""
        entries = self.entries[number]
        return f"barrier: {entries.act.barrier} at line {entries.step.line}"

    def done(self) -> tuple[tuple[DataflowStep, ...], tuple[DataflowLink, ...]]:
        """Return the steps and links, each with its reason in words."""
        links = tuple(
            DataflowLink(before, after, why, _spelled(why, text), round_of, begun)
            for (before, after, why, round_of), (text, begun) in self._links.items()
        )
        turns = tuple(
            DataflowLink(before, after, LinkKind.SAME, _IN_TURN, turns=True)
            for before, after in self._turns
        )
        return tuple(entries.step for entries in self.entries), links + turns


_IN_TURN = "same process, whichever asks first"


def _spelled(why: LinkKind, text: str) -> str:
    if why is not LinkKind.NEEDS:
        return text
    return f"needs {text}" if text else "needs its answer"
