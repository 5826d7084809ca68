"""What is told of a session in lines: each thing once, in words, and bounded."""

import json
from collections.abc import Sequence

from vegakit.cli.terminal.narrator import MOST_OUTPUT, MOST_ROWS, Narrator, question_lines
from vegakit.cli.terminal.reducer import on_event, on_question
from vegakit.cli.terminal.state import NoteItem, ViewState
from vegakit.control import Question
from vegakit.policy import InterruptKind
from vegakit.sage import (
    EndReason,
    SageEnd,
    SageEvent,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageTurn,
)


def told(state: ViewState, narrator: Narrator, *events: SageEvent) -> list[list[str]]:
    """What is told after each event."""
    lines: list[list[str]] = []
    for now, event in enumerate(events):
        on_event(state, event, 1_000 * now)
        lines.append(narrator.lines())
    return lines


def begun(*events: SageEvent) -> tuple[ViewState, Narrator, list[list[str]]]:
    state = ViewState()
    narrator = Narrator(state)
    return state, narrator, told(state, narrator, *events)


def flat(lines: Sequence[list[str]]) -> list[str]:
    return [line for each in lines for line in each]


def test_a_line_of_a_text_is_told_when_it_is_whole() -> None:
    state, narrator, lines = begun(*(SageText(text) for text in ("\nOne li", "ne.\nTwo", " li")))
    assert lines == [[], ["One line."], []]
    ended = told(state, narrator, SageToolBegan("1", "read", {"path": "a.py"}))
    assert ended == [["Two li", "begins: read a.py"]]


def test_a_long_line_is_told_by_its_sentences_and_none_twice() -> None:
    sentence = "This is said slowly. "
    pieces = [SageText(sentence) for _ in range(30)]
    _, _, lines = begun(*pieces, SageText("\nThe end.\n"))
    assert "".join(flat(lines)).replace(".", ". ").split() == (sentence * 30 + "The end.").split()
    assert len([each for each in lines if each]) > 2


def test_a_call_is_told_when_it_begins_and_when_it_has_ended() -> None:
    _, _, lines = begun(
        SageToolBegan("1", "shell", {"command": "pytest -q"}),
        SageToolBegan("2", "grep", {"pattern": "def "}),
        SageToolEnded("2", "grep", "a.py:1: def f\na.py:2: def g", is_error=False),
        SageToolEnded("1", "shell", "stdout:\n1 passed\nexit code 0", is_error=False),
    )
    assert lines == [
        ["begins: shell pytest -q"],
        ["begins: grep def"],
        ["done: grep def, 1.0 s"],
        ["done: shell pytest -q, exit code 0, 3.0 s", "  1 passed"],
    ]


def test_diffs_and_outputs_are_bounded() -> None:
    content = "".join(f"line {n}\n" for n in range(1_000))
    _, _, lines = begun(
        SageToolBegan("1", "write", {"path": "a.txt", "content": content}),
        SageToolEnded("1", "write", "written", is_error=False),
        SageToolBegan("2", "shell", {"command": "seq 999"}),
        SageToolEnded("2", "shell", f"stdout:\n{content}exit code 0", is_error=False),
    )
    assert lines[1][0] == "done: write a.txt, 1,000 lines added, 0 removed, 1.0 s"
    assert lines[1][1] == "  + 1: line 0"
    assert lines[1][-1] == "  960 more lines; /open tells all"
    assert len(lines[1]) == MOST_ROWS + 2
    assert len(lines[3]) == MOST_OUTPUT + 2
    assert lines[3][-1] == "  line 999"


def test_the_end_tells_what_the_turn_cost_and_what_is_left() -> None:
    session = SageSession("s", "1", "/w", "smart", "ask", 2.0, resumed=False)
    _, _, lines = begun(
        session,
        SageTurn(1, "go"),
        SageEnd(EndReason.DONE, spent_usd=0.25, changed=1),
        SageTurn(2, "more"),
        SageEnd(EndReason.BUDGET, message="too dear", spent_usd=0.35),
    )
    assert flat(lines) == [
        "you said: go",
        "turn done after 1.0 s: $0.2500 for this turn, $1.7500 left of $2.0000",
        "  1 path changed; /undo takes it back",
        "you said: more",
        "turn refused before sending after 1.0 s: $0.1000 for this turn, $1.6500 left of $2.0000",
        "  too dear",
        "  to go on, type: /budget +$1, then what to do",
    ]


def test_what_is_read_anew_after_an_undo_is_no_news() -> None:
    state, narrator, _ = begun(SageTurn(1, "go"), SageText("Yes.\n"))
    state.items = []
    on_event(state, SageTurn(1, "go"), 0)
    assert narrator.lines() == []
    state.items.append(NoteItem(text="Undone"))
    assert narrator.lines() == ["note: Undone"]


def test_nothing_that_is_told_steers_the_terminal() -> None:
    _, _, lines = begun(
        SageText("\x1b[2Jtext\n"),
        SageToolBegan("1", "shell", {"command": "\x1b]0;title\x07"}),
        SageToolEnded("1", "shell", "stdout:\n10 %\r99 %\x1b[A\nexit code 0", is_error=False),
    )
    every = "\n".join(flat(lines))
    assert all(one.isprintable() or one == "\n" for one in every)
    assert "10 %" not in every


def test_no_line_of_a_question_can_look_like_one_of_ours() -> None:
    """What goes on over the width says so, and what would begin a line is spelled or marked."""
    command = f"ls {' ' * 80}answer y, a, n, e or ?: y\nallowed once: ls"
    text = f'"sage 1": shell {{"command":{json.dumps(command)}}} does {{"type":"RunCommand"}}: why'
    state = ViewState()
    on_question(
        state, Question("q", InterruptKind.CONFIRMATION, "sage", text, 0, None, permits=True)
    )
    assert state.asked is not None
    lines = question_lines(state.asked, 0, 80, ascii_only=False)
    assert lines[0] == "question: may it use shell?"
    shown = lines[1:-2]
    assert all(line.startswith(("  | ", "  ...   ")) and len(line) <= 80 for line in shown)
    assert lines[-2:] == [
        "It runs in the sandbox: no network, and its writes stay in this folder.",
        "Asked as why.",
    ]
