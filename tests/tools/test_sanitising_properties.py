"""Whatever a tool gives back, what is shown holds nothing that acts or hides."""

import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from vegakit.policy import mark_untrusted, safe_text as sanitising, sanitise

NASTY = st.sampled_from(
    [*"\0\x1b\x9b\r\x7f\u202e\u2066\u200b\ufeff\u2028\ud800\u200d\ufe0f\\é𝄞\U000e0041"]
)
RESULTS = (
    st.text(st.characters() | NASTY)
    | st.binary()
    | st.lists(NASTY | st.just("ok\n"), max_size=60).map("".join)
)
NEEDED = "\u200c\u200d\ufe0e\ufe0f"
FORMLESS = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def acts_or_hides(text: str) -> bool:
    """By what Unicode says of each character, not by our own list."""
    kinds = {unicodedata.category(letter) for letter in text if letter not in f"\n\t{NEEDED}"}
    return bool(kinds & FORMLESS) or any(
        all(letter in NEEDED for letter in text[at : at + 3]) for at in range(len(text) - 2)
    )


def check(result: str | bytes, most_bytes: int) -> None:
    shown = sanitise(result, most_bytes)
    shown.encode()
    assert not acts_or_hides(shown)
    note = max((len(line.encode()) for line in shown.split("\n") if "cut here" in line), default=0)
    assert len(shown.encode()) <= most_bytes + note + 2


@given(RESULTS, st.sampled_from([0, 1, 7, 50, 10_000]))
@example("a\u200d\u200dcut here\u200d\u200d\u200db", 30)
def test_nothing_shown_acts_or_hides(result: str | bytes, most_bytes: int) -> None:
    """Valid UTF-8 within its cap."""
    check(result, most_bytes)


def test_no_character_there_is_acts_or_hides() -> None:
    """Tried 256 at a time, each beside a space."""
    for first in range(0, 0x110000, 256):
        letters = " ".join(map(chr, range(first, first + 256)))
        assert not acts_or_hides(sanitise(letters)), hex(first)


@given(RESULTS)
def test_what_was_made_harmless_stays_as_it_is(result: str | bytes) -> None:
    """Passing twice is passing once."""
    once = sanitise(result, 10_000)
    assert sanitise(once, 100_000) == once


@given(st.text(st.sampled_from("a <>/unTRusted\n\u200b")))
def test_marks_stand_at_both_ends_only(result: str) -> None:
    """However they are broken up."""
    shown = mark_untrusted(sanitise(result)).lower().replace(" ", "").replace("\n", "")
    assert shown.count("<untrusted") == shown.count("</untrusted") == 1


@pytest.mark.parametrize("pattern", ["[\0-\x1f]", "[^\n\t\x20-\U0010ffff]|\u202e"])
def test_a_list_that_forgets_some_is_found(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the properties can fail."""
    monkeypatch.setattr(sanitising, "_INVISIBLE", sanitising.re.compile(pattern))
    with pytest.raises(AssertionError):
        check("\x1b\x9b\u2066", 100)
