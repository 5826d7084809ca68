"""What a turn waits for stands above the prompt at once, moves and counts; and costs few bytes."""

from pathlib import Path
from unittest.mock import patch

from hypothesis import given, strategies as st
from textual.geometry import Region

from tests.cli.terminal.test_reducer import question, working
from tests.cli.terminal.test_screen import ends, opened, say
from tests.patience import until
from tests.sage.scene import scene
from vegakit.cli.look import SPINNER
from vegakit.cli.terminal.draw import width_of
from vegakit.cli.terminal.painted import Painted
from vegakit.cli.terminal.reducer import on_event, on_key, on_question, on_submit
from vegakit.cli.terminal.state import NoteItem, TypedPrompt, ViewState
from vegakit.cli.terminal.waiting import wait_of, waiting_line
from vegakit.errors import ErrorClass
from vegakit.sage import (
    EndReason,
    SageEnd,
    SageRetry,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageTurn,
    SageWaiting,
)
from vegakit.testing import Hang


def drawn(state: ViewState, now: int, width: int = 80) -> str:
    return "".join(one.text for one in waiting_line(state, now, width))


def test_a_prompt_that_was_sent_waits_at_once_and_counts() -> None:
    state = ViewState(model="smart", heard_ms=5)
    assert wait_of(state, 1_000_000) == ""
    on_submit(state, TypedPrompt("hello"))
    assert wait_of(state, 1_000_000) == "waiting for smart"
    on_event(state, SageTurn(1, "hello"), 1_000_000)
    assert wait_of(state, 1_000_999) == "waiting for smart"
    assert wait_of(state, 1_012_000) == "waiting for smart 12 s"
    on_event(state, SageWaiting("smart", 30.0, 300.0), 1_030_000)
    assert wait_of(state, 1_030_000) == "waiting for smart 30 s; asked again after 5 m"


def test_a_stream_that_stalls_waits_and_one_that_flows_does_not() -> None:
    state = working()
    state.model = "smart"
    on_event(state, SageText("one"), 10_000)
    assert [wait_of(state, now) for now in (10_999, 11_000)] == ["", "waiting for smart 1 s"]
    on_event(state, SageText("two"), 12_000)
    assert wait_of(state, 12_100) == ""


def test_tools_and_questions_tell_it_themselves_and_an_end_is_still() -> None:
    state = working()
    on_event(state, SageToolBegan("1", "shell", {"command": "make"}), 1)
    assert wait_of(state, 9_000) == ""
    on_event(state, SageToolEnded("1", "shell", "made", is_error=False), 9_000)
    assert wait_of(state, 9_000).startswith("waiting for")
    on_question(state, question(1))
    assert wait_of(state, 9_500) == ""
    on_key(state, "escape", 9_600, is_draft_empty=True)
    assert wait_of(state, 9_700) == "stopping"
    on_event(state, SageEnd(EndReason.INTERRUPTED), 9_800)
    assert wait_of(state, 99_000) == ""


def test_calls_that_are_made_again_are_one_note_and_count_down() -> None:
    """What a person could do is left out: it is made again by itself."""
    state = working()
    state.model = "smart"
    refused = f"failed (rate_limit): Too busy.{ErrorClass.RATE_LIMIT.next_step}"
    for attempt in (2, 3):
        on_event(state, SageRetry("smart", refused, attempt, 8, 2.089), 10_000)
    notes = [one.text for one in state.items if isinstance(one, NoteItem)]
    assert notes == ["failed (rate_limit): Too busy.; try 3 of 8"]
    assert wait_of(state, 10_000) == "try 3 of 8: asks smart again in 3 s"
    assert wait_of(state, 12_000) == "try 3 of 8: asks smart again in 1 s"
    assert wait_of(state, 14_089) == "waiting for smart 2 s"


@given(st.integers(20, 200), st.text("ab漢\x1b", max_size=60), st.sampled_from(["", "end here"]))
def test_the_line_fits_and_moves(width: int, model: str, right: str) -> None:
    state = working()
    state.model = model
    lines = [waiting_line(state, now, width, right) for now in range(0, 1_000, 250)]
    assert {width_of(line) for line in lines} == {width}
    assert len({line[1].text for line in lines}) == 4
    assert all("\x1b" not in one.text for line in lines for one in line)


async def test_the_screen_moves_while_it_waits_and_is_still_when_nothing_does(
    tmp_path: Path,
) -> None:
    """Only the cells of the sign and of the seconds are sent, and none when the turn has ended."""
    with scene(tmp_path, Hang()) as it, it.inside():
        async with opened(it) as (app, pilot):
            rule = app.query_one("#rule", Painted)
            sent: list[int] = []
            refresh = rule.refresh

            def noted(*regions: Region, **more: bool) -> object:
                sent.extend(one.width for one in regions or (Region(0, 0, 100, 1),))
                return refresh(*regions, **more)

            def told() -> str:
                return "".join(one.text for one in rule.rows(100, 1)[0])

            await say(pilot, "hello")
            await until(lambda: "waiting for" in told())
            assert app.state.heard_ms is not None
            app.state.heard_ms -= 9_500  # at 10 s it takes another cell
            app.refresh_rule()
            with patch.object(rule, "refresh", noted):
                await until(lambda: len(sent) >= 3)
                assert max(sent) <= 32
                await pilot.press("escape")
                await until(lambda: ends(app) == [EndReason.INTERRUPTED])
                await until(lambda: not set(SPINNER) & set(told()))
                await pilot.pause()
                app.refresh_rule()
                sent.clear()
                for _ in range(3):
                    app.refresh_rule()
                assert not sent
