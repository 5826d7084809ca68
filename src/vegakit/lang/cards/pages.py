"""The two cards, with marks where the tables stand."""

__all__ = ["PYTHON", "VEGA"]

VEGA = """\
# Vega on a card

A Vega program asks agents. It is checked and priced before its first call, and held to its price
and rights. It means what it means one statement after the other. Write plain sequential code:
calls that do not need each other's answers run at once by themselves.

```vega
program may [fs::read] allowed_paths ["src/**"]  // its rights; without this line it has none

type Finding { line: int, severity: "low" | "high", note: str? }

agent Reviewer {
    model smart
    system "Report bugs, not style."
    max_tokens 800
    budget $0.05
}

// Bounded lists and loops make the price known: [T; 20] has at most 20 items.
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

- Types: int float money (`$1.50`) duration (`30s`) str bool null, `"a" | "b"`, `T?`, `[T]`,
  `[T; 9]`, `{str: T}`, records: `Finding(line: 1, severity: "low")`. Parameters need a type,
  `let` does not. A program is `fn main` or statements at top level.
- Values are copies: `xs = xs + [x];` `m["k"] = 1;` `r.line = 2;`. int / int truncates.
- `agent <- text` is text; `as T`, or `let x: T =`, makes the answer typed. With it may stand
  `timeout 30s` and `budget $0.01`. `value as T` checks what is `any`.
- A null is tested first: `x != null`, `x ?? other`.
- Refused: wrong types, rights that are not declared, `&&` `||` `!` `++` `?:`, single quotes,
  classes, lambdas. A send in a `while` without `limit`, or in a loop over a list without a bound,
  has no price: bound it, or cap it by `session budget` or `fn ... budget`.
- Other statements: `for i, x in xs`, `break`, `continue`, `else if`, `try { } catch Kind(why) { }`.
- An agent has, without commas: <agent>  tools [page]  <blocks>.
- Errors to catch: <errors>. `fail(why)` raises Failed.

Library (O has an order, N is a number, T anything; `to?` may be left out; a head such as
`(text: str)` gives the type of `text`; Response has status and body):
<library>
"""

PYTHON = """\
# Vega programs in Python, on a card

A program asks agents. It is a Python file in a small subset, checked and priced before its first
call, and held to its price and rights. Write plain sequential code, without async: calls that do
not need each other's answers run at once by themselves.

```python
from typing import Annotated, Literal

from pydantic import BaseModel
from vegakit import Agent, Max, program, vega


class Finding(BaseModel):
    line: int
    severity: Literal["low", "high"]
    note: str | None


reviewer = Agent(
    "reviewer", model="smart", system="Report bugs, not style.", max_tokens=800, budget="$0.05"
)


# Bounded lists and loops make the price known: Max(20) is at most 20 items.
@program(may=["fs::read"], allowed_paths=["src/**"], budget="$2")
def main(paths: Annotated[list[str], Max(20)]) -> int:
    high = 0
    for path in paths:
        text = vega.file.read(path)
        found = reviewer.ask(f"Review:\\n{text}", returns=Annotated[list[Finding], Max(5)])
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
  `vega.Money`, `vega.Duration`. Amounts and times are text: `"$1.50"`, `"30s"`; to reckon with
  them write `vega.money("$1.50")`, `vega.duration("30s")`.
- `a(text)` is text, `a.ask(text, returns=T)` is typed; both take `timeout="30s"`, `budget="$0.01"`.
- Python that may be used: `for i, x in enumerate(xs)`, `for k, v in d.items()`, `range(n)`,
  `[f(x) for x in xs if x > 1]`, `xs = xs + [x]`, `d["k"] = 1`, `xs[1:3]`, `x in xs`, f-strings,
  `", ".join(words)`, sum min max, <own>.
- `vega.text(x)` is the text of any value, `vega.default(x, 0)` stands in for a None,
  `vega.cast(value, T)` checks what is Any, `vega.quotient(a, b)` divides ints.
- Refused: `if xs:` (write `len(xs) > 0`), `a / b` of ints, lambda, def in def, methods, async,
  yield, match, del, tuples, sets, `:=`, `*args`, other imports. A send in a `while` without
  `vega.limit(5, condition)`, or in a loop over a list without Max, has no price: bound it, or cap
  it by `with session(budget="$1"):` or `@program(budget="$1")`.
- An agent has: <agent>, tools=[page], <blocks>.
- Errors: <errors>.

Library (O has an order, T is anything; a head such as `(text: str)` gives the type of `text`;
Response has status and body):
<library>
"""
