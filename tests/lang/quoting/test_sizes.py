"""Sizes that a quote knows: of answers, of what the library makes of texts, of arguments and files.

What a send costs says how long its message was taken to be: a byte, as `count` counts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lang.quoting.running import checked_of
from vegakit.agent import turn
from vegakit.conversation import AssistantMessage, ModelRequest, Text, UserMessage
from vegakit.lang import INT, STR, AgentSpec, KnownRun, ListOf, ModelTerms, Quote, RecordOf, quote
from vegakit.lang.analysis import cost_sends
from vegakit.lang.analysis.cost_sends import ANSWER_BYTES
from vegakit.lang.analysis.quotes import rounds_of
from vegakit.lang.schemas import problem_bytes
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.sdk import ProjectWorld

ONE = Money(1_000_000)
PRICE = PriceRow("any", (PriceTier(ONE, Money(0), ONE, ONE),))
WINDOW = 1_000_000
HEAD = """
program may [fs::read, fs::write]
type Plan { steps: [str; 3]  note: str  count: int }
agent A { max_tokens 10 max_steps 1 retry { max_attempts 1 } }
agent Long { max_tokens 1000 max_steps 1 retry { max_attempts 1 } }
agent Cheap { max_tokens 1 max_steps 1 retry { max_attempts 1 } budget $0.000001 }
"""


def _bytes(request: ModelRequest) -> int:
    said = [m for m in request.messages if isinstance(m, UserMessage | AssistantMessage)]
    parts = [part for message in said for part in message.parts]
    return sum(len(part.text) for part in parts if isinstance(part, Text))


def _terms(_: AgentSpec) -> ModelTerms:
    return ModelTerms(PRICE, WINDOW, 4096, _bytes, attempts=1)


def of(body: str, known: KnownRun | None = None) -> Quote:
    return quote(checked_of(HEAD + body), _terms, known=known, typical=True)


def size(body: str, known: KnownRun | None = None) -> int | None:
    """The bytes of the message on the last line that sends; even, as texts are made of pairs."""
    return of(body, known).lines[-1].worst


def even(size: int) -> int:
    return (size // 2 + 1) * 2


ANSWER = 10 * ANSWER_BYTES


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ('let a = A <- "x";\nA <- a;', ANSWER),
        ('let a = A <- "x";\nA <- "12345 {a}";', ANSWER + 6),
        ('let p = A <- "x" as Plan;\nA <- p.note;', ANSWER),
        ('let p = A <- "x" as Plan;\nA <- str::join(p.steps, "; ");', ANSWER + 3 * 2),
        ('let p = A <- "x" as Plan;\nA <- p.steps[0];', ANSWER),
        ('let a = A <- "x";\nA <- str::slice(a, 0, 5);', 20),
        ('let a = A <- "x";\nA <- str::slice(a, 3, 5);', 8),
        ('let a = A <- "x";\nA <- str::trim(a);', ANSWER),
        ('let a = A <- "x";\nA <- str::lower(a);', ANSWER * 3 // 2),
        ('let a = A <- "x";\nA <- str::upper(a);', ANSWER * 3),
        ('let a = A <- "x";\nA <- str::replace(a, " ", "+");', ANSWER),
        ('let a = A <- "x";\nA <- str::replace(a, "ab", "abc");', ANSWER * 3 // 2),
        ('let a = A <- "x";\nA <- str::join(str::lines(a), "");', ANSWER),
        ('let a = A <- "x";\nA <- str::join(list::take(str::words(a), 2), "-");', ANSWER + 2),
        ('let xs = [] + [A <- "x"];\nA <- xs[0];', ANSWER),
        ('let xs = [for i in range(3) { A <- "x" }];\nA <- str::join(xs, " ");', 3 * (ANSWER + 1)),
        ('let xs: [str] = [];\nfor i in range(99) { xs = xs + [A <- "x"]; }\nA <- xs[0];', ANSWER),
        ('let m = {"a": A <- "x"};\nA <- m["a"];', ANSWER),
        ('let m: {str: str} = {};\nm["k"] = A <- "x";\nA <- (map::get(m, "k") ?? "");', ANSWER),
        ('let t = "";\nfor i in range(4) { t = t + (A <- "x"); }\nA <- t;', 4 * ANSWER),
        ('let t = "";\nfor i in range(99) { t = t + (A <- "x"); }\nA <- t;', 99 * ANSWER),
        ('let c = list::chunks(["a", "bb", "c"], 2);\nA <- str::join(c[0], "");', 4),
        ('try { A <- "x"; } catch AgentFailed(why) {\nA <- why; }', 2_000),
        (
            (
                'try { fail("a"); } catch Failed(r) { try { fail(r + r); } catch Failed(_q) { } }\n'
                'try { fail("b"); } catch Failed(why) {\nA <- why; }'
            ),
            2_000,
        ),
        (
            (
                'try { try { fail("a"); } catch Failed(r) { fail("more {r}"); } }'
                " catch Failed(why) {\nA <- why; }"
            ),
            2_005,
        ),
        ('let ps: [Plan] = [];\nA <- "{ps}";', 2),
        ('let a = A <- "x";\nA <- Plan(steps: [], note: a, count: 1).note;', ANSWER),
        ('let p = Plan(steps: [], note: "abc", count: 1);\np.count = 2;\nA <- p.note;', 3),
        ('let p = Plan(steps: [], note: "", count: 1);\np.note = A <- "x";\nA <- p.note;', ANSWER),
        (
            (
                "let ps: [Plan] = [];\n"
                'for i in range(99) { ps = ps + [Plan(steps: [], note: A <- "x", count: i)]; }\n'
                "A <- ps[0].note;"
            ),
            ANSWER,
        ),
        ('A <- json::text(["abc", "d"]);', 2 + 6 * 3 + 3 + 6 + 3),
        ('A <- json::text({"k": "abc"});', 2 + 6 + 2 + 6 * 3 + 2 + 2),
        ('let a = A <- "x";\nA <- json::text(csv::parse(a));', 2 * ANSWER**2 + 40 * ANSWER + 100),
        ('let said = human::ask("what?", 5s) ?? "";\nA <- said;', 4_000),
        ("let n = time::now();\nA <- n;", 40),
    ],
)
def test_sizes_flow_through_values(body: str, most: int) -> None:
    assert size(body) == even(most)


def test_the_reason_a_program_gives_is_as_long_as_it_says() -> None:
    """In a handler above the place that fails, which the walk has not come to yet."""
    body = """
fn deep(text: str) { if len(text) > 3 { fail(text); } }
fn main() {
    try { deep(Long <- "x"); } catch Failed(why) {
A <- why; }
}"""
    assert size(body) == even(1_000 * ANSWER_BYTES)


def test_a_function_that_fails_with_the_reason_it_caught_has_no_bound() -> None:
    """Each of its calls may make the reason longer."""
    body = """
fn deep(n: int) {
    if n == 0 { fail("x"); }
    try { deep(n - 1); } catch Failed(r) { fail("more {r}"); }
}
fn main(n: int) {
    try { deep(n); } catch Failed(why) {
A <- why; }
}"""
    assert (size(body) or 0) >= WINDOW - 100


def test_an_answer_that_does_not_fit_is_counted_with_the_next_call() -> None:
    """The message, two answers and what was wrong with each; and a note that one was empty."""
    head = HEAD.replace("max_tokens 10 max_steps 1", "max_tokens 10 max_steps 4")
    quoted = quote(checked_of(head + '\nA <- "1234" as Plan;'), _terms)
    plan = RecordOf("Plan", (("steps", ListOf(STR, 3)), ("note", STR), ("count", INT)))
    reason = min(cost_sends.PROBLEM_BYTES, problem_bytes(plan, ANSWER))
    said = cost_sends.MISFIT_NOTE.format("x" * even(reason))
    answer, told = even(ANSWER), len(said)
    sent = [even(4)] * 4
    more = [0, answer + told, 2 * (answer + told), 2 * (answer + told)]
    note = len(cost_sends.EMPTY_NOTE)
    assert quoted.lines[-1].worst == sum(sent) + sum(more) + note
    assert (quoted.lines[-1].calls, quoted.lines[-1].sends) == (4, 1)


def test_a_model_is_told_no_more_of_a_misfit_than_a_quote_counts() -> None:
    """In the words of the turn."""
    assert turn._MISFIT == cost_sends.MISFIT_NOTE  # pyright: ignore[reportPrivateUsage]
    assert turn.MOST_TOLD <= cost_sends.PROBLEM_BYTES


def test_lists_of_answers_are_still_quoted_when_they_are_there() -> None:
    """Though they have a bound, `confirm` asks with their real length."""
    body = 'session budget $5 confirm $0.001 { for w in str::words(A <- "x") { A <- w; } }'
    assert len(rounds_of(checked_of(HEAD + body))) == 1


# Arguments and files.


MAIN = "\nfn main(texts: [str; 50], path: str) {\n"


def _known(root: Path, *arguments: Any) -> KnownRun:
    return KnownRun(arguments, ProjectWorld(root))


def test_arguments_are_as_long_as_they_are(tmp_path: Path) -> None:
    body = f"{MAIN}for t in texts {{\nA <- t; }} }}"
    assert size(body) == 50 * (WINDOW - 10)
    assert size(body, _known(tmp_path, ["a", "bbb", "cc"], "")) == sum(map(even, (1, 3, 2)))


def test_files_are_as_long_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 101)
    (tmp_path / "b.txt").write_text("x" * 11)
    known = _known(tmp_path, ["a.txt", "b.txt"], "a.txt")
    assert size(f"{MAIN}\nA <- file::read(path); }}", known) == even(101)
    each = f"{MAIN}let all = [for t in texts {{ file::read(t) }}];\nA <- all[1]; }}"
    assert size(each, known) == even(101)
    lines = f"{MAIN}for l in str::lines(file::read(path)) {{\nA <- l; }} }}"
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    assert size(lines, _known(tmp_path, [], "a.txt")) == even(3) + even(3) + even(5)


def test_what_is_not_there_or_outside_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.txt").write_text("x")
    for path in ("none.txt", "../secret.txt", "in"):
        known = KnownRun(([], path), ProjectWorld(tmp_path / "in"))
        assert size(f"{MAIN}\nA <- file::read(path); }}", known) == WINDOW - 10


@pytest.mark.parametrize(
    ("written", "most"),
    [
        ('file::write("a.txt", Long <- "x");', 6_000),
        ('file::write("b.txt", Long <- "x");', 3),
        ('file::write(A <- "where?", Long <- "x");', 6_000),
        ('for i in range(9) { file::write("a.txt", "{file::read("a.txt")}x"); }', None),
    ],
)
def test_a_file_is_as_long_as_the_program_makes_it(
    written: str, most: int | None, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("abc")
    body = f'\nfn main() {{ for i in range(2) {{\nA <- file::read("a.txt");\n{written} }} }}'
    lines = of(body, KnownRun((), ProjectWorld(tmp_path))).lines
    [line] = [one for one in lines if one.line == HEAD.count("\n") + 3]
    assert line.worst == 2 * (WINDOW - 10 if most is None else even(most))


def test_what_is_known_decides_branches_and_rounds(tmp_path: Path) -> None:
    """A text in parts, until there is none: three calls, the last of them short."""
    (tmp_path / "a.txt").write_text("x" * 25)
    body = """
fn main() {
    let text = file::read("a.txt");
    for i in range(20) {
        let part = str::slice(text, i * 10, (i + 1) * 10);
        if len(part) == 0 { break; }
A <- part;
    }
}"""
    assert size(body, KnownRun((), ProjectWorld(tmp_path))) == even(10) * 2 + even(5)


@pytest.mark.parametrize("arguments", [(["a"] * 3, ""), ([], "x" * 400)])
def test_a_quote_with_arguments_is_never_above_one_without(
    arguments: Sequence[Any], tmp_path: Path
) -> None:
    body = f"{MAIN}for t in texts {{ A <- t; }}\nA <- path; }}"
    with_them, without = of(body, _known(tmp_path, *arguments)).total, of(body).total
    assert with_them is not None
    assert without is not None
    assert with_them < without


# Typical.


def test_a_typical_send_is_one_call_and_half_an_answer() -> None:
    price = PriceRow("any", (PriceTier(Money(0), ONE, Money(0), Money(0)),))
    terms = ModelTerms(price, WINDOW, 4096, _bytes)
    head = "agent A { max_tokens 100 }\n"
    for body, spent in (
        ('A <- "x";', 50),
        ('for i in range(4) { A <- "x"; }', 200),
        ('for i in range(4) { if i == 2 { break; } A <- "x"; }', 100),
        ('if (A <- "x") == "y" { A <- "z"; }', 75),
        ('try { A <- "x"; } catch { A <- "y"; }', 50),
    ):
        quoted = quote(checked_of(head + body), lambda _: terms, typical=True)
        assert quoted.typical == spent, body


def test_typical_is_never_above_at_most() -> None:
    for body in ('A <- "x";', 'let p = Long <- "x" as Plan; A <- p.note;', 'Cheap <- "x";'):
        quoted = of(body)
        assert quoted.total is not None
        assert (quoted.typical or 0) <= quoted.total


def test_the_conversation_is_what_a_turn_sends() -> None:
    """The request that is counted has the shape of the one that is sent."""
    spec = AgentSpec("A", "any", max_tokens=10)
    sending = cost_sends.SendTerms(spec, cost_sends.RecordOf("R", ()))
    request = cost_sends._request(sending, "hello", 3, 10)
    kinds = [type(message) for message in request.messages]
    assert kinds == [UserMessage, *[AssistantMessage, UserMessage] * 2, UserMessage]


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("t = t + piece;", ANSWER + 2),
        ("t = piece + t;", ANSWER + 2),
        ('t = "{t}{piece}";', ANSWER + 2),
        ('if piece != "\\n" { t = t + piece; }', ANSWER + 2),
        ("t = t + piece; if len(t) > 10 { break; }", ANSWER + 2),
        ("t = t + piece; n = n + 1;", ANSWER + 2),
    ],
)
def test_pieces_that_are_gathered_are_the_answer(body: str, most: int) -> None:
    before = 'let t = "> ";\nlet n = 0;\n'
    assert size(f'{before}for piece in A <~ "x" {{ {body} }}\nA <- t;') == even(most)


@pytest.mark.parametrize(
    "body",
    [
        "t = t + piece + piece;",
        't = t + piece + ",";',
        "t = t + t;",
        't = t + piece; t = t + ",";',
        "for i in range(2) { t = t + piece; }",
        't = t + piece; piece = piece + "!";',
        't = t + piece; try { t = t + (A <- "y"); } catch Failed(why) { }',
    ],
)
def test_what_grows_with_the_pieces_otherwise_has_no_bound(body: str) -> None:
    before = 'let t = "> ";\n'
    source = HEAD + f'{before}for piece in A <~ "x" {{ {body} }}\nA <- t;'
    [*_, line] = quote(checked_of(source), _terms).lines
    assert (line.worst or 0) >= WINDOW - 100
