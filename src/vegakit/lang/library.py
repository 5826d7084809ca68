"""The standard library as one table: what programs may call, what each call needs, and the errors
that a program may catch (pure).
"""

from collections.abc import Iterator

from msgspec import Struct

from vegakit.lang.types import Parameter, Type, read_signature

# The standard library as one table: what programs may call, and what each call needs.
#
# The checker, the compiler, the reference page and the card of the language are made from it; the
# machine and the host are tested to know every row.
#
# | kind      | is performed by                                            |
# |-----------|------------------------------------------------------------|
# | `pure`    | the machine at once, by `LIBRARY`                          |
# | `host`    | the host, by `HOST`, under the capability of the row       |
# | `special` | an instruction of its own                                  |


class LibraryFunction(Struct, frozen=True):
    """`idempotent`: doing it twice is as good as once. `params` that are `optional` come last and
    are null when left out."""

    name: str
    signature: str
    params: tuple[Parameter, ...]
    result: Type
    kind: str
    capability: str
    idempotent: bool
    doc: str


_PURE = """
len(of: any) -> int
    The number of characters, items or entries.
range(from: int, to: int = null) -> [int]
    Whole numbers from `from` up to before `to`; with one argument from 0 up to before it.
str(of: any) -> str
    As text, as "{of}" gives it.
int(of: any) -> int
    The whole number a string spells, or a float cut toward zero; else ValueError.
float(of: any) -> float
    The number a string spells, an int as a float, money in dollars, a time in seconds.
str::len(text: str) -> int
    The number of characters.
str::trim(text: str) -> str
    Without white space at both ends.
str::lower(text: str) -> str
    In small letters.
str::upper(text: str) -> str
    In capital letters.
str::split(text: str, by: str) -> [str]
    The parts between `by`; with "" the single characters.
str::join(parts: [str], between: str) -> str
    One string, with `between` between the parts.
str::lines(text: str) -> [str]
    The lines, without their ends.
str::words(text: str) -> [str]
    The parts between white space.
str::starts_with(text: str, part: str) -> bool
    Whether it begins with `part`.
str::ends_with(text: str, part: str) -> bool
    Whether it ends with `part`.
str::contains(text: str, part: str) -> bool
    Whether `part` occurs in it.
str::find(text: str, part: str) -> int?
    Where `part` first occurs, counted from 0; null when it does not.
str::count(text: str, part: str) -> int
    How often `part` occurs, without overlap.
str::replace(text: str, part: str, by: str) -> str
    With every `part` replaced.
str::slice(text: str, from: int, to: int = null) -> str
    The characters from `from` up to before `to`; negative counts from the end.
str::at(text: str, index: int) -> str
    The character at `index`; negative counts from the end. Outside raises IndexError.
str::repeat(text: str, count: int) -> str
    The text `count` times.
str::pad_left(text: str, width: int, fill: str = null) -> str
    Filled up on the left with `fill`, or spaces.
str::pad_right(text: str, width: int, fill: str = null) -> str
    Filled up on the right with `fill`, or spaces.
list::len(items: [T]) -> int
    The number of items.
list::first(items: [T]) -> T?
    The first item; null when there is none.
list::last(items: [T]) -> T?
    The last item; null when there is none.
list::at(items: [T], index: int) -> T
    The item at `index`; negative counts from the end. Outside raises IndexError.
list::sort(items: [O], descending: bool = null) -> [O]
    From small to large, or the other way round.
list::sort_by(items: [T], field: str, descending: bool = null) -> [T]
    Records or maps by one field, nulls last; items that are equal in it keep their order.
list::sort_with(items: [T], keys: [O], descending: bool = null) -> [T]
    Items by the keys beside them, one for each; items whose keys are equal keep their order.
list::reverse(items: [T]) -> [T]
    From back to front.
list::unique(items: [T]) -> [T]
    Each item once, where it first stood.
list::take(items: [T], count: int) -> [T]
    The first `count` items.
list::drop(items: [T], count: int) -> [T]
    Without the first `count` items.
list::slice(items: [T], from: int, to: int = null) -> [T]
    The items from `from` up to before `to`; negative counts from the end.
list::contains(items: [T], item: T) -> bool
    Whether `item` is one of them.
list::index_of(items: [T], item: T) -> int?
    Where `item` first stands, counted from 0; null when it does not.
list::count(items: [T], item: T) -> int
    How often `item` occurs.
list::sum(items: [N]) -> N
    All added up; of no items 0, `0.0`, `$0` or `0ms`, as their type is.
list::min(items: [O]) -> O?
    The smallest; null when there is none.
list::max(items: [O]) -> O?
    The largest; null when there is none.
list::flatten(items: [[T]]) -> [T]
    The items of the lists, one after the other.
list::chunks(items: [T], size: int) -> [[T]]
    Lists of at most `size` items.
list::remove_at(items: [T], index: int) -> [T]
    Without the item at `index`; outside raises IndexError.
list::insert(items: [T], index: int, item: T) -> [T]
    With `item` before `index`; outside raises IndexError.
list::without_nulls(items: [T?]) -> [T]
    The items that are not null.
map::len(map: {str: T}) -> int
    The number of entries.
map::keys(map: {str: T}) -> [str]
    The keys, in the order they came.
map::values(map: {str: T}) -> [T]
    The values, in the order they came.
map::get(map: {str: T}, key: str) -> T?
    The value, or null.
map::get_or(map: {str: T}, key: str, other: T) -> T
    The value, or `other`, which is worked out first.
map::has(map: {str: T}, key: str) -> bool
    Whether there is an entry for `key`.
map::remove(map: {str: T}, key: str) -> {str: T}
    Without the entry for `key`.
map::merge(map: {str: T}, other: {str: T}) -> {str: T}
    Both; where both have a key, `other` wins.
math::abs(x: N) -> N
    Without its sign.
math::min(a: O, b: O) -> O
    The smaller.
math::max(a: O, b: O) -> O
    The larger.
math::ratio(a: int, b: int) -> float
    a divided by b, with its fraction; by 0 it raises ArithmeticError.
math::floor_div(a: int, b: int) -> int
    a divided by b, rounded down, also below zero; by 0 it raises ArithmeticError.
math::mod(a: int, b: int) -> int
    What `floor_div` leaves of a, with the sign of b; by 0 it raises ArithmeticError.
math::floor(x: float) -> int
    The next whole number below.
math::ceil(x: float) -> int
    The next whole number above.
math::round(x: float, digits: int = null) -> float
    To `digits` decimals, or none; halves to even.
math::sqrt(x: float) -> float
    The square root; of a negative number it raises ArithmeticError.
math::pow(x: float, y: float) -> float
    x to the power of y.
json::parse(text: str) -> any
    The value; write `json::parse(text) as T` to use it. Not JSON raises ValueError.
json::text(value: any) -> str
    As JSON.
csv::parse(text: str) -> [{str: str}]
    A map for each line by the names in the first; cells that a line lacks are "". Else ValueError.
csv::text(items: [T]) -> str
    Records or maps as lines below one with their names.
time::seconds(of: duration) -> float
    As a number of seconds.
time::of_seconds(seconds: float) -> duration
    As a duration; negative raises ValueError.
"""

_GUARDED = """
file(path: str) -> file | pure | fs::read
    A file to send along: agent <- ["What is this?", file("a.png")].
file::name(path: str) -> str | pure
    The last part of a path: of "docs/a.md" it is "a.md".
file::read(path: str) -> str | host | fs::read
    The text of the file.
file::exists(path: str) -> bool | host | fs::read
    Whether there is a file or folder.
file::attach(message: any) -> any | host | fs::read
    The message with the contents of its files; a send of files does it by itself.
file::list(path: str) -> [str] | host | fs::read
    The paths of what is in a folder, sorted, as `file::read` takes them.
file::write(path: str, content: str) | host | fs::write
    Write the whole file.
http::get(url: str) -> Response | host | net::get
    Fetch; the response has `status` and `body`.
http::post(url: str, body: str) -> Response | host! | net::post
    Send; the response has `status` and `body`.
exec(command: str) -> str | host! | process::exec
    Run one command in the sandbox, without a shell; its output. A bad exit raises ToolFailed.
exec::run(command: str) -> Ran | host! | process::exec
    Run it whatever its exit code: the result has `code`, `out` and `err`.
exec::look(command: str) -> Ran | host | process::exec
    The same for one that only reads, as it can change no file: it may run early, beside others.
human::ask(question: str, timeout: duration) -> str? | host
    Ask a person; null when nobody answered in time.
human::approve(action: str, timeout: duration) -> bool | host
    Ask a person for approval; at expiry it is false.
time::now() -> str | host
    The time in UTC, such as "2026-01-31T12:00:00Z".
process::sleep(time: duration) | host
    Wait.
process::yield() | host
    Let others go first.
process::self() -> process | host
    This process.
trace::span(name: str) -> str | host
    Begin a span for what follows in this function; its id.
trace::event(message: str) | host
    Note something in the trace.
trace::set_attribute(key: str, value: any) | host
    Note a fact in the present span.
print(value: any) | special!
    Print a value on a line of its own.
fail(reason: str) | special
    Raise Failed(reason).
link(a: process, b: process) | special
    Tie two processes: the abnormal end of one ends the other.
process::exit(reason: str) | special
    End this process; any reason but "normal" is a failure.
budget::remaining() -> money | special
    What is left in the innermost budget, which outside of all is that of the runtime.
budget::used() -> money | special
    What is used of the innermost budget.
budget::limit() -> money | special
    The innermost budget.
"""


def _rows(table: str) -> Iterator[LibraryFunction]:
    """`signature | kind | capability`, without the rest pure; an exclamation mark after the kind:
    not safe to repeat."""
    lines = table.strip().split("\n")
    for head, doc in zip(lines[::2], lines[1::2], strict=True):
        signature, *rest = head.split(" | ")
        kind, capability = (*rest, *("pure", "")[len(rest) :])
        yield _row(signature, kind, capability, doc.strip())


def _row(signature: str, kind: str, capability: str, doc: str) -> LibraryFunction:
    read = read_signature(signature)
    idempotent, kind = not kind.endswith("!"), kind.rstrip("!")
    return LibraryFunction(
        read.name, signature, read.params, read.result, kind, capability, idempotent, doc
    )


LIBRARY: dict[str, LibraryFunction] = {row.name: row for row in (*_rows(_PURE), *_rows(_GUARDED))}

NAMESPACES = frozenset(name.partition("::")[0] for name in LIBRARY if "::" in name)

ENDS = frozenset({"fail", "process::exit"})
"""After these nothing of the function runs."""

ASKS_PEOPLE = "human::"
"""What the names of functions begin with that ask a person."""

CONFIRM = "budget::confirm"
"""No function for programs: how a loop inside a `confirm` asks before its first round, of its list
and of the sends in a round."""


# The errors that a program may catch, by the names it shows them with.


BUILTIN_ERRORS = ("ArithmeticError", "IndexError", "KeyError", "ValueError")
"""Errors that Python has under the same names."""

VEGA_ERRORS = tuple(
    "BudgetExceeded AgentFailed Timeout RateLimited CircuitOpen CapabilityDenied ContractViolated "
    "OutputTruncated LimitReached Cancelled ToolFailed Failed".split()
)

CATCHABLE = (*VEGA_ERRORS, *BUILTIN_ERRORS)

PROJECT = "/project/"
"""The folder of the project as programs may name it, wherever it lies."""


def in_project(path: str) -> str:
    """Return a path, or a rule for paths, from the folder of the project on."""
    return path.removeprefix(PROJECT)
