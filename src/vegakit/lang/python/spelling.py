"""Diagnostics of the checker, told to who writes Python."""

import ast
import re
import warnings
from typing import Any

from msgspec.structs import replace

from vegakit.lang.diagnostics import Diagnostic, Edit

__all__ = ["in_python"]

_NONE = "test it before, `if {text} is not None:`; or write `{text} if {text} is not None else …`"
_HELP: dict[str, str] = {
    "any-used": "say what it is: `vega.cast({text}, Finding)`",
    "map-for-record": "call its class: `Finding(file=…)`",
    "may-be-null": _NONE,
    "missing-return": "write `return …` on every way through it",
    "missing-value": "write `return …` with a value",
    "mixed-items": "declare a record with a field for each",
    "never-awaited": "keep it, `f = …`, and take `f.result()`; or write `.ask(…)`",
    "never-fits": "write `str(x)`, `int(x)` or `float(x)`: `vega.cast` checks, it does not convert",
    "no-value": "a function with a result is declared with `-> T`",
    "not-a-future": "there is nothing to wait for: leave out `.result()`",
    "not-a-supervisor": "name one, or write `spawn(a, strategy=…, max_restarts=3)`",
    "not-a-tool": "mark it with `@program.tool(...)`, or with `@tool(...)` if it stays Python",
    "not-an-agent": "only an agent, or what `spawn` gave, can be called or asked",
    "not-awaited": "write `{text}.result()`",
    "stream-as-value": "walk it: `for chunk in …:`",
    "typed-stream": "a stream is text: write `.ask(…, returns=…)`",
    "unknown-tool": "declare it above the agent, with `@program.tool(...)` or `@tool(...)`",
    "unknown-type": "write its type: `items: list[str] = []`",
    "unwanted-value": "write its type behind the parameters: `-> str`",
}
_JOINED = "`and` and `or` join bools here: compare it, or write `x if x is not None else y`"
_CHARACTERS = 'write `vega.str.lines({text})`, or `vega.str.split({text}, "")` for its characters'
_BY_TYPE: tuple[tuple[str, str, str], ...] = (
    ("wrong-type", "a side of", _JOINED),
    ("wrong-type", "may be null", "test it before: `if {text} is not None:`"),
    ("wrong-type", "null", "what may be None is declared as `T | None`"),
    ("wrong-type", "must be a bool, this is a str", "write `{text} != \"\"`, or compare it"),
    ("wrong-type", "must be a bool", "compare it: `len(xs) > 0`, `n != 0`, `x is not None`"),
    ("wrong-type", "this is any", "say what it is: `vega.cast({text}, T)`"),
    ("not-a-list", "is str", _CHARACTERS),
    ("not-a-list", "?", "it may be None: test it before"),
    ("not-callable", "an agent", "write `spawn(…)` for a process of it"),
    ("not-a-value", "an agent", "to ask it write `{text}(\"…\")`, for a process `spawn({text})`"),
)  # fmt: skip
_RIGHT = re.compile(r"[a-z]+::[a-z_:]+")
_VEGA = re.compile(r"\blet\b|::|<-|<~|null|\?\?|\bfn\b|\{ …|\bas \[|\bawait\b|;`|\bcatch\b")
_LIST, _BOUNDED = re.compile(r"\[([^\[\];]+)\]"), re.compile(r"\[([^\[\];]+); (\d+)\]")
_MAP, _OPTIONAL = re.compile(r"\{str: ([^{}]+)\}"), re.compile(r"([\w\]\)]+)\?")
_QUOTED = re.compile(r"(`[^`]*`)")


def in_python(found: Diagnostic, text: str) -> Diagnostic:
    changes: dict[str, Any] = {
        "message": _spoken(found.message),
        "help": _help(found, text[found.at : found.end]),
        "edit": found.edit if found.edit and _fits(found.edit, text) else None,
    }
    return replace(found, **changes)


def _help(found: Diagnostic, text: str) -> str:
    if found.help.startswith("did you mean"):
        return found.help
    if found.code in ("missing-right", "missing-capability", "capability") or (
        "may [" in found.help or "capabilities [" in found.help
    ):
        return _rights(found)
    text = text if "\n" not in text and len(text) <= 60 else "x"
    for code, part, advice in _BY_TYPE:
        if found.code == code and part in found.message:
            return advice.format(text=text)
    if found.code == "may-be-null" and not text.replace(".", "").isidentifier():
        return "give it a name, and test that: `if x is not None:`"
    if found.code in _HELP:
        return _HELP[found.code].format(text=text)
    return "" if _VEGA.search(found.help) else _spoken(found.help)


def _rights(found: Diagnostic) -> str:
    right = _RIGHT.search(found.help) or _RIGHT.search(found.message)
    name = right[0] if right else "fs::read"
    if "capabilities [" in found.help:
        return f'write it above the tool: `@program.tool(capabilities=["{name}"])`'
    return f'write it above the function: `@program(may=["{name}"])`, or `@program.function(…)`'


def _spoken(message: str) -> str:
    """Types as Python writes them; what stands in quotes is source already."""
    parts = _QUOTED.split(message)
    return "".join(part if part.startswith("`") else _types(part) for part in parts)


def _types(text: str) -> str:
    before = ""
    while text != before:
        before = text
        text = _BOUNDED.sub(r"list⟨\1⟩ of at most \2", text)
        text = _MAP.sub(r"dict⟨str, \1⟩", text)
        text = _LIST.sub(r"list⟨\1⟩", text)
    text = _OPTIONAL.sub(r"\1 | None", text.replace("⟩?", "⟩ | None"))
    text = text.replace("list, map or stream", "list, dict or stream")
    return re.sub(r"\bnull\b", "None", text.replace("⟨", "[").replace("⟩", "]"))


def _fits(edit: Edit, text: str) -> bool:
    """Whether the file is still Python with it."""
    if _VEGA.search(edit.text):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text[: edit.at] + edit.text + text[edit.end :])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
