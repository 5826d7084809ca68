"""What redaction hides, what it leaves alone, and that it takes linear time."""

import base64
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from tests.cost import is_even
from tests.telemetry.calls import call
from tests.telemetry.canaries import CANARIES
from vegakit.events import CallKind, CallStatus
from vegakit.records import to_json
from vegakit.telemetry import Redactor
from vegakit.telemetry.redaction import FORMATS, redact

KEY = 'no-known/format+1 "é"&x'


@pytest.mark.parametrize("name", CANARIES)
def test_known_formats_are_hidden(name: str) -> None:
    """Alone, in a sentence, after an escape, in JSON in JSON, and in a URL."""
    met, secret = CANARIES[name]
    for text in (met, f"the key {met} is wrong", json.dumps(json.dumps({"a": f"x\n{met}"}))):
        assert secret not in redact(text)
        assert json.dumps(secret)[1:-1] not in redact(text)


@pytest.mark.parametrize("row", FORMATS)
def test_every_format_has_a_canary(row: str) -> None:
    """So that no row is there for nothing, and a broken one is seen."""
    mark, regex = FORMATS[row]
    met = [secret for text, secret in CANARIES.values() if mark in text and secret in text
           and secret not in re.sub(regex, "", text, flags=re.DOTALL)]  # fmt: skip
    assert met


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the password is wrong; secret: no; a token: one word; max_tokens = 150; cookie: 2 eggs",
        "def check(password: str, api_key: bytes | None) -> None",
        "usage: vega run --budget '$5' FILE; pa-rt of re_entrant_code, key-value, fc-list",
        "a risk-assessment-for-the-whole-company and task-management-for-large-teams",
        "see https://example.com:8080/a/b?page=2&sort=name#top or mail me@example.com",
        "input_tokens: 150, the bearer of bad news, basic internationalization",
        "commit 580d3d2b1f0c4e3a9d8b7c6a5f4e3d2c1b0a9f8e, 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "scikit-learn==1.5.0 skips the-task-that-is-much-too-long-for-you; key = value",
        "-----BEGIN CERTIFICATE-----",
        "docker run -u 1000:1000; git push -u origin main; the login page password field",
        "author: somebody, auth: none; sha256:580d3d2b1f0c4e3a9d8b7c6a5f4e3d2c1b0a9f8e; EZ to do",
    ],
)
def test_plain_text_stays(text: str) -> None:
    """A trace must stay readable."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "spelling",
    [
        KEY,
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        quote(KEY, safe=""),
        quote(KEY),
        quote_plus(KEY),
        re.sub("%..", lambda escape: escape[0].lower(), quote(KEY, safe="")),
        json.dumps(KEY)[1:-1],
        repr(KEY)[1:-1],
    ],
)
def test_given_keys_are_hidden_in_every_spelling(spelling: str) -> None:
    """None of them has a known format."""
    text = f"begin {spelling} end"
    hidden = Redactor([KEY]).redact(text)
    assert hidden.startswith("begin [redacted]")
    assert len(hidden) <= len("begin [redacted]x== end")


@given(st.binary(max_size=7), st.text(min_size=8, max_size=40), st.binary(max_size=7))
def test_base64_of_a_longer_text_hides_the_key_in_it(before: bytes, key: str, after: bytes) -> None:
    """As in `Basic base64(user:key)`: whatever stands around it."""
    whole = base64.b64encode(before + key.encode() + after).decode()
    hidden = Redactor([key]).redact(whole)
    assert hidden != whole
    assert len(hidden.replace("[redacted]", "")) <= len(whole) - len(key.encode()) * 4 // 3 + 2


def test_short_values_are_not_secrets() -> None:
    """Hiding `ollama` would garble every text."""
    redactor = Redactor(["ollama", ""])
    assert redactor.redact("ollama:llama3") == "ollama:llama3"


def test_the_last_keys_are_remembered() -> None:
    """256 of them, so that a key that changes each hour does not fill the memory."""
    redactor = Redactor(f"key number {number:04}" for number in range(300))
    assert redactor.redact("key number 0299") == "[redacted]"
    assert redactor.redact("key number 0000") == "key number 0000"
    assert repr(redactor) == "Redactor(256 secrets)"


def test_a_text_seen_before_its_key_was_known_is_hidden_from_then_on() -> None:
    """What a short text became is remembered, but not beyond the next key."""
    redactor = Redactor(["another key"])
    assert redactor.redact("my new password") == "my new password"
    redactor.add("new password")
    assert redactor.redact("my new password") == "my [redacted]"


def test_few_and_short_texts_are_remembered() -> None:
    """So that no stream of texts fills the memory."""
    redactor = Redactor()
    for number in range(3_000):
        redactor.redact(f"name {number}")
    assert redactor._keys.hide_short.cache_info().currsize == 1_024
    redactor.redact("long" * 100)
    assert redactor._keys.hide_short.cache_info().misses == 3_000


def test_a_text_that_lies_about_being_equal_is_looked_at() -> None:
    """Else it would be taken for one that was seen before."""

    class Liar(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return hash("harmless")

    redactor = Redactor([KEY])
    redactor.redact(Liar("harmless"))
    assert str(redactor.redact(Liar(KEY))) == "[redacted]"


def test_adding_a_key_twice_changes_nothing() -> None:
    """It is added each time it is read."""
    redactor = Redactor([KEY, KEY])
    assert repr(redactor) == "Redactor(1 secrets)"


def test_a_key_in_use_is_not_forgotten() -> None:
    """However many others come and go."""
    redactor = Redactor()
    for number in range(600):
        redactor.add(f"key number {number:04}")
        redactor.add(KEY)
    assert redactor.redact(KEY) == "[redacted]"


@pytest.mark.parametrize("name", ["X-Api-Key", "password", "api_key", "Set-Cookie"])
def test_secret_names_hide_their_values(name: str) -> None:
    """In JSON, where name and value are two texts; nothing stays nothing."""
    hidden = Redactor().redact_json({name: ["any", "thing"], "input_tokens": 5})
    assert hidden == {name: "[redacted]", "input_tokens": 5}
    assert Redactor().redact_json({name: None}) == {name: None}


@dataclass
class Note:
    key: str
    raw: bytes


def test_nested_values_are_hidden() -> None:
    """In keys and values, in records, at any depth; bytes are counted only."""
    found = Redactor([KEY]).redact_json(
        {KEY: [1, 2.5, True, None, (KEY,)], "n": Note(KEY, b"123"), 7: {KEY}, "t": object()}
    )
    assert found == {
        "[redacted]": [1, 2.5, True, None, ["[redacted]"]],
        "n": {"key": "[redacted]", "raw": "<3 bytes>"},
        "7": ["[redacted]"],
        "t": "<object>",
    }


def test_what_it_gives_can_be_written() -> None:
    """Halves of surrogate pairs, endless lists and strange numbers too."""
    endless: list[Any] = []
    endless.append(endless)
    strange = {"a": "\ud800", "b": endless, "c": float("nan"), "d": 10**30, "e": Odd(1.5)}
    assert to_json(Redactor().redact_json(strange)).startswith(b'{"a":"?","b":[[[')


class Odd(float):
    """As numpy has them."""


def test_every_text_of_a_call_is_hidden() -> None:
    """Content as well, when it is let pass at all."""
    texts: dict[str, Any] = dict.fromkeys(("name", "agent", "model", "finish", "error"), KEY)
    told = call(**texts, attributes={KEY: KEY}, content=[KEY])
    assert KEY.encode() not in to_json(Redactor([KEY], content=True).redact_call(told))
    assert Redactor([KEY], content=True).redact_call(told).content == ["[redacted]"]
    assert Redactor([KEY]).redact_call(told).content is None


@pytest.mark.parametrize(
    ("kind", "status", "error", "kept"),
    [
        (CallKind.MODEL, CallStatus.FAILED, "rejected: he said this", "rejected"),
        (CallKind.MODEL, CallStatus.REFUSED, "BudgetExceeded: $1 is left", ""),
        (CallKind.ASK, CallStatus.FAILED, "ContractViolated: he said this", "ContractViolated"),
        (CallKind.TOOL, CallStatus.FAILED, "ValueError: he said this", "ValueError"),
        (CallKind.TOOL, CallStatus.FAILED, "he said: this", "failed"),
        (CallKind.TOOL, CallStatus.REFUSED, "CapabilityDenied: his file", "CapabilityDenied"),
        (CallKind.TOOL, CallStatus.FAILED, "timed out after 50 ms", ""),
        (CallKind.TOOL, CallStatus.FAILED, "timed out after 50 ms of this", "failed"),
        (CallKind.TOOL, CallStatus.FAILED, "was cancelled", ""),
    ],
)
def test_an_error_is_told_in_our_own_words(
    kind: CallKind, status: CallStatus, error: str, kept: str
) -> None:
    """Those of a provider or a tool are content."""
    failed = call(kind=kind, status=status, error=error)
    assert Redactor().redact_call(failed).error == (kept or error)
    assert Redactor(content=True).redact_call(failed).error == error


def test_a_key_that_the_cut_would_halve_is_cut_off() -> None:
    """Text ends at a million characters, without the beginning of a key."""
    met, secret = CANARIES["anthropic"]
    for place in (999_950, 999_995, 1_000_050, 1_004_040, 1_004_090):
        hidden = redact("x" * (place - 1) + " " + met + " " + "y" * 10_000)
        assert len(hidden) <= 1_000_001
        assert secret[:12] not in hidden


BOMBS = [
    "a",
    "-",
    "eyJ",
    "1",
    "://",
    "://a:",
    "://a:b",
    "-----BEGIN ",
    "authorization: a",
    "bearer ",
    "password=",
    'secret="',
    "api-key: ",
    "--token ",
    "cookie: a",
    "cookie: a=",
]


@pytest.mark.parametrize("bomb", [*BOMBS, *sorted({mark for mark, _ in FORMATS.values() if mark})])
def test_it_takes_linear_time(bomb: str) -> None:
    """Of half a million hostile characters; the square of them would take minutes."""
    assert is_even(redact, lambda size: (bomb * size)[:size], 500_000)


@dataclass
class Ring:
    next: "Ring | None" = None


def test_a_record_that_holds_itself_is_told_by_its_type() -> None:
    """Rather than never."""
    ring = Ring()
    ring.next = ring
    assert Redactor().redact_json(ring) == "<Ring>"


def test_a_key_has_the_name_it_was_given() -> None:
    """As long as it is remembered."""
    redactor = Redactor()
    redactor.add("sk-first-key", "FIRST_API_KEY")
    redactor.add("sk-other-key")
    assert redactor.named() == {"sk-first-key": "FIRST_API_KEY"}
    for n in range(300):
        redactor.add(f"sk-key-number-{n}")
    assert redactor.named() == {}
