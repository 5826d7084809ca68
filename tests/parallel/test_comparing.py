"""What two runs are compared by: each difference is seen, and cut down to its cause."""

from dataclasses import replace
from pathlib import Path

import pytest
from campaigns.parallel.comparing import compare, differences
from campaigns.parallel.running import Seen, compiled, run
from campaigns.parallel.trees import shrunk, text_of
from campaigns.parallel.writing import program

from vegakit.lang import check_program, parse
from vegakit.vm import Vm

SEEN = Seen(
    ["print a", "write a/x.txt b"], "done", "", {"a/x.txt": "b"}, {"main:0": [5]}, [], 100, 5
)
OTHERS = {
    "order": replace(SEEN, log=[*reversed(SEEN.log)]),
    "one print less": replace(SEEN, log=SEEN.log[:1]),
    "result": replace(SEEN, result="other"),
    "error": replace(SEEN, error="Failed: no"),
    "files": replace(SEEN, files={"a/x.txt": "c"}),
    "a file more": replace(SEEN, files={**SEEN.files, "b.txt": ""}),
    "another charge": replace(SEEN, charged={"main:0": [6]}, spent=6),
    "a call that is missing": replace(SEEN, charged={}, spent=0),
    "money that is in no call": replace(SEEN, spent=7),
    "waste that is not told": replace(SEEN, charged={"main:0": [5, 9]}, spent=14),
    "slower": replace(SEEN, took_ms=101),
    "a fault of ours": replace(SEEN, error="AgentFailed: main: crashed(KeyError: 'x')"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_difference_is_seen(what: str) -> None:
    assert differences(SEEN, OTHERS[what])


def test_waste_and_time_saved_are_no_differences() -> None:
    charged = {"main:0": [5], "main:1": [9]}
    assert differences(SEEN, SEEN) == []
    wasteful = replace(SEEN, charged=charged, spent=14, wasted=9, took_ms=50)
    assert differences(SEEN, wasteful) == []


def test_generated_programs_are_well_typed_and_many_fail_when_they_run() -> None:
    refused, failed = 0, 0
    for seed in range(30):
        module = compiled(text_of(program(seed)))
        refused += module is None
        failed += module is not None and bool(run(module, seed, 0).error)
    assert refused == 0
    assert 2 < failed < 20


def test_generated_programs_have_every_construct() -> None:
    text = "\n".join(text_of(program(seed)) for seed in range(150))
    words = (
        "<~,async ,await ,spawn ,parallel,session,try,catch,while,limit,for ,break,continue,return,"
        "timeout,budget,wallet,supervised,memory,circuit_breaker,rate_limit,retry,fail(,link(,"
        "file::read,file::write,file::list,file::exists,human::ask,human::approve,budget::used,"
        "budget::remaining,trace::event,process::sleep, as Plan,: bool =,: int =,again(,handed(,"
        "made(,peek("
    )
    assert [word for word in words.split(",") if word not in text] == []


def test_equal_seeds_give_equal_programs_and_runs() -> None:
    for seed in range(10):
        module = compiled(text_of(program(seed)))
        assert module is not None
        assert text_of(program(seed)) == text_of(program(seed))
        assert run(module, seed, 0) == run(module, seed, 0)


def test_a_program_is_cut_down_to_what_still_shows() -> None:
    tree = program(next(seed for seed in range(99) if "human::ask" in text_of(program(seed))))
    before = text_of(tree)
    small = shrunk(tree, lambda text: "human::ask" in text and compiled(text) is not None)
    assert "human::ask" in small
    assert len(small) < len(before) / 3
    assert not parse(small).diagnostics
    assert check_program(small, "main.vega", lambda _: None)[0] is not None


def test_what_depends_on_time_in_order_too_is_told_apart() -> None:
    text = (Path(__file__).parent / "differed" / "8912.vega").read_text(encoding="utf-8")
    found = compare(text, 8912)
    assert found.races
    assert not found.found


def test_what_differs_in_every_time_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: Vm, ticket: str, value: object) -> bool:
        return answer(self, ticket, "other" if self.state.window and value else value)

    answer = Vm.answer
    monkeypatch.setattr(Vm, "answer", planted)
    found = compare('agent A { } fn main() -> str { let a = A <- "1"; return A <- "{a}"; }', 4)
    assert found.found
    assert not found.races
