"""`kill -9` of the coding agent at random moments, and that what goes wrong would be found."""

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns.code_kills import (
    PROMPTS,
    Figures,
    Place,
    acted_on,
    differences,
    effect_faults,
    kill_sessions,
    make_workspace,
    prefix_faults,
)

from vegakit.testing import Api, ProviderRequest

KILLS = 6


def test_kills_lose_and_repeat_nothing() -> None:
    found = kill_sessions(KILLS, 3)
    print(found)
    assert found.kills >= KILLS
    assert found.holds, found


# The figures can fall short.


def request(*messages: dict[str, Any], system: str = "s") -> ProviderRequest:
    body = {"model": "m", "system": system, "tools": [], "messages": messages}
    text = [m["content"] for m in messages if isinstance(m["content"], str)]
    return ProviderRequest(1, Api.ANTHROPIC, json.dumps(body).encode(), {}, 1, 0, text=text[-1])


ASKED = {"role": "user", "content": PROMPTS[0]}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
OTHER = {"role": "assistant", "content": [{"type": "text", "text": "y"}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "content": "r"}]}


@pytest.mark.parametrize(
    ("requests", "faults"),
    [
        ([request(ASKED), request(ASKED, SAID, RESULT)], 0),
        ([request(ASKED), request(ASKED)], 0),
        ([request(ASKED), request(ASKED, system="t")], 2),
        ([request(ASKED, SAID, RESULT), request(ASKED, OTHER, RESULT, SAID, RESULT)], 1),
    ],
)
def test_another_prefix_is_found(requests: list[ProviderRequest], faults: int) -> None:
    assert len([*prefix_faults(requests)]) == faults


def test_another_transcript_is_found() -> None:
    whole = {PROMPTS[0]: [ASKED | {"content": [{"type": "text", "text": "One."}]}, SAID, RESULT]}
    cut = {"role": "user", "content": [{"type": "tool_result", "content": "outcome unknown: …"}]}
    assert [*differences({PROMPTS[0]: [*whole[PROMPTS[0]][:2], cut]}, whole)] == []
    assert [*differences({PROMPTS[0]: [whole[PROMPTS[0]][0], OTHER, RESULT]}, whole)]
    assert [*differences({PROMPTS[0]: whole[PROMPTS[0]][:2]}, whole)]


def said(name: str, call: str, **given: str) -> dict[str, Any]:
    used = {"type": "tool_use", "id": call, "name": name, "input": given}
    return {"role": "assistant", "content": [used]}


def result(call: str, text: str) -> dict[str, Any]:
    returned = {"type": "tool_result", "tool_use_id": call, "content": text}
    return {"role": "user", "content": [returned]}


FIRST, SECOND = said("edit", "1", path="a.txt"), said("edit", "2", path="a.txt")
SHELL = said("shell", "3", command="echo x")
WHOLE = [
    *(FIRST, result("1", "edited a.txt at line 2")),
    *(SECOND, result("2", "edited a.txt at line 3")),
    *(SHELL, result("3", "exit code 0")),
]
CUT, HIGHER = result("1", "outcome unknown: …"), result("2", "edited a.txt at line 2")


@pytest.mark.parametrize(
    ("killed", "is_right"),
    [
        ([FIRST, CUT, SECOND, HIGHER, *WHOLE[4:]], True),
        ([FIRST, CUT, *WHOLE[2:]], True),
        # Nobody was told of a cut, or of one in another file, or it is more than one line.
        ([*WHOLE[:2], SECOND, HIGHER, *WHOLE[4:]], False),
        ([*WHOLE[:4], SHELL, result("3", "exit code 1")], False),
        ([FIRST, CUT, SECOND, result("2", "edited a.txt at line 1"), *WHOLE[4:]], False),
        ([FIRST, CUT, SECOND, result("2", "edited a.txt at line 4"), *WHOLE[4:]], False),
        ([FIRST, CUT, SECOND, result("2", "edited b.txt at line 2"), *WHOLE[4:]], False),
        ([SHELL, result("3", "outcome unknown: …"), SECOND, HIGHER, *WHOLE[4:]], False),
        # A message is lost, or a tool is called twice.
        ([FIRST, CUT, SECOND, HIGHER], False),
        ([FIRST, CUT, SECOND, HIGHER, *WHOLE[4:], *WHOLE[4:]], False),
        ([FIRST, CUT, SECOND, HIGHER, SECOND, HIGHER], False),
    ],
)
def test_only_the_line_of_an_edit_after_one_that_was_told_as_unknown_may_differ(
    killed: list[dict[str, Any]], *, is_right: bool
) -> None:
    found = [*differences({PROMPTS[0]: killed}, {PROMPTS[0]: WHOLE})]
    assert (not found) == is_right, found


def test_an_effect_that_is_doubled_or_lost_is_found(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    every = "m1 m3 m4 n1 A1 A3 C1 C3 D1 D3 E1 E3"
    (tmp_path / "effects.txt").write_text(every.replace(" ", "\n"))
    edits = {f"{token[0]}2 was written 0 times" for token in ("A", "C", "D", "E", "m", "n")}
    assert {*effect_faults(tmp_path, "")} == edits
    (tmp_path / "effects.txt").write_text(f"{every} m1")
    assert {*effect_faults(tmp_path, "")} == {*edits, "m1 was written 2 times"}
    (tmp_path / "effects.txt").write_text(every.removeprefix("m1 "))
    assert {*effect_faults(tmp_path, "echo m1 >> effects.txt")} == edits


def test_what_was_acted_on_is_known_by_its_place() -> None:
    began = {"type": "tool_began", "task": ""}
    events = [
        began | {"id": "1.1.0", "name": "read", "arguments": {}},
        began | {"id": "1.2.1", "name": "task", "arguments": {"prompt": "Do A."}},
        began | {"id": "1.2.1/3.0", "name": "read", "arguments": {}, "task": "1.2.1"},
    ]
    places = [Place(PROMPTS[0], 0), Place(PROMPTS[0], 1), Place("Do A.", 2)]
    assert [*acted_on(events, {})] == places
    assert not Figures(kills=1, bought_again=1).holds
