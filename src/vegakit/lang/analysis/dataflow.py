"""The dataflow graph: steps, links that say what waits for what and why, what runs side by side,
and the part of it that is shown (pure).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

# What a flow is made of: steps, links that say what waits for what and why, and the order.


class StepKind(StrEnum):
    """The kinds of steps and of blocks that hold steps."""

    SEND = "send"
    SPAWN = "spawn"
    CALL = "call"  # of the library, at the host
    TOOL = "tool"
    FUNCTION = "function"
    PRINT = "print"
    LOOP = "loop"
    BRANCH = "branch"
    TRY = "try"
    HANDLER = "handler"
    SESSION = "session"
    PARALLEL = "parallel"
    MONITOR = "monitor"


class LinkKind(StrEnum):
    """The first is told where there are several."""

    NEEDS = "needs"
    CONFLICT = "conflict"
    SAME = "same process"
    BARRIER = "barrier"
    DECIDED = "decided"
    ORDER = "order"


class DataflowStep(Struct, frozen=True):
    """`parent` is the loop, branch or other block it stands in. `order` says why it is kept in the
    order of the program; empty: it may start early. `lasts` is of what takes time; `later` of what
    is started and not waited for; `rare` of what runs only after a failure or an exit; nothing
    behind a `barrier` starts before it is done. With its `column` it is the place of a call as
    bytecode has it."""

    id: int
    kind: StepKind
    what: str
    file: str
    line: int
    parent: int | None = None
    order: str = ""
    lasts: bool = False
    later: bool = False
    rare: bool = False
    barrier: bool = False
    column: int = 0


class DataflowLink(Struct, frozen=True):
    """`after` waits for `before` of the same round, or of an earlier one of the loop `round_of`.
    `begun`: of the last of those rounds only until the program comes to a send in it that has a
    budget of its own. `turns`: whichever comes second waits, and which that is only the run
    decides; it is told of the second in the text."""

    before: int
    after: int
    why: LinkKind
    text: str
    round_of: int | None = None
    begun: bool = False
    turns: bool = False


class LoopSchedule(Struct, frozen=True):
    """The order of the rounds of a loop: those of `serial` steps come one after another, because
    of what `because` says; those of all others at once."""

    loop: int
    serial: tuple[int, ...]
    because: str
    at_once: bool
    one_by_one: bool


class DataflowGraph(Struct, frozen=True):
    """The graph of one function, if nothing fails. `waves[n]` are the steps that may run side by
    side when those of all waves before are done; `chain` is the longest row of steps that wait
    for each other. A call of another function counts as one step. Of a function that is
    `too_large` nothing else is known."""

    name: str
    file: str
    line: int
    steps: tuple[DataflowStep, ...]
    links: tuple[DataflowLink, ...]
    waves: tuple[tuple[int, ...], ...]
    chain: tuple[int, ...]
    rounds: tuple[LoopSchedule, ...]
    too_large: bool = False


# From steps and links: what runs side by side, the longest chain, and how rounds lie.


_BARE = frozenset(
    (
        StepKind.BRANCH,
        StepKind.TRY,
        StepKind.SESSION,
        StepKind.PARALLEL,
        StepKind.LOOP,
        StepKind.HANDLER,
    )
)
_RANK = {why: rank for rank, why in enumerate(LinkKind)}


def ordered(
    name: str, file: str, line: int, steps: Sequence[DataflowStep], links: Sequence[DataflowLink]
) -> DataflowGraph:
    """Return the graph of these steps and links."""
    kept, linked = _pruned(steps, links)
    before = _before(kept, linked)
    starts = _starts(kept, before)
    return DataflowGraph(
        name,
        file,
        line,
        tuple(kept),
        tuple(linked),
        _waves(kept, starts),
        _chain(kept, before, starts),
        tuple(_rounds(kept, linked)),
    )


def _pruned(
    steps: Sequence[DataflowStep], links: Sequence[DataflowLink]
) -> tuple[list[DataflowStep], list[DataflowLink]]:
    """Drop blocks that hold nothing and that nothing waits for, and number the rest as they
    stand in the text, from 0."""
    alive = {step.id: step for step in steps}
    while True:
        used = {step.parent for step in alive.values()}
        used |= {link.before for link in links if link.after in alive and link.after != link.before}
        idle = [n for n, step in alive.items() if step.kind in _BARE and n not in used]
        if not idle:
            break
        for number in idle:
            del alive[number]
    numbers, there = {old: new for new, old in enumerate(alive)}, {*alive, None}
    kept = [_renumbered(step, numbers) for step in alive.values()]
    linked = [
        DataflowLink(
            numbers[link.before],
            numbers[link.after],
            link.why,
            link.text,
            None if link.round_of is None else numbers[link.round_of],
            link.begun,
            link.turns,
        )
        for link in links
        if {link.before, link.after, link.round_of} <= there
    ]
    return kept, sorted(linked, key=_place_of)


def _place_of(link: DataflowLink) -> tuple[int, int, int, int]:
    return link.after, _RANK[link.why], link.before, -1 if link.round_of is None else link.round_of


def _renumbered(step: DataflowStep, numbers: dict[int, int]) -> DataflowStep:
    parent = None if step.parent is None else numbers[step.parent]
    return replace(step, id=numbers[step.id], parent=parent)


def _before(steps: Sequence[DataflowStep], links: Iterable[DataflowLink]) -> list[set[int]]:
    """Return what each step waits for in its own round, if nothing fails. What waits for a loop to
    be decided, from outside, waits for what decides in it whether there is another round."""
    found: list[set[int]] = [set() for _ in steps]
    decides: dict[int, set[int]] = {}
    for link in links:
        if link.before == link.after or (steps[link.before].rare and not steps[link.after].rare):
            continue
        if link.round_of is None:
            found[link.after].add(link.before)
        elif link.round_of == link.after:
            decides.setdefault(link.after, set()).add(link.before)
    for step in steps:
        for loop in decides.keys() & found[step.id]:
            if loop not in _around(steps, step):
                found[step.id] |= decides[loop]
    return found


def _starts(steps: Sequence[DataflowStep], before: Sequence[set[int]]) -> list[int]:
    """Return how many lasting steps have to be done one after another before each. Steps do not
    wait for themselves, but a fault of the walk that told so must not keep this from its end."""
    starts: list[int | None] = [None] * len(steps)
    opened: set[int] = set()
    for root in range(len(steps)):
        due = [root]
        while due:
            one = due[-1]
            open_ = [other for other in before[one] if starts[other] is None]
            if open_ and one not in opened:
                opened.add(one)
                due += open_
                continue
            due.pop()
            ends = (_end(steps[other], starts[other] or 0) for other in before[one])
            starts[one] = max(ends, default=0)
    return [start or 0 for start in starts]


def _end(step: DataflowStep, start: int) -> int:
    return start + step.lasts


def _waves(steps: Sequence[DataflowStep], starts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    waves: dict[int, list[int]] = {}
    for step in steps:
        if step.lasts and not step.rare:
            waves.setdefault(starts[step.id], []).append(step.id)
    return tuple(tuple(waves[start]) for start in sorted(waves))


def _chain(
    steps: Sequence[DataflowStep], before: Sequence[set[int]], starts: Sequence[int]
) -> tuple[int, ...]:
    lasting = [step.id for step in steps if step.lasts and not step.rare]
    if not lasting:
        return ()
    at = max(lasting, key=lambda number: (starts[number], -number))
    chain, seen = [at] if steps[at].lasts else [], {at}
    while True:
        ends = {one: _end(steps[one], starts[one]) for one in before[at] - seen}
        if not ends or max(ends.values()) == 0:
            break
        at = max(ends, key=lambda one: (ends[one], one))
        seen.add(at)
        if steps[at].lasts:
            chain.append(at)
    return tuple(reversed(chain))


def _rounds(steps: Sequence[DataflowStep], links: Sequence[DataflowLink]) -> Iterable[LoopSchedule]:
    inside: list[list[int]] = [[] for _ in steps]
    for step in steps:
        for loop in _around(steps, step):
            inside[loop].append(step.id)
    to: list[list[DataflowLink]] = [[] for _ in steps]
    for link in links:
        to[link.after].append(link)
    for loop in steps:
        if loop.kind is StepKind.LOOP and not loop.rare:
            body = inside[loop.id]
            if any(steps[one].lasts for one in body):
                among = {loop.id, *body}
                within = [link for one in sorted(among) for link in to[one] if link.before in among]
                yield _rounds_of(steps, within, loop.id, body)


def _rounds_of(
    steps: Sequence[DataflowStep], links: Sequence[DataflowLink], loop: int, body: Sequence[int]
) -> LoopSchedule:
    """A step waits for itself in the round before when there is a circle through it. Sets of steps
    are numbers, a bit for each."""
    inner = [
        link
        for link in links
        if link.round_of in (None, loop)
        and not (steps[link.before].rare and not steps[link.after].rare)
    ]
    ends = [(link.before, link.after) for link in inner]
    reach, back = _reach(ends), _reach([(after, before) for before, after in ends])
    lasting = sum(1 << one for one in body if steps[one].lasts and not steps[one].rare)
    circles = [
        link
        for link in inner
        if link.round_of is not None and lasting & reach[link.after] & back[link.before]
    ]
    serial = 0
    for link in circles:
        serial |= reach[link.after] & lasting
    same = _reach([(link.before, link.after) for link in inner if link.round_of is None])
    because = _reason(steps, circles, same)
    return LoopSchedule(
        loop,
        tuple(one for one in sorted(body) if serial >> one & 1),
        "" if because is None else round_reason(because, steps),
        at_once=not serial,
        one_by_one=bool(serial) and serial == lasting,
    )


_REASON_ORDER = (
    LinkKind.NEEDS,
    LinkKind.BARRIER,
    LinkKind.CONFLICT,
    LinkKind.SAME,
    LinkKind.DECIDED,
    LinkKind.ORDER,
)


def _reason(
    steps: Sequence[DataflowStep], circles: Sequence[DataflowLink], reach: Mapping[int, int]
) -> DataflowLink | None:
    """One that makes a circle alone is told rather than one that does with others."""
    alone = [
        link
        for link in circles
        if link.before == link.after or reach.get(link.after, 0) >> link.before & 1
    ]

    def rank(link: DataflowLink) -> tuple[int, bool, int]:
        return _REASON_ORDER.index(link.why), not steps[link.before].lasts, link.before

    return min(alone or circles, key=rank, default=None)


def _reach(links: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return for each step of these links, as bits, itself and all that it leads to. Most links
    lead on in the order of the steps, so nearly all is found when they are gone through once."""
    reach = {one: 1 << one for link in links for one in link}
    forward = sum(1 if before < after else -1 for before, after in links) >= 0
    from_: dict[int, list[int]] = {one: [] for one in sorted(reach, reverse=forward)}
    for before, after in links:
        from_[before].append(after)
    changed = True
    while changed:
        changed = False
        for one, others in from_.items():
            mask = reach[one]
            for other in others:
                mask |= reach[other]
            changed |= mask != reach[one]
            reach[one] = mask
    return reach


def round_reason(link: DataflowLink, steps: Sequence[DataflowStep]) -> str:
    """Return why a round waits for the one before."""
    line = steps[link.before].line
    match link.why:
        case LinkKind.NEEDS | LinkKind.SAME | LinkKind.CONFLICT:
            return f"{link.text} (line {line})"
        case _:
            return link.text


# A flow as it is told: in the order of the program, with no more than explains it.


_NEEDS = "needs "
_OF_BLOCKS = (LinkKind.NEEDS, LinkKind.DECIDED, LinkKind.CONFLICT)


class ShownStep(Struct, frozen=True):
    """A step to show below `parent`. `wave` counts from 1; None: it takes no time, or only runs
    after a failure. `rounds` says how it repeats: `at once`, `in turn`, or empty."""

    step: int
    parent: int | None
    wave: int | None
    rounds: str
    notes: tuple[str, ...]


def shown_steps(graph: DataflowGraph) -> tuple[ShownStep, ...]:
    """Return the steps to show, in the order of the program, with why each waits."""
    waves = {one: number for number, wave in enumerate(graph.waves, 1) for one in wave}
    hidden = _hidden(graph.steps)
    why, repeats, prints = deciding_links(graph), _repeats(graph), _printing(graph.steps)
    rounds = {each.loop: _rounds_text(graph.steps, each) for each in graph.rounds}
    return tuple(
        ShownStep(
            step.id,
            step.parent,
            waves.get(step.id),
            repeats[step.id],
            tuple(_notes(step, why[step.id], rounds.get(step.id), prints=step.id in prints)),
        )
        for step in graph.steps
        if step.id not in hidden
    )


def _hidden(steps: Sequence[DataflowStep]) -> set[int]:
    """Return the steps in a block where nothing lasts, and handlers of that kind."""
    busy = _holding(steps, lambda step: step.lasts)
    hidden: set[int] = set()
    for step in steps:
        is_idle = step.parent is not None and step.parent not in busy
        is_brief = step.rare and not step.lasts and step.id not in busy
        if is_idle or is_brief or step.parent in hidden:
            hidden.add(step.id)
    return hidden


def _holding(steps: Sequence[DataflowStep], wanted: Callable[[DataflowStep], bool]) -> set[int]:
    found: set[int] = set()
    for step in steps:
        parent = step.parent if wanted(step) else None
        while parent is not None and parent not in found:
            found.add(parent)
            parent = steps[parent].parent
    return found


def _repeats(graph: DataflowGraph) -> list[str]:
    """Return how each step that lasts repeats, by the loops it stands in."""
    looped = {each.loop for each in graph.rounds}
    serial = {one for each in graph.rounds for one in each.serial}
    return [
        ("in turn" if step.id in serial else "at once")
        if step.lasts and not looped.isdisjoint(_around(graph.steps, step))
        else ""
        for step in graph.steps
    ]


def _around(steps: Sequence[DataflowStep], step: DataflowStep) -> Iterator[int]:
    while step.parent is not None:
        yield step.parent
        step = steps[step.parent]


def _notes(
    step: DataflowStep, why: Sequence[DataflowLink], rounds: str | None, *, prints: bool
) -> Iterator[str]:
    if rounds is not None:
        yield rounds
    if step.kind in (StepKind.PRINT, StepKind.SPAWN):
        return
    if step.barrier and not step.rare:
        yield "barrier: nothing behind it starts early"
    elif step.order and step.lasts and not step.rare:
        yield step.order
    else:
        yield from _merged(link.text for link in why if step.lasts or link.why in _OF_BLOCKS)
    if prints:
        yield "prints in order"


def _rounds_text(steps: Sequence[DataflowStep], rounds: LoopSchedule) -> str:
    if rounds.at_once:
        return "every round at once"
    if rounds.one_by_one:
        return f"one round after another: {rounds.because}"
    lines = ", ".join(dict.fromkeys(str(steps[one].line) for one in rounds.serial))
    return f"rounds overlap, line {lines} one after another: {rounds.because}"


def _printing(steps: Sequence[DataflowStep]) -> set[int]:
    """Return the blocks in which something prints and nothing lasts."""
    prints = _holding(steps, lambda step: step.kind is StepKind.PRINT)
    return prints - _holding(steps, lambda step: step.lasts)


def _merged(texts: Iterable[str]) -> Iterator[str]:
    names: dict[str, None] = {}
    others: dict[str, None] = {}
    for text in texts:
        if text.startswith(_NEEDS):
            names |= dict.fromkeys(text.removeprefix(_NEEDS).split(", "))
        else:
            others[text] = None
    if names:
        yield _NEEDS + ", ".join(names)
    yield from others


def deciding_links(graph: DataflowGraph) -> list[list[DataflowLink]]:
    """Return for each step the links that decide when it starts: not those that follow from
    others, nor the blocks it stands in."""
    best: list[dict[int, DataflowLink]] = [{} for _ in graph.steps]
    for link in graph.links:
        if link.round_of is None and link.before != link.after and not _is_moot(graph.steps, link):
            best[link.after].setdefault(link.before, link)
    behind = _behind(best)
    return [_reduced(graph.steps, step, best[step.id], behind) for step in graph.steps]


def _is_moot(steps: Sequence[DataflowStep], link: DataflowLink) -> bool:
    return steps[link.before].rare and not steps[link.after].rare


def _behind(before: Sequence[dict[int, DataflowLink]]) -> list[int]:
    """Return all that each waits for, as bits; a test of a loop comes after the loop in number."""
    masks = [0] * len(before)
    changed = True
    while changed:
        changed = False
        for at, direct in enumerate(before):
            mask = masks[at]
            for one in direct:
                mask |= masks[one] | 1 << one
            changed |= mask != masks[at]
            masks[at] = mask
    return masks


def _reduced(
    steps: Sequence[DataflowStep],
    step: DataflowStep,
    direct: dict[int, DataflowLink],
    behind: Sequence[int],
) -> list[DataflowLink]:
    implied, around = 0, {*_around(steps, step)}
    for one in direct:
        implied |= behind[one]
    return [link for one, link in direct.items() if not implied >> one & 1 and one not in around]


def side_by_side(graph: DataflowGraph) -> tuple[tuple[int, ...], ...]:
    """Return the waves in which several steps, or several rounds of one, run at once."""
    repeats = _repeats(graph)
    return tuple(
        wave
        for wave in graph.waves
        if len(wave) > 1 or any(repeats[one] == "at once" for one in wave)
    )
