"""Texts and maps with a size, as a person meets them: `vega run` with its defaults, `vega cost`."""

import json
from pathlib import Path

import pytest

from vegakit.cli import main

TITLE = """
agent A { model fast  max_tokens 50 }
fn main(text: str; 6, votes: {str: int; 2}) {
    let title: str; 4 = A <- "A title for {text}";
    print(title);
    votes[title] = 1;
    print(len(votes));
}
"""
OPEN = """agent A { model fast  max_tokens 50 }
fn main(text: str, topic: str) {
    print(A <- "{topic}: {text}");
}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.vega").write_text(TITLE)


def _run(*arguments: str, answers: tuple[str, ...] = ("ÄÄÄÄ",)) -> int:
    said = [{"output": {"result": answer}} for answer in answers]
    Path("says.json").write_text(json.dumps(said))
    return main(["run", "p.vega", *arguments, "--model", "scripted:says.json"])


def test_an_argument_that_is_too_long_is_refused_before_the_first_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Six characters of two bytes fit."""
    assert _run("seven..", "{}") == 1
    assert "text: expected at most 6 characters, got 7" in capsys.readouterr().err
    assert _run("six", '{"a":1,"b":1,"c":1}') == 1
    assert "votes: expected at most 2 keys, got 3" in capsys.readouterr().err
    assert _run("ÄÄÄÄÄÄ", "{}") == 0


def test_an_answer_that_is_too_long_is_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("six", "{}", answers=("too long", "ÄÄÄÄ")) == 0
    assert "ÄÄÄÄ\n1\n" in capsys.readouterr().out


def test_a_key_too_many_is_refused_as_it_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("six", '{"a":1,"b":1}') == 1
    assert "the value has 3 keys, at most 2 may be" in capsys.readouterr().err


def test_a_compiled_program_holds_to_its_sizes_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "p.vega"]) == 0
    assert main(["run", "p.vgb", "seven..", "{}"]) == 1
    assert "text: expected at most 6 characters, got 7" in capsys.readouterr().err


def test_why_says_to_bound_what_main_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """And with it the quote is the one that was told."""
    Path("p.vega").write_text(OPEN)
    assert main(["cost", "p.vega", "--why", "3"]) == 0
    said = [each.strip() for each in capsys.readouterr().out.splitlines()]
    where = "write in line 2: "
    (written,) = (each.removeprefix(where) for each in said if each.startswith(where))
    assert written == "fn main(text: str; 2000, topic: str; 2000) {"
    most = said[-1].split(" here, and ")[1].removesuffix(" in all")
    Path("p.vega").write_text(OPEN.replace(OPEN.split("\n")[1], written))
    assert main(["cost", "p.vega"]) == 0
    assert f"at most {most} in 1 send" in capsys.readouterr().out
