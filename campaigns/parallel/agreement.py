"""Whether `vega explain` and the run agree on what overlaps.

For two calls of one function of which the first has begun and ended in the run:

| explain tells that the second                 | in the run                                      |
|-----------------------------------------------|-------------------------------------------------|
| waits for the first, whichever way it goes    | it never begins before the first has ended      |
| waits for the first, if the program goes one  | as above, or the program went another way:      |
| of several ways                               | these are counted as `overtaken`                |
| takes turns with the first                    | they never overlap, whichever begins            |
| is beside the first                           | it begins no later than the last of what it is  |
|                                               | told to wait for has ended                      |

The last row is held where money, the window and slots are enough and nothing has failed so far.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from campaigns.parallel.flights import Flight, Flights, Place, Site
from campaigns.parallel.told import Told, Wait, is_sure, shown
from vegakit.lang import DataflowLink, DataflowStep, StepKind

__all__ = ["Agreement", "Disagreement", "agreement"]

_EPSILON = 1e-6


class Disagreement(NamedTuple):
    """`kind` is `overlap` where they shall wait, `late` where they shall not, and `circle` where
    what is told cannot be."""

    kind: str
    line: int
    what: str


@dataclass
class Agreement:
    """`waited` and `beside` are pairs of calls that did as they were told. `overtaken` says why
    others were not held to it, and `untold` why a call was held to nothing. `on_time` are calls
    that began when all they are told to wait for had ended, and `again` others that did too, but
    were given up after a failure and made again."""

    found: list[Disagreement] = field(default_factory=list[Disagreement])
    waited: int = 0
    beside: int = 0
    on_time: int = 0
    again: int = 0
    overtaken: Counter[str] = field(default_factory=Counter[str])
    untold: Counter[str] = field(default_factory=Counter[str])


@dataclass
class _Call:
    """What one step did in one round: a call, or a function with all that it called. `first` is
    when it began first, if it was given up and made again. `last` is of how many of the loops
    around it this is the last round, counted from the outermost, and `rounds_left` how many rounds
    of each loop come after this one in the same rounds of those around it."""

    step: int
    rounds: tuple[int, ...]
    began: float
    ended: float
    inside: "_Frame | None" = None
    ready: float = -1.0
    first: float = -1.0
    rounds_left: tuple[int, ...] = ()


@dataclass
class _Frame:
    """One call of a function."""

    function: str
    calls: list[_Call] = field(default_factory=list[_Call])


class _Run:
    """The calls of one run beside what is told of them."""

    def __init__(
        self,
        told: Mapping[str, Told],
        sure: Callable[[bool], Mapping[str, Told]],
        entered: Callable[[], Mapping[str, Told]],
        sites: Mapping[str, Mapping[int, Site]],
        flights: Flights,
        out: Agreement,
    ) -> None:
        self.told, self.sure, self.entered = told, sure, entered
        self.sites, self.flights, self.out = sites, flights, out
        self.main = _Frame("main")
        self.first: dict[tuple[Place, ...], float] = {}
        for flight in flights.done:
            self.first[flight.places] = min(
                self.first.get(flight.places, flight.began), flight.began
            )
        for flight in flights.used:
            self._enter(flight)
        due = [self.main]
        while due:
            frame = due.pop()
            self._count_last(frame)
            due += [call.inside for call in frame.calls if call.inside is not None]

    def _count_last(self, frame: _Frame) -> None:
        within: defaultdict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
        loops = self.told[frame.function].loops
        for call in frame.calls:
            for at, loop in enumerate(loops[call.step]):
                outer = loop, call.rounds[:at]
                within[outer] = max(within[outer], call.rounds[at])
        for call in frame.calls:
            around = [*enumerate(loops[call.step])]
            call.rounds_left = tuple(
                within[loop, call.rounds[:at]] - call.rounds[at] for at, loop in around
            )

    def _enter(self, flight: Flight) -> None:
        """Add a call to its frame, with the frames around it."""
        reasons = [why for place in flight.places if (why := self._reason(place))]
        if reasons:
            self.out.untold[reasons[0]] += 1
            return
        frame = self.main
        for place in flight.places[:-1]:
            step = self._step(place)
            call = next(
                (c for c in frame.calls if (c.step, c.rounds) == (step, place.rounds) and c.inside),
                None,
            )
            if call is None:
                following = flight.places[flight.places.index(place) + 1].function
                call = _Call(step, place.rounds, flight.began, flight.ended, _Frame(following))
                frame.calls.append(call)
            assert call.inside is not None
            call.began = min(call.began, flight.began)
            call.ended = max(call.ended, flight.ended)
            frame = call.inside
        last = flight.places[-1]
        call = _Call(self._step(last), last.rounds, flight.began, flight.ended)
        call.first = self.first[flight.places]
        frame.calls.append(call)

    def _reason(self, place: Place) -> str:
        """Return why nothing is told of a call, empty if something is."""
        told = self.told.get(place.function)
        if told is None or told.graph.too_large:
            return "its function is not told of"
        site = self.sites[place.function].get(place.ordinal)
        step = -1 if site is None else told.sites.get(site, -1)
        if step < 0:
            return "it is no step"
        if _is_rare(told, step):
            return "it runs after a failure only"
        return "" if len(told.loops[step]) == len(place.rounds) else "its rounds are not counted"

    def _step(self, place: Place) -> int:
        return self.told[place.function].sites[self.sites[place.function][place.ordinal]]


def _is_rare(told: Told, step: int) -> bool:
    return told.steps[step].rare


def agreement(
    told: Mapping[str, Told],
    sure: Callable[[bool], Mapping[str, Told]],
    entered: Callable[[], Mapping[str, Told]],
    sites: Mapping[str, Mapping[int, Site]],
    flights: Flights,
    *,
    prompt: bool,
) -> Agreement:
    """Compare one run with what is told. `sure` gives what holds on every way, or on every way
    after a failure, and `entered` what does where blocks are decided when the lookahead comes to
    them: few runs need these.
    `prompt`: nothing but what is told holds up a call."""
    out = Agreement()
    run = _Run(told, sure, entered, sites, flights, out)
    out.found += (
        Disagreement(
            "circle", one.graph.line, f"a step of {name} waits for itself in its own round"
        )
        for name, one in told.items()
        if one.goes_in_circles()
    )
    due = [run.main]
    while due:
        frame = due.pop()
        _waiting(run, frame)
        due += [call.inside for call in frame.calls if call.inside is not None]
    if prompt:
        _prompt(run, run.main, 0.0)
    return out


# What waits.


def _waiting(run: _Run, frame: _Frame) -> None:
    told = run.told[frame.function]
    by_step = _by_step(frame)
    for call in frame.calls:
        if call.inside is not None:
            continue
        named = told.steps[call.step]
        _in_turn(run, frame, call)
        for wait in _nearest(told.all_waits(call.step)):
            for other in by_step.get(wait.step, ()):
                if other is call or other.inside is not None or not _meets(told, call, other, wait):
                    continue
                if call.began >= other.ended - _EPSILON:
                    run.out.waited += 1
                elif why := _excuse(run, frame, by_step, call, other, wait):
                    run.out.overtaken[why] += 1
                else:
                    text = f"{named.what} began before line {told.steps[wait.step].line} had ended"
                    said = f"{text}; told: {shown(told, wait.link)}"
                    run.out.found.append(Disagreement("overlap", named.line, said))


def _turns(told: Told, frame: _Frame, call: _Call) -> Iterator[_Call]:
    """Yield the calls of tasks beside that of this one which ask the same process."""
    for other in frame.calls:
        if other.step in told.turns[call.step]:
            common = _common(told, call.step, other.step)
            if call.rounds[:common] == other.rounds[:common]:
                yield other


def _in_turn(run: _Run, frame: _Frame, call: _Call) -> None:
    told = run.told[frame.function]
    for other in _turns(told, frame, call):
        if other.inside is not None or other.step > call.step:
            continue
        first, second = sorted((call, other), key=lambda one: one.began)
        if second.began >= first.ended - _EPSILON:
            run.out.waited += 1
        else:
            line = told.steps[other.step].line
            said = f"{told.steps[call.step].what} ran beside line {line}; told: they take turns"
            run.out.found.append(Disagreement("overlap", told.steps[call.step].line, said))


def _nearest(waits: Iterable[Wait]) -> Iterator[Wait]:
    """Yield for each step the wait for the latest of its rounds."""
    seen: set[Wait] = set()
    for wait in waits:
        which = wait._replace(apart=0, link=None)
        if which not in seen:
            seen.add(which)
            yield wait


def _by_step(frame: _Frame) -> dict[int, list[_Call]]:
    found: defaultdict[int, list[_Call]] = defaultdict(list)
    for call in frame.calls:
        found[call.step].append(call)
    return found


def _meets(told: Told, call: _Call, other: _Call, wait: Wait, *, if_unsure: bool = False) -> bool:
    """Return whether this round of the one waits for that round of the other. Of what stands in
    another loop than the send with a budget, it is not known which of its rounds come before."""
    mine, theirs = told.loops[call.step], told.loops[other.step]
    if any(one in theirs and not other.rounds_left[theirs.index(one)] for one in wait.but_last_of):
        return False
    if any(_may_be_first(mine, call, loop, if_unsure) for loop in wait.after_first_of):
        return False
    further = _common(told, call.step, other.step) + 1
    is_known = if_unsure or told.is_own_budget(other.step)
    depth = len(theirs) if is_known else further
    left = other.rounds_left[further - 1 : max(further, depth)]
    if wait.until_it_begins and wait.round_of is None and left and not any(left):
        return False
    for at, (one, two) in enumerate(zip(mine, theirs, strict=False)):
        if one != two:
            break
        if one == wait.round_of:
            return other.rounds[at] <= call.rounds[at] - wait.apart - wait.until_it_begins
        if call.rounds[at] != other.rounds[at]:
            return False
    if wait.round_of is None:
        return True
    if wait.round_of not in mine and wait.round_of in theirs:
        # The last round of the loop waits for it, and behind the loop all rounds are waited for.
        left = other.rounds_left[theirs.index(wait.round_of)]
        return if_unsure and left >= wait.apart + wait.until_it_begins
    # It comes before the loop, and is waited for by an earlier round.
    return wait.round_of in mine and call.rounds[mine.index(wait.round_of)] >= wait.apart


def _may_be_first(mine: Sequence[int], call: _Call, loop: int, if_unsure: bool) -> bool:
    return not call.rounds[mine.index(loop)] if loop in mine else not if_unsure


def _excuse(
    run: _Run,
    frame: _Frame,
    by_step: Mapping[int, list[_Call]],
    call: _Call,
    other: _Call,
    wait: Wait,
) -> str:
    """Return why the one may overtake the other though it is told to wait; empty if it may not."""
    told, failed = run.told[frame.function], call.began >= run.flights.faults_at - _EPSILON
    sure = run.sure(failed)[frame.function]

    def reaches(told: Told, counts: Callable[[DataflowLink], bool]) -> bool:
        return any(
            one.step == goal and _meets(told, _as(told, call), _as(told, other), one)
            for one in told.waits(start, counts)
        )

    def _as(of: Told, one: _Call) -> _Call:
        return replace(one, step=_same(told, of, one.step))

    start, goal = call.step, other.step
    if not reaches(told, lambda link: link.before == goal or not _is_opaque(told, link.before)):
        return "a call of a function counts as one step"
    if not reaches(told, is_sure):
        return "two names may be the same, and are not"
    start, goal = _same(told, sure, call.step), _same(told, sure, other.step)
    if start < 0 or goal < 0:
        return "it is told of some ways or rounds only"

    def was_run(link: DataflowLink) -> bool:
        if not is_sure(link) or (link.before != goal and _is_opaque(sure, link.before)):
            return False
        return _was_run(told, sure, by_step, call, link.before)

    return "" if reaches(sure, was_run) else "it is told of some ways or rounds only"


def _is_opaque(told: Told, step: int) -> bool:
    return any(
        site.kind is StepKind.FUNCTION for site, number in told.sites.items() if number == step
    )


def _same(told: Told, other: Told, step: int) -> int:
    if told is other:
        return step
    mine = told.steps[step]
    return next(
        (
            one.id
            for one in other.steps
            if (one.line, one.column, one.kind) == (mine.line, mine.column, mine.kind)
        ),
        -1,
    )


def _was_run(
    told: Told, sure: Told, by_step: Mapping[int, list[_Call]], call: _Call, step: int
) -> bool:
    """Return whether the program came to a step on its way to this call."""
    inside = [step, *(one.id for one in sure.steps if _is_in(sure, one.id, step))]
    numbers = [_same(sure, told, one) for one in inside]
    for number in numbers:
        for one in by_step.get(number, ()):
            common = _common(told, call.step, number)
            if one.rounds[:common] == call.rounds[:common]:
                return True
    if sure.steps[step].lasts:
        return False
    parent = sure.steps[step].parent
    if parent is None:
        return True
    if sure.steps[parent].kind in (StepKind.TRY, StepKind.SESSION, StepKind.PARALLEL):
        return _was_run(told, sure, by_step, call, parent)
    return _is_in(told, call.step, _same(sure, told, parent))


def _common(told: Told, one: int, other: int) -> int:
    common = 0
    for mine, theirs in zip(told.loops[one], told.loops[other], strict=False):
        if mine != theirs:
            break
        common += 1
    return common


def _is_in(told: Told, step: int, block: int) -> bool:
    at: int | None = told.steps[step].parent
    while at is not None:
        if at == block:
            return True
        at = told.steps[at].parent
    return False


# What is beside.


def _prompt(run: _Run, frame: _Frame, from_: float, within: DataflowStep | None = None) -> None:
    """Find calls that begin later than told. `within` is the call that they are in."""
    told = run.told[frame.function]
    by_step = _by_step(frame)
    for call in sorted(frame.calls, key=lambda one: (one.began, one.ended)):
        waits = [*_waited_for(told, by_step, call)]
        turns = (other for other in _turns(told, frame, call) if other.began <= call.began)
        call.ready = max([from_, *(one.ended for one in waits), *(one.ended for one in turns)])
        if call.inside is not None:
            _prompt(run, call.inside, call.ready, told.steps[call.step])
            continue
        if call.began >= run.flights.faults_at - _EPSILON:
            run.out.untold["it stands behind a failure"] += 1
            continue
        step = told.steps[call.step]
        if step.order and within is not None and not within.order:
            run.out.untold["it is in order in a call that is not"] += 1
            continue
        if call.began > call.ready + _EPSILON and call.first <= call.ready + _EPSILON:
            run.out.again += 1
        elif _had_entered(run, frame, by_step, call):
            run.out.untold["a block before it was decided sooner than told"] += 1
        elif call.began > call.ready + _EPSILON:
            lasting = [
                told.steps[one.step].line
                for one in frame.calls
                if one.began <= call.ready + _EPSILON < one.ended - _EPSILON
            ]
            text = f"{step.what} began {(call.began - call.ready) * 1_000:.0f} ms late"
            run.out.found.append(
                Disagreement("late", step.line, f"{text}, beside lines {sorted(lasting)}")
            )
        if call.began > call.ready + _EPSILON:
            continue
        run.out.on_time += 1
        told_waits = {id(other) for other in waits}
        run.out.beside += sum(
            one is not call and id(one) not in told_waits and one.began <= call.began < one.ended
            for one in frame.calls
        )


def _waited_for(told: Told, by_step: Mapping[int, list[_Call]], call: _Call) -> Iterator[_Call]:
    for wait in told.all_waits(call.step):
        for other in by_step.get(wait.step, ()):
            if other is not call and _meets(told, call, other, wait, if_unsure=True):
                yield other


def _had_entered(run: _Run, frame: _Frame, by_step: Mapping[int, list[_Call]], call: _Call) -> bool:
    """Return whether a call began late for a send with a budget of its own in a block before it.
    The lookahead steps over a block that is not decided when it comes there, and else waits for the
    send in it; which of the two it is hangs on how long calls take."""
    if call.began <= call.ready + _EPSILON:
        return False
    told, entered = run.told[frame.function], run.entered()[frame.function]
    steps = {_same(told, entered, number): calls for number, calls in by_step.items()}
    as_entered = replace(call, step=_same(told, entered, call.step))
    others = {
        number: [replace(one, step=number) for one in calls] for number, calls in steps.items()
    }
    ready = max((one.ended for one in _waited_for(entered, others, as_entered)), default=0.0)
    return call.began <= ready + _EPSILON
