"""The judge of programs written from the card: it accepts what is right and sees what is not."""

import re
import socket

import pytest
from campaigns.card_tasks.__main__ import CASES, KEPT, SETS, SYNTAXES, suffices
from campaigns.card_tasks.case import Case, csv_of, difference, json_of, text_of
from campaigns.card_tasks.judge import Verdict, holds, judge
from campaigns.card_tasks.world import fitted

_ORDERS = """\
program may [net::get, net::post] allowed_hosts ["127.0.0.1:8931"]

type Item { id: str, name: str, stock: int }
type Page { items: [Item; 10], next: int? }
type Order { id: str, amount: int }

agent Buyer { model fast  max_tokens 300 }

fn main(base: str) -> int budget $5 {
    let sum = 0;
    let number: int? = 1;
    for n in range(8) {
        if number != null {
            let page = json::parse(http::get("{base}/items?page={number}").body) as Page;
            for item in page.items {
                if item.stock < 5 {
                    let amount = Buyer <- "How many of {item.name}?" as int;
                    http::post("{base}/orders", json::text(Order(id: item.id, amount: amount)));
                    sum = sum + amount;
                }
            }
            number = page.next;
        }
    }
    return sum;
}
"""
_NOTE = """\
from vegakit import Agent, program, vega

writer = Agent("writer", model="smart", max_tokens=300)


@program(may=["fs::read", "fs::write"], allowed_paths=["CHANGES.txt", "published/**", "pending/**"])
def main() -> str:
    changes = vega.file.read("CHANGES.txt")
    note = writer(f"Write a release note:\\n{changes}")
    if vega.human.approve(f"Publish? {note}", vega.duration("60s")):
        vega.file.write("published/note.md", note)
        return "published"
    vega.file.write("pending/note.md", note)
    return "pending"
"""
_AGREED = CASES["06"][1:]
_TWICE = (
    '        return "published"',
    '        vega.file.write("pending/note.md", note)\n        return "published"',
)


@pytest.fixture
def port() -> int:
    """A free port: the one that the tasks name may be taken on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(
    ("source", "suffix", "cases"),
    [(_ORDERS, ".vega", CASES["09"]), (_NOTE, ".py", _AGREED)],
    ids=["orders", "note"],
)
def test_what_does_its_task_works(
    source: str, suffix: str, cases: tuple[Case, ...], port: int
) -> None:
    verdict = judge(source, suffix, cases, port)
    assert (verdict.checks, verdict.works, verdict.why) == (True, True, "")


@pytest.mark.parametrize(
    ("source", "suffix", "cases", "right", "wrong", "kind"),
    [
        (_ORDERS, ".vega", CASES["09"], "stock < 5", "stock < 4", "returns otherwise"),
        (_ORDERS, ".vega", CASES["09"], " allowed_hosts [", " allowed_paths [", "refused by check"),
        (_NOTE, ".py", _AGREED, *_TWICE, "writes otherwise"),
    ],
    ids=["too few", "no host", "both files"],
)
def test_what_does_something_else_does_not(
    source: str,
    suffix: str,
    cases: tuple[Case, ...],
    right: str,
    wrong: str,
    kind: str,
    port: int,
) -> None:
    assert right in source
    assert judge(source.replace(right, wrong, 1), suffix, cases, port).kind == kind


def test_every_task_has_a_world() -> None:
    pages = [(KEPT / name).read_text("utf-8") for name in ("tasks.md", "tasks_31_to_60.md")]
    told = [re.findall(r"(?m)^## (\d\d) ", page) for page in pages]
    assert told == [list(cases) for cases in SETS.values()]
    assert list(CASES) == [f"{n:02}" for n in range(1, 61)]


def test_the_rules_of_both_sets_are_the_same() -> None:
    pages = [(KEPT / name).read_text("utf-8") for name in ("tasks.md", "tasks_31_to_60.md")]
    first, second = (page.partition("\n## ")[0].split("\n", 1)[1] for page in pages)
    assert first.strip() == second.strip()


def test_a_set_falls_short_alone() -> None:
    """A whole set needs its rates; of a part of one every program has to work."""
    vega, works, fails = SYNTAXES[0], Verdict(True, True), Verdict(True, False)
    assert suffices(vega, [works] * 24 + [fails] * 6, whole=True)
    assert not suffices(vega, [works] * 23 + [fails] * 7, whole=True)
    assert not suffices(vega, [works] * 24 + [fails] * 5, whole=False)


def test_an_answer_has_the_shape_that_was_asked_for() -> None:
    inner = {"type": "object", "properties": {"a": {}, "b": {}}}
    alone = {"type": "object", "properties": {"result": {}}}
    assert fitted({"a": 1, "b": 2, "c": 3}, inner) == {"a": 1, "b": 2}
    assert fitted(7, alone) == {"result": 7}
    assert fitted({"a": 1}, alone) == {"result": {"a": 1}}
    assert fitted([1], alone) == {"result": [1]}


def test_what_is_left_to_the_author_is_not_compared() -> None:
    assert difference({"a": 1, "b": ["x "]}, {"b": ["x"], "a": 1.0}) is None
    assert json_of({"a": None})('{\n  "a": null}') is None
    assert text_of("a\nb\n")("a  \n\nb") is None
    assert csv_of(("k", "n"), ("x, y", 7.5))('k, n\n"x, y",7.50\n') is None
    assert holds("Publish the \\nlong\n note?", "the long note")


def test_what_is_not_left_to_the_author_is_compared() -> None:
    assert difference(1, True) == "it is true, not 1"
    assert difference([1, 2], [2, 1]) == "it[0] is 2, not 1"
    assert difference({"a": 1}, {"a": 1, "b": 2}) is not None
    assert difference(None, "") is not None
    assert text_of("a\nb")("b\na") is not None
    assert csv_of(("k", "n"), ("x", 7.5))("k,n\nx,7.5\ny,8\n") is not None
    assert json_of([])("no") is not None
