"""What people do with sessions: undo with the conversation, list, search, export, fork, rename."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import vegakit
from tests.sage.scene import Scene, calls, scene
from tests.sage.test_code import EDIT, SOURCE, tree, wait_for
from vegakit import conversation, ports
from vegakit.agent import TurnPhase
from vegakit.cli.code import EXIT_STATUS
from vegakit.config import Settings
from vegakit.conversation import Text, ToolSpec, UserMessage
from vegakit.errors import InvalidMoneyError, UserError
from vegakit.money import Dollars
from vegakit.policy import Fetch, Grant, ReadPath, RunCommand, Use, WritePath
from vegakit.sage import (
    EndReason,
    SageAgent,
    SageEvent,
    SageMode,
    ToolRegistry,
    TurnRecord,
    event_line,
    undo_turns,
)
from vegakit.sage.history import _info  # pyright: ignore[reportPrivateUsage]
from vegakit.sage.sessions import SageRecord, UndoneTurns, rewound, turn_key
from vegakit.sage.undo.recorder import lasting_effect
from vegakit.sdk import Ask
from vegakit.tools import ToolRights

SAYS = {
    "One": [calls(("write", {"path": "one.txt", "content": "1"})), "First."],
    "Two": [calls(("shell", {"command": "echo 2 > two.txt; rm one.txt; sleep 0.1"})), "Second."],
    "Three": "Third.",
    "Again": "Again it is.",
}


def prefix(body: dict[str, Any]) -> str:
    """What a request begins with, without its last message and the marks of the cache."""
    plain = json.dumps([body["system"], body["tools"], body["messages"][:-1]])
    return plain.replace(', "cache_control": {"type": "ephemeral"}', "")


def asked(it: Scene, prompt: str) -> list[dict[str, Any]]:
    """The first requests of turns with this prompt."""
    return [body for body in it.bodies if prompt in json.dumps(body["messages"][-1])]


def undo(it: Scene, *words: str) -> dict[str, Any]:
    ran = it.here(*words, "--json", command="undo")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# Undo of files and conversation.


def test_undo_takes_a_turn_out_of_the_conversation(tmp_path: Path) -> None:
    """The next request begins as that of the turn before did, and redo brings both back."""
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        before = tree(it.folder)
        it.events("-p", "Two", "--resume", "s")
        after = tree(it.folder)
        assert undo(it)["sessions"] == [{"session": "s", "turns": [2]}]
        assert tree(it.folder) == before
        assert undo(it, "--redo")["sessions"] == [{"session": "s", "turns": [2]}]
        assert tree(it.folder) == after
        undo(it)
        it.events("-p", "Three", "--resume", "s")
        (two,), (three,) = asked(it, "Two"), asked(it, "Three")
        assert prefix(two) == prefix(three)
        assert "Two" not in json.dumps(three["messages"])
        again = it.here("--redo", command="undo")
        assert again.returncode == 1
        assert "the agent went on since the undo" in again.stderr


def test_a_turn_that_changed_nothing_is_undone_too(tmp_path: Path) -> None:
    """Also one in mode plan: what is undone is the last that was said."""
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        it.events("-p", "Three", "--resume", "s", "--mode", "plan")
        done = undo(it)
        assert (done["labels"], done["restored"]) == (["Three"], [])
        assert done["sessions"] == [{"session": "s", "turns": [2]}]
        assert (it.folder / "one.txt").exists()
        assert undo(it)["labels"] == ["One"]
        assert not (it.folder / "one.txt").exists()


def test_undo_to_a_turn(tmp_path: Path) -> None:
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        before = tree(it.folder)
        it.events("-p", "Two", "--resume", "s")
        it.events("-p", "Three", "--resume", "s")
        listed = json.loads(it.here("--list", "--json", command="undo").stdout)
        first = listed[-1]
        assert first["label"] == "One"
        assert undo(it, "--to", str(first["number"]))["labels"] == ["Three", "Two"]
        assert tree(it.folder) == before
        assert it.here("--to", "999", command="undo").returncode == 1
        assert undo(it, "--to", "0")["labels"] == ["One"]
        it.events("-p", "Again", "--resume", "s")
        (again,), (one,) = asked(it, "Again"), asked(it, "One")
        assert prefix(again) == prefix(one)


def test_a_killed_turn_is_one_turn_with_what_went_on(tmp_path: Path) -> None:
    """It was recorded in two parts, and both are taken back at once."""
    slow = calls(("shell", {"command": "echo ran > ran.txt; sleep 60"}))
    script = [calls(EDIT), slow, calls(("write", {"path": "b", "content": "b"})), "Done."]
    with scene(tmp_path, script) as it:
        (it.folder / "a.py").write_text(SOURCE)
        before = tree(it.folder)
        it.killed("-p", "Go.", "--session", "s", when=lambda e: e.get("name") == "shell")
        it.events("--resume", "s")
        assert (it.folder / "b").exists()
        done = undo(it)
        assert done["labels"] == ["Go."]
        assert tree(it.folder) == before


def test_undo_of_a_killed_turn_leaves_nothing_cut_off(tmp_path: Path) -> None:
    slow = calls(("shell", {"command": "echo ran > ran.txt; sleep 60"}))
    with scene(tmp_path, {"Go": slow, "Three": "Third."}) as it:
        (it.folder / "a.py").write_text(SOURCE)
        with it.start("-p", "Go.", "--session", "s") as life:
            wait_for(it.folder / "ran.txt")
            life.kill()
        undo(it)
        assert tree(it.folder) == {"a.py": SOURCE.encode()}
        nothing = it.here("--resume", "s")
        assert (nothing.returncode, len(it.bodies)) == (1, 1)
        assert it.events("--resume", "s", "-p", "Three")[-1]["text"] == "Third."
        assert "Go." not in json.dumps(it.bodies[-1]["messages"])


def test_an_undo_that_was_killed_before_the_marks_is_seen_on_resume(tmp_path: Path) -> None:
    """The files are restored, the session was not told: it finds out by itself."""
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        it.events("-p", "Two", "--resume", "s")
        undo(it)
        (file,) = (tmp_path / "home").rglob("vega.db")
        with it.inside():
            asyncio.run(_forget_marks(it))
        assert file.exists()
        it.events("-p", "Three", "--resume", "s")
        assert "Two" not in json.dumps(asked(it, "Three")[0]["messages"])


async def _forget_marks(it: Scene) -> None:
    from vegakit.sage.history import _opened

    async with _opened(it.folder, None) as (sessions, _):
        record = await sessions.named("s")
        turns = await sessions.turns(record)
        assert turns[2].undone_ms
        turns[2].undone_ms = 0
        await sessions.keep_turn(record, 2, turns[2])


def test_a_change_of_instructions_is_told_again_after_undo(tmp_path: Path) -> None:
    """The turn that told of it was taken back with what it told."""
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        (it.folder / "AGENTS.md").write_text("Be long.")
        it.events("-p", "Three", "--resume", "s")
        undo(it)
        it.events("-p", "Again", "--resume", "s")
        assert "Be long." in json.dumps(asked(it, "Again")[0]["messages"][-1])


def test_a_change_of_instructions_and_of_the_mode_is_told_once(tmp_path: Path) -> None:
    """Each turn is of another process, which knows what was told before."""
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        (it.folder / "AGENTS.md").write_text("Be long.")
        it.events("-p", "Three", "--resume", "s", "--mode", "plan")
        it.events("-p", "Again", "--resume", "s")
        (three,), (again,) = asked(it, "Three"), asked(it, "Again")
        for told in ("Be long.", "Mode plan"):
            assert told in json.dumps(three["messages"][-1])
            assert told not in json.dumps(again["messages"][-1])


def test_only_the_session_that_wrote_forgets(tmp_path: Path) -> None:
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "a")
        it.events("-p", "Two", "--session", "b")
        assert undo(it)["sessions"] == [{"session": "b", "turns": [1]}]
        it.events("-p", "Three", "--resume", "a")
        assert "First." in json.dumps(it.bodies[-1]["messages"])


@pytest.mark.parametrize(
    ("undos", "standing"),
    [
        ([(10, True, [2])], [1]),
        ([(10, False, [2])], [1, 2, 3]),
        ([(10, True, [3]), (11, True, [2])], [1]),
        ([(10, True, [3]), (11, False, [3])], [1, 2]),
        ([(2, True, [2])], [1, 3]),
        ([(10, True, [])], [1, 2, 3]),
    ],
)
def test_marks_follow_from_undos(
    undos: list[tuple[int, bool, list[int]]], standing: list[int]
) -> None:
    """With a turn go later ones that were there; to mark twice changes nothing."""
    turns = {number: TurnRecord("p", "p", at_ms=number) for number in (1, 2, 3)}
    told = [UndoneTurns(at, on, tuple(turn_key("r", n) for n in ns)) for at, on, ns in undos]
    rewound("r", turns, told)
    assert [number for number, turn in turns.items() if not turn.undone_ms] == standing
    assert rewound("r", turns, told) == []
    assert rewound("other", turns, told) == []


def test_a_session_that_was_undone_beside_it_does_not_go_on(tmp_path: Path) -> None:
    """What would be lost, its turn or the undo, is an error that says what to type."""

    async def both() -> None:
        async with SageAgent(resume="s") as sage:
            await undo_turns()
            with pytest.raises(UserError, match="has undone a turn of it"):
                [event async for event in sage.turn("Three")]

    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "s")
        with it.inside():
            asyncio.run(both())
        assert not asked(it, "Three")
        it.events("-p", "Three", "--resume", "s")
        assert "First." not in json.dumps(it.bodies[-1]["messages"])


# What lasts.


class Declares:
    """A tool that wants what it is told to."""

    spec = ToolSpec("t", "", {})
    idempotent, timeout_ms = False, 1000

    def __init__(self, rights: ToolRights) -> None:
        self._rights = rights

    def rights(self, arguments: object) -> ToolRights:
        del arguments
        return self._rights

    async def call(self, arguments: object, deps: object) -> str:
        return f"{arguments}{deps}"


COMMAND = RunCommand(("git", "push"))


@pytest.mark.parametrize(
    ("rights", "told"),
    [
        (ToolRights((ReadPath("a"), WritePath("b"))), ""),
        (ToolRights((COMMAND,), Grant(), sandboxed=True), ""),
        (ToolRights((COMMAND,)), "t: ran outside of the sandbox: git push"),
        (ToolRights((Fetch("POST", "x.org"),)), "t: sent a POST request to x.org"),
        (ToolRights((Use("mail::send"), Use("fs::write"))), "t: used mail::send"),
        (ToolRights(), "t: it does not declare what it does"),
    ],
)
def test_what_nobody_can_take_back_is_declared_by_rights(rights: ToolRights, told: str) -> None:
    assert lasting_effect(Declares(rights), {}) == told


def test_what_lasts_is_named_by_the_turn_and_by_undo(tmp_path: Path) -> None:
    async def sent(mode: str, name: str) -> Any:
        rights = ToolRights((Use("mail::send"),), Grant(("mail::send",)))
        async with SageAgent(mode=mode, session=name, tools=[Declares(rights)]) as sage:
            *_, end = [event async for event in sage.turn("Go")]
        return end

    with scene(tmp_path, {"Go": [calls(("t", {})), "Sent."]}) as it:
        config = tmp_path / "home/config/vega/vega.toml"
        rule = '[permissions]\nrules = ["allow mail::send"]\n'
        config.write_text(config.read_text() + rule)
        with it.inside():
            end = asyncio.run(sent("auto", "a"))
            assert end.lasting == ("t: used mail::send",)
            assert undo(it)["lasting"] == ["t: used mail::send"]
            refused = asyncio.run(sent("ask", "b"))
            assert refused.lasting == ()
            assert undo(it)["lasting"] == []


# Look.


def test_sessions_are_listed(tmp_path: Path) -> None:
    script = {
        **SAYS,
        "Fail": calls(("shell", {"command": "false"})),
        "Wait": calls(("shell", {"command": "touch waits; sleep 60"})),
    }
    with scene(tmp_path, script) as it:
        it.events("-p", "One", "--session", "fine")
        it.events("-p", "Three", "--resume", "fine")
        it.events("-p", "Fail", "--session", "bad", status=4)
        it.killed("-p", "Wait", "--session", "cut", when=lambda e: e["type"] == "tool_began")
        found = {one["name"]: one for one in json.loads(it.here("--list", "--json").stdout)}
        assert [*found] == ["cut", "bad", "fine"]
        assert {name: one["state"] for name, one in found.items()} == {
            "fine": "done",
            "bad": "failed",
            "cut": "cut off",
        }
        assert (found["fine"]["turns"], found["fine"]["prompt"]) == (2, "Three")
        assert found["fine"]["spent_usd"] > 0
        with it.start("-p", "Wait", "--session", "busy", "--json") as life:
            assert life.stdout is not None
            next(line for line in life.stdout if "tool_began" in line)
            shown = it.here("--list").stdout
            assert "working" in next(line for line in shown.splitlines() if "busy" in line)
            life.kill()


def test_words_are_found_in_prompts_and_answers(tmp_path: Path) -> None:
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "a")
        it.events("-p", "Three", "--session", "b")
        ran = it.here("--search", "first")
        assert (ran.returncode, ran.stdout) == (0, "a 1 answer: First.\n")
        (found,) = json.loads(it.here("--search", "THREE", "--json").stdout)
        assert found == {"session": "b", "turn": 1, "is_prompt": True, "text": "Three"}
        assert it.here("--search", "nowhere").returncode == 1
        undo(it)
        assert it.here("--search", "Three").returncode == 1


def test_export_gives_the_events_again(tmp_path: Path) -> None:
    """But for costs in between, and with the pieces of a text joined."""
    steps = [calls(EDIT, ("read", {"path": "a.py"}), text="I edit."), calls(EDIT), "Not again."]
    with scene(tmp_path, steps) as it:
        (it.folder / "a.py").write_text(SOURCE)
        live = joined(it.events("-p", "Edit.", "--session", "s"))
        ran = it.here("--export", "s", "--json")
        assert joined([json.loads(line) for line in ran.stdout.splitlines()])[1:] == live[1:]
        page = it.here("--export").stdout
        assert page.startswith("# Session s\n")
        for text in ("Edit.", "I edit.", '"old": "return 1"', "edit failed:", "Not again."):
            assert text in page
        assert it.here("--export", "no").returncode == 1


def joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of calls that ran at once in the order of the calls, and text in one piece."""
    made: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "text" and made and made[-1]["type"] == "text":
            made[-1] = {**event, "text": made[-1]["text"] + event["text"]}
        elif event["type"] != "cost":
            made.append(event)
    first = [e["id"] if e["type"] == "tool_ended" else "" for e in made]
    order = iter(sorted((e for e in made if e["type"] == "tool_ended"), key=lambda e: e["id"]))
    return [next(order) if place else event for place, event in zip(first, made, strict=True)]


# Fork and rename.


def test_a_fork_begins_with_the_same_bytes(tmp_path: Path) -> None:
    """Its budget is its own, the old session stays, and long outputs can still be read."""
    script = {**SAYS, "Long": [calls(("shell", {"command": "seq 1 9999"})), "Counted."]}
    with scene(tmp_path, script) as it:
        it.events("-p", "One", "--session", "old")
        it.events("-p", "Long", "--resume", "old")
        began = it.events("--fork", "old", "--session", "new", "--budget", "$2")
        assert [event["type"] for event in began] == ["session"]
        assert (began[0]["budget_usd"], began[0]["resumed"]) == (2, False)
        it.events("-p", "Three", "--resume", "new")
        it.events("-p", "Again", "--resume", "old")
        (new,), (old,) = asked(it, "Three"), asked(it, "Again")
        assert prefix(new) == prefix(old)
        outputs = [path.name for path in (tmp_path / "home/data/vega/sage").rglob("*.txt")]
        assert len(outputs) == 2
        assert outputs[0] == outputs[1]
        both = {one["name"]: one for one in json.loads(it.here("--list", "--json").stdout)}
        assert {name: (one["turns"], one["prompt"]) for name, one in both.items()} == {
            "old": (3, "Again"),
            "new": (3, "Three"),
        }
        assert both["new"]["forked_from"] == both["old"]["run"]


def test_a_fork_leaves_out_what_was_cut_off_or_undone(tmp_path: Path) -> None:
    script = {**SAYS, "Wait": calls(("shell", {"command": "sleep 60"}))}
    with scene(tmp_path, script) as it:
        it.events("-p", "One", "--session", "old")
        it.events("-p", "Two", "--resume", "old")
        undo(it)
        it.killed("-p", "Wait", "--resume", "old", when=lambda e: e["type"] == "tool_began")
        it.events("--fork", "old", "--session", "new", "-p", "Three")
        said = json.dumps(asked(it, "Three")[0]["messages"])
        assert "First." in said
        assert "Two" not in said
        assert "Wait" not in said


def test_a_fork_that_was_killed_goes_on(tmp_path: Path) -> None:
    """As the fork that it is, by its own command: it is not forked again."""
    with scene(tmp_path, {**SAYS, "Edit": [calls(EDIT), "Edited."]}) as it:
        (it.folder / "a.py").write_text(SOURCE)
        it.events("-p", "One", "--session", "old")
        words = ("--fork", "old", "--session", "new", "-p", "Edit")
        it.killed(*words, when=lambda e: e["type"] == "tool_began")
        ran = it.vega(command="resume")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout.splitlines()[-1])["text"] == "Edited."
        names = [one["name"] for one in json.loads(it.here("--list", "--json").stdout)]
        assert sorted(names) == ["new", "old"]


@pytest.mark.parametrize(
    ("budget", "kept"), [(5, 5.0), (2.5, 2.5), (Decimal("0.75"), 0.75), (Dollars("$0.2"), 0.2)]
)
def test_a_budget_in_python_may_be_a_number(budget: Any, kept: float, tmp_path: Path) -> None:
    """It is kept as a text, so what reads the sessions of the folder later reads this one too."""

    async def python() -> float | None:
        async with SageAgent(budget=budget, session="s") as sage:
            return (await sage.opened()).budget_usd

    with scene(tmp_path, SAYS) as it:
        with it.inside():
            assert asyncio.run(python()) == kept
        assert it.here("--list").returncode == 0
        assert json.loads(it.here("--export", "s", "--json").stdout)["budget_usd"] == kept


@pytest.mark.parametrize("budget", [-1, float("nan"), "", "much"])
def test_a_budget_that_is_no_amount_is_refused_before_a_session_is_kept(
    budget: Any, tmp_path: Path
) -> None:
    async def python(**given: Any) -> None:
        async with SageAgent(**given):
            pass

    with scene(tmp_path, SAYS) as it:
        for name in ("budget", "raise_budget"):
            with it.inside(), pytest.raises(InvalidMoneyError):
                asyncio.run(python(**{name: budget}))
        assert it.here("--list", "--json").stdout.strip() in {"", "[]"}


def test_a_session_is_renamed(tmp_path: Path) -> None:
    with scene(tmp_path, SAYS) as it:
        it.events("-p", "One", "--session", "a")
        assert it.here("--rename", "a", "b").returncode == 0
        assert it.here("--rename", "b", "b").returncode == 1
        assert it.events("-p", "Three", "--resume", "b")[0]["session"] == "b"


@pytest.mark.parametrize("words", [("--list", "-p", "x"), ("--list", "--resume"), ("--search", "")])
def test_wrong_uses(words: tuple[str, ...], tmp_path: Path) -> None:
    with scene(tmp_path, "never") as it:
        ran = it.here(*words)
        assert ran.returncode in (1, 2)
        assert ran.stderr
        assert it.bodies == []


# One transcript, three doors.


def test_print_json_and_python_tell_the_same(tmp_path: Path) -> None:
    """What is printed is what the events say, drawn by the same code from the same events."""
    from vegakit.cli.code import _parser, _Work

    steps = [calls(EDIT, text="I edit."), calls(EDIT), "Done."]
    said = iter(steps * 3)
    with scene(tmp_path, lambda _: next(said)) as it:

        def fresh() -> None:
            (it.folder / "a.py").write_text(SOURCE)

        fresh()
        lines = it.here("-p", "Edit.", "--json", "--session", "one").stdout.splitlines()
        fresh()
        printed = it.here("-p", "Edit.", "--session", "two")
        fresh()

        async def python() -> list[SageEvent]:
            async with SageAgent(session="three") as sage:
                return [await sage.opened(), *[e async for e in sage.turn("Edit.")]]

        with it.inside():
            by_python = asyncio.run(python())
        by_json = [msgspec.json.decode(line, type=SageEvent) for line in lines]
        assert _alike(by_json) == _alike(by_python)
        work = _Work(_parser().parse_args(["-p", "Edit."]))
        out = _drawn(work, by_json)
        assert out[0] == printed.returncode == EXIT_STATUS[EndReason.DONE]
        assert out[1] == printed.stdout
        assert _unnamed(out[2]) == _unnamed(printed.stderr)


def _alike(events: list[SageEvent]) -> list[dict[str, Any]]:
    """Without what differs between two sessions: names, and when a cost is known."""
    plain = joined([json.loads(event_line(event)) for event in events])
    return [{k: v for k, v in event.items() if k not in ("session", "run")} for event in plain]


def _drawn(work: Any, events: list[SageEvent]) -> tuple[int, str, str]:
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        for event in events:
            work._show(event)
        status = work._ended(events[-1])
    return status, out.getvalue(), err.getvalue()


def _unnamed(text: str) -> str:
    return text.replace("session one", "session _").replace("session two", "session _")


# Names.


def test_the_names_of_the_sdk_are_those_of_the_runtime() -> None:
    """Stable, and the same types: what one part makes another takes."""
    import vegakit.sage as ours

    assert ours.Agent is vegakit.Agent
    assert ours.Config is Settings
    assert (ours.AgentExecution, ours.AgentState) == (Ask, TurnPhase)
    assert (ours.ToolCall, ours.ToolResult) == (conversation.ToolCall, conversation.ToolResult)
    assert ours.Message == conversation.Message
    assert (ours.Tool, ours.LLMClient) == (ports.Tool, ports.Model)
    assert ours.LLMProvider.__name__ == "ProviderRecord"


def test_a_registry_has_tools_by_name_and_in_order() -> None:
    def first(text: str) -> str:
        """Say it."""
        return text

    found = ToolRegistry([Declares(ToolRights()), first])
    assert [*found] == ["t", "first"]
    assert found["first"].spec.description == "Say it."
    with pytest.raises(UserError, match="for each other"):
        found.register(Declares(ToolRights()))


@pytest.mark.parametrize(
    ("turn", "state"),
    [
        (None, "open"),
        (TurnRecord("p", "p"), "working"),
        (TurnRecord("p", "p", failed="interrupted"), "open"),
        (TurnRecord("p", "p", messages=(UserMessage((Text("p"),)),)), "open"),
    ],
)
def test_a_session_works_only_while_a_turn_does(turn: TurnRecord | None, state: str) -> None:
    """One that is open at a screen and waits for a prompt does not."""
    record = SageRecord("r", "n", "/p", "smart", SageMode.ASK, "", "", {})
    run: Any = SimpleNamespace(is_running=True, spent=0)
    turns = {} if turn is None else {1: turn}
    assert _info(record, turns, run).state == state
