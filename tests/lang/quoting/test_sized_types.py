"""Types that say how long a text and how large a map is: the quote counts no less than what a
program sends of the fullest values, and a value that is fuller is refused.

The values are made here, beside the types, and know nothing of the analysis: a text of the most
characters, each of up to four bytes, and of up to six in JSON.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.lang.quoting.running import checked_of
from vegakit.conversation import Text, UserMessage
from vegakit.lang import ModelTerms, Problem, Quote, compile_program, quote, schema_of, value_of
from vegakit.lang.analysis import cost_values
from vegakit.money import dollars
from vegakit.providers import SCRIPTED_PRICE, ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import run_virtual

SEEDS = 60
CHARACTERS = ["a", "ä", "€", "😀", "\x01", '"', "\\", "\n"]
AGENT = "agent A { max_tokens 1 max_steps 1 retry { max_attempts 1 } }\n"


class _Typed:
    """A type as it is written, its fullest value, and the same with one too many somewhere."""

    def __init__(self, chance: Random, depth: int = 0) -> None:
        most = chance.randint(1, 4)
        kind = chance.choice(["text", "text", "list", "map", "null"][: 5 if depth < 3 else 2])
        self.is_text = kind == "text"
        if self.is_text:
            most = chance.randint(1, 300)
            char = chance.choice(CHARACTERS)
            self.written, self.full, self.over = f"str; {most}", char * most, char * (most + 1)
            return
        inner = _Typed(chance, depth + 1)
        while kind == "null" and inner.written.endswith("?"):
            inner = _Typed(chance, depth + 1)
        item = f"({inner.written})" if inner.is_text else inner.written
        self.full: Any = inner.full
        self.over: Any = inner.over
        if kind == "null":
            self.written = f"{item}?"
        elif kind == "list":
            self.written, self.full = f"[{item}; {most}]", [inner.full] * most
            self.over = chance.choice([[inner.full] * (most + 1), [inner.over]])
        else:
            self.written, keys = f"{{str: {item}; {most}}}", [f"k{i}" for i in range(most + 1)]
            self.full = dict.fromkeys(keys[:most], inner.full)
            self.over = chance.choice([dict.fromkeys(keys, inner.full), {"k": inner.over}])


def _quoted(text: str) -> Quote:
    model = ScriptedModel("")
    terms = ModelTerms(SCRIPTED_PRICE, 1_000_000, model.default_max_tokens, model.bound_input)
    return quote(checked_of(text), lambda _: terms)


def _sent(text: str, given: Any, root: Path) -> list[str]:
    model = ScriptedModel("fine")

    async def run() -> None:
        async with Runtime("$1000", models=lambda _: model) as rt:
            program = VegaProgram(compile_program(checked_of(text)), root)
            await rt.program.run(program, "main", [given], dollars("$100"), None)

    run_virtual(run())
    said = [m for request in model.requests for m in request.messages]
    return [p.text for m in said if isinstance(m, UserMessage) for p in m.parts if type(p) is Text]


def _longer_than_quoted(seed: int, root: Path) -> bool:
    """Whether the program sends more bytes than it is quoted; keys of maps have no bound."""
    made = _Typed(Random(seed))
    while "{" in made.written or made.written.endswith("?"):
        made = _Typed(Random(seed := seed + 1_000))
    text = f'{AGENT}fn main(x: {made.written}) {{\n    A <- "<{{x}}>";\n}}\n'
    (line,) = _quoted(text).lines
    (sent,) = _sent(text, made.full, root)
    assert line.bytes is not None, made.written
    return len(sent.encode()) > line.bytes


def test_a_message_is_no_longer_than_its_type_says(tmp_path: Path) -> None:
    assert not any(_longer_than_quoted(seed, tmp_path) for seed in range(SEEDS))


def test_characters_that_are_counted_as_bytes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_values, "CHAR_BYTES", 1)
    assert any(_longer_than_quoted(seed, tmp_path) for seed in range(SEEDS))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_fullest_value_is_taken_and_a_fuller_one_refused(seed: int) -> None:
    made = _Typed(Random(seed))
    checked = checked_of(f"fn main(x: {made.written}) {{ print(x); }}")
    kind = compile_program(checked).functions[0].params[0]
    assert not isinstance(value_of(kind, made.full), Problem)
    assert isinstance(value_of(kind, made.over), Problem)


LOOP = 'fn main(of: {}) {{\n    for k, each in of {{\n        A <- "{{each}}";\n    }}\n}}\n'


@pytest.mark.parametrize(
    ("written", "sends", "size"),
    [
        ("{str: str}", None, None),
        ("{str: str; 7}", 7, None),
        ("{str: (str; 50)}", None, 200),
        ("{str: (str; 50); 7}", 7, 200),
        ("[(str; 50); 7]", 7, 200),
    ],
)
def test_a_loop_over_a_map_runs_as_often_as_it_has_keys(
    written: str, sends: int | None, size: int | None
) -> None:
    (line,) = _quoted(AGENT + LOOP.format(written)).lines
    assert (line.sends, line.bytes) == (sends, size)


def test_a_text_that_is_bounded_by_its_type_costs_less_than_one_that_is_not() -> None:
    """A full window of 1,000,000 tokens before, 8,000 bytes after, which are 4,000 words."""
    main = "fn main(text: {}) {{ A <- text; }}"
    before, after = (_quoted(AGENT + main.format(kind)) for kind in ("str", "str; 2000"))
    assert (before.lines[0].bytes, after.lines[0].bytes) == (None, 8_000)
    assert (before.total or 0) > 200 * (after.total or 0) > 0


def test_a_handler_of_a_map_that_gets_too_many_keys_is_quoted() -> None:
    """To set a key may raise, and what catches it is paid for."""
    body = 'try { m["b"] = 1; } catch { A <- "x"; }'
    quoted = _quoted(AGENT + f'fn main() {{ let m: {{str: int; 1}} = {{"a": 1}}; {body} }}')
    assert quoted.calls == 1


def test_a_schema_says_the_lengths() -> None:
    """In characters, as JSON Schema counts them."""
    checked = checked_of("fn main(x: {str: (str; 50); 7}) { print(x); }")
    schema = schema_of(compile_program(checked).functions[0].params[0])
    text = {"type": "string", "maxLength": 50}
    assert schema == {"type": "object", "additionalProperties": text, "maxProperties": 7}
