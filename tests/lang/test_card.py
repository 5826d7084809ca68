"""The card of the language says what is so, all of it compiles, and it is small."""

import re

import pytest
from msgspec import structs

from vegakit.lang import (
    CATCHABLE,
    LIBRARY,
    Checked,
    ModelTerms,
    Quote,
    card,
    check_program,
    language_card as pages,
    language_card as styles,
    language_card as tables,
    quote,
)
from vegakit.lang.check import settings as fields
from vegakit.lang.language_card import MOST_BYTES, Syntax
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
PIECE = re.compile(r"(?:_|[^\r\n\w])?[^\W\d_]+|\d{1,3}| ?(?:_|[^\w\s])+[\r\n]*|\s+(?!\S)|\s+")
"""Roughly what tokenizers cut text into before they cut it further."""

HEAD = """
type Finding { line: int, severity: "low" | "high", note: str? }
agent A { model fast  max_tokens 9 }
let rs = [Finding(line: 1, severity: "low")];
let xs = [1]; let x = xs[0]; let m = {"k": 2}; let text = "t"; let why = "w";
let r = Finding(line: 1, severity: "low"); let value = json::parse("1"); let maybe = r.note;
"""
RUNNING = 'f(); } fn f() may [process::exec] allowed_commands ["git log **"] {'
SAID = {
    "$1.50": "print($1.50);",
    "30s": "print(30s);",
    '"a" | "b"': 'let c: "a" | "b" = "a"; print(c);',
    "T?": "let c: int? = 1; print(c ?? 2);",
    "[T]": "let c: [int] = []; print(c);",
    "[T; 9]": "let c: [int; 9] = [1]; print(c);",
    "{str: T; 9}": "let m: {str: int; 9} = {};",
    "str; 9": 'let t: str; 9 = "nine";',
    'Finding(line: 1, severity: "low")': 'print(Finding(line: 1, severity: "low"));',
    "let": "",
    "xs = xs + [x];": "xs = xs + [x];",
    'm["k"] = 1;': 'm["k"] = 1;',
    "r.line = 2;": "r.line = 2;",
    "agent <- text": "print(A <- text);",
    "as T": "print(A <- text as int);",
    "let x: T =": "let y: int = A <- text; print(y);",
    "timeout 30s": "print(A <- text timeout 30s);",
    "budget $0.01": "print(A <- text budget $0.01);",
    "value as T": "print(value as int);",
    "race y in [a <- t, b <- t] if len(y) > 3": (
        "print(race y in [A <- text, A <- why] if len(y) > 3);"
    ),
    "any": "",
    "x != null": "if maybe != null { print(str::len(maybe)); }",
    "x ?? other": 'print(maybe ?? "none");',
    "human::ask": 'print(human::ask("?", 1h) ?? "none");',
    'may [net::get] allowed_hosts ["a.com", "b.com:81"]': (
        'f(); } fn f() may [net::get] allowed_hosts ["a.com", "b.com:81"] '
        '{ print(http::get("https://a.com"));'
    ),
    'may [process::exec] allowed_commands ["git log **"]': f'{RUNNING} print(exec("git log -3"));',
    "fn": "",
    "file::list": (
        'f(); } fn f() may [fs::read] { for p in file::list("a") { print(file::read(p)); }'
    ),
    "exec": f'{RUNNING} print(exec("git log -3"));',
    "exec::run": f'{RUNNING} let r = exec::run("git log"); print([r.out, r.err, str(r.code)]);',
    "exec::look": f'{RUNNING} print(exec::look("git log -3").out);',
    "list::take(xs, 20)": "for y in list::take(xs, 20) { print(A <- text + str(y)); }",
    "limit": "let n = 0; while n < 3 limit 5 { n = n + 1; }",
    "while": "",
    "fn main": "",
    "session budget": "session budget $1 { print(A <- text); } catch BudgetExceeded { print(1); }",
    "fn ... budget": 'print(f()); } fn f() -> str budget $1 { return A <- "t";',
    "for i, x in xs": "for i, y in xs { print(i + y); }",
    "break": "for y in xs { print(y); break; }",
    "continue": "for y in xs { print(y); continue; }",
    "else if": "if x == 1 { print(1); } else if x == 2 { print(2); }",
    "try { } catch Kind(why) { }": "try { print(1); fail(text); } catch Failed(w) { print(w); }",
    "fail(why)": "fail(why);",
    "to?": "print(str::slice(text, 0));",
    "(text: str)": "",
    "text": "",
}
REFUSED = {
    "&&": "print(true && false);",
    "||": "print(true || false);",
    "!": "print(!true);",
    "++": "x++;",
    "?:": "print(true ? 1 : 2);",
}


IN_PYTHON = """
from typing import Annotated, Any, Literal
from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, race, session, vega

class T(BaseModel):
    n: int

a = Agent("a", model="fast", max_tokens=9)

def f(x: int) -> int:
    return x

@program{marked}
def main() -> None:
    xs = [1, 2]
    ts = [T(n=1)]
    words = ["a"]
    d = {{"k": 2}}
    text = "t"
    x = xs[0]
    b = 3
    n = 4
    maybe = vega.list.first(xs)
    value = vega.json.parse("1")
    condition = True
    {line}
"""
SAID_IN_PYTHON = {
    'Literal["a", "b"]': 'c: Literal["a", "b"] = "a"',
    "T | None": "c: T | None = None",
    "list[T]": "c: list[T] = []",
    "dict[str, T]": "c: dict[str, T] = {}",
    "vega.Money": 'c: vega.Money = vega.money("$1")',
    "vega.Duration": 'c: vega.Duration = vega.duration("1s")',
    '"$1.50"': 'print(a.ask(text, budget="$1.50"))',
    "race(a(t), b(t), good=lambda y: len(y) > 3)": (
        'print(race(a(text), a("b"), good=lambda y: len(y) > 3))'
    ),
    '"30s"': 'vega.process.sleep("30s")',
    'vega.money("$1.50")': 'print(vega.text(vega.money("$1.50") * 2))',
    'vega.duration("30s")': 'print(vega.text(vega.duration("30s") * 2))',
    "a(text)": "print(a(text))",
    "a.ask(text, returns=T)": "print(vega.text(a.ask(text, returns=T)))",
    'timeout="30s"': 'print(a(text, timeout="30s"))',
    'budget="$0.01"': 'print(a(text, budget="$0.01"))',
    "for i, x in enumerate(xs)": "for i, y in enumerate(xs):\n        print(i + y)",
    "for k, v in d.items()": 'for k, v in d.items():\n        print(f"{k}{v}")',
    "range(n)": "for i in range(n):\n        print(i)",
    "[f(x) for x in xs if x > 1]": "ys = [f(y) for y in xs if y > 1]\n    print(len(ys))",
    "xs = xs + [x]": "xs = xs + [x]\n    print(len(xs))",
    'd["k"] = 1': 'd["k"] = 1\n    print(d["k"])',
    "xs[1:3]": "print(len(xs[1:3]))",
    "x in xs": "if x in xs:\n        print(1)",
    '", ".join(words)': 'print(", ".join(words))',
    'may=["net::get"], allowed_hosts=["a.com", "b.com:81"]': "",
    'may=["process::exec"], allowed_commands=["git log **"]': "",
    "vega.file.list": "",
    "vega.exec": "",
    "vega.exec.run": "",
    "vega.exec.look": "",
    "sorted(xs, key=lambda x: x.line)": "print(len(sorted(ts, key=lambda x: x.n)))",
    "vega.list.take(xs, 20)": "for y in vega.list.take(xs, 20):\n        print(a(vega.text(y)))",
    "vega.text(x)": "print(vega.text(x))",
    "vega.default(x, 0)": "print(vega.default(maybe, 0))",
    "vega.cast(value, T)": "print(vega.cast(value, T).n)",
    "xs[-1]": "print(xs[-1])",
    "a // b": "print(x // b)",
    "len(xs) > 0": "if len(xs) > 0:\n        print(1)",
    "while": "",
    "vega.limit(5, condition)": "while vega.limit(5, condition):\n        condition = False",
    'with session(budget="$1"):': 'with session(budget="$1"):\n        print(a(text))',
    '@program(budget="$1")': "",
    "(text: str)": "",
    "text": "",
}
WITH_RIGHTS = {
    '(may=["net::get"], allowed_hosts=["a.com", "b.com:81"])': 'print(vega.http.get("https://a.com").body)',
    '(may=["process::exec"], allowed_commands=["git log **"])': (
        'print(vega.exec("git log"))\n    r = vega.exec.run("git log")\n'
        '    print(f"{r.code} {r.out} {r.err}")\n    print(vega.exec.look("git log").out)'
    ),
    '(may=["fs::read"])': ('for p in vega.file.list("a"):\n        print(vega.file.read(p))'),
    '(budget="$1")': "",
}
REFUSED_IN_PYTHON = {
    "if xs:": "if xs:\n        print(1)",
    ":=": "print((y := x))",
    "*args": "print(*xs)",
}
TAKES = {
    "sum": "sum(xs)",
    "min": "min(x, b)",
    "max": "max(x, b)",
    "abs": "abs(x)",
    "float": "vega.text(float(text))",
    "int": "int(text)",
    "len": "len(xs)",
    "round": "vega.text(round(1.25, 1))",
    ".strip": "text.strip()",
    ".lower": "text.lower()",
    ".upper": "text.upper()",
    ".split": 'len(text.split(","))',
    ".startswith": 'vega.text(text.startswith("a"))',
    ".endswith": 'vega.text(text.endswith("a"))',
    ".replace": 'text.replace("a", "b")',
}
SYNTAXES: tuple[Syntax, ...] = ("vega", "python")
BOTH = pytest.mark.parametrize("syntax", SYNTAXES)
SUFFIX = {"vega": "vega", "python": "py"}


def errors_of(text: str, syntax: str) -> list[str]:
    _, found = check_program(text, f"main.{SUFFIX[syntax]}", lambda _: None)
    return [f"{one.code}: {one.message}" for one in found if one.severity == "error"]


def in_context(line: str) -> str:
    """`}` and `{` in a line leave and enter the function that it stands in."""
    types, lets = HEAD.split("let rs", 1)
    return f"{types}\nfn test() {{ let rs{lets} {line} }}\nfn main() {{ test(); }}"


def in_python(line: str, marked: str = "") -> str:
    return IN_PYTHON.format(line=line or "print(1)", marked=marked)


@BOTH
@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_program_of_a_card_is_right_and_has_a_price(syntax: Syntax, number: int) -> None:
    """Nothing is said against it, not even a warning, and its worst case is known."""
    blocks = BLOCK.findall(card(syntax))
    assert len(blocks) == 3
    kind, text = blocks[number]
    assert kind == syntax
    checked, found = check_program(text, f"main.{SUFFIX[syntax]}", lambda _: None)
    assert found == ()
    assert checked is not None
    assert priced(checked).total is not None


def priced(checked: Checked) -> Quote:
    price = PriceRow("test:model", (PriceTier(*map(Money, (1_000, 5_000, 1_000, 1_000))),))
    terms = ModelTerms(price, 100_000, 1_000, lambda _: 2_000)
    return quote(checked, lambda _: terms)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_both_cards_tell_the_same_programs(number: int) -> None:
    """In as many calls, with a bound on what they cost; what is sent differs in its words."""
    calls: list[int | None] = []
    for syntax in SYNTAXES:
        _, text = BLOCK.findall(card(syntax))[number]
        checked, _ = check_program(text, f"main.{SUFFIX[syntax]}", lambda _: None)
        assert checked is not None
        made = priced(checked)
        assert made.total is not None
        calls.append(made.calls)
    assert calls[0] == calls[1]


def test_every_line_of_code_between_words_is_right_too() -> None:
    """What stands in backquotes outside the programs compiles, or is refused as the card says."""
    prose = BLOCK.sub("", pages.VEGA_PAGE)
    assert set(INLINE.findall(prose)) == SAID.keys() | REFUSED.keys()
    for line in SAID.values():
        assert errors_of(in_context(line), "vega") == []
    for line in REFUSED.values():
        assert errors_of(in_context(line), "vega") != []


def test_every_line_of_python_between_words_is_right_too() -> None:
    """Also the words of Python that it lists."""
    prose = BLOCK.sub("", pages.PYTHON_PAGE)
    assert set(INLINE.findall(prose)) == SAID_IN_PYTHON.keys() | REFUSED_IN_PYTHON.keys()
    for line in SAID_IN_PYTHON.values():
        assert errors_of(in_python(line), "python") == []
    for marked, line in WITH_RIGHTS.items():
        assert errors_of(in_python(line, marked), "python") == []
    for line in REFUSED_IN_PYTHON.values():
        assert errors_of(in_python(line), "python") != []
    own = tables.tables_in(styles.PYTHON)["own"]
    assert {*own.split(), "sum", "min", "max"} == TAKES.keys()
    for line in TAKES.values():
        assert errors_of(in_python(f"print({line})"), "python") == []


@BOTH
def test_a_card_fits_its_budget(syntax: Syntax) -> None:
    """2,000 tokens: at three bytes each, and by the pieces that tokenizers begin with, long ones
    counted as several."""
    text = card(syntax)
    assert len(text.encode()) <= MOST_BYTES
    assert sum(-(-len(piece.strip()) // 9) or 1 for piece in PIECE.findall(text)) <= 2_000


@pytest.mark.parametrize("style", [styles.VEGA, styles.PYTHON], ids=["vega", "python"])
def test_every_function_is_on_the_card_or_left_out_by_name(style: styles.SyntaxStyle) -> None:
    """No name that does not exist, none that was forgotten."""
    shown: set[str] = set()
    for line in tables.library(style).splitlines():
        head, _, rest = line.partition(" ")
        space = head.removesuffix("everywhere:").removeprefix("vega.").removeprefix("vega:")
        space = space if not space or space.endswith("::") else f"{space[:-1]}::"
        for names in re.findall(r"(?:^|; |\) )([a-z_/]+)(?=\()", rest):
            shown |= {space + name for name in names.split("/")}
    assert shown | style.unsaid == LIBRARY.keys()
    assert not shown & style.unsaid


@BOTH
def test_every_setting_and_error_is_on_the_card(syntax: Syntax) -> None:
    """But those for which there is no room."""
    text = card(syntax)
    known = {*fields.AGENT, *(name for block in fields.BLOCKS.values() for name in block)}
    sign = " " if syntax == "vega" else "="
    assert [name for name in known - tables.LEFT_OUT if f"{name}{sign}" not in text] == []
    assert [name for name in CATCHABLE if name not in text] == []


@BOTH
def test_what_changes_in_a_table_changes_on_the_card(
    syntax: Syntax, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function, a setting: nobody has to remember the card."""
    row = LIBRARY["str::lines"]
    planted = structs.replace(row, name="str::shout", signature="str::shout(text: str) -> bool")
    monkeypatch.setitem(LIBRARY, "str::shout", planted)
    monkeypatch.setitem(fields.AGENT, "volume", fields.NumberSetting(1, 11))
    assert "shout(text) -> bool" in card(syntax)
    assert ("volume 3" if syntax == "vega" else "volume=3") in card(syntax)
