"""What a quote says of single constructs, in sends, each of which is counted once."""

import pytest

from tests.lang.quoting.faults import ALWAYS_THE_MOST, ONE_BRANCH_FOR_BOTH
from tests.lang.quoting.running import at_its_worst, checked_of, quoted
from tests.lang.quoting.spite import Spite
from vegakit.lang import Quote
from vegakit.lang.analysis.cost_bounds import CallCost
from vegakit.money import dollars

HEAD = """
type Plan { steps: [str; 3] }
agent A { system "1 2" max_tokens 50 retry { max_attempts 1 } }
agent B { system "1 2" max_tokens 50 retry { max_attempts 1 } budget $0.001 }
fn twice(xs: [str]) { for x in xs { A <- x; } for x in xs { A <- x; } }
fn again(n: int) -> str { if n == 0 { return ""; } A <- "x"; return again(n - 1); }
fn pure(n: int) -> int { if n == 0 { return 0; } return pure(n - 1); }
"""


def of(body: str, head: str = HEAD) -> Quote:
    return quoted(checked_of(head + body), Spite(0))


@pytest.mark.parametrize(
    ("body", "sends"),
    [
        ('A <- "x";', 1),
        ('if 1 < 2 { A <- "x"; } else { A <- "x"; A <- "y"; }', 2),
        ('for i in range(5) { A <- "x"; }', 5),
        ('for i in range(2, 5) { A <- "x"; }', 3),
        ('let n = 4; for i in range(n) { A <- "x"; }', 4),
        ('while true limit 3 { A <- "x"; }', 3),
        ('while (A <- "x") != "y" limit 3 { A <- "x"; }', 7),
        ('for a in [1, 2] { for b in [1, 2, 3] { A <- "x"; } }', 6),
        ('let all = [for i in range(4) { A <- "x" }];', 4),
        ('twice(["a", "b"]); twice(["c"]);', 6),
        ('let xs = [1]; for i in range(3) { xs = xs + [i]; } for x in xs { A <- "x"; }', 4),
        (
            """let xs = [1];
            for a in range(2) { for b in range(3) { xs = xs + [b]; } }
            for x in xs { A <- "x"; }""",
            7,
        ),
        ('let xs = [1]; while len(xs) < 9 limit 3 { xs = xs + [2]; } for x in xs { A <- "x"; }', 4),
        ('let xs = [1]; for i in range(3) { xs = [i]; } for x in xs { A <- "x"; }', 1),
        ('for s in list::take(str::words("a b c d"), 2) { A <- s; }', 2),
        ('try { A <- "x"; } catch { A <- "y"; }', 2),
        ('let m = {"a": 1, "b": 2}; for k, v in m { A <- k; }', 2),
        ('let m = {"a": 1}; m["b"] = 2; for k in map::keys(m) { A <- k; }', 2),
        ('pure(9); A <- "x";', 1),
        ("print(1);", 0),
        ('let a = 2; for i in range(a, 5) { A <- "x"; }', 3),
        ('for i in range(2) { for j in range(i, 3) { A <- "x"; } }', 6),
        ('let n = 7; let m = n - 4; for i in range(m) { A <- "x"; }', 3),
        ('for i in range(5) { A <- "x"; break; }', 1),
        ('for i in range(5) { if i > 2 { continue; } A <- "x"; }', 5),
        ('try { for i in range(2) { print(i); } } catch { A <- "x"; }', 0),
        ('while true limit 3 { A <- "x"; } A <- "y";', 3),
        ('fail("no"); A <- "x";', 0),
        (
            'let xs = ["s"]; for i in range(9) { xs = xs + ["a"]; break; } for x in xs { A <- x; }',
            2,
        ),
    ],
)
def test_sends_are_counted(body: str, sends: int) -> None:
    """A `while` may ask its test once more than it has rounds."""
    assert of(body).calls == sends


def test_a_branch_that_ends_taken_for_both_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted."""
    monkeypatch.setattr(*ONE_BRANCH_FOR_BOTH)
    assert of('for i in range(5) { if i > 2 { continue; } A <- "x"; }').calls != 5


def test_a_cap_holds_as_many_calls_as_fit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 95 where each costs from 50 to 100; planted, that each costs the most."""
    assert [CallCost(least, 100, 3).within(190) for least in (50, 100, 200)] == [190, 100, 0]
    monkeypatch.setattr(*ALWAYS_THE_MOST)
    assert CallCost(50, 100, 3).within(190) != 190


def test_messages_that_are_cut_are_bounded() -> None:
    """Four bytes for each character."""
    body = 'let long = A <- "x"; A <- "say {str::slice(long, 0, 9)}";'
    assert (of(body).total or 0) < (of(body.replace("str::slice(long, 0, 9)", "long")).total or 0)


def test_a_send_that_no_budget_around_it_can_pay_costs_nothing() -> None:
    """It is refused, and what follows is not reached."""
    assert of('session budget $0.0001 { A <- "x"; A <- "y"; }').total == 0
    assert of('session budget $0.0005 { B <- "x"; }').total == 0


def test_a_part_that_is_held_is_not_spent_twice() -> None:
    """One send of two cents' part spends little of it, so the third finds no room."""
    found = of('session budget $0.0022 { for i in range(9) { A <- "x" budget $0.002; } }')
    one = of('A <- "x" budget $0.002;')
    assert found.total == dollars("$0.0002") + (one.total or 0)


def test_a_process_is_capped_by_its_own_wallet_whatever_others_have() -> None:
    body = 'let p = spawn A wallet $0.20; let q = spawn B; q <- "x"; while true { p <- "x"; }'
    assert (of(body).total or 0) < dollars("$0.21")


def test_of_two_branches_the_costlier_counts_whoever_pays() -> None:
    body = 'let p = spawn A wallet $0.20; if 1 < 2 { p <- "x"; } else { A <- "x"; }'
    assert of(body).total == of('A <- "x";').total


def test_tools_spend_from_the_part_of_the_send() -> None:
    head = HEAD + "agent T { tools [dig] max_tokens 50 budget $0.004 }\n"
    head += 'tool dig(what: str) -> str "Dig." { while true { A <- "x"; } return what; }\n'
    assert of('T <- "x";', head).total == dollars("$0.004")


def test_servers_of_tools_have_the_usual_part() -> None:
    """Unless it turns out that they have none: then it may ask as often as one without."""
    head = HEAD + 'use mcp "web"\nagent M { tools [mcp "web"] max_tokens 50 }\n'
    found = of('M <- "x";', head)
    assert found.total is not None
    assert found.total <= dollars("$0.50")


def test_a_typed_answer_is_repeated_from_the_pool() -> None:
    """Once, and each repeat of the pool fills the window; there may be three, and two are paid."""
    found, typed = of('A <- "x";'), of('A <- "x" as Plan;')
    assert (typed.calls, typed.paid_repeats) == (1, 2)
    assert (typed.total or 0) > 2 * (found.total or 0)


@pytest.mark.parametrize(("sends", "repeats"), [(1, 2), (10, 2), (11, 3), (355, 71)])
def test_a_fifth_of_the_sends_may_be_repeated_and_paid(sends: int, repeats: int) -> None:
    """Each costs as much as the send itself and what it is told of the empty answer."""
    found = of(f'for i in range({sends}) {{ A <- "x"; }}')
    one = of('A <- "x";').total or 0
    assert (found.calls, found.paid_repeats) == (sends, repeats)
    assert (found.total or 0) < (sends + repeats) * one


def test_the_costliest_repeats_are_those_that_count() -> None:
    """Of ten cheap sends and one that is expensive, each may be repeated once; two are."""
    cheap, costly = 'for i in range(9) { A <- "x"; }', f'A <- "{"long " * 60}";'
    once, both = of(costly), of(cheap + costly)
    assert both.paid_repeats == 2
    costliest, other = once.total or 0, of('A <- "x";').total or 0
    assert costliest + 9 * other // 2 < (both.total or 0) < costliest + 6 * other


def test_where_sends_have_no_bound_each_agent_bounds_its_repeats() -> None:
    found = of('session budget $0.25 { while true { A <- "x"; } }')
    assert (found.calls, found.paid_repeats) == (None, None)


def test_the_longest_list_of_an_answer_is_walked() -> None:
    found = of('let p: Plan = A <- "x"; for s in p.steps { A <- s; }')
    assert found.calls == 1 + 3


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('\nwhile true { A <- "x"; }', 2),
        ('for w in json::parse("[]") as [str] {\n A <- w; }', 1),
        ("again(3);", -1),
        ('let xs = [1];\nwhile true { xs = xs + [1]; }\nfor x in xs { A <- "x"; }', 3),
    ],
)
def test_what_has_no_bound_is_named_by_its_line(body: str, line: int) -> None:
    found = of(body)
    assert found.total is None
    assert [gap.line - HEAD.count("\n") for gap in found.unbounded] == [line]
    assert found.unbounded[0].cap is None


def test_a_session_caps_what_has_no_bound() -> None:
    found = of('session budget $0.25 { while true { A <- "x"; } }')
    assert (found.total, found.unbounded[0].cap) == (dollars("$0.25"), dollars("$0.25"))


def test_the_innermost_budget_is_the_cap() -> None:
    found = of('session budget $2 { session budget $1 { while true { A <- "x"; } } }')
    assert found.unbounded[0].cap == dollars("$1")


def test_the_budget_of_a_function_caps_all_of_its_own_recursion() -> None:
    head = HEAD.replace("-> str { if", "-> str budget $0.30 { if")
    assert of("again(9);", head).total == dollars("$0.30")


def test_a_budget_of_a_send_replaces_that_of_its_agent() -> None:
    own, other = of('B <- "x" as Plan;'), of('B <- "x" as Plan budget $0.0015;')
    assert (own.total, other.total) == (dollars("$0.001"), dollars("$0.0015"))


def test_wallets_cap_what_is_sent_to_processes() -> None:
    found = of('let p = spawn A wallet $0.20; while true { p <- "x"; }')
    assert (found.total, found.processes) == (dollars("$0.20"), 1)


def test_a_session_does_not_cap_a_process_that_has_a_wallet() -> None:
    found = of('let p = spawn A wallet $0.20; session budget $0.01 { while true { p <- "x"; } }')
    assert found.total == dollars("$0.20")


def test_a_model_without_a_price_has_no_bound() -> None:
    from vegakit.lang import quote

    found = quote(checked_of(HEAD + 'A <- "x"; B <- "x";'), lambda _: None)
    assert found.total is None
    assert found.lines[1].worst == dollars("$0.001")


def test_loops_in_loops_end_soon() -> None:
    """Each level walks its body twice or more; past a size the quote gives up."""
    deep = "for i in range(2) { " * 40 + 'A <- "x"; x = x + [1];' + " }" * 40
    found = of(f"let x = [1]; {deep}")
    assert found.total is None
    assert "too large" in found.unbounded[0].why


_NESTED = "for i in range(9000000000000000000) { " * 9


@pytest.mark.parametrize(
    "body",
    [
        'let n = 9; for i in range(15) { n = n * n; } for i in range(n) { A <- "x"; }',
        """let n = 9; for i in range(15) { for j in range(9) { n = n + n; } }
        while true limit n { A <- "x"; }""",
        'let t = "ab"; for i in range(9) { for j in range(9) { t = "{t}{t}"; } } A <- t;',
        'let t = "ab"; for i in range(9) { for j in range(9) { t = t + t; } } A <- t;',
        """let l = [1]; for i in range(9) { for j in range(9) { l = l + l; } }
        for i in l { A <- "x"; }""",
        'let n = 9; for i in range(15) { for j in range(9) { n = n + n; } } A <- "{n}";',
        'let n = 0; for i in range(99) { n = n - 9000000000000000000; } A <- "{n}";',
        'let l = range(4000000000000000000, 9000000000000000000); for i in l + l + l { A <- "x"; }',
        f'{_NESTED} A <- "x"; {"}" * 9}',
        f'session budget $1 {{ {_NESTED} A <- "x"; {"}" * 9} }}',
        f'{_NESTED} let p = spawn A wallet $900000000; p <- "x"; {"}" * 9}',
    ],
)
def test_no_number_of_a_quote_is_longer_than_64_bits(body: str) -> None:
    """An int of a program is not either: squared again and again, it raises. Numbers of any length
    took for ever, in few steps, and could not even be printed."""
    found = of(body)
    numbers = [found.total, found.calls, found.processes]
    numbers += [number for line in found.lines for number in (line.calls, line.worst)]
    assert all(number is None or 0 <= number < 2**63 for number in numbers)


def test_a_number_that_squares_itself_is_quoted_at_once() -> None:
    """It took minutes, more than any test is given, and no count of steps ended it."""
    assert of('let n = 3; for i in range(24) { n = n * n; } A <- "x";').calls == 1


def test_what_is_too_much_to_be_counted_says_where() -> None:
    found = of(f'{_NESTED} A <- "x"; {"}" * 9}')
    assert found.total is None
    assert [gap.why for gap in found.unbounded if gap.cap is None]
    assert of(f'session budget $1 {{ {_NESTED} A <- "x"; {"}" * 9} }}').total == dollars("$1")


def test_a_program_is_never_quoted_above_the_budget_of_its_main() -> None:
    """Two wallets that do not fit together: the second process is refused when it is spawned."""
    body = """
fn main() budget $0.004 {
    let one = spawn A wallet $0.003;
    let other = spawn A wallet $0.003;
    for i in range(9) { one <- "x"; other <- "y"; }
}"""
    assert of(body).total == dollars("$0.004")
    came = at_its_worst(HEAD + body)
    assert came.error.startswith("BudgetExceeded")
    assert came.holds
