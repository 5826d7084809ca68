"""The reducer of the terminal: nothing that is told is lost, and no question is answered by chance.

The properties run random events and keys against a model that knows only what was told and when a
question was on the screen."""

import string
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

from vegakit.cli.terminal import reducer
from vegakit.cli.terminal.commands import COMMANDS, candidates, images_in, parse_command
from vegakit.cli.terminal.diffs import DiffRow, changes_of, compared, side_by_side
from vegakit.cli.terminal.draw import Canvas, lines_of
from vegakit.cli.terminal.pane import changed_since, pane_lines, undo_page
from vegakit.cli.terminal.reducer import (
    next_turn,
    on_event,
    on_hidden,
    on_key,
    on_question,
    on_shown,
    on_submit,
    on_withdrawn,
)
from vegakit.cli.terminal.state import (
    AnswerQuestion,
    ApprovalItem,
    ApprovalState,
    BeginTurn,
    EditText,
    EndItem,
    EndTree,
    NoteItem,
    PromptItem,
    StopTurn,
    TextItem,
    ToolItem,
    ToolState,
    TurnState,
    TypedPrompt,
    ViewState,
)
from vegakit.control import Question
from vegakit.policy import InterruptKind
from vegakit.sage import (
    EndReason,
    SageCost,
    SageEnd,
    SageEvent,
    SageQuote,
    SageRetry,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageToolOutput,
    SageTurn,
    SageWaiting,
    UndoTurn,
)

ARMED_MS = 300


def question(number: int, command: str = "make", *, permits: bool = True) -> Question:
    text = (
        f'"sage 1": shell {{"command":"{command}"}} does {{"argv":["sh"],"type":"RunCommand"}}: '
        "mode ask asks first"
    )
    kind = InterruptKind.CONFIRMATION
    return Question(f"q{number}", kind, "sage 1", text, 0, None, permits)


def working(*questions: Question) -> ViewState:
    """A state in which a turn works and asks."""
    state = ViewState()
    on_event(state, SageTurn(1, "do it"), 0)
    for one in questions:
        on_question(state, one)
    return state


def shown(state: ViewState, now: int) -> None:
    assert state.asked is not None
    on_shown(state, state.asked, now)


# What is told.


texts = st.text(string.ascii_letters + " \n*`", min_size=1, max_size=8)
calls = st.integers(0, 5).map(lambda n: f"1.1.{n}")
events: st.SearchStrategy[SageEvent] = st.one_of(
    texts.map(SageText),
    st.builds(SageToolBegan, calls, st.just("shell"), st.just({"command": "x"})),
    st.builds(SageToolOutput, calls, st.just("shell"), texts),
    st.builds(SageToolEnded, calls, st.just("shell"), texts, st.booleans()),
    st.just(SageRetry("m", "overloaded", 2, 8, 1.0)),
    st.builds(SageCost, st.floats(0, 1), st.floats(0, 1)),
    st.just(SageTurn(1, "again")),
    st.builds(SageEnd, st.sampled_from(EndReason), spent_usd=st.floats(0, 1)),
)


@given(st.lists(events, max_size=60))
def test_nothing_that_is_told_is_lost(told: list[SageEvent]) -> None:
    """All text stands in its order, each prompt and each end is an item, and after an end nothing
    is shown as if it worked."""
    state = ViewState()
    for now, event in enumerate(told):
        before = {id(item): item.version for item in state.items}
        on_event(state, event, now)
        for item in state.items:
            assert item.version >= before.get(id(item), 0)
    said = "".join(item.text for item in state.items if isinstance(item, TextItem))
    assert said == "".join(event.text for event in told if isinstance(event, SageText))
    for kind, item in ((SageTurn, PromptItem), (SageEnd, EndItem)):
        assert sum(isinstance(one, item) for one in state.items) == sum(
            isinstance(one, kind) for one in told
        )
    if told and isinstance(told[-1], SageEnd):
        tools = [item for item in state.items if isinstance(item, ToolItem)]
        assert all(one.state is not ToolState.WORKING for one in tools)
        assert state.turn_state is TurnState.IDLE
        assert not state.tools


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=30))
def test_a_stop_is_silent_at_once(said: list[tuple[str, bool]]) -> None:
    """After Esc no word is shown, though the turn may still say some until it has ended."""
    state = working()
    on_key(state, "escape", 1, is_draft_empty=True)
    for text, is_output in said:
        event = SageToolOutput("1", "shell", text) if is_output else SageText(text)
        on_event(state, event, 2)
    assert not any(isinstance(item, TextItem) for item in state.items)


def test_output_is_bounded_and_whole_lines_are_counted() -> None:
    state = working()
    on_event(state, SageToolBegan("1", "shell", {"command": "yes"}), 0)
    for _ in range(50):
        on_event(state, SageToolOutput("1", "shell", "y\n" * 5_000), 1)
    item = state.tools["1"]
    assert len(item.output) == reducer.KEPT_OUTPUT
    assert item.output_lines == 250_000


def test_money_adds_up() -> None:
    state = ViewState()
    on_event(state, SageSession("s", "r", "/f", "smart", "ask", 2.0, resumed=False), 0)
    on_event(state, SageCost(0.42, 1.54), 0)
    own = state.money
    assert (own.at_most, own.spent, own.left, own.reserved) == (
        2_000_000_000,
        420_000_000,
        1_540_000_000,
        40_000_000,
    )


def test_sub_agents_are_a_tree_with_their_parts() -> None:
    state = working()
    for n in range(2):
        call = SageToolBegan(f"1.1.{n}", "task", {"agent": "explore", "prompt": "look"})
        on_event(state, call, 0)
    on_event(state, SageQuote(("1.1.0", "1.1.1"), 0.2, 0.1), 0)
    on_event(state, SageToolBegan("1.1.0/1.0", "grep", {"pattern": "x"}, "1.1.0"), 0)
    first = state.agents["1.1.0"]
    assert (first.calls, first.activity, first.at_most) == (1, "grep x", 100_000_000)
    assert len(state.items) == 4  # the prompt, two calls, the quote: what agents do is in the tree
    on_event(state, SageToolEnded("1.1.0", "task", "found", is_error=False), 1)
    assert first.state is ToolState.DONE


def test_prompts_that_are_typed_meanwhile_wait_their_turn() -> None:
    state = working()
    assert on_submit(state, TypedPrompt("second")) == []
    assert on_submit(state, TypedPrompt("third")) == []
    assert next_turn(state) == []
    on_event(state, SageEnd(EndReason.DONE), 1)
    assert next_turn(state) == [BeginTurn(TypedPrompt("second"))]
    on_event(state, SageEnd(EndReason.DONE), 2)
    assert next_turn(state) == [BeginTurn(TypedPrompt("third"))]


# Questions.


KEYS = [*"yane?xq /1", "enter", "tab", "escape", "up", "backspace"]
moves = st.one_of(
    st.tuples(st.just("key"), st.sampled_from(KEYS), st.booleans()),
    st.tuples(st.just("show"), st.just(""), st.booleans()),
    st.tuples(st.just("hide"), st.just(""), st.booleans()),
    st.tuples(st.just("ask"), st.sampled_from(["make", "rm"]), st.booleans()),
    st.tuples(st.just("submit"), st.sampled_from(["", "no thanks"]), st.booleans()),
    st.tuples(st.just("say"), st.just(""), st.booleans()),
)
histories = st.lists(st.tuples(moves, st.integers(0, 700)), max_size=80)


Move = tuple[tuple[str, str, bool], int]


class Watcher:
    """Plays a history, and knows by itself which question was on the screen, since when, and when
    the last key was pressed. `wrong` is what was approved that nobody could have meant."""

    def __init__(self) -> None:
        self.state, self.now, self.asked = working(), 0, 0
        self.on_screen: tuple[str, int] | None = None
        self.last_key = -ARMED_MS
        self.always: set[str] = set()
        self.wrong: list[str] = []

    def play(self, history: list[Move]) -> list[str]:
        for (what, value, flag), passed in history:
            self.now += passed
            asked = self.state.asked
            if self.on_screen and (asked is None or asked.id != self.on_screen[0]):
                self.on_screen = None
            getattr(self, what)(value, flag)
        every = [one for one in self.state.items if isinstance(one, ApprovalItem)]
        assert len(every) == self.asked
        assert [one for one in every if one.state is ApprovalState.OPEN] == self.state.waiting
        return self.wrong

    def key(self, value: str, is_empty: bool) -> None:
        asked = self.state.asked
        is_free = is_empty or self.state.has_focus_on_approval
        since = max(self.on_screen[1] if self.on_screen else self.now, self.last_key)
        is_meant = is_free and self.now - since >= ARMED_MS and value in {"y", "a"}
        may = self.on_screen[0] if self.on_screen and is_meant else ""
        self.last_key = self.now
        for action in on_key(self.state, value, self.now, is_draft_empty=is_empty) or []:
            if isinstance(action, AnswerQuestion) and action.answer is True:
                self.wrong += [] if action.id == may else [f"{action.id} by {value}"]
                self.always |= {asked.text} if asked and value == "a" else set()

    def show(self, value: str, flag: bool) -> None:
        if self.state.asked is not None:
            shown(self.state, self.now)
            self.on_screen = self.on_screen or (self.state.asked.id, self.now)

    def hide(self, value: str, flag: bool) -> None:
        on_hidden(self.state)
        self.on_screen = None

    def ask(self, value: str, flag: bool) -> None:
        self.asked += 1
        one = question(self.asked, value)
        if on_question(self.state, one) and one.text not in self.always:
            self.wrong.append(f"{one.id} as if it was allowed always")

    def submit(self, value: str, flag: bool) -> None:
        for action in on_submit(self.state, TypedPrompt(value)):
            if isinstance(action, AnswerQuestion) and action.answer is True:
                self.wrong.append(f"{action.id} by Enter")

    def say(self, value: str, flag: bool) -> None:
        on_event(self.state, SageText("words"), self.now)


@given(histories)
def test_no_question_is_answered_by_chance(history: list[Move]) -> None:
    """Yes counts only for the question that was on the screen, whole, for 300 ms without a key, and
    not while something stands in the prompt line; Enter alone never is yes."""
    assert Watcher().play(history) == []


SHOWN: list[Move] = [(("ask", "make", True), 0), (("show", "", True), 0)]
FAULTS: dict[str, tuple[str, object, list[Move]]] = {
    "it does not wait": ("ARMED_AFTER_MS", 0, [*SHOWN, (("key", "y", True), 100)]),
    "what is typed is an answer": (
        "is_armed",
        lambda *_, **__: True,
        [*SHOWN, (("key", "y", False), 400)],
    ),
    "always is for any action": (
        "exact_action",
        lambda _: "",
        [*SHOWN, (("key", "a", True), 400), (("ask", "rm", True), 0)],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str) -> None:
    """The property fails when the reducer is broken."""
    name, broken, history = FAULTS[fault]
    assert Watcher().play(history) == []
    with patch.object(reducer, name, broken):
        assert Watcher().play(history)


def test_a_key_answers_after_300_ms_and_not_before() -> None:
    state = working(question(1))
    shown(state, 1_000)
    assert on_key(state, "y", 1_000 + ARMED_MS - 1, is_draft_empty=True) is None
    # That key began the time anew.
    assert on_key(state, "y", 1_000 + ARMED_MS + 1, is_draft_empty=True) is None
    later = 1_000 + 3 * ARMED_MS
    assert on_key(state, "y", later, is_draft_empty=True) == [AnswerQuestion("q1", True, None)]


def test_what_is_typed_goes_to_the_prompt_until_tab() -> None:
    state = working(question(1))
    shown(state, 0)
    assert on_key(state, "y", 1_000, is_draft_empty=False) is None
    assert on_key(state, "tab", 1_100, is_draft_empty=False) == []
    assert on_key(state, "y", 1_600, is_draft_empty=False) == [AnswerQuestion("q1", True, None)]


def test_always_is_for_this_exact_action_only() -> None:
    state = working(question(1))
    shown(state, 0)
    on_key(state, "a", 1_000, is_draft_empty=True)
    assert on_question(state, question(2)) == [AnswerQuestion("q2", True, None)]
    assert on_question(state, question(3, "make ")) == []
    assert state.asked is not None
    assert state.asked.id == "q3"


def test_no_takes_a_reason_and_edit_what_to_do_instead() -> None:
    state = working(question(1), question(2))
    shown(state, 0)
    assert on_key(state, "n", 1_000, is_draft_empty=True) == [EditText("")]
    assert on_submit(state, TypedPrompt("not now")) == [AnswerQuestion("q1", "no, not now", None)]
    shown(state, 2_000)
    assert on_key(state, "e", 3_000, is_draft_empty=True) == [EditText("make")]
    told = "no, do this instead: make -n"
    assert on_submit(state, TypedPrompt("make -n")) == [AnswerQuestion("q2", told, None)]


def test_a_question_for_words_takes_them() -> None:
    state = working(question(1, permits=False))
    shown(state, 0)
    assert on_key(state, "y", 1_000, is_draft_empty=True) is None
    assert on_submit(state, TypedPrompt("blue")) == [AnswerQuestion("q1", "blue", None)]


def test_what_was_answered_elsewhere_is_gone() -> None:
    state = working(question(1), question(2))
    on_withdrawn(state, {"q2"})
    assert [one.id for one in state.waiting] == ["q2"]


def test_escape_stops_and_twice_ends() -> None:
    state = working()
    assert on_key(state, "escape", 1_000, is_draft_empty=True) == [StopTurn()]
    assert on_key(state, "escape", 1_500, is_draft_empty=True) == [EndTree()]
    state = working()
    on_key(state, "escape", 1_000, is_draft_empty=True)
    assert on_key(state, "escape", 9_000, is_draft_empty=True) == []


# Diffs, commands, completion.


lines = st.lists(st.text("ab ", max_size=3), max_size=12)


@given(lines, lines)
def test_a_diff_leads_from_the_old_to_the_new(old: list[str], new: list[str]) -> None:
    """What goes and what stays is the old text, what stays and what comes the new one; in two
    columns nothing is missing."""
    rows = compared("\n".join(old), "\n".join(new), 1)
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    assert [row.text for row in rows if row.sign != "+"] == before
    assert [row.text for row in rows if row.sign != "-"] == after
    pairs = side_by_side(rows)
    assert [left.text for left, _ in pairs if left] == before
    assert [right.text for _, right in pairs if right] == after


PATCH = (
    "*** Begin Patch\n*** Update File: a.py\n@@ def g\n z = 1\n-y = 2\n"
    "@@ def f\n x = 1\n+y = 3\n+w\n"
    "*** Add File: b.py\n+new\n*** Delete File: c.md\n*** End Patch"
)
PATCHED = "edited a.py at line 40, 18\nadded b.py\ndeleted c.md: 1,200 lines"


def test_a_patch_is_a_change_of_each_file() -> None:
    """With the lines of the file, in their order, and what was deleted."""
    first, second, third = changes_of("apply_patch", {"patch": PATCH}, PATCHED)
    assert (first.path, first.added, first.removed) == ("a.py", 2, 1)
    assert first.rows == (
        DiffRow(" ", 18, "x = 1", 18),
        DiffRow("+", 19, "y = 3"),
        DiffRow("+", 20, "w"),
        DiffRow(" ", 42, "z = 1", 40),
        DiffRow("-", 41, "y = 2"),
    )
    assert (second.path, second.rows, second.fate) == ("b.py", (DiffRow("+", 1, "new"),), "added")
    assert (third.path, third.removed, third.fate) == ("c.md", 1200, "deleted")


def test_a_deleted_file_is_told_as_such() -> None:
    """Below the call each file has its heading; so it is in the pane and on the page of undo."""
    state = working()
    on_event(state, SageTurn(1, "tidy up"), 0)
    on_event(state, SageToolBegan("1", "apply_patch", {"patch": PATCH}), 0)
    on_event(state, SageToolEnded("1", "apply_patch", PATCHED, is_error=False), 0)
    turn = UndoTurn(1, "tidy up", 0, "done", 3, "r/000001", names=("a.py", "b.py", "c.md"))
    shown = [
        "".join(part.text for part in line).strip()
        for line in (
            *lines_of(state.items[-1], Canvas(80)),
            *pane_lines(state, 46, 0),
            *undo_page([turn], changed_since(state.items, 1), 80),
        )
    ]
    assert "apply_patch a.py, b.py, c.md  +3 \u22121201" in shown[0]
    assert "a.py  +2 \u22121" in shown
    assert "b.py  added, +1 \u22120" in shown
    assert any(line.split() == ["c.md", "deleted", "\u22121200"] for line in shown)
    assert any(line.split() == ["c.md", "deleted,", "+0", "\u22121200"] for line in shown)


@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers(),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(
                st.sampled_from(["path", "edits", "old", "items", "patch"]), x, max_size=4
            )
        ),
        max_leaves=10,
    )
)
def test_arguments_may_be_anything(arguments: object) -> None:
    """A model may send what it likes. Small things are enough: what breaks is where a list stands
    for a text, not how long either is."""
    state = working()
    for name in ("edit", "write", "apply_patch", "todo", "task", "shell", "job"):
        on_event(state, SageToolBegan("1", name, arguments), 0)
        on_event(state, SageToolEnded("1", name, "at line 1, 2", is_error=False), 0)


def test_commands_are_told_from_prompts() -> None:
    assert parse_command("/etc/hosts is odd") is None
    assert parse_command("undo") is None
    found = parse_command("/budget +$1")
    assert found is not None
    assert (found[0].name, found[1]) == ("budget", "+$1")
    assert len({one.name for one in COMMANDS}) == len(COMMANDS)


def test_completion_knows_commands_and_paths() -> None:
    paths = ["src/retry.py", "docs/retry.md", "README.md"]
    assert [one.text for one in candidates("/und", paths)] == ["/undo "]
    assert next(one.shown for one in candidates("look at @retry", paths)) == "src/retry.py"
    assert candidates("look at @retry", paths)[0].text == "look at @src/retry.py "
    assert candidates("mail me@example", paths) == []


def test_images_are_found_by_path() -> None:
    assert images_in("what is on @shot.png and '/tmp/my shot.jpg'?") == [
        "shot.png",
        "/tmp/my shot.jpg",
    ]
    assert images_in("no image here") == []


def test_a_wait_says_for_whom_and_is_over_with_its_turn() -> None:
    state = working()
    on_event(state, SageWaiting("edit", 5.0), 1)
    on_question(state, question(1))
    on_event(state, SageWaiting("edit", 60.0), 2)
    waits = [one for one in state.items if isinstance(one, NoteItem)]
    assert [one.text for one in waits] == [
        "waiting for edit for 5 s",
        "waiting for your answer for 60 s",
    ]
    on_event(state, SageEnd(EndReason.INTERRUPTED), 3)
    assert waits[1].text == "waited for your answer for 60 s"
    assert not any(one.kind == "waiting" for one in waits)


def test_a_note_does_not_cut_an_answer_in_two() -> None:
    """Whether a command said it or the wait did; the next answer is another text."""
    state = working()
    on_event(state, SageTurn(1, "talk"), 0)
    on_event(state, SageText("Paragrap"), 1)
    state.items.append(NoteItem(kind="error", text="not while a turn works"))
    on_event(state, SageText("h 21"), 2)
    on_event(state, SageWaiting("smart", 30.0), 3)
    on_event(state, SageText(" goes on."), 4)
    on_event(state, SageEnd(EndReason.DONE), 5)
    on_event(state, SageTurn(2, "more"), 6)
    on_event(state, SageText("More."), 7)
    texts = [one for one in state.items if isinstance(one, TextItem)]
    assert [one.text for one in texts] == ["Paragraph 21 goes on.", "More."]
    assert [one.is_open for one in texts] == [False, True]
