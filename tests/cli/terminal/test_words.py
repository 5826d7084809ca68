"""What is typed on the screen is told in its words; a command in a turn is carried out at its end,
or refused, and never dropped."""

from pathlib import Path

import pytest

from tests.cli.terminal.test_reducer import question, shown, working
from tests.cli.terminal.test_screen import ends, notes, opened, say, text_of
from tests.patience import until
from tests.sage.scene import scene
from vegakit.cli.terminal.draw import Canvas, about_call, lines_of
from vegakit.cli.terminal.painted import Painted
from vegakit.cli.terminal.reducer import on_event, on_key, on_submit
from vegakit.cli.terminal.state import ChatItem, ToolItem, TypedPrompt
from vegakit.cli.terminal.words import next_step, on_screen
from vegakit.sage import EndReason, SageEnd, SageToolBegan, SageToolEnded
from vegakit.testing import Break, Hang, ProviderReply

STUCK = ProviderReply("one two three", breaks=Break(2, Hang()))


def test_errors_tell_what_is_typed_on_the_screen() -> None:
    passed = "you may; type --budget '+$8.00', or raise that first, then type: vega code --resume x"
    assert on_screen(passed) == (
        "you may; to add to it, type: /budget +$8.00, or raise that first, then start vega code "
        "again"
    )
    lowered = "never lowered; leave --budget out; to add to it, type: --budget '+$1'"
    assert on_screen(lowered) == "never lowered; to add to it, type: /budget +$1"
    assert on_screen("0; raise the budget, or lower max_tokens") == "0; raise the budget"


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        (EndReason.BUDGET, "$0.02 left", "/budget +$1, then type: go on"),
        (EndReason.BUDGET, "x has no known price, so", "/model"),
        (EndReason.ERROR, "smart failed (auth): no", "set the key"),
        (EndReason.ERROR, "smart failed (server): no", "type go on"),
        (EndReason.DONE, "", ""),
    ],
)
def test_a_turn_that_failed_says_what_to_type(reason: EndReason, message: str, told: str) -> None:
    step = next_step(SageEnd(reason, message=message))
    assert told in step
    assert bool(step) == bool(told)


async def test_a_raise_in_a_turn_is_carried_out_at_its_end(tmp_path: Path) -> None:
    """Before the prompt that waits; what cannot wait is refused in words that say so."""
    with scene(tmp_path, [STUCK, "Second."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await say(pilot, "/budget +$1")
            assert "when the turn has ended" in notes(app)[-1]
            await say(pilot, "/undo")
            assert "not while a turn works" in notes(app)[-1]
            assert app.state.money.at_most == 2_000_000_000
            await pilot.press("escape")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            await until(lambda: app.state.money.at_most == 3_000_000_000)
            await until(lambda: " of $3.00 spent" in notes(app)[-1])
            await say(pilot, "/budget $5")
            await until(lambda: " of $5.00 spent" in notes(app)[-1])
            await say(pilot, "/budget $4")
            await until(lambda: "never lowered; to add to it, type: /budget" in notes(app)[-1])
            await say(pilot, "again")
            await until(lambda: ends(app)[-1] is EndReason.DONE)


def test_a_refusal_is_told_once_and_a_question_without_internal_words() -> None:
    """The reason stands with the question; of a call that nobody was asked about it stays."""
    state = working(question(1))
    assert state.asked is not None
    asked = state.asked
    assert "no rule" not in drawn(asked)
    asked.explains = True
    assert asked.process not in drawn(asked).partition("The runtime has it as")[0]
    shown(state, 0)
    on_key(state, "n", 400, is_draft_empty=True)
    on_submit(state, TypedPrompt("later"))
    for call in ("1", "2"):
        on_event(state, SageToolBegan(call, "shell", {"command": "make"}), 1)
    said = "Declined: shell was declined by a person: "
    on_event(state, SageToolEnded("1", "shell", f"{said}later", is_error=True), 2)
    on_event(state, SageToolEnded("2", "shell", f"{said}never", is_error=True), 2)
    first, second = (one for one in state.items if isinstance(one, ToolItem))
    assert drawn(first).strip() == "⊘ shell make"
    assert "never" in drawn(second)
    assert about_call(first) == "make"


def drawn(item: ChatItem) -> str:
    lines = lines_of(item, Canvas(80))
    return "\n".join("".join(part.text for part in line) for line in lines)


async def test_the_session_on_the_screen_is_named_where_there_are_several(tmp_path: Path) -> None:
    """A fork says what it is, and what it has spent is its own."""
    with scene(tmp_path, "Done.") as it, it.inside():
        async with opened(it, session="first") as (app, pilot):
            await say(pilot, "hello")
            await until(lambda: ends(app) == [EndReason.DONE])
            assert app.state.money.spent > 0
            await say(pilot, "/fork second")
            await until(lambda: app.state.name == "second")
            assert ends(app) == [EndReason.DONE]
            assert notes(app)[-1] == (
                "session second begins with the conversation of first; $0.0000 of $2.00 spent · "
                "$2.0000 left"
            )
            rule = app.query_one("#rule", Painted)
            assert " second " in "".join(one.text for one in rule.rows(100, 1)[0])
