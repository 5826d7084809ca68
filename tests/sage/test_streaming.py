"""Text of a session comes as it is said, and a turn is not held by a usual amount."""

from contextlib import suppress
from pathlib import Path

from tests.patience import shell_until
from tests.sage.scene import calls, scene
from vegakit.conversation import Usage
from vegakit.sage import SageAgent, SageText, SageToolOutput, context_share, export_session
from vegakit.testing import Break, DropConnection, Hang, ProviderReply, RequestStatus


async def test_text_comes_before_the_answer_has_ended(tmp_path: Path) -> None:
    """The answer never ends, and its first words are heard all the same."""
    stuck = ProviderReply("one two three", breaks=Break(2, Hang()))
    with scene(tmp_path, stuck) as it, it.inside():
        heard = ""
        with suppress(KeyError):
            async with SageAgent() as sage:
                async for event in sage.turn("Talk."):
                    if isinstance(event, SageText):
                        heard = event.text
                        raise KeyError
        assert heard.startswith("one")
        assert it.provider.requests[0].status is not RequestStatus.ANSWERED


def test_an_answer_that_breaks_off_is_heard_once_more(tmp_path: Path) -> None:
    """What is said at the end is the whole answer; the text begins anew, and is told once."""
    broken = ProviderReply("one two three", breaks=Break(1, DropConnection()))
    with scene(tmp_path, [broken, "one two three"]) as it:
        events = it.events("-p", "Talk.")
        assert events[-1]["text"] == "one two three"
        heard = "".join(event["text"] for event in events if event["type"] == "text")
        assert heard == "one one two three"
        assert len(it.bodies) == 2


def test_retries_of_the_settings_hold(tmp_path: Path) -> None:
    broken = ProviderReply("one two three", breaks=Break(1, DropConnection()))
    with scene(tmp_path, broken) as it:
        settings = tmp_path / "home" / "config" / "vega" / "vega.toml"
        settings.write_text(f"{settings.read_text()}\n[limits.default.retry]\nmax_attempts = 2\n")
        assert it.events("-p", "Talk.", status=1)[-1]["error"] == "AgentFailed"
        assert len(it.bodies) == 1


def test_a_turn_may_spend_what_its_session_has(tmp_path: Path) -> None:
    """An agent with tools that nobody gave a budget has fifty cents for a question."""
    dear = [
        ProviderReply("", calls(("shell", {"command": f"echo {n}"})).calls, usage=Usage(9, 8_000))
        for n in range(20)
    ]
    with scene(tmp_path, [*dear, "Done."]) as it:
        ended = it.events("-p", "Count.", "--budget", "$2")[-1]
        assert ended["reason"] == "done"
        assert 0.8 < ended["spent_usd"] < 1


async def test_what_a_command_says_is_told_while_it_runs(tmp_path: Path) -> None:
    """It would wait for ever: only who hears its first words lets it go on. Of a command that says
    much the last is told, and how many lines there were; the record of the session is as before."""
    slow = f"echo first; {shell_until('[ -e go ]')}; seq 1 50000"
    with scene(tmp_path, [calls(("shell", {"command": slow})), "Done."]) as it, it.inside():
        heard: list[SageToolOutput] = []
        async with SageAgent() as sage:
            async for event in sage.turn("Run it."):
                if isinstance(event, SageToolOutput):
                    heard.append(event)
                    (it.folder / "go").touch()
        assert heard[0] == SageToolOutput("1.1.0", "shell", "first\n", 1)
        assert all(len(one.text) <= 8_000 for one in heard)
        told = await export_session()
        assert not any(isinstance(event, SageToolOutput) for event in told)


async def test_output_of_a_sub_agent_names_its_task(tmp_path: Path) -> None:
    slow = f"echo first; {shell_until('[ -e go ]')}"
    script = {
        "look": [calls(("shell", {"command": slow})), "Seen."],
        "Go": [calls(("task", {"agent": "work", "prompt": "look"})), "Done."],
    }
    with scene(tmp_path, script) as it, it.inside():
        heard: list[SageToolOutput] = []
        async with SageAgent(budget="$1") as sage:
            async for event in sage.turn("Go."):
                if isinstance(event, SageToolOutput):
                    heard.append(event)
                    (it.folder / "go").touch()
        assert [(one.id, one.task) for one in heard] == [("1.1.0/1.0", "1.1.0")]


async def test_the_window_fills_as_the_conversation_grows(tmp_path: Path) -> None:
    with scene(tmp_path, "A long answer. " * 2_000) as it, it.inside():
        async with SageAgent() as sage:
            before = await context_share(sage)
            async for _ in sage.turn("Talk."):
                pass
            assert 0 < before < await context_share(sage) <= 1
