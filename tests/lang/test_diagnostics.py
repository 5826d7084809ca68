"""How faults are shown: carets under what is meant, whatever the line holds."""

import pytest

from vegakit.lang import Diagnostic, as_json, parse, render
from vegakit.lang.diagnostics import MAX_DIAGNOSTICS, Edit, LineMap, did_you_mean


def caret_line(text: str, at: int, end: int) -> tuple[str, str]:
    picture = render([Diagnostic("c", "m", "f", at, end)], {"f": text}).split("\n")
    return picture[3].partition("| ")[2], picture[4].partition("| ")[2]


@pytest.mark.parametrize(
    ("text", "word", "line", "carets"),
    [
        ("let abc = 1;", "abc", "let abc = 1;", "    ^^^"),
        ("\t\tabc", "abc", "        abc", "        ^^^"),
        ('"日本" + abc', "abc", '"日本" + abc', "         ^^^"),
        ("日本", "本", "日本", "  ^^"),
        ("e\u0301 abc", "abc", "e\u0301 abc", "  ^^^"),
        ("\x07 abc", "abc", "\\u{7} abc", "      ^^^"),
        ("\u202e abc", "\u202e", "\\u{202E} abc", "^^^^^^^^"),
    ],
)
def test_a_caret_stands_under_its_word(text: str, word: str, line: str, carets: str) -> None:
    """Tabs are four columns, wide characters two, accents none; what is hidden is shown."""
    at = text.index(word)
    assert caret_line(text, at, at + len(word)) == (line, carets)


def test_a_caret_ends_with_its_line() -> None:
    """A span over lines is marked on its first line only."""
    assert caret_line("abc\ndef", 1, 6) == ("abc", " ^^")


def test_behind_the_last_character_there_is_room_for_a_caret() -> None:
    """As where a `;` is missing."""
    assert caret_line("abc\ndef", 3, 4) == ("abc", "   ^")
    assert caret_line("abc", 3, 4) == ("abc", "   ^")
    assert caret_line("", 0, 1) == ("", "^")


def test_a_long_line_is_cut_around_its_fault() -> None:
    """A line of a million characters does not flood the terminal."""
    text = "x" * 500_000 + " here " + "y" * 500_000
    line, carets = caret_line(text, 500_001, 500_005)
    assert len(line) < 120
    assert line[carets.index("^") :].startswith("here")


def test_a_picture_names_file_line_and_column() -> None:
    """So that editors can jump there."""
    text = "let a = 1;\nlet b = ;\n"
    picture = render(parse(text, "lib/a.vega").diagnostics, {"lib/a.vega": text})
    assert picture == (
        "error[expected-value]: expected a value, found `;`\n"
        " --> lib/a.vega:2:8\n"
        "  |\n"
        "2 | let b = ;\n"
        "  |        ^\n"
        "  = help: write a value after `=`\n"
    )


def test_colours_change_nothing_but_colours() -> None:
    """Without its marks the picture is the same; whoever shows it chooses them by the part."""
    text = "let b = ;"
    found = parse(text).diagnostics
    coloured = render(found, {"main.vega": text}, lambda text, part: f"<{part}>{text}<>")
    for mark in ("<severity>", "<margin>", "<message>", "<>"):
        assert mark in coloured
        coloured = coloured.replace(mark, "")
    assert coloured == render(found, {"main.vega": text})


def test_long_messages_are_broken_at_the_width() -> None:
    """Each later line is indented below the first, and the source is cut around its place."""
    found = Diagnostic("c", "much " * 30 + "text", "f", 130, 131, "help " * 30 + "me")
    lines = render([found], {"f": "x" * 200}, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith("  much")
    assert lines[-1].startswith(" " * 10)
    assert " ".join(" ".join(lines).split()).count("much") == 30


def test_a_fault_in_a_file_that_is_not_at_hand_is_still_told() -> None:
    """Only its line is not shown."""
    found = Diagnostic("c", "message", "gone.vega", 3, 4, "help")
    assert render([found], {}) == "error[c]: message\n  --> gone.vega\n  = help: help\n"


def test_json_carries_place_and_edit() -> None:
    """A model can mend its program by it."""
    text = "let a = 1\nlet b = 2;"
    (row,) = as_json(parse(text).diagnostics, {"main.vega": text})
    assert row == {
        "file": "main.vega",
        "line": 1,
        "column": 10,
        "end_line": 2,
        "end_column": 1,
        "at": 9,
        "end": 10,
        "severity": "error",
        "code": "missing-semicolon",
        "message": "expected `;` after `let`, found the keyword `let`",
        "help": "add `;` here",
        "edit": {"at": 9, "end": 9, "text": ";"},
    }


def test_json_of_a_file_that_is_not_at_hand_has_no_place() -> None:
    """Lines count from one, so zero says that none is known."""
    (row,) = as_json([Diagnostic("c", "m", "gone.vega", 3, 4, edit=Edit(3, 4, "x"))], {})
    assert (row["line"], row["column"], row["at"]) == (0, 0, 3)


def test_a_hundred_faults_are_enough() -> None:
    """The rest is not looked for."""
    assert len(parse("let a = ;\n" * 99).diagnostics) == 99
    assert len(parse("let a = ;\n" * 500).diagnostics) == MAX_DIAGNOSTICS


def test_lines_and_columns_count_from_one() -> None:
    """Also behind the end."""
    lines = LineMap("ab\ncd\r\n")
    assert [lines.place(at) for at in (0, 2, 3, 7, 99)] == [(1, 1), (1, 3), (2, 1), (3, 1), (3, 1)]
    assert [lines.line(n) for n in (1, 2, 3)] == ["ab", "cd", ""]


def test_near_words_are_offered_and_else_all() -> None:
    """Very long words are compared with nothing."""
    assert did_you_mean("modle", ["system", "model"]) == "did you mean `model`?"
    assert did_you_mean("xyz", ["system", "model"]) == "one of: model, system"
    assert did_you_mean("model" * 100, ["model"]) == "one of: model"
    assert did_you_mean("x", []) == ""
