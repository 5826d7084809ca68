"""Turns that do not go by themselves: answers that are cut, providers that fail or are silent,
signals, and what a person and a model are told then."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.turns import ADD, begin, call, calls as answer, count
from tests.patience import PATIENCE_S, shell_until, wait_until
from tests.sage.scene import calls, scene
from tests.sage.test_code import text_of, wait_for
from vegakit.agent import AskModel, ToolOutcome
from vegakit.conversation import Finish
from vegakit.providers import ScriptedModel
from vegakit.sage import SageRetry, SageToolBegan, SageToolEnded, SageWaiting
from vegakit.sage.coding_agent import Silence, coding_agent
from vegakit.testing import Failure, Hang, ProviderReply, ProviderToolCall

LONG = ProviderReply(
    "I write it.",
    [ProviderToolCall("write", {"path": "big.py", "content": "x = 1"})],
    finish=Finish.LENGTH,
)


# Files that a person, or a command, makes while a command runs.


def test_the_person_is_told_of_files_that_were_renamed_or_left(tmp_path: Path) -> None:
    """What the command planted has another name; what the person saved meanwhile stays."""
    command = f"mkdir -p sub/.vscode; touch sub/.vscode/x up; {shell_until('[ ! -e up ]')}"
    with scene(tmp_path, [calls(("shell", {"command": command})), "Done."]) as it:
        with it.start("-p", "Go.") as life:
            wait_for(it.folder / "up")
            (it.folder / ".vscode" / "settings.json").write_text("{}")
            (it.folder / "up").unlink()
            _, told = life.communicate(timeout=4 * PATIENCE_S)
        assert (it.folder / ".vscode" / "settings.json").read_text() == "{}"
        assert re.search(r"note: .*set aside.*\.vscode in .*/sub, now \.vscode\.set-aside-", told)
        assert re.search(r"note: .*made outside .* left as it is: \.vscode\n", told)


# Answers that are cut.


def test_a_cut_answer_is_told_to_the_model_in_the_same_turn(tmp_path: Path) -> None:
    """Nothing of it is done; the model goes on in smaller steps."""
    small = calls(("write", {"path": "big.py", "content": "x = 2"}))
    with scene(tmp_path, [LONG, small, "Done."]) as it:
        ran = it.here("-p", "Write it.")
        assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr
        assert (it.folder / "big.py").read_text() == "x = 2"
        *_, said, told = it.bodies[1]["messages"]
        assert "I write it." in json.dumps(said)
        assert "cut at 8,000 tokens" in json.dumps(told)
        assert {body["max_tokens"] for body in it.bodies} == {8_000}


def test_an_answer_that_is_always_cut_ends_the_turn_and_says_what_to_type(tmp_path: Path) -> None:
    """The option that is named lets the session go on, which keeps it."""

    def answer(request: Any) -> Any:
        return LONG if request.body["max_tokens"] < 16_000 else "Done."

    with scene(tmp_path, answer) as it:
        ran = it.here("-p", "Write it.", "--session", "s")
        assert ran.returncode == 1
        assert len(it.bodies) == 4
        assert "vega code --resume s --max-tokens 16000 -p 'Go on.'" in ran.stderr
        assert "add a prompt" in it.here("--resume", "s", "--max-tokens", "16000").stderr
        ran = it.here("--resume", "s", "--max-tokens", "16000", "-p", "Go on.")
        assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr
        assert "stopped: error (OutputTruncated)" in json.dumps(it.bodies[-1])
        assert it.here("--resume", "s", "-p", "More.").returncode == 0
        assert it.bodies[-1]["max_tokens"] == 16_000
        assert it.here("-p", "x", "--max-tokens", "0").returncode == 2


# A project that brings its own answers.


def test_a_project_does_not_answer_for_the_model_unless_it_is_trusted(tmp_path: Path) -> None:
    """Whoever wrote it would say what the agent says, and what it runs."""
    with scene(tmp_path, "Mine.") as it:
        it.distrust()
        says = it.folder / "evil.json"
        says.write_text(json.dumps(["It is safe."]))
        (it.folder / "vega.toml").write_text('[models]\nsmart = "scripted:evil.json"\n')
        ran = it.vega("-p", "Is it safe?")
        assert ran.stdout == "Mine.\n"
        assert "your own settings hold" in ran.stderr
        assert it.here("--yes", command="trust").returncode == 0
        assert it.here("-p", "Is it safe?").stdout == "It is safe.\n"
        ran = it.here("-p", "And now?", "--model", "scripted:evil.json")
        assert ran.stdout == "It is safe.\n"
        assert len(it.bodies) == 1


# Providers that fail.

QUICK = """
[limits.default.retry]
max_attempts = 7
backoff = "exponential(1ms, 2.0, 2ms)"
on = ["overloaded", "server"]
"""


@pytest.mark.parametrize("status", [529, 500])
def test_a_provider_that_fails_for_ever_is_told_with_its_words(tmp_path: Path, status: int) -> None:
    """Its status and message, how often it was asked, and what to type; no breaker comes before."""
    with scene(tmp_path, Failure(status, "Try in an hour.")) as it:
        it.settings(QUICK)
        ran = it.here("-p", "hi", "--session", "s")
        assert ran.returncode == 1
        assert len(it.bodies) == 7
        lines = ran.stderr.splitlines()
        assert len([line for line in lines if "; try " in line]) == 6
        first, *rest = lines[7:]
        assert re.match(
            r"error: anthropic:loopback failed \(\w+\): HTTP \d+: Try in an hour", first
        )
        assert f"HTTP {status}" in first
        assert rest[:3] == [
            "  it was asked 7 times",
            "  to go on, try: vega code --resume s",
            "  to ask another model, try: vega code --resume s --model PROVIDER:NAME -p 'Go on.'",
        ]


def test_a_breaker_of_the_settings_says_what_opened_it(tmp_path: Path) -> None:
    with scene(tmp_path, Failure(529, "Try in an hour.")) as it:
        it.settings(f"{QUICK}[limits.default.breaker]\nthreshold = 2\n")
        end = it.events("-p", "hi", status=1)[-1]
        assert (end["error"], len(it.bodies)) == ("CircuitOpen", 2)
        assert "HTTP 529: Try in an hour." in end["message"]


def test_another_model_goes_on_with_what_failed(tmp_path: Path) -> None:
    """As the message says."""

    def answer(request: Any) -> Any:
        return Failure(529) if request.model == "loopback" else "Done."

    with scene(tmp_path, answer) as it:
        it.settings(f'{QUICK}[prices."anthropic:other"]\ninput = "$1"\noutput = "$5"\n')
        assert it.here("-p", "hi", "--session", "s").returncode == 1
        ran = it.here("--resume", "s", "--model", "anthropic:other", "-p", "Go on.")
        assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr


def test_a_silent_model_is_told_of_and_asked_again(tmp_path: Path) -> None:
    """Not before a second, then at twice that, until it is given up."""
    with scene(tmp_path, [Hang(), "Done."]) as it:
        events = it.events("-p", "hi", "--timeout", "3s")
        retry = next(n for n, e in enumerate(events) if e["type"] == "retry")
        waits = [e for e in events[:retry] if e["type"] == "waiting"]
        assert {(e["what"], e["limit_s"]) for e in waits} == {("smart", 3)}
        dues = (1.0, 2.0)
        assert len(waits) <= len(dues)
        assert all(e["waited_s"] >= due for e, due in zip(waits, dues, strict=False))
        assert events[retry]["attempt"] == 2
        assert "timeout" in events[retry]["message"]
        assert events[-1]["text"] == "Done."


def test_who_waits_at_a_terminal_is_told_for_what(tmp_path: Path) -> None:
    """The model or a tool; a provider that is asked again, in its own words."""
    slow = calls(("shell", {"command": "sleep 1.2"}))
    script = [Failure(529, "Too busy."), ProviderReply("", slow.calls, delay_ms=1_200), "Done."]
    with scene(tmp_path, script) as it:
        it.settings(QUICK)
        told = it.here("-p", "hi", "--timeout", "10s").stderr
        assert re.search(r"HTTP 529: Too busy\. \(request \w+\); try 2 of 7 in [\d.]+ s\n", told)
        assert re.search(
            r"waiting for smart for [\d.]+ s … \(after 10 s it is asked again\)\n", told
        )
        assert re.search(r"waiting for shell for [\d.]+ s …\n", told)


def test_a_turn_goes_on_with_more_patience(tmp_path: Path) -> None:
    """How long to wait is no part of what was asked: what was answered is not bought again."""
    script = [calls(("todo", {"items": []})), Hang(), "Done."]
    with scene(tmp_path, script) as it:
        it.settings("[limits.default.retry]\nmax_attempts = 1\n")
        end = it.events("-p", "hi", "--session", "s", "--timeout", "3s", status=1)[-1]
        assert "timeout" in end["message"]
        ran = it.here("--resume", "s", "--timeout", "1m")
        assert (ran.returncode, ran.stdout, len(it.bodies)) == (0, "Done.\n", 3), ran.stderr


def test_silence_begins_anew_with_what_is_told() -> None:
    """But not with the news that nothing came; a sub-agent at work is its model."""
    silence = Silence("smart", 20_000, 0)
    assert (silence.due_ms, silence.tell(2_000).what, silence.due_ms) == (2_000, "smart", 4_000)
    silence.heard(SageWaiting("smart", 2), 3_000)
    assert silence.due_ms == 4_000
    silence.heard(SageToolBegan("1.1.0", "task", {}), 6_000)
    assert (silence.due_ms, silence.tell(8_000).what) == (8_000, "smart")
    silence.heard(SageToolBegan("1.1.0/1.0", "shell", {}, "1.1.0"), 10_000)
    assert silence.tell(12_000) == SageWaiting("shell", 2)
    silence.heard(SageToolEnded("1.1.0/1.0", "shell", "", is_error=False), 14_000)
    assert silence.tell(16_000) == SageWaiting("smart", 2, 20)


def test_waiting_for_the_next_try_is_no_waiting_for_the_model() -> None:
    """It begins when the model is asked; with little patience it is told after a second."""
    silence = Silence("smart", 3_000, 0)
    assert silence.due_ms == 1_000
    silence.heard(SageRetry("smart", "Too busy.", 2, 8, wait_s=10.5), 5_000)
    assert (silence.due_ms, silence.tell(16_500)) == (16_500, SageWaiting("smart", 1, 3))


# Signals and kills.


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_last_event_too(tmp_path: Path, sent: signal.Signals) -> None:
    """It names the reason, what was spent, and what was changed; the exit status is as ever."""
    slow = calls(("shell", {"command": "touch ran; sleep 60"}))
    with scene(tmp_path, slow) as it, it.start("-p", "Wait.", "--json") as life:
        wait_for(it.folder / "ran")
        life.send_signal(sent)
        out, err = life.communicate(timeout=4 * PATIENCE_S)
        assert life.returncode == 128 + sent, err
        *_, end = map(json.loads, out.splitlines())
        assert (end["type"], end["reason"]) == ("end", "interrupted")
        assert sent.name in end["message"]
        assert end["spent_usd"] > 0
        assert end["changed"] == 1


def test_an_interrupt_says_how_to_go_on_and_to_undo(tmp_path: Path) -> None:
    slow = calls(("shell", {"command": "touch ran; sleep 60"}))
    with scene(tmp_path, slow) as it, it.start("-p", "Wait.", "--session", "s") as life:
        wait_for(it.folder / "ran")
        life.send_signal(signal.SIGINT)
        _, err = life.communicate(timeout=4 * PATIENCE_S)
        assert (
            "stopped: interrupted (Ctrl-C, SIGINT)\n  to go on, try: vega code --resume s\n" in err
        )
        assert "1 path changed\n  to take it back, type: vega undo\n" in err


def test_a_second_interrupt_ends_at_once_without_a_word_of_ours(tmp_path: Path) -> None:
    """No fault of a task is told, and the session goes on as after a kill."""
    slow = calls(("shell", {"command": "trap '' INT TERM; touch ran; sleep 60"}))
    with scene(tmp_path, {"Wait": [slow, "Done."]}) as it:
        with it.start("-p", "Wait.", "--session", "s") as life:
            wait_for(it.folder / "ran")

            def has_ended() -> bool:
                life.send_signal(signal.SIGINT)  # the first cancels, and any other ends it
                return life.poll() is not None

            wait_until(has_ended)
            _, err = life.communicate(timeout=4 * PATIENCE_S)
        assert life.returncode == 128 + signal.SIGINT
        assert "stopped at once by a second Ctrl-C; to go on, try: vega code --resume s\n" in err
        for internal in ("Traceback", "never retrieved", "lease"):
            assert internal not in err
        assert it.events("--resume", "s")[-1]["reason"] == "done"


def test_what_was_cut_off_is_exported_by_the_journal(tmp_path: Path) -> None:
    """All that was said and done, and that it is not the end; then the same with its end."""
    look = calls(("grep", {"pattern": "x"}), ("todo", {"items": [{"text": "t"}]}), text="I look.")
    slow = calls(("shell", {"command": "touch ran; sleep 60"}))
    with scene(tmp_path, {"Wait": [look, slow, "Done."]}) as it:
        with it.start("-p", "Wait.", "--session", "s") as life:
            wait_for(it.folder / "ran")
            working = it.events("--export", "s")
            life.kill()
        events = it.events("--export", "s")
        told = [(e["type"], e.get("id", "")) for e in events]
        assert told == [
            ("session", ""),
            ("turn", ""),
            ("text", ""),
            ("tool_began", "1.1.0"),
            ("tool_began", "1.1.1"),
            ("tool_ended", "1.1.0"),
            ("tool_ended", "1.1.1"),
            ("tool_began", "1.2.0"),
            ("end", ""),
        ]
        assert working == events[:-1]
        assert events[-1]["reason"] == "interrupted"
        page = it.here("--export", "s").stdout
        assert page.index("I look.") < page.index("[ ] t") < page.index("*interrupted: cut off")
        it.events("--resume", "s")
        after = it.events("--export", "s")
        assert after[: len(events) - 1] == events[:-1]
        assert after[-1]["text"] == "Done."


def test_what_was_said_in_a_turn_that_failed_is_exported(tmp_path: Path) -> None:
    same = calls(("shell", {"command": "false"}), text="Once more.")
    with scene(tmp_path, same) as it:
        it.events("-p", "Go.", "--session", "s", status=4)
        page = it.here("--export", "s").stdout
        assert page.count("Once more.") == 5
        assert "*loop: " in page


# Commands that do not end.


def test_a_command_that_had_to_be_killed_is_told_as_unknown(tmp_path: Path) -> None:
    """One that ends when it is asked to is told otherwise, and so is one with the same code."""
    stays = "trap '' TERM; echo half; while :; do sleep 0.1; done"
    asked = [("shell", {"command": c, "timeout_s": 1}) for c in (stays, "sleep 60", "exit 137")]
    with scene(tmp_path, [calls(*asked), "Done."]) as it:
        it.events("-p", "Go.")
        killed, ended, own = map(text_of, it.results(it.bodies[1]))
        assert "half" in killed
        assert "killed after 1 s" in killed
        assert "outcome is unknown" in killed
        assert "may be partial" in killed
        assert "ended after 1 s" in ended
        assert "unknown" not in ended
        assert own == "exit code 137"


# What a person is told, word by word.


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--image", "none.png"), "error: --image none.png is not a file\n  give the path of one"),
        (("--budget", "+$1"), "a new one has all of it: --budget '$1', or add: --resume SESSION"),
        (("--budget", "$12"), "at most $10.00 (your settings allow no more; --budget is $12)"),
    ],
)
def test_what_is_told_is_in_the_words_of_the_command(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with scene(tmp_path, "Hi.") as it:
        assert told in it.here("-p", "hi", *words).stderr


def test_a_model_without_a_price_needs_a_price_and_no_budget(tmp_path: Path) -> None:
    """What to type works once the price is there."""
    with scene(tmp_path, "Hi.") as it:
        words = ("-p", "hi", "--model", "anthropic:new", "--session", "s")
        ran = it.here(*words, "--budget", "$1")
        assert ran.returncode == 3
        assert '[prices."anthropic:new"]' in ran.stderr
        assert "to go on, try: vega code --resume s\n" in ran.stderr
        it.settings('[prices."anthropic:new"]\ninput = "$1"\noutput = "$5"\n')
        assert it.here("--resume", "s").stdout == "Hi.\n"


def test_a_refusal_for_want_of_money_names_the_session_and_nothing_inner(tmp_path: Path) -> None:
    with scene(tmp_path, "Hi.") as it:
        told = it.here("-p", "hi", "--budget", "$0.01").stderr
        assert "stopped: budget: a call of anthropic:loopback could cost $0.0" in told
        assert "the budget of this session has $0.01 left of $0.01" in told
        assert "lower --max-tokens for the next turn" in " ".join(told.split())
        assert "runtime:" not in told


# Turns that are long.


def test_a_turn_may_edit_and_test_200_times() -> None:
    """Each edit and each test is an answer of its own, and the last one ends the turn."""
    agent = coding_agent("a", "m", "", (), 100, retry=None, breaker=None, silent_ms=1)
    turn = begin(replace(agent.rule_for(ScriptedModel("")), tools=(ADD,)))
    for number in range(200):
        for arguments, result in (({"edit": number}, "edited"), ({}, f"{number} failed")):
            turn.on_reply(answer(call("add", arguments)), count=count)
            action = turn.on_tools({0: ToolOutcome(result)}, count=count)
            assert isinstance(action, AskModel), action
