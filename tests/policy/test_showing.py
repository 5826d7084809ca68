"""How what people decide about is spelled: one reading, and nothing of it unseen."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.runtime.oversight.actions import unescaped
from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy import (
    Approved,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    InterruptRequest,
    Interrupts,
    NotDisplayable,
    escape_for_terminal,
    escape_json,
    escape_text,
    quote_name,
    wrap_escaped,
)
from vegakit.policy.safe_text import MAX_QUESTION_CHARACTERS

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Löschen? 削除 🙂", "Löschen? 削除 🙂"),
        ("حذف؟", "حذف؟"),
        ("pay א 5", "pay \\u05d0 5"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("a\\nb", "a\\\\nb"),
        ("\x1b[2K\x9b\x7f", "\\u001b[2K\\u009b\\u007f"),
        ("l\u200bs\u202e\u2800", "l\\u200bs\\u202e\\u2800"),
        ("a\xa0b\u3000", "a\\u00a0b\\u3000"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("e\u0301\u0302\u0303", "e\u0301\u0302\\u0303"),
        ("1\u0301 a\ufe0f", "1\\u0301 a\\ufe0f"),
    ],
)
def test_words_are_shown_by_their_letters(text: str, shown: str) -> None:
    """Or as escapes, where a letter would not be seen, or would hide or move others."""
    assert escape_text(text) == shown
    assert unescaped(shown) == text


@given(TEXT, st.booleans(), st.integers(12, 90))
def test_words_can_be_taken_back(text: str, ascii_only: bool, room: int) -> None:
    """Letter by letter, from lines of any width."""
    lines = wrap_escaped(escape_for_terminal(escape_text(text), ascii_only=ascii_only), room)
    assert unescaped("".join(lines)) == text
    assert not any(unicodedata.category(letter)[0] == "C" for line in lines for letter in line)
    assert all(len(line) <= room for line in lines)


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUE)
def test_arguments_are_json_in_ascii(value: Any) -> None:
    """That any parser reads as the same value, of the same kinds."""
    shown = escape_json(value)
    assert shown.isascii()
    assert shown.isprintable()
    assert repr(json.loads(shown)) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), NotDisplayable.INEXACT),
        ([float("-inf")], NotDisplayable.INEXACT),
        ("\ud83d", NotDisplayable.INEXACT),
        ({"\ude42": 1}, NotDisplayable.INEXACT),
        (b"bytes", NotDisplayable.INEXACT),
        ({1: 2}, NotDisplayable.INEXACT),
        ({1, 2}, NotDisplayable.INEXACT),
        (object(), NotDisplayable.INEXACT),
        ("x" * MAX_QUESTION_CHARACTERS, NotDisplayable.TOO_LONG),
        (["x"] * MAX_QUESTION_CHARACTERS, NotDisplayable.TOO_LONG),
        ([10**5_000], NotDisplayable.TOO_LONG),
    ],
)
def test_what_json_does_not_hold_is_not_shown(value: Any, why: NotDisplayable) -> None:
    """It would be shown as something else."""
    assert escape_json({"a": value}) is why


def test_what_is_nested_too_deep_is_not_shown() -> None:
    """Rather than to run out of stack."""
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    assert escape_json(deep) is NotDisplayable.TOO_DEEP


def test_a_secret_is_shown_by_its_name() -> None:
    """Told apart from its name in the text, from what follows it, and from the end of an escape."""
    secrets = {"hunter2-hunter2": "TOKEN", "nabcdefgh": "OTHER", "hunter2-hunter2-long": "LONG"}
    text = "hunter2-hunter2x $TOKEN \\$TOKEN \nabcdefgh hunter2-hunter2-long"
    shown = "\\$TOKEN\\u0078 $TOKEN \\\\$TOKEN \\nabcdefgh \\$LONG"
    assert escape_text(text, secrets) == shown
    assert escape_json({text: text}, secrets) == f'{{"{shown}":"{shown}"}}'


@pytest.mark.parametrize(
    ("name", "shown"), [("team/buyer#1", "team/buyer#1"), ("a: b {}", '"a: b {}"'), ("", '""')]
)
def test_a_name_ends_where_it_says(name: str, shown: str) -> None:
    """What is no word is quoted."""
    assert quote_name(name) == shown


def ask(text: str, name: str = "place:action") -> InterruptRequest:
    owner = Pid("program/agent#1")
    return InterruptRequest(
        InterruptId(name), InterruptKind.CONFIRMATION, owner, text, Digest("action")
    )


def test_people_are_not_flooded() -> None:
    """Neither by one question, nor by all together; what is answered makes room."""
    interrupts = Interrupts()
    assert interrupts.open(ask("x" * (MAX_QUESTION_CHARACTERS + 1)), 0) is InterruptRefusal.TOO_LONG
    opened = [interrupts.open(ask("x" * MAX_QUESTION_CHARACTERS, f"{n}:a"), 0) for n in range(16)]
    assert [isinstance(one, Interrupt) for one in opened] == [True] * 15 + [False]
    assert opened[-1] is InterruptRefusal.TOO_MANY
    answered = interrupts.answer(InterruptId("0:a"), Approved(), "ann", Digest("action"), 1)
    assert isinstance(answered, Interrupt)
    assert isinstance(interrupts.open(ask("x" * MAX_QUESTION_CHARACTERS, "15:a"), 1), Interrupt)


def test_a_long_text_is_not_kept_when_it_is_settled() -> None:
    """All questions of a run are written with each answer."""
    interrupts = Interrupts()
    for name in ("0:a", "1:a"):
        interrupts.open(ask("x" * MAX_QUESTION_CHARACTERS, name), 0)
    interrupts.answer(InterruptId("0:a"), Approved(), "ann", Digest("action"), 1)
    interrupts.reap(0)
    kept = [len(one.ask.text) for one in interrupts.by_id.values()]
    assert kept == [0, MAX_QUESTION_CHARACTERS]
    assert isinstance(interrupts.use(InterruptId("0:a"), Digest("action"), 2), Interrupt)
