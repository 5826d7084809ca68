"""What a step does as far as its order matters, and the links between steps, each with its reason
(pure).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from vegakit.lang.analysis.dataflow import DataflowLink, DataflowStep, LinkKind
from vegakit.lang.analysis.effects import NO_EFFECTS, EffectSet, conflict, paths_touch
from vegakit.lang.check.symbols import Callee, CalleeKind, Checked, Unit
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.library import ENDS, LIBRARY
from vegakit.lang.syntax.tree import (
    Ask,
    Block,
    Break,
    Call,
    Continue,
    ExprStmt,
    For,
    If,
    Node,
    Return,
    Session,
    Spawn,
    Stmt,
    Try,
    While,
    below,
)

# What a step does, as far as its order matters: what it touches, whom it asks, what it holds up.
#
# | a step is kept in order when it             | others behind it            |
# |---------------------------------------------|-----------------------------|
# | prints, spawns, asks a person               | may start before it         |
# | writes, posts, runs commands, is unknown    | wait if they conflict       |
# | asks an agent with a breaker or a rate limit| may start before it         |
# | opens a session or another budget           | wait if they are inside     |
# | sleeps, looks at the budget, links, monitors| wait: it is a barrier       |
#
# A process that remembers answers one ask after another, in the order of the program.


class StepAction(Struct, frozen=True):
    """`order` says why it is kept in order. `agents` are who remembers what it asks them through
    `handles`. `barrier` is what it is called where others wait for it."""

    effects: EffectSet = NO_EFFECTS
    order: str = ""
    lasts: bool = True
    later: bool = False
    agents: frozenset[str] = frozenset()
    handles: frozenset[int] | None = None
    barrier: str = ""


PAUSES = ("process::sleep", "process::yield", "budget::", "link")
_READERS = ("file::", "http::get")
_BRIEF = ("budget::", "trace::", "time::now", "process::self", "process::yield", "print", "link")


def library_action(name: str, effects: EffectSet) -> StepAction:
    lasts = not name.startswith(_BRIEF)
    if name.startswith(PAUSES):
        return StepAction(effects, f"in order: {name}", lasts, barrier=name)
    if name == "print":
        return StepAction(effects, "in order: it prints", lasts)
    if effects.asks_people:
        return StepAction(effects, "in order: it asks a person", lasts)
    if is_irrevocable_effect(effects):
        return StepAction(effects, f"in order: it {irrevocable_text(effects)}", lasts)
    return StepAction(effects, "" if name.startswith(_READERS) else f"in order: {name}", lasts)


def ask_action(
    asked: Sequence[AgentSpec],
    effects: EffectSet,
    handles: frozenset[int] | None,
    agents: "AgentFacts",
) -> StepAction:
    """`asked` are whom it may be; none is in `agents` of the act when a name is asked, of which
    each ask is its own process, or when they do not remember and so answer many at once."""
    whom = frozenset(spec.name for spec in asked if spec.memory)
    return StepAction(effects, _order_of(effects, agents), agents=whom, handles=handles)


class AgentFacts(Struct, frozen=True):
    """Of the whole program; `pausing` are those with a tool that pauses or looks at the budget."""

    specs: dict[str, AgentSpec]
    pausing: frozenset[str]


def _order_of(effects: EffectSet, agents: AgentFacts) -> str:
    if is_irrevocable_effect(effects):
        return f"in order: it {irrevocable_text(effects)}"
    for name in sorted(effects.sends):
        spec = agents.specs[name]
        if spec.circuit_breaker is not None:
            return f"in order: {name} has a circuit breaker"
        if spec.rate_limit is not None:
            return f"in order: {name} has a rate limit"
        if name in agents.pausing:
            return f"in order: a tool of {name} pauses or looks at the budget"
    return "in order: its tools ask or print" if effects.asks_people or effects.prints else ""


def is_irrevocable_effect(effects: EffectSet) -> bool:
    """What it does cannot be taken back."""
    return bool(
        effects.writes or effects.posts or effects.commands or effects.servers or effects.unknown
    )


_STRONG = {
    "writes": "writes {}",
    "posts": "sends to {}",
    "commands": "runs {}",
    "servers": "uses {}",
    "unknown": "does {}",
}


def irrevocable_text(effects: EffectSet) -> str:
    texts = [
        text.format(_few(getattr(effects, name)))
        for name, text in _STRONG.items()
        if getattr(effects, name)
    ]
    return ", ".join(texts)


def _few(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and more" if rest else first


def clash(one: StepAction, other: StepAction) -> str:
    """What the two cannot do in another order; empty when they can."""
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
            return f"conflicts with all: {irrevocable_text(strong)}"
    return f"conflicts over {_shared(one.effects, other.effects)}"


def _shared(one: EffectSet, other: EffectSet) -> str:
    count_steps(8)
    pairs = [(mine, theirs) for mine in one.writes for theirs in other.reads | other.writes]
    pairs += [(mine, theirs) for mine in other.writes for theirs in one.reads]
    return _few({mine for mine, theirs in pairs if paths_touch(mine, theirs)})


def may_be_one(one: StepAction, other: StepAction) -> bool:
    """Whether both may ask the same process."""
    if not one.agents & other.agents:
        return False
    if one.handles is None or other.handles is None or one.handles & other.handles:
        return True
    return min(one.handles | other.handles, default=0) < 0


# The notes of a walk: every step, and the links between them, each with its reason.
#
# Sets of steps are numbers, a bit for each.


def bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True)
class StepEntry:
    """`before` is all that it waits for, through others too; `waits`: for a value, or for a round
    before."""

    step: DataflowStep
    act: StepAction
    before: int = 0
    waits: bool = False


@dataclass(slots=True)
class GraphBuilder:
    """Links only grow, so a loop may be walked as often as one likes."""

    entries: list[StepEntry] = field(default_factory=list)
    _links: dict[tuple[int, int, LinkKind, int | None], str] = field(default_factory=dict)

    def link(
        self, before: int, after: int, why: LinkKind, text: str, round_of: int | None = None
    ) -> None:
        count_steps()
        key = before, after, why, round_of
        if why is LinkKind.NEEDS:
            names = {*self._links.get(key, "").split(", "), text} - {""}
            text = ", ".join(sorted(names))
        self._links[key] = text
        entries = self.entries[after]
        entries.waits |= why is LinkKind.NEEDS or round_of is not None
        if round_of is None and before != after:
            entries.before |= self.entries[before].before | 1 << before

    def order(self, number: int, passed: int, text: str) -> None:
        """After all that the program has passed when it comes here."""
        known = self.entries[number].before | 1 << number
        for before in bits(self._last_of(passed) & ~known):
            self.link(before, number, LinkKind.ORDER, text)

    def _last_of(self, mask: int) -> int:
        """Those that no other of them waits for."""
        covered = 0
        count_steps(mask.bit_count() // 4)
        for one in bits(mask):
            covered |= self.entries[one].before
        return mask & ~covered

    def beside(self, number: int, seen: int, passed: int) -> None:
        """What it may not overtake of what it has seen."""
        for before in self._rivals(number, seen):
            self._link_same(before, number)
            text = self._clash(before, number)
            if text and self.entries[before].act.later:
                self.order(number, passed, text)
            elif text:
                self.link(before, number, LinkKind.CONFLICT, text)

    def _rivals(self, number: int, among: int) -> Iterator[int]:
        act = self.entries[number].act
        for before in bits(among & ~(1 << number)):
            count_steps()
            other = self.entries[before].act
            if (
                is_irrevocable_effect(act.effects)
                or is_irrevocable_effect(other.effects)
                or act.agents & other.agents
            ):
                yield before

    def _clash(self, before: int, number: int) -> str:
        one, other = self.entries[before], self.entries[number]
        return clash(one.act, other.act) if one.step.lasts and other.step.lasts else ""

    def _link_same(self, before: int, number: int, round_of: int | None = None) -> None:
        if may_be_one(self.entries[before].act, self.entries[number].act):
            self.link(before, number, LinkKind.SAME, "same process", round_of)

    def carry(self, loop: int, body: int) -> None:
        """What a round of the loop waits for of the round before."""
        last = self._last_of(sum(1 << one for one in bits(body) if self._holds_up(one)))
        bars = [one for one in bits(body) if self.entries[one].act.barrier]
        for number in bits(body):
            text = self.entries[number].step.order
            for before in bits(last) if text else ():
                self.link(before, number, LinkKind.ORDER, text, loop)
            for before in (*self._rivals(number, body), number):
                self._carry_rival(before, number, loop, body)
            for before in bars:
                self.link(before, number, LinkKind.BARRIER, self.barrier_text(before), loop)

    def _carry_rival(self, before: int, number: int, loop: int, body: int) -> None:
        if not all(self._is_fresh(one, loop, body) for one in (before, number)):
            self._link_same(before, number, loop)
        text = self._clash(before, number)
        if text and not self.entries[before].act.later:
            self.link(before, number, LinkKind.CONFLICT, text, loop)

    def _holds_up(self, number: int) -> bool:
        entries = self.entries[number]
        return not entries.act.later and not entries.step.rare

    def _is_fresh(self, number: int, loop: int, body: int) -> bool:
        """Whether the process it asks is another one in every round."""
        made = self.entries[number].act.handles or frozenset()
        return bool(made) and all(body >> one & 1 if one >= 0 else one == ~loop for one in made)

    def barrier_text(self, number: int) -> str:
        entries = self.entries[number]
        return f"barrier: {entries.act.barrier} at line {entries.step.line}"

    def done(self) -> tuple[tuple[DataflowStep, ...], tuple[DataflowLink, ...]]:
        links = tuple(
            DataflowLink(before, after, why, _spelled(why, text), round_of)
            for (before, after, why, round_of), text in self._links.items()
        )
        return tuple(entries.step for entries in self.entries), links


def _spelled(why: LinkKind, text: str) -> str:
    if why is not LinkKind.NEEDS:
        return text
    return f"needs {text}" if text else "needs its answer"


# What stands in a piece of the tree before it is walked: whether it acts, how it may leave.


_SPECIAL = ("print", "budget::", "link")


def is_step(callee: Callee, doing: frozenset[str]) -> bool:
    """Whether a call is a step of its own."""
    match callee.kind:
        case CalleeKind.RECORD:
            return False
        case CalleeKind.FUNCTION:
            return callee.name in doing
        case CalleeKind.LIBRARY:
            function = LIBRARY[callee.name]
            return function.kind == "host" or callee.name.startswith(_SPECIAL)
        case CalleeKind.TOOL | CalleeKind.MCP | CalleeKind.PYTHON:
            return True


class ControlPoints(Struct, frozen=True):
    """Offsets in one file, sorted: of what acts, of what may end the function, of what may leave
    the round of a loop."""

    acts: list[int]
    ends: list[int]
    leaves: list[int]

    def acts_in(self, *nodes: Node | None) -> bool:
        return any(_any_in(self.acts, node) for node in nodes)

    def ends_in(self, *nodes: Node | None) -> bool:
        return any(_any_in(self.ends, node) for node in nodes)

    def leaves_in(self, *nodes: Node | None) -> bool:
        """By a `break` or `continue` of a loop outside."""
        return any(isinstance(one, Break | Continue) for one in self._in_this_round(nodes))

    def breaks_in(self, *nodes: Node | None) -> bool:
        return any(isinstance(one, Break) for one in self._in_this_round(nodes))

    def _in_this_round(self, nodes: tuple[Node | None, ...]) -> list[Node]:
        due: list[object] = [node for node in nodes if _any_in(self.leaves, node)]
        found: list[Node] = []
        while due:
            one = due.pop()
            if isinstance(one, tuple):
                due.extend(one)  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(one, Node):
                found.append(one)
                if not isinstance(one, For | While):
                    due.extend(getattr(one, name) for name in one.__struct_fields__[2:])
        return found

    def always_ends(self, block: Block) -> bool:
        """Whether nothing behind it runs unless something in it fails."""
        return self.ends_in(block) and any(self._ends(stmt) for stmt in block.body)

    def _ends(self, stmt: Stmt) -> bool:
        match stmt:
            case Return():
                return True
            case ExprStmt(value=Call(at=at)):
                return _is_one(self.ends, at)
            case If(then=then, other=Block() as other):
                return self.always_ends(then) and self.always_ends(other)
            case Block():
                return self.always_ends(stmt)
            case Session(body=body) | Try(body=body):
                return self.always_ends(body)
            case _:
                return False


def _any_in(places: list[int], node: Node | None) -> bool:
    if node is None:
        return False
    first = bisect_left(places, node.at)
    return first < len(places) and places[first] < node.end


def _is_one(places: list[int], at: int) -> bool:
    first = bisect_left(places, at)
    return first < len(places) and places[first] == at


def places_in(checked: Checked, unit: Unit, doing: frozenset[str]) -> ControlPoints:
    acts, ends, leaves = list[int](), list[int](), list[int]()
    for node in below(unit.source):
        match node:
            case Ask() | Spawn():
                acts.append(node.at)
            case Return():
                ends.append(node.at)
            case Break() | Continue():
                leaves.append(node.at)
            case Call() if (callee := checked.callees.get(id(node))) is not None:
                if is_step(callee, doing):
                    acts.append(node.at)
                if callee.kind is CalleeKind.LIBRARY and callee.name in ENDS:
                    ends.append(node.at)
            case _:
                pass
    return ControlPoints(sorted(acts), sorted(ends), sorted(leaves))
