"""`vega cost`: what a program may cost at most, before its first call."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.cli.looking import PLAIN, one_line
from vegakit.cli.programs.models import PriceBook
from vegakit.cli.programs.sources import show
from vegakit.config import load, wants_colour
from vegakit.lang import Quote, QuotedLine, Unbounded, manifest_of, quote
from vegakit.money import NANOS, Money, dollars
from vegakit.money import show as shown
from vegakit.runtime import look_at

__all__ = ["render_quote", "run"]

_HEAD = ("LINE", "SEND", "CALLS", "AT MOST")
_BOLD, _RED, _DIM = "\x1b[1m", "\x1b[31m", "\x1b[2m"
_NO_BOUND = "no bound"


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    limit = None if chosen.max is None else dollars(chosen.max)
    found = look_at(chosen.file)
    show(found)
    if not found.is_sound or found.checked is None:
        return 1
    budget = None if chosen.budget is None else dollars(chosen.budget)
    quoted = quote(found.checked, PriceBook(load({}), chosen.model), budget)
    if chosen.json:
        manifest = to_builtins(manifest_of(found.checked))
        print(json.dumps(_as_json(quoted) | {"manifest": manifest}, indent=2))
    else:
        print(render_quote(quoted, found.source.name, colour=wants_colour(sys.stdout)))
    return 0 if limit is None else _compared(quoted, limit)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega cost",
        description="Quote a program: the most that it may spend, whatever the models answer. "
        "Needs no key and asks no model.",
    )
    parser.add_argument("file", type=Path, metavar="FILE.vega")
    parser.add_argument("--max", metavar="'$5'", help="exit with 1 if it may cost more")
    parser.add_argument("--budget", metavar="'$5'", help="what `vega run --budget` would give it")
    parser.add_argument("--model", help="for all its agents, as in `vega run --model`")
    parser.add_argument("--json", action="store_true", help="for machines, with the manifest")
    return parser


def _compared(quoted: Quote, limit: Money) -> int:
    if quoted.total is not None and quoted.total <= limit:
        return 0
    may = "without any bound" if quoted.total is None else _amount(quoted.total)
    print(
        f"vega cost: it may cost {may}, which is more than {shown(limit)}; give its agents, "
        "functions or sessions a budget, or bound its lists, such as [str; 10]",
        file=sys.stderr,
    )
    return 1


def render_quote(quoted: Quote, name: str, *, colour: bool = False) -> str:
    paint = _Paint(colour)
    lines = [_summary(quoted, name, paint)]
    if quoted.lines:
        lines += ["", *_table(quoted.lines, name, paint)]
    if quoted.unbounded:
        lines += ["", *(_gap(gap, name, paint) for gap in quoted.unbounded)]
    return "\n".join(lines)


class _Paint:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, mark: str, text: str) -> str:
        return f"{mark}{text}{PLAIN}" if self._colour else text


def _summary(quoted: Quote, name: str, paint: _Paint) -> str:
    calls = "calls without bound" if quoted.calls is None else _count(quoted.calls, "call")
    if quoted.total is None:
        return f"{one_line(name)}: {paint(_RED, _NO_BOUND)} on what it may spend, in {calls}"
    most = paint(_BOLD, _amount(quoted.total))
    processes = "" if not quoted.processes else f", {_count(quoted.processes, 'process', 'es')}"
    return f"{one_line(name)}: at most {most} in {calls}{processes}"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number:,} {what}{'' if number == 1 else plural}"


def _table(lines: Sequence[QuotedLine], name: str, paint: _Paint) -> list[str]:
    dearest = max(lines, key=_dearness)
    rows = [_HEAD, *(_row(line, name) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told = ["  ".join(map(_fit, _HEAD, row, widths)) for row in rows]
    marks = [line is dearest and len(lines) > 1 for line in lines]
    body = [
        paint(_BOLD, f"▸ {text}  ◂ dearest") if mark else f"  {text}"
        for text, mark in zip(told[1:], marks, strict=True)
    ]
    return [paint(_DIM, f"  {told[0]}"), *body]


def _dearness(line: QuotedLine) -> tuple[bool, int]:
    return line.worst is None, line.worst or 0


def _row(line: QuotedLine, name: str) -> tuple[str, ...]:
    calls = "–" if line.calls is None else f"{line.calls:,}"
    most = _NO_BOUND if line.worst is None else _amount(line.worst)
    return _where(line, name), one_line(line.what), calls, most


def _where(place: QuotedLine | Unbounded, name: str) -> str:
    return str(place.line) if place.file == name else f"{one_line(place.file)}:{place.line}"


def _fit(title: str, text: str, width: int) -> str:
    return text.ljust(width) if title == "SEND" else text.rjust(width)


def _gap(gap: Unbounded, name: str, paint: _Paint) -> str:
    capped = "capped by nothing" if gap.cap is None else f"capped by {_amount(gap.cap)}"
    told = f"unbounded at line {_where(gap, name)}, {capped}: {gap.why}"
    return paint(_RED, told) if gap.cap is None else told


def _amount(nanos: int) -> str:
    """Never less than it is: from a dime on in whole cents, rounded up."""
    step = NANOS // 100 if nanos >= NANOS // 10 else 1_000
    return shown(Money(-(-nanos // step) * step))


def _as_json(quoted: Quote) -> dict[str, Any]:
    return {
        "total_usd": _usd(quoted.total),
        "calls": quoted.calls,
        "processes": quoted.processes,
        "lines": [
            {"file": one.file, "line": one.line, "what": one.what}
            | {"calls": one.calls, "worst_usd": _usd(one.worst)}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by_usd": _usd(one.cap)}
            for one in quoted.unbounded
        ],
    }


def _usd(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS
