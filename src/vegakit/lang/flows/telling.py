"""A flow as it is told: in the order of the program, with no more than explains it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from vegakit.lang.flows.records import Flow, FlowLink, FlowStep, LinkKind, Rounds, StepKind

__all__ = ["ToldStep", "deciding_links", "side_by_side", "told_steps"]

_NEEDS = "needs "
_OF_BLOCKS = (LinkKind.NEEDS, LinkKind.DECIDED, LinkKind.CONFLICT)


class ToldStep(Struct, frozen=True):
    """A step to show below `parent`. `wave` counts from 1; None: it takes no time, or only runs
    after a failure. `rounds` says how it repeats: `at once`, `in turn`, or empty."""

    step: int
    parent: int | None
    wave: int | None
    rounds: str
    notes: tuple[str, ...]


def told_steps(flow: Flow) -> tuple[ToldStep, ...]:
    waves = {one: number for number, wave in enumerate(flow.waves, 1) for one in wave}
    hidden = _hidden(flow.steps)
    why = deciding_links(flow)
    return tuple(
        ToldStep(
            step.id,
            step.parent,
            waves.get(step.id),
            _repeats(flow, step),
            tuple(_notes(flow, step, why[step.id])),
        )
        for step in flow.steps
        if step.id not in hidden
    )


def _hidden(steps: Sequence[FlowStep]) -> set[int]:
    """What stands in a block where nothing lasts, and handlers of that kind."""
    busy = _holding(steps, lambda step: step.lasts)
    hidden: set[int] = set()
    for step in steps:
        is_idle = step.parent is not None and step.parent not in busy
        is_brief = step.rare and not step.lasts and step.id not in busy
        if is_idle or is_brief or step.parent in hidden:
            hidden.add(step.id)
    return hidden


def _holding(steps: Sequence[FlowStep], wanted: Callable[[FlowStep], bool]) -> set[int]:
    found: set[int] = set()
    for step in steps:
        parent = step.parent if wanted(step) else None
        while parent is not None and parent not in found:
            found.add(parent)
            parent = steps[parent].parent
    return found


def _repeats(flow: Flow, step: FlowStep) -> str:
    """Of a step that lasts, by the loops it stands in."""
    around = {*_around(flow.steps, step)}
    loops = [rounds for rounds in flow.rounds if rounds.loop in around] if step.lasts else []
    if any(step.id in rounds.serial for rounds in loops):
        return "in turn"
    return "at once" if loops else ""


def _around(steps: Sequence[FlowStep], step: FlowStep) -> Iterator[int]:
    while step.parent is not None:
        yield step.parent
        step = steps[step.parent]


def _notes(flow: Flow, step: FlowStep, why: Sequence[FlowLink]) -> Iterator[str]:
    if step.kind is StepKind.LOOP:
        yield from (_rounds(flow.steps, each) for each in flow.rounds if each.loop == step.id)
    if step.kind in (StepKind.PRINT, StepKind.SPAWN):
        return
    if step.barrier and not step.rare:
        yield "barrier: nothing behind it starts early"
    elif step.order and step.lasts and not step.rare:
        yield step.order
    else:
        yield from _merged(link.text for link in why if step.lasts or link.why in _OF_BLOCKS)
    if _prints_only(flow.steps, step):
        yield "prints in order"


def _rounds(steps: Sequence[FlowStep], rounds: Rounds) -> str:
    if rounds.at_once:
        return "every round at once"
    if rounds.one_by_one:
        return f"one round after another: {rounds.because}"
    lines = ", ".join(dict.fromkeys(str(steps[one].line) for one in rounds.serial))
    return f"rounds overlap, line {lines} one after another: {rounds.because}"


def _prints_only(steps: Sequence[FlowStep], step: FlowStep) -> bool:
    inside = [each for each in steps if step.id in _around(steps, each)]
    prints = any(each.kind is StepKind.PRINT for each in inside)
    return prints and not any(each.lasts for each in inside)


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


def deciding_links(flow: Flow) -> list[list[FlowLink]]:
    """For each step the links that decide when it starts: not those that follow from others, nor
    the blocks it stands in."""
    best: list[dict[int, FlowLink]] = [{} for _ in flow.steps]
    for link in flow.links:
        if link.round_of is None and link.before != link.after and not _is_moot(flow.steps, link):
            best[link.after].setdefault(link.before, link)
    behind = _behind(best)
    return [_reduced(flow.steps, step, best[step.id], behind) for step in flow.steps]


def _is_moot(steps: Sequence[FlowStep], link: FlowLink) -> bool:
    return steps[link.before].rare and not steps[link.after].rare


def _behind(before: Sequence[dict[int, FlowLink]]) -> list[int]:
    """All that each waits for, as bits; a test of a loop comes after the loop in number."""
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
    steps: Sequence[FlowStep], step: FlowStep, direct: dict[int, FlowLink], behind: Sequence[int]
) -> list[FlowLink]:
    implied, around = 0, {*_around(steps, step)}
    for one in direct:
        implied |= behind[one]
    return [link for one, link in direct.items() if not implied >> one & 1 and one not in around]


def side_by_side(flow: Flow) -> tuple[tuple[int, ...], ...]:
    """The waves in which several steps, or several rounds of one, run at once."""
    return tuple(
        wave
        for wave in flow.waves
        if len(wave) > 1 or any(_repeats(flow, flow.steps[one]) == "at once" for one in wave)
    )
