"""From steps and links: what runs side by side, the longest chain, and how rounds lie."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from vegakit.lang.flows.records import Flow, FlowLink, FlowStep, LinkKind, Rounds, StepKind

__all__ = ["ordered", "telling"]

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
    name: str, file: str, line: int, steps: Sequence[FlowStep], links: Sequence[FlowLink]
) -> Flow:
    kept, linked = _pruned(steps, links)
    before = _before(kept, linked)
    starts = _starts(kept, before)
    return Flow(
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
    steps: Sequence[FlowStep], links: Sequence[FlowLink]
) -> tuple[list[FlowStep], list[FlowLink]]:
    """Without blocks that hold nothing and that nothing waits for; numbered as they stand in the
    text, from 0."""
    alive = {step.id: step for step in steps}
    while True:
        used = {step.parent for step in alive.values()}
        used |= {link.before for link in links if link.after in alive and link.after != link.before}
        idle = [n for n, step in alive.items() if step.kind in _BARE and n not in used]
        if not idle:
            break
        for number in idle:
            del alive[number]
    numbers = {old: new for new, old in enumerate(alive)}
    kept = [_renumbered(step, numbers) for step in alive.values()]
    linked = [
        FlowLink(
            numbers[link.before],
            numbers[link.after],
            link.why,
            link.text,
            None if link.round_of is None else numbers[link.round_of],
        )
        for link in links
        if {link.before, link.after, link.round_of} <= {*alive, None}
    ]
    return kept, sorted(linked, key=_place_of)


def _place_of(link: FlowLink) -> tuple[int, int, int, int]:
    return link.after, _RANK[link.why], link.before, -1 if link.round_of is None else link.round_of


def _renumbered(step: FlowStep, numbers: dict[int, int]) -> FlowStep:
    parent = None if step.parent is None else numbers[step.parent]
    return replace(step, id=numbers[step.id], parent=parent)


def _before(steps: Sequence[FlowStep], links: Iterable[FlowLink]) -> list[set[int]]:
    """What each waits for in its own round, if nothing fails."""
    found: list[set[int]] = [set() for _ in steps]
    for link in links:
        if link.round_of is not None or link.before == link.after:
            continue
        if steps[link.after].rare or not steps[link.before].rare:
            found[link.after].add(link.before)
    return found


def _starts(steps: Sequence[FlowStep], before: Sequence[set[int]]) -> list[int]:
    """How many lasting steps have to be done one after another before each."""
    starts: list[int | None] = [None] * len(steps)
    for root in range(len(steps)):
        due = [root]
        while due:
            one = due[-1]
            open_ = [other for other in before[one] if starts[other] is None]
            if open_ and starts[one] is None:
                due += open_
                continue
            due.pop()
            ends = (_end(steps[other], starts[other] or 0) for other in before[one])
            starts[one] = max(ends, default=0)
    return [start or 0 for start in starts]


def _end(step: FlowStep, start: int) -> int:
    return start + step.lasts


def _waves(steps: Sequence[FlowStep], starts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    waves: dict[int, list[int]] = {}
    for step in steps:
        if step.lasts and not step.rare:
            waves.setdefault(starts[step.id], []).append(step.id)
    return tuple(tuple(waves[start]) for start in sorted(waves))


def _chain(
    steps: Sequence[FlowStep], before: Sequence[set[int]], starts: Sequence[int]
) -> tuple[int, ...]:
    lasting = [step.id for step in steps if step.lasts and not step.rare]
    if not lasting:
        return ()
    at = max(lasting, key=lambda number: (starts[number], -number))
    chain = [at] if steps[at].lasts else []
    while True:
        ends = {one: _end(steps[one], starts[one]) for one in before[at]}
        if not ends or max(ends.values()) == 0:
            break
        at = max(ends, key=lambda one: (ends[one], one))
        if steps[at].lasts:
            chain.append(at)
    return tuple(reversed(chain))


def _rounds(steps: Sequence[FlowStep], links: Sequence[FlowLink]) -> Iterable[Rounds]:
    for loop in steps:
        if loop.kind is StepKind.LOOP and not loop.rare:
            body = {step.id for step in steps if _is_in(steps, step, loop.id)}
            if any(steps[one].lasts for one in body):
                yield _rounds_of(steps, links, loop.id, body)


def _is_in(steps: Sequence[FlowStep], step: FlowStep, loop: int) -> bool:
    while step.parent is not None:
        if step.parent == loop:
            return True
        step = steps[step.parent]
    return False


def _rounds_of(
    steps: Sequence[FlowStep], links: Sequence[FlowLink], loop: int, body: set[int]
) -> Rounds:
    """A step waits for itself in the round before when there is a circle through it."""
    inner = [
        link
        for link in links
        if {link.before, link.after} <= body | {loop}
        and link.round_of in (None, loop)
        and not (steps[link.before].rare and not steps[link.after].rare)
    ]
    reach = _reach(inner, body | {loop})
    lasting = {one for one in body if steps[one].lasts and not steps[one].rare}
    circles = [
        link for link in inner if link.round_of is not None and lasting & _circle(link, reach)
    ]
    serial: set[int] = set()
    for link in circles:
        serial |= (reach[link.after] | {link.after}) & lasting
    because = _reason(
        steps, circles, _reach([link for link in inner if link.round_of is None], body | {loop})
    )
    return Rounds(
        loop,
        tuple(sorted(serial)),
        "" if because is None else telling(because, steps),
        at_once=not serial,
        one_by_one=bool(serial) and serial == lasting,
    )


_TOLD = (
    LinkKind.NEEDS,
    LinkKind.BARRIER,
    LinkKind.CONFLICT,
    LinkKind.SAME,
    LinkKind.DECIDED,
    LinkKind.ORDER,
)


def _reason(
    steps: Sequence[FlowStep], circles: Sequence[FlowLink], reach: dict[int, set[int]]
) -> FlowLink | None:
    """One that makes a circle alone is told rather than one that does with others."""
    alone = [link for link in circles if link.before in reach[link.after] | {link.after}]

    def rank(link: FlowLink) -> tuple[int, bool, int]:
        return _TOLD.index(link.why), not steps[link.before].lasts, link.before

    return min(alone or circles, key=rank, default=None)


def _circle(link: FlowLink, reach: dict[int, set[int]]) -> set[int]:
    forth = reach[link.after] | {link.after}
    if link.before not in forth:
        return set()
    return {one for one in forth if one == link.before or link.before in reach[one]}


def _reach(links: Iterable[FlowLink], among: set[int]) -> dict[int, set[int]]:
    next_: dict[int, set[int]] = {one: set() for one in among}
    for link in links:
        next_[link.before].add(link.after)
    return {one: _from(one, next_) for one in among}


def _from(start: int, next_: dict[int, set[int]]) -> set[int]:
    found: set[int] = set()
    due = [start]
    while due:
        more = next_[due.pop()] - found
        found |= more
        due += more
    return found


def telling(link: FlowLink, steps: Sequence[FlowStep]) -> str:
    """LinkKind a round waits for the one before."""
    line = steps[link.before].line
    match link.why:
        case LinkKind.NEEDS | LinkKind.SAME | LinkKind.CONFLICT:
            return f"{link.text} (line {line})"
        case _:
            return link.text
