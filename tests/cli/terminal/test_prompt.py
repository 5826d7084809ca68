"""What is typed into the prompt line of `vega code` and not sent yet: whatever the app puts there
meanwhile, it is still there, in sight, or printed on leaving."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Paste

from tests.cli.terminal.test_screen import answer, ends, opened, say
from tests.cli.terminal.test_stopping import press_at_once
from tests.patience import until
from tests.sage.scene import calls, scene
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.prompt import PromptInput
from vegakit.cli.terminal.reducer import begin
from vegakit.cli.terminal.state import ApprovalState, TypedPrompt

LONG = "long text\n" * 200


class LineApp(App[None]):
    """A prompt line alone."""

    def compose(self) -> ComposeResult:
        yield PromptInput(lambda _: False, lambda _: None, id="prompt")


@asynccontextmanager
async def line(*earlier: str) -> AsyncGenerator[PromptInput]:
    async with LineApp().run_test() as pilot:
        prompt = pilot.app.query_one(PromptInput)
        prompt.remember([*earlier])
        yield prompt


async def test_a_line_that_comes_back_while_an_earlier_prompt_is_shown_stays_in_sight() -> None:
    """It is not taken for a change of that prompt, which would go out of sight with it."""
    async with line("earlier") as prompt:
        prompt.insert("draft")
        prompt.set_aside("")
        prompt.action_older()
        assert prompt.text == "earlier"
        prompt.put_back()
        for _ in range(3):
            prompt.action_newer()
        assert prompt.text == "draft"
        assert prompt.unsent() == "draft"


async def test_what_is_given_back_comes_before_what_stands() -> None:
    async with line("earlier") as prompt:
        prompt.insert("draft")
        prompt.action_older()
        prompt.give_back("stopped")
        prompt.action_newer()
        assert prompt.text == "stopped\ndraft"


async def test_an_earlier_prompt_that_was_changed_is_unsent_too() -> None:
    async with line("earlier") as prompt:
        prompt.insert("draft")
        prompt.action_older()
        assert prompt.unsent() == "draft"
        prompt.insert(" and more")
        assert prompt.unsent() == "draft\nearlier and more"
        prompt.give_back("stopped")
        assert prompt.text == "stopped\ndraft\nearlier and more"


async def test_a_draft_comes_back_after_what_was_put_over_it() -> None:
    """Such as a command that was chosen from the list; looking at earlier prompts in between does
    not matter."""
    async with line("earlier") as prompt:
        prompt.insert("draft")
        prompt.action_older()
        prompt.put("/model ")
        prompt.action_older()
        prompt.action_newer()
        assert prompt.text == "/model "
        assert prompt.unsent() == "draft"
        prompt.insert("x")
        prompt.action_submit()
        assert prompt.text == "draft"


async def test_a_draft_outlives_another_session() -> None:
    async with line("earlier") as prompt:
        prompt.insert("draft")
        prompt.action_older()
        prompt.remember(["of the other"])
        assert prompt.text == "draft"
        prompt.action_older()
        assert prompt.text == "of the other"


async def test_two_that_are_set_aside_come_back_in_their_order() -> None:
    async with line() as prompt:
        prompt.insert("one")
        prompt.set_aside("")
        prompt.insert("two")
        prompt.set_aside("command")
        prompt.drop()
        prompt.put_back()
        assert prompt.text == "one\ntwo"
        prompt.action_older()  # on the first line only
        assert prompt.text == "one\ntwo"


async def test_pastes_stay_marks_wherever_the_line_is_kept() -> None:
    """Words beside a mark can be read and changed, and the mark is sent as what it stands for."""
    async with line("earlier") as prompt:
        prompt.insert("look: ")
        prompt.post_message(Paste(LONG))
        await until(lambda: "[pasted 1" in prompt.text)
        before = prompt.text
        prompt.set_aside("")
        prompt.insert("no")
        prompt.action_submit()  # an answer to a question is sent meanwhile
        prompt.put_back()
        assert prompt.text == before
        prompt.action_older()
        prompt.give_back("short")
        assert prompt.text == f"short\n{before}"
        assert prompt.whole() == f"short\nlook: {LONG}"


async def test_a_long_line_that_is_completed_keeps_what_was_pasted() -> None:
    async with line() as prompt:
        prompt.paths = ["notes.md"]
        prompt.post_message(Paste(LONG))
        await until(lambda: "[pasted 1" in prompt.text)
        words = " word" * 300
        prompt.insert(f"{words} @not")
        await until(lambda: bool(prompt.candidates))
        prompt.action_complete()
        assert prompt.whole().startswith(f"{LONG}{words}")
        assert "notes.md" in prompt.text


# On the screen.


@pytest.mark.parametrize(
    ("after", "line_then"), [(("up", "down"), "draft"), ((*"why", "escape"), "draftwhy")]
)
async def test_a_line_beside_an_answer_is_not_lost_to_keys_that_come_at_once(
    tmp_path: Path, after: tuple[str, ...], line_then: str
) -> None:
    """No to a question, and at once a look at an earlier prompt and back, or a word and a stop:
    they are carried out after the answer, which is given."""
    script = [calls(("shell", {"command": "make"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        async with opened(it, mode="ask") as (app, pilot):
            await until(lambda: app.driver._is_open)  # pyright: ignore[reportPrivateUsage]
            await say(pilot, "build")
            app.prompt.insert("draft")
            await until(lambda: app.state.asked is not None)
            await pilot.press("tab")
            asked = app.state.asked
            await answer(app, pilot, "n")
            press_at_once(app, "enter", *after)
            await until(lambda: bool(ends(app)))
            assert asked is not None
            assert asked.state is ApprovalState.NO
            assert app.prompt.text == line_then


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_prompt_that_the_agent_has_not_heard_is_given_back(
    tmp_path: Path, *, is_stopped: bool
) -> None:
    """One that is stopped before its first step, and one that is refused."""
    with scene(tmp_path, "Done.") as it, it.inside():
        async with opened(it) as (app, _):
            images = () if is_stopped else (str(it.folder / "gone.png"),)
            await until(lambda: app.driver._is_open)  # pyright: ignore[reportPrivateUsage]
            app.driver.carry_out(begin(app.state, TypedPrompt("what is this?", images)))
            if is_stopped:
                await app.driver.stop()
            await until(lambda: app.prompt.text == "what is this?")
            assert not app.state.is_working
        assert not it.bodies


async def test_what_was_not_heard_is_printed_on_leaving(tmp_path: Path) -> None:
    with scene(tmp_path, "Done.") as it, it.inside():
        async with opened(it) as (app, _):
            app.prompt.insert("draft")
            await until(lambda: app.driver._is_open)  # pyright: ignore[reportPrivateUsage]
            app.driver.carry_out(begin(app.state, TypedPrompt("hello")))
            await app.leave()
        assert isinstance(app, CodeApp)
        assert str(app.return_value).endswith("not sent:\nhello\ndraft")
