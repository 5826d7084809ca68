"""Draws dollars over time as SVG: a cap, what is spent and reserved, a kill, a resume, a peer."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Picture", "draw"]

WIDTH, HEIGHT = 960, 360
LEFT, RIGHT, TOP, BOTTOM = 64.0, 690.0, 70.0, 312.0
MOST = 1.25
"""The dollars at the top of the axis."""


class Theme(NamedTuple):
    page: str
    line: str
    text: str
    muted: str
    work: str
    ok: str
    bad: str
    on_work: str


THEMES = {
    "light": Theme(
        page="#ffffff",
        line="#e6e6e3",
        text="#16181d",
        muted="#5c6370",
        work="#2558d9",
        ok="#007d71",
        bad="#a80f2e",
        on_work="#ffffff",
    ),
    "dark": Theme(
        page="#16191c",
        line="#262a2f",
        text="#e7e9ec",
        muted="#99a1ab",
        work="#6aa5ff",
        ok="#5ee0c6",
        bad="#ff6470",
        on_work="#0f1113",
    ),
}


class Picture(NamedTuple):
    """What is drawn: samples of seconds, dollars spent and dollars reserved."""

    samples: Sequence[tuple[float, float, float]]
    killed_s: float
    resumed_s: float
    kept: int
    cut_off: int
    peer: Sequence[tuple[float, float]]
    source: str


def draw(picture: Picture, theme: str) -> str:
    """Return the picture as SVG."""
    parts = "\n".join(_parts(picture, THEMES[theme]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Inter, system-ui, sans-serif" font-size="13" role="img">\n'
        f"<title>Dollars over time of one run with a cap of $1</title>\n{parts}\n</svg>\n"
    )


def _parts(picture: Picture, theme: Theme) -> Iterator[str]:
    end_s = max(picture.samples[-1][0], picture.peer[-1][0])
    across = _scale(0.0, end_s, LEFT, RIGHT)
    up = _scale(0.0, MOST, BOTTOM, TOP)
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{theme.page}"/>'
    yield (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><line y2="6" stroke="{theme.work}" stroke-width="2.4"/>'
        "</pattern></defs>"
    )
    yield _text(
        LEFT, 30, "One run, five calls at a time, a cap of $1", theme.text, size=16, weight=600
    )
    for quarter in range(6):
        height = up(quarter / 4)
        yield _line((LEFT, height), (RIGHT, height), theme.line)
        yield _text(LEFT - 10, height + 4, f"${quarter / 4:.2f}", theme.muted, anchor="end")
    for second in range(0, int(end_s) + 1, 2):
        yield _text(across(second), BOTTOM + 20, f"{second} s", theme.muted, anchor="middle")
    spent = [(across(at), up(dollars)) for at, dollars, _ in picture.samples]
    most = [(across(at), up(dollars + held)) for at, dollars, held in picture.samples]
    yield _area(most, 'fill="url(#hatch)" opacity=".5"')
    yield _area(spent, f'fill="{theme.work}"')
    peer = " ".join(f"{across(at):.1f},{up(dollars):.1f}" for at, dollars in picture.peer)
    yield (
        f'<polyline points="{across(0):.1f},{up(0):.1f} {peer}" fill="none" stroke="{theme.bad}" '
        'stroke-width="2" stroke-dasharray="5 4"/>'
    )
    yield _line((LEFT, up(1)), (RIGHT, up(1)), theme.text, width=2)
    yield from _moments(picture, theme, across)
    yield from _legend(picture, theme, up)


def _moments(picture: Picture, theme: Theme, across: Callable[[float], float]) -> Iterator[str]:
    killed, resumed = across(picture.killed_s), across(picture.resumed_s)
    yield _line((killed, 58), (killed, BOTTOM), theme.bad)
    yield _text(killed - 6, 54, "kill -9", theme.bad, anchor="end")
    yield _line((resumed, 58), (resumed, BOTTOM), theme.ok)
    told = f"vega resume: {picture.kept} answers kept, {picture.cut_off} calls cut off, asked again"
    yield _text(resumed + 6, 54, told, theme.ok)


def _legend(picture: Picture, theme: Theme, up: Callable[[float], float]) -> Iterator[str]:
    side = RIGHT + 12
    spent, billed = picture.samples[-1][1], picture.peer[-1][1]
    yield _text(side, up(1) - 40, f"pydantic-ai, limit of $1: ${billed:.4f}", theme.bad)
    yield _text(side, up(1) - 22, "stops after the calls that cross it", theme.muted)
    yield _text(side, up(1) + 5, "cap $1.00", theme.text, weight=600)
    yield _text(side, up(1) + 28, f"Vega: ${spent:.4f}", theme.work)
    yield _text(side, up(1) + 46, "refuses the next call before sending it", theme.muted)
    for height, fill, name in (
        (230, theme.work, "spent"),
        (252, "url(#hatch)", "reserved before sending"),
    ):
        yield f'<rect x="{side}" y="{height}" width="12" height="12" fill="{fill}"/>'
        yield _text(side + 18, height + 11, name, theme.text)
    yield _text(WIDTH - 12, HEIGHT - 12, picture.source, theme.muted, anchor="end", size=11)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _area(points: Sequence[tuple[float, float]], style: str) -> str:
    """Return a filled area below steps: a value holds until the next one."""
    steps = [f"{points[0][0]:.1f},{BOTTOM} {points[0][0]:.1f},{points[0][1]:.1f}"]
    for (_, before), (at, now) in pairwise(points):
        if now != before:
            steps.append(f"{at:.1f},{before:.1f} {at:.1f},{now:.1f}")
    steps.append(f"{points[-1][0]:.1f},{points[-1][1]:.1f} {points[-1][0]:.1f},{BOTTOM}")
    return f'<polygon points="{" ".join(steps)}" {style}/>'


def _line(start: tuple[float, float], end: tuple[float, float], stroke: str, width: int = 1) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{stroke}" stroke-width="{width}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    fill: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" '
        f'font-size="{size}" font-weight="{weight}">{text}</text>'
    )
