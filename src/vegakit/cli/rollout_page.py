"""A rollout as a page: its stages, how its confidence grew, its counts, and who decided what.

The picture is of the bound that decides, over the comparisons in production. Its height is in
nines: 0.9, 0.99, 0.999 are as far from each other, because a candidate is as much better. Where
nobody looks, the page is its facts, line by line.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import NamedTuple

from vegakit.cli.look import Cell, Column, Look, Sign, Tone, count, moment, one_line, table
from vegakit.contracts import LAST, MIN_SAMPLE, STAGES, Tally
from vegakit.vesper import BoundPoint, KeptDifference, RolloutStatus, percent, stage_name

_STOPPED, _SHADOW = 0, 1


def state_of(one: RolloutStatus) -> tuple[Sign, Tone]:
    """Return the sign of a rollout: whether it works, is done, or waits for a person."""
    if one.stage == _STOPPED:
        return Sign.WAITING, Tone.PLAIN
    if one.is_held:
        return Sign.HELD, Tone.ASK
    return (Sign.DONE, Tone.OK) if one.next is None else (Sign.WORKING, Tone.WORK)


def render_status(one: RolloutStatus, look: Look) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from _title(one, look)
    yield from _stages(one, look)
    if look.width is not None:
        yield ""
        yield from picture(one, look)
        yield ""
    for label, text in _facts(one):
        yield from look.fold(text, " " * 13, f"{label:<11}  ")
    if one.differences:
        yield ""
        yield "Differed last"
        for each in one.differences:
            yield from _difference(each, look)
    if one.changes:
        yield ""
        yield _decisions(one, look)


def _difference(each: KeptDifference, look: Look) -> Iterator[str]:
    yield from look.fold(one_line(each.inputs), "     ", f"  {moment(each.at_ms)}  ")
    for who, said in (("reference", each.reference), ("candidate", each.candidate)):
        if said:
            yield from look.fold(one_line(said), " " * 16, f"     {who:<9}  ")


def _title(one: RolloutStatus, look: Look) -> Iterator[str]:
    of_class = f", inputs of class {one.input_class}" if one.input_class else ""
    paths = ""
    if one.subject.candidate:
        paths = f": {one.subject.reference} → {one.subject.candidate}"
        paths += f", compared by {one.subject.comparison}"
    named = look.fold(one_line(f"{one.name}{of_class}{paths}"), "  ")
    head = one_line(one.name)
    first = look.text(head)
    yield look.paint(first, Tone.STRONG) + named[0].removeprefix(first)
    yield from named[1:]


def _stages(one: RolloutStatus, look: Look) -> Iterator[str]:
    """Yield the stages in a row, each with its sign; without room, one below the other."""
    last = next(n for n in range(LAST, 0, -1) if STAGES[n].mode is one.rule.last)
    now, tone = state_of(one)
    signs = [
        (now, tone)
        if n == one.stage
        else (Sign.DONE, Tone.OK)
        if n < one.stage
        else (Sign.WAITING, "")
        for n in range(last + 1)
    ]
    parts = [
        (look.text(str(sign)), colour, stage_name(n))
        for n, (sign, colour) in enumerate(signs)
        if n != _STOPPED or one.stage == _STOPPED
    ]
    line = look.text(" ── ").join(f"{sign} {name}" for sign, _, name in parts)
    painted = [f"{look.paint(sign, colour)} {name}" for sign, colour, name in parts]
    is_narrow = look.width is not None and len(line) + 2 > look.width
    if is_narrow:
        yield from (f"  {each}" for each in painted)
    else:
        yield "  " + look.text(" ── ").join(painted)


# Facts.


def _facts(one: RolloutStatus) -> Iterator[tuple[str, str]]:
    if one.held_because:
        typed = "" if one.breaches else f"; to let it go on, type: {_typed(one)}"
        yield "Held", one_line(one.held_because) + typed
    if one.breaches:
        yield "Breaches", f"{one.breaches:,}; change the candidate, which then starts from nothing"
    if one.paused_because:
        yield "Paused", one_line(one.paused_because)
    if one.unavailable_because:
        yield "Outage", one_line(one.unavailable_because)
    missed = (
        f"; {count(one.unavailable, 'call')} not compared, in outages" if one.unavailable else ""
    )
    yield "Production", _counted(one.production) + missed
    if one.generated.runs:
        yield "Generated", f"{_counted(one.generated)}; counted apart"
    if one.noise.runs or one.rule.calibration:
        yield "Own noise", f"the reference with itself: {_counted(one.noise)}"
    yield "Confidence", _confidence(one)
    answered, compared = percent(one.candidate_share), percent(one.compared_share)
    yield "Traffic", f"the candidate answers {answered} of calls; {compared} are compared"
    yield "Next", _missing(one)
    yield "Unseen", _unseen(one)


def _counted(tally: Tally) -> str:
    return f"{tally.runs:,} compared, {tally.failures:,} differ"


def _typed(one: RolloutStatus) -> str:
    of_class = f" --class {one.input_class}" if one.input_class else ""
    return f"vega rollout promote {one.name}{of_class}"


def _confidence(one: RolloutStatus) -> str:
    known = one.confidence
    if known is None:
        return f"none is shown below {MIN_SAMPLE:,} comparisons in production"
    wilson = f"by Wilson's bound, which holds for one look, {known.wilson:.6f}"
    if one.is_noisy and known.excess is not None:
        return (
            f"the candidate adds at most {known.excess:.6f} to the reference's own noise; "
            f"agreement is above {known.lower:.6f}; {wilson}"
        )
    return f"agreement is above {known.lower:.6f}, however often one looks; {wilson}"


def _missing(one: RolloutStatus) -> str:
    wanted = one.next
    if wanted is None:
        return "none: this is the last stage" + ("" if one.stage == LAST else " of its rule")
    name = stage_name(wanted.stage)
    if wanted.blocked and one.breaches and one.stage != _STOPPED:
        return f"{name}, which this candidate cannot enter: {wanted.blocked}"
    if wanted.blocked:
        return f"{name}, when a person promotes it; no evidence does while it is held"
    left = [
        (
            wanted.calibration,
            "call that compares the reference with itself",
            "calls that compare the reference with itself",
        ),
        (wanted.runs, "comparison, if it does not differ", "comparisons, if none differs"),
        (
            wanted.answers,
            "answer of the candidate that is compared",
            "answers of the candidate that are compared",
        ),
    ]
    missing = [count(number, *words) for number, *words in left if number]
    threshold = f" above {wanted.threshold:g}" if wanted.threshold else ""
    return f"{name}{threshold}, after {' and '.join(missing) or 'the next comparison'}"


def _unseen(one: RolloutStatus) -> str:
    delays = [
        f"{'never' if each.calls is None else f'{each.calls:,}'} for one in {1 / each.fault:,.0f}"
        for each in one.detection
    ]
    how = "typically" if one.is_noisy else "in 95 of 100 cases"
    return (
        f"at direct_only, where {percent(one.rule.sample)} of calls are compared, calls until a "
        f"fault is found, {how}: {', '.join(delays)}"
    )


_COLUMNS = (
    Column("When", drop=3),
    Column("From", drop=2),
    Column("To"),
    Column("Compared", right=True, drop=1),
    Column("By", drop=4, name=True),
)
_DECISIONS = 10


def _decisions(one: RolloutStatus, look: Look) -> str:
    """Return the last decisions, the latest last, each with its reason below."""
    last = one.changes[-_DECISIONS:]
    rows: list[list[Cell | str]] = [
        [
            moment(each.at_ms),
            stage_name(each.change.before),
            Cell(stage_name(each.change.after), Tone.OK if each.change.is_promotion else Tone.ASK),
            f"{each.runs:,}",
            one_line(each.change.by) or "evidence",
        ]
        for each in last
    ]
    below = {n: ("  ", one_line(each.change.reason)) for n, each in enumerate(last)}
    return table(_COLUMNS, rows, look, below=below)


# The picture.

_ROWS = 11
_LABEL = 8
_MOST_COLUMNS, _FEWEST_COLUMNS = 100, 20
_NEARLY_ONE = 1.0 - 1e-9


class _Scale(NamedTuple):
    """The heights, in nines, of the lowest and of the highest row."""

    low: float
    high: float

    def row(self, bound: float) -> int:
        """Return the row of a bound, 0 on top."""
        at = min(max(_nines(bound), self.low), self.high)
        return round((self.high - at) / (self.high - self.low) * (_ROWS - 1))


def _nines(bound: float) -> float:
    return -log10(1.0 - min(max(bound, 0.0), _NEARLY_ONE))


def picture(one: RolloutStatus, look: Look) -> Iterator[str]:
    """Yield the bound that decides over the comparisons in production, with the thresholds of the
    stages, Wilson's bound where that is of the same, and where traffic moved."""
    points = [each for each in one.history if each.runs >= MIN_SAMPLE]
    if not points or look.width is None:
        runs = one.production.runs
        yield f"No confidence is shown below {MIN_SAMPLE:,} comparisons; there are {runs:,}."
        return
    levels, values = _levels(one), [_value(one, each) for each in points]
    top = max(_nines(each) for each in (*levels, *values))
    scale = _Scale(1.0, top + 0.4)
    room = look.width - _LABEL - max(map(len, levels.values())) - 2
    has_names = room >= _FEWEST_COLUMNS
    wide = min(_MOST_COLUMNS, room if has_names else max(_FEWEST_COLUMNS, look.width - _LABEL))
    grid = _grid(one, points, levels, scale, wide)
    what = "1 less what it adds to the noise" if one.is_noisy else "Agreement"
    wilson = "" if one.is_noisy else f", Wilson's {Sign.WAITING}"
    moved = ", ▸ promoted, ✗ taken back" if one.changes else ""
    yield from look.fold(f"{what}, lower bound ─{wilson}{moved}", "  ")
    by_row = {scale.row(level): level for level in levels}
    for row in range(_ROWS):
        level = by_row.get(row)
        label = " " * 7 + "│" if level is None else f"{level:>6.4g} ┤"
        name = "" if level is None or not has_names else f" {levels[level]}"
        yield look.text((label + "".join(grid[row]) + name).rstrip())
    yield from (look.text(line) for line in _axis(one, points[-1].runs, wide))


def _value(one: RolloutStatus, point: BoundPoint) -> float:
    """Return the bound that decides: of a noisy reference, one less what the candidate adds."""
    return 1.0 - point.excess if one.is_noisy and point.excess is not None else point.lower


def _levels(one: RolloutStatus) -> dict[float, str]:
    """Return the thresholds and what is entered above them: stages that share one together."""
    named: dict[float, list[str]] = {}
    for asked in STAGES[_SHADOW + 1 :]:
        threshold = asked.threshold
        if one.is_noisy:
            threshold = 1.0 - max(1.0 - threshold, one.rule.margin)
        names = named.setdefault(round(threshold, 9), [])
        if str(asked.mode) not in names:
            names.append(str(asked.mode))
    return {threshold: ", ".join(names) for threshold, names in named.items()}


def _grid(
    one: RolloutStatus,
    points: Sequence[BoundPoint],
    levels: Mapping[float, str],
    scale: _Scale,
    wide: int,
) -> list[list[str]]:
    """Return the cells: thresholds behind, then Wilson's bound, then ours."""
    grid = [[" "] * wide for _ in range(_ROWS)]
    for level in levels:
        grid[scale.row(level)] = [*("- " * wide)[:wide]]
    columns = [*_by_column(points, wide)]
    if not one.is_noisy:
        for column, point in enumerate(columns):
            if point is not None:
                grid[scale.row(point.wilson)][column] = str(Sign.WAITING)
    _draw(grid, [None if each is None else scale.row(_value(one, each)) for each in columns])
    return grid


def _by_column(points: Sequence[BoundPoint], wide: int) -> Iterator[BoundPoint | None]:
    """Yield the last point of each column, or what was known before; None before the first."""
    most, left, known = points[-1].runs, deque(points), None
    for column in range(wide):
        until = most * (column + 1) / wide
        while left and left[0].runs <= until:
            known = left.popleft()
        yield known


def _draw(grid: list[list[str]], rows: Sequence[int | None]) -> None:
    """Draw a line through the row of each column."""
    before: int | None = None
    for column, row in enumerate(rows):
        if row is None:
            continue
        if before is None or row == before:
            grid[row][column] = "─"
        else:
            for between in range(min(row, before) + 1, max(row, before)):
                grid[between][column] = "│"
            # It comes from the left on the old row, and leaves to the right on the new one.
            grid[before][column] = "┘" if row < before else "┐"
            grid[row][column] = "┌" if row < before else "└"
        before = row


def _axis(one: RolloutStatus, most: int, wide: int) -> Iterator[str]:
    """Yield where traffic moved, how many comparisons there were, and when."""
    marks = ["─"] * wide
    for each in one.changes:
        at = min(wide - 1, int(each.runs / most * wide))
        marks[at] = "▸" if each.change.is_promotion else "✗"
    yield " " * 7 + "└" + "".join(marks)
    middle, end = f"{most // 2:,}", f"{most:,}"
    yield " " * _LABEL + f"0{middle:^{wide - 1 - len(end)}}{end}"
    since, until = moment(one.history[0].at_ms), moment(one.history[-1].at_ms)
    if len(since) + len(until) < wide:
        yield " " * _LABEL + f"{since}{until:>{wide - len(since)}}"
