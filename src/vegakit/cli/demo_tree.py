"""The team of `vega demo` as a tree: what each process does, its restarts and its money."""

from collections.abc import Iterator, Mapping, Sequence

from vegakit.cli.demo_paint import BOLD, DIM, MARKS, WORKING, Paint
from vegakit.cli.demo_scene import Happened
from vegakit.money import NANOS, Money
from vegakit.runtime import ProcessView

__all__ = ["exact", "name_of", "tree"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BUSY = {"running", "waiting", "restarting"}


def tree(
    views: Sequence[ProcessView], last: Mapping[str, Happened], paint: Paint, tick: int = 0
) -> list[str]:
    """`last` is what was last told of each."""
    return [
        f"  {paint(lead, DIM)}{paint(name_of(view.path), BOLD)}"
        f"{' ' * (20 - len(lead) - len(name_of(view.path)))}"
        f"{_doing(view, last.get(name_of(view.path)), paint, tick)}"
        f"{paint(_restarts(view), '33')}{paint(exact(view.spent), _money_style(view))}"
        for lead, view in _leads(views)
    ]


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def exact(amount: Money) -> str:
    """All decimals that the prices of the demo can make, so that the rows add up."""
    return f"${amount / NANOS:.5f}"


def _leads(
    views: Sequence[ProcessView], parent: str = "", indent: str = ""
) -> Iterator[tuple[str, ProcessView]]:
    below = [view for view in views if view.parent == parent]
    for view in below:
        is_last = view is below[-1]
        yield indent + ("└─ " if is_last else "├─ ") if parent else "", view
        deeper = indent + ("   " if is_last else "│  ") if parent else ""
        yield from _leads(views, view.path, deeper)


def _doing(view: ProcessView, last: Happened | None, paint: Paint, tick: int) -> str:
    if view.kind == "supervisor":
        return paint(f"  {'supervisor: ' + view.strategy:30}", DIM)
    if view.state in _BUSY:
        sign, style, words = _SPINNER[tick % len(_SPINNER)], WORKING, view.waiting_for or view.state
    elif last is None:
        sign, style, words = "·", DIM, view.state
    else:
        sign, style, words = *MARKS[last.mark], last.note
    return f"{paint(sign, style)} {paint(f'{words:30}', style)}"


def _restarts(view: ProcessView) -> str:
    return f"{f'↻ {view.restarts}' if view.restarts else '':5}"


def _money_style(view: ProcessView) -> str:
    return "" if view.spent else DIM
