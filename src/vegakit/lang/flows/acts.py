"""What a step does, as far as its order matters: what it touches, whom it asks, what it holds up.

| a step is kept in order when it             | others behind it            |
|---------------------------------------------|-----------------------------|
| prints, spawns, asks a person               | may start before it         |
| writes, posts, runs commands, is unknown    | wait if they conflict       |
| asks an agent with a breaker or a rate limit| may start before it         |
| opens a session or another budget           | wait if they are inside     |
| sleeps, looks at the budget, links, monitors| wait: it is a barrier       |

A process that remembers answers one ask after another, in the order of the program.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.rows import NOTHING_TOUCHED, Effects, conflict, paths_touch
from vegakit.lang.steps import took

__all__ = [
    "PAUSES",
    "Act",
    "Agents",
    "ask_act",
    "clash",
    "is_strong",
    "library_act",
    "may_be_one",
    "strong_words",
]


class Act(Struct, frozen=True):
    """`order` says why it is kept in order. `agents` are who remembers what it asks them through
    `handles`. `barrier` is what it is called where others wait for it."""

    row: Effects = NOTHING_TOUCHED
    order: str = ""
    lasts: bool = True
    later: bool = False
    agents: frozenset[str] = frozenset()
    handles: frozenset[int] | None = None
    barrier: str = ""


PAUSES = ("process::sleep", "process::yield", "budget::", "link")
_READERS = ("file::", "http::get")
_BRIEF = ("budget::", "trace::", "time::now", "process::self", "process::yield", "print", "link")


def library_act(name: str, row: Effects) -> Act:
    lasts = not name.startswith(_BRIEF)
    if name.startswith(PAUSES):
        return Act(row, f"in order: {name}", lasts, barrier=name)
    if name == "print":
        return Act(row, "in order: it prints", lasts)
    if row.asks_people:
        return Act(row, "in order: it asks a person", lasts)
    if is_strong(row):
        return Act(row, f"in order: it {strong_words(row)}", lasts)
    return Act(row, "" if name.startswith(_READERS) else f"in order: {name}", lasts)


def ask_act(
    asked: Sequence[AgentSpec],
    row: Effects,
    handles: frozenset[int] | None,
    agents: "Agents",
) -> Act:
    """`asked` are whom it may be; none is in `agents` of the act when a name is asked, of which
    each ask is its own process, or when they do not remember and so answer many at once."""
    whom = frozenset(spec.name for spec in asked if spec.memory)
    return Act(row, _order_of(row, agents), agents=whom, handles=handles)


class Agents(Struct, frozen=True):
    """Of the whole program; `pausing` are those with a tool that pauses or looks at the budget."""

    specs: dict[str, AgentSpec]
    pausing: frozenset[str]


def _order_of(row: Effects, agents: Agents) -> str:
    if is_strong(row):
        return f"in order: it {strong_words(row)}"
    for name in sorted(row.sends):
        spec = agents.specs[name]
        if spec.circuit_breaker is not None:
            return f"in order: {name} has a circuit breaker"
        if spec.rate_limit is not None:
            return f"in order: {name} has a rate limit"
        if name in agents.pausing:
            return f"in order: a tool of {name} pauses or looks at the budget"
    return "in order: its tools ask or print" if row.asks_people or row.prints else ""


def is_strong(row: Effects) -> bool:
    """What it does cannot be taken back."""
    return bool(row.writes or row.posts or row.commands or row.servers or row.unknown)


_STRONG = {
    "writes": "writes {}",
    "posts": "sends to {}",
    "commands": "runs {}",
    "servers": "uses {}",
    "unknown": "does {}",
}


def strong_words(row: Effects) -> str:
    told = [
        text.format(_few(getattr(row, name)))
        for name, text in _STRONG.items()
        if getattr(row, name)
    ]
    return ", ".join(told)


def _few(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and more" if rest else first


def clash(one: Act, other: Act) -> str:
    """What the two cannot do in another order; empty when they can."""
    if not conflict(one.row, other.row):
        return ""
    for row in (one.row, other.row):
        if row.posts or row.commands or row.servers or row.unknown:
            strong = Effects(
                posts=row.posts, commands=row.commands, servers=row.servers, unknown=row.unknown
            )
            return f"conflicts with all: {strong_words(strong)}"
    return f"conflicts over {_shared(one.row, other.row)}"


def _shared(one: Effects, other: Effects) -> str:
    took(8)
    pairs = [(mine, theirs) for mine in one.writes for theirs in other.reads | other.writes]
    pairs += [(mine, theirs) for mine in other.writes for theirs in one.reads]
    return _few({mine for mine, theirs in pairs if paths_touch(mine, theirs)})


def may_be_one(one: Act, other: Act) -> bool:
    """Whether both may ask the same process."""
    if not one.agents & other.agents:
        return False
    if one.handles is None or other.handles is None or one.handles & other.handles:
        return True
    return min(one.handles | other.handles, default=0) < 0
