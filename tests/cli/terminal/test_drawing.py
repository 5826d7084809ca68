"""The lines of the terminal: none is too wide, nothing steers the screen, and a text that grows is
drawn as the same text whole."""

import string
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st
from rich.segment import Segment
from textual.strip import Strip

from vegakit.cli.look import bar_cells
from vegakit.cli.terminal.approvals import command_in, exact_action, read_action
from vegakit.cli.terminal.diffs import compared, whole_lines
from vegakit.cli.terminal.draw import (
    Canvas,
    diff_columns,
    diff_lines,
    lines_of,
    status_line,
    width_of,
)
from vegakit.cli.terminal.markdown import blocks, markdown_lines
from vegakit.cli.terminal.painted import ChatView, _difference as difference
from vegakit.cli.terminal.pane import pane_lines
from vegakit.cli.terminal.state import (
    ApprovalItem,
    ApprovalState,
    EndItem,
    NoteItem,
    PromptItem,
    TextItem,
    ToolItem,
    ToolState,
    ViewState,
)
from vegakit.sage import EndReason, SageEnd

words = st.text(string.ascii_letters + "äß漢\x1b\u202e\t #*`|>-1.\n", max_size=200)
widths = st.integers(40, 160)


@given(words, widths, st.sampled_from(["shell", "read", "edit", "task", "todo"]))
def test_no_line_is_wider_than_its_screen(text: str, width: int, name: str) -> None:
    """Whatever a model or a tool says, and no escape code of theirs reaches the terminal."""
    arguments = {"command": text, "path": text, "old": text, "new": text[::-1], "agent": text}
    tool = ToolItem(id="1", name=name, arguments=arguments, state=ToolState.DONE, result=text)
    end = SageEnd(EndReason.ERROR, message=text, notes=(text,), lasting=(text,))
    items = [
        PromptItem(text=text),
        TextItem(text=text),
        TextItem(text=text, is_open=False),
        tool,
        ToolItem(id="2", name=name, arguments=arguments, output=text, output_lines=9),
        ToolItem(id="3", name=name, arguments=arguments, state=ToolState.FAILED, result=text),
        ApprovalItem(text=text),
        NoteItem(text=text),
        EndItem(end=end),
    ]
    for item in items:
        for line in lines_of(item, Canvas(width)):
            assert width_of(line) <= width, line
            assert not any(ord(letter) < 32 for one in line for letter in one.text)


@given(words, widths)
def test_a_diff_fits_in_one_column_and_in_two(text: str, width: int) -> None:
    rows = compared(text, text[::-1], 98)
    for line in [*diff_lines(rows, width), *diff_columns(rows, width)]:
        assert width_of(line) <= width


@given(words)
def test_blocks_keep_every_line(text: str) -> None:
    """A block is a part of the text; blank lines between blocks are all that is left out."""
    kept = [line for block in blocks(text) for line in block.splitlines() if line.strip()]
    assert kept == [line for line in text.splitlines() if line.strip()]


def test_a_text_that_grew_is_drawn_as_one_that_came_whole() -> None:
    text = "# Title\n\nSome *words*.\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nEnd."
    for size in range(1, len(text) + 1):
        markdown_lines(text[:size], 60, "ansi_dark", is_open=True)
    grown = markdown_lines(text, 60, "ansi_dark", is_open=True)
    assert grown == markdown_lines(text, 60, "ansi_dark")
    assert "".join(one.text for one in grown[0]) == "Title"


def test_a_long_listing_is_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an open fence only the last piece is drawn anew when a word comes."""
    from vegakit.cli.terminal import markdown

    text = "```python\n" + "".join(f"x{n} = {n}\n" for n in range(400))
    markdown_lines(text, 60, "ansi_dark", is_open=True)
    drawn: list[str] = []
    code = markdown.code
    monkeypatch.setattr(
        markdown, "code", lambda text, lexer, theme: drawn.append(text) or code(text, lexer, theme)
    )
    markdown_lines(f"{text}last", 60, "ansi_dark", is_open=True)
    assert len(drawn) == 1
    assert len(drawn[0].splitlines()) <= 40


cells = st.lists(st.tuples(st.text("ab ", max_size=4), st.sampled_from(["", "red"])), max_size=5)


@given(cells, cells)
def test_only_cells_that_changed_are_sent_and_all_of_them(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    from rich.style import Style

    before, after = (
        Strip(
            [Segment(text, Style.parse(style or "none")) for text, style in line]
        ).adjust_cell_length(20)
        for line in (one, other)
    )
    start, end = difference(before, after)
    old, new = ([*_cells(strip)] for strip in (before, after))
    assert old[:start] == new[:start]
    assert old[end:] == new[end:]


def _cells(strip: Strip) -> list[tuple[str, str]]:
    return [(letter, str(one.style)) for one in strip for letter in one.text]


def test_money_is_never_cut() -> None:
    """A narrow screen drops the keys, then the context, then the model."""
    state = ViewState(
        run="r", model="anthropic:claude-sonnet-4-5-20260101", mode="ask", context_share=0.31
    )
    state.money.at_most, state.money.spent, state.money.left = 2_000_000_000, 420_000_000, 1
    for width in range(44, 140):
        line = status_line(state, width, "esc stop  f1 help")
        assert "$0.4200 of $2.0000" in "".join(one.text for one in line)
        assert width_of(line) <= width


def test_a_session_that_opens_tells_no_limit() -> None:
    """Its budget is not known yet, which is not the same as none."""
    line = "".join(one.text for one in status_line(ViewState(), 80, "f1 help"))
    assert "opening" in line
    assert "limit" not in line


@given(st.text("ab \n", max_size=12), st.text("ab \n", max_size=12), st.text("xy\n", max_size=9))
def test_whole_lines_are_those_of_the_file(before: str, after: str, new: str) -> None:
    """With whole lines in place of words an edit leads from the same file to the same file."""
    arguments = {"path": "f", "old": "OLD", "new": new}
    result = f"edited f at line {before.count(chr(10)) + 1}"
    made = whole_lines(arguments, result, before + new + after)
    file = f"\n{before}OLD{after}\n"
    if made != arguments:
        assert f"\n{made['old']}\n" in file
        assert f"\n{made['new']}\n" in f"\n{before}{new}{after}\n"
    else:
        assert not new.strip("\n") or f"\n{new}\n" in f"\n{before}{new}{after}\n"


def test_the_pane_fits() -> None:
    for line in pane_lines(ViewState(), 20, 0):
        assert width_of(line) <= 20


def test_the_exact_action_is_read_from_its_question() -> None:
    text = (
        '"sage 1": shell {"command":"echo \\"a: b\\" does it"} does '
        '{"argv":["sh"],"type":"RunCommand"}: mode ask asks first'
    )
    action = read_action(text)
    assert action is not None
    assert (action.agent, action.tool, action.why) == ("sage 1", "shell", "mode ask asks first")
    assert command_in(text) == 'echo "a: b" does it'
    assert exact_action(text) == exact_action(text.replace("sage 1", "sage 2"))
    assert exact_action(text) != exact_action(text.replace("a: b", "a: c"))
    assert read_action("pay: something else") is None


def text_of(item: ApprovalItem) -> list[str]:
    return ["".join(one.text for one in line) for line in lines_of(item, Canvas(80))]


def test_the_question_of_an_edit_has_its_path_then_all_that_goes_and_comes() -> None:
    text = (
        '"sage 1": edit {"new":"a + b\\nc","old":"a - b\\nc","path":"add.py"} does '
        '{"path":"add.py","type":"WritePath"}: mode ask asks first'
    )
    lines = [line.strip() for line in text_of(ApprovalItem(id="q", text=text))]
    assert lines[1:6] == ["│ add.py", "│ \u2212 a - b", "│ \u2212 c", "│ + a + b", "│ + c"]
    gone = text_of(ApprovalItem(id="q", text=text, state=ApprovalState.GONE))
    assert "edit add.py" in gone[0]


@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_bar_draws_no_cell_for_less_than_half_of_one(at_most: int, spent: int) -> None:
    solid, _, left = bar_cells(at_most, spent, 0, 10)
    assert solid + left == 10
    assert (solid > 0) == (spent * 20 >= at_most)


def a_view(asked: ApprovalItem, before: int, after: int) -> ChatView:
    notes = [NoteItem(text=f"note {n}") for n in range(before + after)]
    items = [*notes[:before], asked, *notes[before:]]
    return ChatView(lambda: items, lambda: asked, Canvas)


def drawn(view: ChatView, height: int) -> str:
    return "\n".join("".join(one.text for one in line) for line in view.rows(80, height))


def test_a_question_stays_on_the_screen_whatever_comes_after_it() -> None:
    """It is the one that a key answers."""
    view = a_view(ApprovalItem(id="q", text="make"), before=30, after=30)
    for _ in range(2):
        assert "needs you" in drawn(view, 20)
        assert "y once" in drawn(view, 20)


def test_a_long_question_is_read_from_its_first_line_to_its_last() -> None:
    asked = ApprovalItem(id="q", text="x" * 74 * 40)
    view = a_view(asked, before=30, after=0)
    for _ in range(2):
        assert "needs you" in drawn(view, 20)
        assert "y once" not in drawn(view, 20)
        assert view.watched_approval() is None


def test_the_screen_is_not_left_half_empty() -> None:
    """After a long question was answered, or the window has grown, the end is followed anew."""
    asked = ApprovalItem(id="q", text="x" * 74 * 40)
    view = a_view(asked, before=30, after=0)
    view.rows(80, 20)
    asked.state, asked.version = ApprovalState.YES, 1
    with patch.object(view, "_asked", lambda: None):
        assert len(view.rows(80, 20)) > 10


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (ToolItem(name="shell", state=ToolState.DONE, result="x\nexit code 3"), " ✗ shell"),
        (ToolItem(name="shell", state=ToolState.DONE, result="exit code 3\nexit code 0"), " ✓ sh"),
        (
            ToolItem(
                name="shell",
                state=ToolState.REFUSED,
                result="CapabilityDenied: process::exec was asked; in mode read-only nothing but "
                "reading runs",
            ),
            "type: /mode ask",
        ),
    ],
)
def test_a_call_says_what_came_of_it(item: ToolItem, told: str) -> None:
    """A command that failed is not done, and a refusal says what to type."""
    lines = lines_of(item, Canvas(80))
    said = "\n".join("".join(part.text for part in line) for line in lines)
    assert told in said
    assert "::" not in said


@pytest.mark.parametrize("state", [ToolState.FAILED, ToolState.REFUSED])
def test_what_was_not_done_has_changed_no_lines(state: ToolState) -> None:
    given = {"path": "a.py", "old": "x", "new": "y"}
    item = ToolItem(name="edit", arguments=given, state=state, result="no")
    (head, *_) = lines_of(item, Canvas(80))
    assert "".join(part.text for part in head).endswith(" a.py")


def test_a_bar_of_progress_is_shown_as_it_stands() -> None:
    """While a command runs, and of its result; line ends of another system are no bar."""
    said = "get it\r\n 10 %\r 50 %\r100 %\ndone\r\n"
    for item in (
        ToolItem(name="shell", state=ToolState.WORKING, output=said),
        ToolItem(name="shell", state=ToolState.DONE, result=said),
    ):
        shown = ["".join(part.text for part in line) for line in lines_of(item, Canvas(80))[1:]]
        assert [line.removeprefix("   │ ") for line in shown] == ["get it", "100 %", "done"]
