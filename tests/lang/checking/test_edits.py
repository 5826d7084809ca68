"""An edit that is offered removes what it is offered for."""

import pytest

from tests.lang.checking.programs import checked, in_function

EDITED = [
    "print(totl); let total = 1;",
    'print(str::splitt(s, ""));',
    "let q = Coder <- s timeout 30;  print(q);",
    "let q = Coder <- s budget 2.50;  print(q);",
    "session budget 5 { print(1); }",
    "if i <-1 { print(1); }",
    "if Coder <- s { print(1); }",
    'print(sev == "hihg");',
    'print("a" + i);',
    "fs = fs + f;",
    "print(a + 1);",
    "print(a.x);",
    'print(a["x"]);',
    "print(a[0]);",
    "print(1 in a);",
    "print(few.sort());",
    "ns.append(3);",
    "print(Finding(s, sev));",
    "print(Finding(file: s, severit: sev));",
    "print(f.fil);",
    "print(twic(1));",
    "let q = async c <- s; print(q + s);",
    "print(await s);",
    'print("3" as int);',
    "let q: [str; 2] = few; print(q);",
    "let q: Severity = s; print(q);",
    "let q: str = i; print(q);",
    "let q: int = x; print(q);",
    "let q: float = i; print(q);",
    "try { print(1); } catch TimeOut { print(2); }",
    "let q: strr = s; print(q);",
    "let q: string = s; print(q);",
    "let q = nothing();",
    "print(spawn Codr);",
    "session budget $5/day { print(1); }",
]
EDITED_FILES = [
    "agent A { model fast  max_tokens 20  max_tokens 30 }",
    "agent A { model fast  rate_limit { requests 9 per 1m  tokens 900 per 1m } }",
    "agent A { model fast  budget 2.50 }",
    "agent A { model fast  timeout 30 }",
    "agent A { rate_limit { requests 60 } }",
    'agent A { on_exceed "ask" }',
    "agent A { priority hihg }",
    'agent A { tools [mcp "github"] }',
    "fn f() -> str { return file::read(\"a\"); }",
    "fn f() -> str may [net] { return file::read(\"a\"); }",
    "fn f() -> int may [net] { return http::get(\"https://a.example.com/x\").status; }",
    "fn f() -> str may [process::exec] { return exec(\"git log\"); }",
    "print(file::read(\"a\"));",
    "tool t() -> str { return file::read(\"a\"); }",
    "fn f() { return 3; }",
    "agent Coder { model x } supervisor S { children [Codr] }",
    "agent A { model x } fn f() budget $0.4 { print([spawn A wallet $0.3, spawn A wallet $0.3]); }",
    "agent A { model x } fn f() budget $0.4 { session budget $0.5 { print(A <- \"x\"); } }",
    "agent A { model x } fn f() budget $0.4 { print(A <- \"x\" budget $0.5); }",
    "agent A { model x  budget $1 } fn f() budget $0.4 { print(A <- \"x\"); }",
    "fn g() budget $1 { print(1); } fn f() budget $0.4 { g(); }",
]  # fmt: skip


def _fixed(text: str) -> list[str]:
    """What is left to say after taking the first edit."""
    _, found = checked(text)
    first = next(one for one in found if one.edit is not None)
    assert first.edit is not None
    edited = text[: first.edit.at] + first.edit.text + text[first.edit.end :]
    return [one.code for one in checked(edited)[1] if one.code == first.code]


@pytest.mark.parametrize("body", [body for body in EDITED if "totl" not in body])
def test_the_edit_corrects_a_body(body: str):
    """After the edit that fault is gone."""
    assert _fixed(in_function(body)) == []


@pytest.mark.parametrize("text", EDITED_FILES)
def test_the_edit_corrects_a_file(text: str):
    """After the edit that fault is gone."""
    assert _fixed(text) == []
