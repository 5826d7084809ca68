"""The language card: what a model needs to write programs, in at most 2,000 tokens, made from the
tables of the checker and the library (pure).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from vegakit.lang.check import settings as fields
from vegakit.lang.library import CATCHABLE, LIBRARY, LibraryFunction
from vegakit.lang.python.settings import BLOCKS
from vegakit.lang.python.subset import FUNCTIONS, METHODS
from vegakit.lang.python.types import VEGA_TYPES

# What a function of the library takes and gives, in few letters.


_SIGNATURE = re.compile(r"[\w:]+\((?P<params>.*)\)(?: -> (?P<result>.+))?")
_PARAMETER = re.compile(r"(\w+): ([^,]+?)( = null)?(?:, |$)")


class FunctionShape(Struct, frozen=True):
    """A function of the library as a card shows it."""

    name: str
    params: tuple[str, ...]
    result: str
    capability: str


def shape_of(row: LibraryFunction, spell: Callable[[str], str]) -> FunctionShape:
    """Return the shape of a function. `spell` gives a type another spelling."""
    match = _SIGNATURE.fullmatch(row.signature)
    assert match is not None
    params = tuple(
        f"{name}{'?' if optional else ''}: {spell(kind)}"
        for name, kind, optional in _PARAMETER.findall(match["params"])
    )
    result = spell(match["result"]) if match["result"] else ""
    return FunctionShape(row.name.rpartition("::")[2], params, result, row.capability)


# How the two front ends spell what stands in the tables: names, types, settings and blocks.


class SyntaxStyle(Struct, frozen=True):
    """`space` is the head of a space of names, `block` a block of settings; `apart` stands between
    settings. `unsaid` are functions that a card leaves out."""

    space: Callable[[str], str]
    type: Callable[[str], str]
    setting: Callable[[str, str], str]
    value: Callable[[fields.SettingKind], str]
    block: Callable[[str, str], str]
    apart: str
    unsaid: frozenset[str]


_RARE = frozenset(
    "str::len list::len map::len str::contains list::contains map::has file::attach link "
    "process::yield process::self process::exit trace::span trace::event "
    "trace::set_attribute str::pad_left str::pad_right str::repeat list::remove_at list::insert "
    "list::without_nulls list::at str::at math::ratio math::floor_div math::mod math::sqrt "
    "math::pow time::seconds time::of_seconds map::merge map::get_or "
    "map::remove str::count list::sort_with list::count list::flatten list::index_of".split()
)
"""`len`, `in` and `+` do the same, or few programs need them."""

_PYTHONS_OWN = frozenset(
    "len range str int float print fail math::abs math::round math::min math::max list::sort "
    "str::trim str::lower str::upper str::split str::join str::starts_with str::ends_with "
    "str::replace str::slice str::words list::slice list::sort_by map::keys map::values "
    "list::sum math::floor math::ceil".split()
)
"""Python has words for it, or few programs need it."""

_PYTHON_TYPES = {"any": "Any", **{vega: name for name, vega in VEGA_TYPES.items()}}
_PYTHON_BLOCKS = {block: argument for argument, block in BLOCKS.items()}
"""Arguments of an agent that are called otherwise than their block."""


def _vega_value(kind: fields.SettingKind) -> str:
    match kind:
        case fields.FractionSetting(least=least, most=most):
            return f"{least:g}..{most:g}"
        case fields.NumberSetting():
            return "3"
        case fields.AmountSetting():
            return "$0.10"
        case fields.TimeSetting():
            return "30s"
        case fields.ChoiceSetting(words=words):
            return "|".join(words)
        case fields.ListSetting(words=words):
            return f"[{', '.join(words)}]"
        case fields.BackoffSetting():
            return "exponential(100ms, 2.0, 5s)"
        case fields.LiteralSetting(bare=bare):
            return "fast" if bare else '"text"'


def _python_value(kind: fields.SettingKind) -> str:
    match kind:
        case fields.FractionSetting() | fields.NumberSetting():
            return _vega_value(kind)
        case fields.ListSetting(words=words):
            return "[" + ", ".join(f'"{word}"' for word in words) + "]"
        case fields.BackoffSetting():
            return 'vega.exponential("100ms", 2.0, "5s")'
        case fields.LiteralSetting(bare=False):
            return '"text"'
        case _:
            return f'"{_vega_value(kind)}"'


def _python_type(text: str) -> str:
    if text.endswith("?"):
        return f"{_python_type(text[:-1])} | None"
    if text.startswith("["):
        return f"list[{_python_type(text[1:-1])}]"
    if text.startswith("{str: "):
        return f"dict[str, {_python_type(text[6:-1])}]"
    return _PYTHON_TYPES.get(text, text)


def _python_block(name: str, settings: str) -> str:
    return f"{_PYTHON_BLOCKS[name]}=vega.{name}({settings})"


VEGA = SyntaxStyle(
    space=lambda name: f"{name}::" if name else "everywhere:",
    type=lambda text: text,
    setting=lambda name, value: f"{name} {value}",
    value=_vega_value,
    block=lambda name, settings: f"{name} {{ {settings} }}",
    apart="  ",
    unsaid=_RARE,
)
PYTHON = SyntaxStyle(
    space=lambda name: f"vega.{name}:" if name else "vega:",
    type=_python_type,
    setting=lambda name, value: f"{name}={value}",
    value=_python_value,
    block=_python_block,
    apart=", ",
    unsaid=_RARE | _PYTHONS_OWN,
)


# The tables of the language, as short as a model can still read them.
#
# `trim/lower(text) -> str` are two functions of one shape, `to?: int` may be left out, and what
# most functions of a space take first is said once, in its head.


LEFT_OUT = frozenset("on_exceed resend_unknown probes priority effort tokens slots burst".split())
"""Settings for which a card has no room: what holds without them is what most programs want."""


def tables_in(style: SyntaxStyle) -> dict[str, str]:
    """Return the tables of a page by the mark they replace, such as `<library>`."""
    return {
        "library": library(style),
        "agent": settings(style, fields.AGENT),
        "blocks": style.apart.join(
            style.block(name, settings(style, known)) for name, known in fields.BLOCKS.items()
        ),
        "errors": " ".join(CATCHABLE),
        "own": " ".join((*FUNCTIONS, *(f".{name}" for name in METHODS))),
    }


def library(style: SyntaxStyle, rows: Iterable[LibraryFunction] = LIBRARY.values()) -> str:
    """A line for each space of names, beginning with what stands in none."""
    spaces: dict[str, list[LibraryFunction]] = {}
    for row in rows:
        if row.name not in style.unsaid:
            spaces.setdefault(row.name.rpartition("::")[0], []).append(row)
    return "\n".join(_space(style, name, rows) for name, rows in spaces.items())


def _space(style: SyntaxStyle, name: str, rows: list[LibraryFunction]) -> str:
    shapes = [shape_of(row, style.type) for row in rows]
    firsts = Counter(shape.params[0] for shape in shapes if shape.params)
    first, count = firsts.most_common(1)[0] if firsts else ("", 0)
    common = first if name and count > 2 else ""
    alike: dict[str, list[str]] = {}
    for shape in shapes:
        alike.setdefault(_rest(shape, common), []).append(shape.name)
    listed = "; ".join(f"{'/'.join(names)}{rest}" for rest, names in alike.items())
    head = f"{style.space(name)} ({common})" if common else style.space(name)
    return f"{head} {listed}"


def _rest(shape: FunctionShape, common: str) -> str:
    params = [
        param.partition(":")[0] if param == common and at == 0 else param
        for at, param in enumerate(shape.params)
    ]
    result = f" -> {shape.result}" if shape.result else ""
    needs = f" needs {shape.capability}" if shape.capability else ""
    return f"({', '.join(params)}){result}{needs}"


def settings(style: SyntaxStyle, known: Mapping[str, fields.SettingKind]) -> str:
    """Return settings with an example value each, as the style writes them."""
    return style.apart.join(
        style.setting(name, style.value(kind))
        for name, kind in known.items()
        if name not in LEFT_OUT
    )


# The two cards, with marks where the tables stand.


VEGA_PAGE = """\
# Vega on a card

A Vega program asks agents. It is checked and priced before its first call, and held to its price
and rights. Write plain sequential code: calls that do not need each other's answers run at once.

```vega
program may [fs::read] allowed_paths ["src/**"]  // its rights; without this line it has none

type Finding { line: int, severity: "low" | "high", note: str? }

agent Reviewer {
    model smart
    system "Report bugs, not style."
    max_tokens 800
    budget $0.05
}

// Bounds make the price known: [T; 20] has at most 20 items.
fn main(paths: [str; 20]) -> int budget $2.00 {
    let high = 0;
    for path in paths {
        let found = Reviewer <- "Review:\\n{file::read(path)}" as [Finding; 5];
        for f in found {
            if f.severity == "high" and f.note != null {
                high = high + 1;
                print("{path}:{f.line} {f.note}");
            }
        }
    }
    return high;
}
```

```vega
agent Writer { model smart  max_tokens 300  memory conversation }
agent Critic { model fast  max_tokens 50 }

fn main(task: str) -> str {
    let writer = spawn Writer wallet $0.20;  // a process, which remembers
    let text = writer <- task;
    let points = 0;
    session budget $0.10 {
        while points < 90 limit 5 {
            points = Critic <- "Score 0 to 100: {text}" timeout 30s as int;
            text = writer <- "Make it better.";
        }
    } catch LimitReached {
        print("five rounds");
    } catch AgentFailed(reason) {
        fail("no score: {reason}");
    }
    return text;
}
```

```vega
agent Guide {
    model fast  max_tokens 400  max_steps 4  budget $0.10
    tool page(name: str) -> str "One page." capabilities [fs::read] allowed_paths ["docs/**"] {
        return file::read("docs/{name}.md");
    }
}
let sizes = {"s": 1, "l": 3};
let names = [for k in sizes if sizes[k] > 1 { str::upper(k) }];
print([for name in names { Guide <- "What is {name}?" }]);
```

- Types: int float money (`$1.50`) duration (`30s`) str (`str; 9`) bool null, `"a" | "b"`, `T?`,
  `[T]`, `[T; 9]`, `{str: T; 9}`, records: `Finding(line: 1, severity: "low")`. Parameters need
  a type, `let` does not. A program is `fn main`, or statements.
- Values are copies: `xs = xs + [x];` `m["k"] = 1;` `r.line = 2;`. int / int truncates.
- `agent <- text` is text; `as T`, or `let x: T =`, makes the answer typed. It takes
  `timeout 30s` and `budget $0.01`. `value as T` checks what is `any`.
- `race y in [a <- t, b <- t] if len(y) > 3` is the first good answer, the rest cancelled;
  none: LimitReached.
- A null is tested first: `x != null`, `x ?? other`. `human::ask` may be null.
- Rights: hosts and commands are named, `may [net::get] allowed_hosts ["a.com", "b.com:81"]` and
  `may [process::exec] allowed_commands ["git log **"]` (* is a word), for the file or a `fn`.
  Paths lie in the project; `file::list` gives paths to read.
- `exec` is one command, no shell; a bad exit raises ToolFailed. `exec::run`, and `exec::look` for
  commands that only read, give Ran (code, out, err).
- Refused: `&&` `||` `!` `++` `?:`, single quotes, classes, lambdas. A send in a
  `while` without `limit`, or in a loop over a list without a bound, has no price: bound it by
  `list::take(xs, 20)`, or cap it by `session budget` or `fn ... budget`.
- Other statements: `for i, x in xs`, `break`, `continue`, `else if`, `try { } catch Kind(why) { }`.
- An agent has, without commas: <agent>  tools [page]  <blocks>.
- Errors to catch: <errors>. `fail(why)` raises Failed.

Library (O has an order, N is a number, T anything; `to?` may be left out; a head such as
`(text: str)` gives the type of `text`; Response has status and body):
<library>
"""

PYTHON_PAGE = """\
# Vega in Python on a card

A program asks agents. It is a Python file in a small subset, checked and priced before its first
call, and held to its price and rights. Write plain sequential code: calls that do not need each
other's answers run at once.

```python
from typing import Annotated, Literal

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Finding(BaseModel):
    line: int
    severity: Literal["low", "high"]
    note: str | None


reviewer = Agent(
    "reviewer", model="smart", system="Report bugs, not style.", max_tokens=800, budget="$0.05"
)


# Bounds make the price known: MaxLen(20) is at most 20 items, or characters of a str.
@program(may=["fs::read"], allowed_paths=["src/**"], budget="$2")
def main(paths: Annotated[list[str], MaxLen(20)]) -> int:
    high = 0
    for path in paths:
        text = vega.file.read(path)
        found = reviewer.ask(f"Review:\\n{text}", returns=Annotated[list[Finding], MaxLen(5)])
        for f in found:
            if f.severity == "high" and f.note is not None:
                high = high + 1
                print(f"{path}:{f.line} {f.note}")
    return high
```

```python
from vegakit import Agent, AgentFailed, Failed, LimitReached, program, session, spawn, vega

writer = Agent("writer", model="smart", max_tokens=300, memory="conversation")
critic = Agent("critic", model="fast", max_tokens=50)


@program
def main(task: str) -> str:
    author = spawn(writer, wallet="$0.20")  # a process, which remembers
    text = author(task)
    points = 0
    try:
        with session(budget="$0.10"):
            while vega.limit(5, points < 90):
                points = critic.ask(f"Score 0 to 100: {text}", returns=int, timeout="30s")
                text = author("Make it better.")
    except LimitReached:
        print("five rounds")
    except AgentFailed as e:
        raise Failed(f"no score: {vega.reason(e)}")
    return text
```

```python
from vegakit import Agent, program, vega


@program.tool(capabilities=["fs::read"], allowed_paths=["docs/**"])
def page(name: str) -> str:
    "One page."
    return vega.file.read(f"docs/{name}.md")


guide = Agent("guide", model="fast", max_tokens=400, max_steps=4, budget="$0.10", tools=[page])


@program
def main() -> None:
    for name in [n.upper() for n in ["api", "cli"] if n != "api"]:
        print(guide(f"What is {name}?"))
```

- Types: int float str bool, `Literal["a", "b"]`, `T | None`, `list[T]`, `dict[str, T]`, records,
  `vega.Money`, `vega.Duration`. Amounts and times are text, `"$1.50"`, `"30s"`, or to reckon with
  `vega.money("$1.50")`, `vega.duration("30s")`.
- `a(text)` is text, `a.ask(text, returns=T)` is typed; both take `timeout="30s"`, `budget="$0.01"`.
- `race(a(t), b(t), good=lambda y: len(y) > 3)` is the first good answer, the rest cancelled;
  none: LimitReached.
- Python that may be used: `for i, x in enumerate(xs)`, `for k, v in d.items()`, `range(n)`,
  `[f(x) for x in xs if x > 1]`, `xs = xs + [x]`, `d["k"] = 1`, `xs[-1]`, `xs[1:3]`, `a // b`,
  `x in xs`, f-strings, `", ".join(words)`, `sorted(xs, key=lambda x: x.line)`,
  sum min max, <own>.
- Rights: hosts and commands are named, `may=["net::get"], allowed_hosts=["a.com", "b.com:81"]` and
  `may=["process::exec"], allowed_commands=["git log **"]` (* is a word). Paths lie in the project;
  `vega.file.list` gives paths.
- `vega.exec` is one command, no shell; a bad exit raises ToolFailed. `vega.exec.run`, and
  `vega.exec.look` for commands that only read, give Ran (code, out, err).
- `vega.text(x)`; `vega.default(x, 0)` replaces None;
  `vega.cast(value, T)` checks it.
- Refused: `if xs:` (write `len(xs) > 0`), other lambdas, methods, async, match,
  tuples, sets, `:=`, `*args`. A send in a `while` without
  `vega.limit(5, condition)`, or in a loop over a list without MaxLen, has no price: bound it by
  `vega.list.take(xs, 20)`, or cap it by `with session(budget="$1"):` or `@program(budget="$1")`.
- An agent has: <agent>, tools=[page], <blocks>.
- Errors: <errors>.

Library (O has an order, T is anything; a head such as `(text: str)` types `text`; Response has
status, body):
<library>
"""


# The language on a card: what a model needs to write programs, in at most 2,000 tokens (pure).
#
# Made from the tables that the checker, the compiler and the reference are made from.


Syntax: TypeAlias = Literal["vega", "python"]

MOST_BYTES = 6_000
"""2,000 tokens, at three bytes a token: tokenizers make fewer of English and code."""

_CARDS = {"vega": (VEGA_PAGE, VEGA), "python": (PYTHON_PAGE, PYTHON)}


def card(syntax: Syntax = "vega") -> str:
    """Return the language on a card, for a prompt that asks a model for a program."""
    text, style = _CARDS[syntax]
    for name, made in tables_in(style).items():
        text = text.replace(f"<{name}>", made)
    return text
