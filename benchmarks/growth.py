"""How CPU time grows with the work: `python -m benchmarks.growth [full] [--svg FILE] [NAME …]`, and
what it may come to: `python -m benchmarks.growth limits`.

For each curve the local exponent log2(T(2N) / T(N)), where T is the median of five runs; the runs
of all sizes take turns, so that a busy moment does not fall on one size alone. A curve falls short
when its last two doublings both exceed 1.15: a fit over the whole range would hide a square term,
and one doubling alone may be chance. Prints its figures last; exits 1 when a curve falls short.

`limits` are absolute: CPU time of an ask in a chain and in a fan-out of a thousand, CPU time and
memory of a fan-out of ten thousand. Beside each work a loop of a fixed number of steps is timed,
and what the work took is divided by how much slower the machine is than where the limits were set.
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from math import log2, log10
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Figure, at_most, show
from benchmarks.growth_curves import CURVES, Curve
from benchmarks.timing import CALIBRATED_MS, calibration

__all__ = ["Measured", "drawn", "exponents", "figure", "main"]

MOST = 1.15
ROUNDS = 5
MOST_MS_AN_ASK, MOST_S, MOST_MB = 1.0, 15.0, 200.0
THOUSAND, TEN_THOUSAND = 1_000, 10_000
PATIENCE_S = 60.0
"""A size that took longer is the last of its curve: what would follow is known by then."""


class Measured(NamedTuple):
    """A curve and the median of its CPU seconds, by size."""

    curve: Curve
    seconds: dict[int, float]


def exponents(seconds: dict[int, float]) -> list[float]:
    """Return the local exponent of each doubling."""
    return [
        log2(max(after, 1e-9) / max(before, 1e-9)) / log2(larger / smaller)
        for (smaller, before), (larger, after) in pairwise(sorted(seconds.items()))
    ]


def figure(measured: Measured, most: float = MOST) -> Figure:
    """Return the last two exponents beside their limit."""
    curve, seconds = measured
    last, largest = exponents(seconds)[-2:], max(seconds)
    each = seconds[largest] / largest * 1e6
    return Figure(
        f"{curve.name}: {largest:,} {curve.unit}, {seconds[largest]:.2f} s, {each:,.0f} µs each",
        " ".join(f"{one:.2f}" for one in last),
        f"one ≤ {most:g}",
        min(last) <= most,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("words", nargs="*", metavar="full | limits | NAME")
    parser.add_argument("--svg", type=Path, help="draw the curves into this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--most", type=float, default=MOST, help="what the exponents may come to")
    chosen = parser.parse_intermixed_args()
    if chosen.words == ["limits"]:
        return _report(_limits(chosen.rounds))
    names = [word for word in chosen.words if word != "full"]
    if unknown := {*names} - {curve.name for curve in CURVES}:
        parser.error(f"no curve is called {min(unknown)}")
    found = [
        _measured(curve, curve.all if "full" in chosen.words else curve.few, chosen.rounds)
        for curve in CURVES
        if not names or curve.name in names
    ]
    # A busy moment may fall on a short curve as a whole: what falls short is measured once more.
    found = [
        one if figure(one, chosen.most).holds else _measured(*_again(one), chosen.rounds)
        for one in found
    ]
    if chosen.svg is not None:
        chosen.svg.write_text(drawn(found), encoding="utf-8")
    return _report([figure(one, chosen.most) for one in found])


def _report(figures: Sequence[Figure]) -> int:
    print(show(figures))
    return int(not all(one.holds for one in figures))


def _limits(rounds: int) -> list[Figure]:
    """The largest comes first and once: the most memory that this process ever took is its own."""
    curves = {curve.name: curve for curve in CURVES}
    whole, took = _calibrated(curves["fan-out"], TEN_THOUSAND)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kilobytes, on Linux
    figures = [
        at_most(MOST_S, whole, "s", f"fan-out of {TEN_THOUSAND:,}: CPU ({took:.1f} s as measured)"),
        at_most(MOST_MB, peak_mb, "MB", f"fan-out of {TEN_THOUSAND:,}: memory of the process"),
    ]
    for name in ("chain", "fan-out"):
        timed = [_calibrated(curves[name], THOUSAND) for _ in range(rounds)]
        each, measured = (median(column) / THOUSAND * 1e3 for column in zip(*timed, strict=True))
        what = f"{name} of {THOUSAND:,}: CPU an ask ({measured:.2f} ms as measured)"
        limit = f"≤ {MOST_MS_AN_ASK:g} ms"
        figures.append(Figure(what, f"{each:.2f} ms", limit, each <= MOST_MS_AN_ASK))
    return figures


def _calibrated(curve: Curve, size: int) -> tuple[float, float]:
    """CPU seconds as the calibrated machine would take them, and as they were taken. The loop is
    timed before and after, since the machine may be busier at one time than at another."""
    before = calibration()
    with tempfile.TemporaryDirectory() as folder:
        took = curve.work(size, Path(folder))
    slower = max(1.0, (before + calibration()) / 2 / CALIBRATED_MS)
    return took / slower, took


def _again(measured: Measured) -> tuple[Curve, Sequence[int]]:
    """Return what has to be measured once more."""
    return measured.curve, [*measured.seconds]


def _measured(curve: Curve, sizes: Sequence[int], rounds: int) -> Measured:
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for number in range(rounds):
        for size in [*taken]:
            with tempfile.TemporaryDirectory() as folder:
                taken[size].append(curve.work(size, Path(folder)))
            if number == 0 and taken[size][-1] > PATIENCE_S:
                taken = {kept: times for kept, times in taken.items() if kept <= size}
                break
    measured = Measured(curve, {size: median(times) for size, times in taken.items()})
    row = "  ".join(f"{size:,}: {took:.3f}" for size, took in measured.seconds.items())
    local = " ".join(f"{one:.2f}" for one in exponents(measured.seconds))
    print(f"{curve.name:<14} {row}  |  {local}", flush=True)
    return measured


# The drawing: microseconds a unit over the size, each on a scale of powers of ten. A level line is
# linear growth.


_CELL_W, _CELL_H, _COLUMNS, _PAD = 230, 130, 4, 26


def drawn(found: Sequence[Measured]) -> str:
    """Return the curves as SVG, one small drawing each."""
    rows = -(-len(found) // _COLUMNS)
    width, height = _COLUMNS * _CELL_W, rows * _CELL_H + 24
    cells = [
        _cell(one, at % _COLUMNS * _CELL_W, at // _COLUMNS * _CELL_H + 20)
        for at, one in enumerate(found)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="10">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        '<text x="8" y="14" font-size="12">CPU time for each unit over the size of the work; '
        "a level line is linear growth</text>"
    )
    return "\n".join([head, *cells, "</svg>\n"])


def _cell(measured: Measured, left: int, top: int) -> str:
    curve, seconds = measured
    each = {size: max(took / size * 1e6, 1e-3) for size, took in seconds.items()}
    wide, high = _CELL_W - 2 * _PAD, _CELL_H - 2 * _PAD
    first, last = log10(min(each)), log10(max(each))
    middle = (log10(min(each.values())) + log10(max(each.values()))) / 2
    points = [
        (
            left + _PAD + (log10(size) - first) / (last - first) * wide,
            top + _PAD + min(max(0.5 - (log10(us) - middle) / 2, 0), 1) * high,
        )
        for size, us in each.items()
    ]
    colour = "#2a7f4f" if figure(measured).holds else "#c03030"
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points)
    return (
        f'<g><rect x="{left + 6}" y="{top + 6}" width="{_CELL_W - 12}" height="{_CELL_H - 12}" '
        'fill="none" stroke="#cccccc"/>'
        f'<text x="{left + 12}" y="{top + 19}" font-weight="bold">{curve.name}</text>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'
        f'<text x="{left + 12}" y="{top + _CELL_H - 12}" fill="#555555">{min(each):,} to '
        f"{max(each):,} {curve.unit}: {each[min(each)]:,.0f} to {each[max(each)]:,.0f} µs each"
        "</text></g>"
    )


if __name__ == "__main__":
    sys.exit(main())
