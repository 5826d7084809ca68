"""The progress of `vega run`: what it shows, and that it is gone when the run ends."""

import pytest
from campaigns.screens import Captured, captured, place
from msgspec.structs import replace

from tests.cli.scene import VIEWS
from vegakit.cli.look import Look, cells
from vegakit.cli.progress import RunProgress, RunTotals
from vegakit.control import ProcessView, Question
from vegakit.money import Money, dollars
from vegakit.program import WastedCost


class Run:
    """A run at one moment."""

    def __init__(self, views: list[ProcessView]) -> None:
        self._views = views

    def ps(self) -> list[ProcessView]:
        return self._views

    def interrupts(self) -> list[Question]:
        return []


@pytest.mark.parametrize("width", [40, 60, 80, 140])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_it_has_ten_rows_at_most_and_fits(width: int, ascii_only: bool) -> None:
    """However many processes there are; the figures of the budget add up."""
    many = [replace(view, path=f"{view.path}{n}") for n in range(40) for view in VIEWS]
    progress = RunProgress(Run(many), "review.vega", dollars("$1.13"))
    progress.count_call(dollars("$0.0192"))
    rows = progress.frame(Look(width=width, ascii_only=ascii_only), 2.0)
    assert len(rows) <= 10
    assert max(map(cells, rows)) <= width
    assert "$0.0192 spent  $0.0000 left" in rows[-1]
    if ascii_only:
        assert "\n".join(rows).isascii()


def test_it_says_who_works_and_what_is_left() -> None:
    """At most, reserved, spent and left; running, waiting and done; tokens a second."""
    one = [replace(VIEWS[1], reserved=Money(31_000_000))]
    progress = RunProgress(Run(one), "review.vega", dollars("$1.13"))
    progress.count_call(dollars("$0.0192"))
    told = "\n".join(progress.frame(Look(width=120), 2.0))
    for fact in (
        "review.vega  1 running · 0 waiting · 1 call done · 61.4 tok/s · 2.0 s",
        "at most $1.1300  $0.0310 reserved  $0.0192 spent  $1.0798 left",
        "◐ working",
    ):
        assert fact in told


def test_nothing_of_it_stays_and_pipes_see_none() -> None:
    """On a real terminal the screen holds quote, output and account only; a pipe gets no code at
    all."""
    with place() as here:
        words = ["run", "notes.vega", "rain", "--no-journal"]
        on_screen, piped = captured(here, words, 80, {}), captured(here, words, None, {})
        asked = captured(here, [*words, "--json"], None, {})
    assert isinstance(on_screen, Captured)
    lines = [line[:6] for line in piped.text.splitlines()]
    assert lines == ["notes.", "judged", "w0 w1 ", "✓ note"]
    output, account = on_screen.text.splitlines()[:3], on_screen.text.splitlines()[3:]
    assert [line[:6] for line in output] == ["notes.", "judged", "w0 w1 "]
    assert " ".join(map(str.strip, account)).endswith("left")
    assert len(account) <= 2
    assert "\x1b" not in piped.text + asked.text
    assert asked.text.startswith("{")


def test_no_more_is_wasted_than_was_spent() -> None:
    """A run that goes on wastes again what an earlier process has paid."""
    totals = RunTotals()
    totals.on_wasted(WastedCost("main", Money(70)))
    assert "wasted" not in totals.line(1.0)
    totals.spent = 100
    assert "of it wasted" in totals.line(1.0).replace("\xa0", " ")
