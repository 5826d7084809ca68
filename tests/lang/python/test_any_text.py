"""Whatever the text is, the front end ends in a program or in diagnostics."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.cost import is_even
from vegakit.lang import check_program

PYTHON = Path(__file__).parents[2] / "language_python"
FILES = sorted(PYTHON.rglob("*.py"))
_WORDS = (
    "lambda: 0", "*", "yield", "xs[", ")", "None", "await x", "{**a}", "f'{x!r}'", "a if b else c",
    "x := 1", "global x", "@program", "return", "with session():", "vega.", "1_000", "...", "\x00",
    "é = 1", "for x, y in z:", "except*", "match x:", "print(*xs)", "-", "spawn()", "a.ask()",
)  # fmt: skip


def _ends(text: str) -> None:
    checked, found = check_program(text, "x.py", lambda _: None)
    assert (checked is None) == any(one.severity == "error" for one in found)
    assert all(0 <= one.at <= one.end <= len(text) + 1 for one in found)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text(text: str) -> None:
    _ends(text)


@pytest.mark.parametrize("seed", range(150))
def test_a_program_with_something_wrong_in_it(seed: int) -> None:
    """A line dropped, doubled or swapped, or a word put in somewhere."""
    chance = Random(seed)
    lines = chance.choice(FILES).read_text(encoding="utf-8").split("\n")
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 2:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case _:
                column = chance.randrange(len(lines[at]) + 1)
                word = chance.choice(_WORDS)
                lines[at] = f"{lines[at][:column]}{word}{lines[at][column:]}"
        lines = lines or [""]
    _ends("\n".join(lines))


BOMBS = {
    "parentheses": "x = " + "(" * 5_000 + ")" * 5_000,
    "lists": "x = " + "[" * 250 + "]" * 250,
    "sum": "x = " + " + ".join(["1"] * 20_000),
    "calls": "x = " + "f(" * 190 + ")" * 190,
    "ifs": "".join(f"{' ' * n}if x:\n" for n in range(99)) + " " * 99 + "pass",
    "not": "x = " + "not " * 5_000 + "y",
    "attributes": "x = y" + ".z" * 20_000,
    "long": "x = 1\n" * 100_000,
    "bytes": "x\x00y",
    "backslash": "\\",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_a_diagnostic(name: str) -> None:
    head = "from vegakit import program\n\n\n@program\ndef main() -> None:\n"
    body = "\n".join(f"    {line}" for line in BOMBS[name].split("\n"))
    checked, found = check_program(head + body, "x.py", lambda _: None)
    assert checked is None
    assert found


LARGE: dict[str, tuple[int, Callable[[int], list[str]]]] = {
    "branches": (
        1_400,
        lambda size: [
            f"if True:\n    y{n} = 1\nelse:\n    y{n} = 2\nprint(y{n})" for n in range(size)
        ],
    ),
    "changes": (
        2_000,
        lambda size: ["xs = [1]", *["xs.append(1)"] * size, *(f"_y{n} = xs" for n in range(size))],
    ),
    "signs": (3_000, lambda size: ["a0 = -1", *(f"a{n + 1} = a{n}" for n in range(size))]),
}


@pytest.mark.parametrize("name", LARGE)
def test_checking_grows_evenly_with_a_large_program(name: str) -> None:
    """Half a second each when this was written, of half a minute before the tables were made."""
    size, lines = LARGE[name]
    head = "from vegakit import program\n\n\n@program\ndef main() -> None:\n"

    def write(many: int) -> str:
        body = "\n".join(lines(many)).split("\n")
        return head + "\n".join(f"    {line}" for line in body)

    def check(text: str) -> None:
        checked, _ = check_program(text, "x.py", lambda _: None)
        assert checked is not None

    assert is_even(check, write, size)


def test_places_count_characters() -> None:
    """Python counts bytes; a diagnostic points at characters."""
    text = (
        "from vegakit import program\n\n\n@program\ndef main() -> None:\n"
        '    größe = "日本語"; print(größe.find("本"))\n'
    )
    [found] = check_program(text, "x.py", lambda _: None)[1]
    assert text[found.at : found.end] == 'größe.find("本")'
