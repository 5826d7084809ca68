"""Diagnostics of the checker in the words of someone who writes Python, with edits that are Python
(pure).
"""

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from vegakit.lang.diagnostics import Diagnostic, Edit, count_steps
from vegakit.lang.library import LIBRARY
from vegakit.lang.python.context import PythonFile, with_imports
from vegakit.lang.syntax import tree

# What is said instead of the help of the checker.


_NONE = "test it before, `if {text} is not None:`; or write `{text} if {text} is not None else …`"
_HELP: dict[str, str] = {
    "any-used": "say what it is: `vega.cast({text}, Finding)`",
    "map-for-record": "call its class: `Finding(file=…)`",
    "may-be-null": _NONE,
    "missing-return": "write `return …` on every way through it",
    "missing-value": "write `return …` with a value",
    "mixed-items": "declare a record with a field for each",
    "needs-shell": "run each command by itself: `vega.exec.run(…)` gives `code`, `out` and `err`",
    "never-raised": "leave it out; where nobody answers in time, `vega.human.ask` is None",
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
_HOW_LONG = 'write how long, such as `, "1h"`, behind the others'
_JOINED = "`and` and `or` join bools here: compare it, or write `x if x is not None else y`"
_CHARACTERS = 'write `vega.str.lines({text})`, or `vega.str.split({text}, "")` for its characters'
_KEPT = "keep what is not in the other: `[x for x in xs if x not in ys]`"
_STREAM = "walk it, `for piece in …:`; for the whole text ask: `writer(message)`"
_IN_ORDER = "what is sorted or compared has an order: numbers or texts"
_BY_TYPE: tuple[tuple[str, str, str], ...] = (
    ("wrong-type", "this is a future of", "write `{text}.result()`"),
    ("wrong-type", "this is a stream", _STREAM),
    ("missing-argument", "also needs `timeout`", _HOW_LONG),
    ("wrong-operands", "`-` does not take [", _KEPT),
    ("wrong-type", "must be a int | float | money | duration | str", _IN_ORDER),
    ("wrong-operands", "`in` does not take", "look for what it holds: both are of one type"),
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
_CHARACTERS_A_STEP = 8
"""Characters of Python that are parsed in about the time of one step."""
_RIGHT = re.compile(r"[a-z]+::[a-z_:]+")
_VEGA = re.compile(r"\blet\b|::|<-|<~|null|\?\?|\bfn\b|\{ …|\bas \[|\bawait\b|;`|\bcatch\b")
_LIST, _BOUNDED = re.compile(r"\[([^\[\];]+)\]"), re.compile(r"\[([^\[\];]+); (\d+)\]")
_MAP, _OPTIONAL = re.compile(r"\{str: ([^{}]+)\}"), re.compile(r"([\w\]\)]+)\?")
_SIZED = re.compile(r"\(str; (\d+)\)")
_LONG = re.compile(r"must be a str of at most (\d+)")
_FULL = re.compile(r"\{str: ([^{};]+); (\d+)\}")
_QUOTED = re.compile(r"(`[^`]*`)")


def python_diagnostic(
    found: Diagnostic, source: PythonFile, decls: Sequence[tree.Decl] = ()
) -> Diagnostic:
    """Return a diagnostic of the checker in the words of someone who writes Python. `decls` are the
    declarations of the file."""
    text = source.text
    if (of_numbers := _of_numbers(found, text)) is not None:
        return of_numbers
    made = _cast(found, source)
    written, edit = made or ("", _edit(found, text, decls))
    is_ours = edit is not None and edit is not found.edit
    changes: dict[str, Any] = {
        "message": _in_python_words(_called(found, text)),
        "help": _help(found, text[found.at : found.end]),
        "edit": edit if edit and (is_ours or _fits(edit, text)) else None,
    }
    if made is not None and found.code == "may-be-null":
        test = f"test it before, `if {text[found.at : found.end]} is not None:`"
        named = text[found.at : found.end].replace(".", "").isidentifier()
        test = test if named else "give it a name, and test that: `if x is not None:`"
        after = "" if " if " in written else ", which fails where it is None"
        changes["help"] = f"{test}; or write `{written}`{after}"
    if edit is not None and "a side of `or`" in found.message and " else " in edit.text:
        changes["help"] = f"write `{edit.text[1:-1]}`"
    if found.code == "needs-shell" and edit is not None:
        changes["help"] = f"write `{edit.text}`; {found.help.partition('; ')[2]}"
    around = next((one for one in decls if one.at <= found.at < one.end), None)
    if found.code == "missing-return" and around is not None:
        line = text.find("\n", around.at)
        changes |= {"at": around.at, "end": line if line > 0 else around.end}
    if found.code in _BY_EDIT and changes["edit"] is not None and "write" in found.help:
        changes["help"] = f"write `{changes['edit'].text.strip()}`"
    if found.code == "unwanted-value" and edit is not None:
        changes["help"] = f"write its type behind the parameters: `{edit.text.strip()}`"
    return replace(found, **changes)


_BY_EDIT = frozenset(["not-a-future"])
_METHOD = re.compile(r"\.(\w+)\(")


def _called(found: Diagnostic, text: str) -> str:
    """Return the message with functions of the library as they are written in Python: a method,
    where one stands behind the place."""
    method = _METHOD.match(text, found.end)

    def named(match: re.Match[str]) -> str:
        if method is not None and found.code in ("may-be-null", "wrong-type"):
            return f"`.{method[1]}`"
        if match[1] in _BUILTINS:
            return f"`{match[1].removeprefix('math::')}`"
        return f"`vega.{match[1].replace('::', '.')}`" if match[1] in LIBRARY else match[0]

    return _SPACED.sub(named, found.message)


_SPACED = re.compile(r"`([a-z]+::\w+)`")
_BUILTINS = frozenset({"math::abs", "math::max", "math::min", "math::round"})


# Ints and floats, which Python keeps apart: no edit may change what a number is.


_INT_FOR_FLOAT = re.compile(
    r"(must be (a float|float\?), this is an int|: float before, this is int)\Z"
)
_FLOAT_FOR_INT = re.compile(
    r"(must be (an int|int\?), this is a float|: int before, this is float)\Z"
)
_AUGMENTED = re.compile(r"([\w.\[\]\"']+) *(?://|[-+*/%])=")


def _of_numbers(found: Diagnostic, text: str) -> Diagnostic | None:
    """Return what is said of an int that is wanted as a float, or the other way round, None of
    other diagnostics."""
    if found.code not in ("wrong-type", "mixed-items"):
        return None
    place = text[found.at : found.end]
    if _INT_FOR_FLOAT.search(found.message):
        return _int_for_float(found, place)
    if not _FLOAT_FOR_INT.search(found.message):
        return None
    if (grown := _AUGMENTED.match(place)) is not None:
        advice = f"let `{grown[1]}` be a float from the start: begin with such as `0.0`"
    elif found.code == "mixed-items" or "`math::" in found.message:
        advice = "write all of them as floats, such as `1.0`, or all as ints"
    else:
        shown = place if "\n" not in place and len(place) <= 60 else "x"
        advice = f"let a float be taken here; `int({shown})` cuts what stands behind the point"
    message = _in_python_words(_called(found, text))
    return replace(found, message=message, help=advice, edit=None)


def _int_for_float(found: Diagnostic, place: str) -> Diagnostic:
    written, code = f"float({place})", "python-whole"
    message = "a float is wanted here, and Python would keep this an int"
    match _parsed(place):
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) if place.lstrip(
            "-"
        ).isdecimal():
            written = f"{place}.0"
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            code, message = "python-divide", "`/` of two ints is a float in Python and an int here"
            one, other = ast.get_source_segment(place, left), ast.get_source_segment(place, right)
            written = f"float({one}) / float({other})"
        case None:
            return replace(found, code=code, message=message, help="make it a float", edit=None)
        case _:
            pass
    shown = f"write `{written}`" if "\n" not in written else "write `float(…)` around it"
    edit = Edit(found.at, found.end, written)
    return replace(found, code=code, message=message, help=shown, edit=edit)


def _parsed(text: str) -> ast.expr | None:
    """Return the expression, or None where it is a statement."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# Edits of the checker, as Python writes them.


def _edit(found: Diagnostic, text: str, decls: Sequence[tree.Decl]) -> Edit | None:
    edit, place = found.edit, text[found.at : found.end]
    around = next((one for one in decls if one.at <= found.at < one.end), None)
    if found.code == "missing-capability":
        return _right(found, text, around)
    if found.code == "nothing-allowed" and edit is not None:
        return _clause(edit, text)
    if found.code == "needs-shell" and edit is not None:
        return replace(edit, text=edit.text.replace("exec::", "vega.exec."))
    if found.code == "unwanted-value" and isinstance(around, tree.FnDecl):
        return _result(found, text, around)
    if found.code == "wrong-type" and "this is a future of" in found.message:
        return Edit(found.at, found.end, f"{place}.result()")
    if found.code == "wrong-type" and edit is not None and edit.text.endswith(" != null"):
        return Edit(edit.at, edit.end, f"{place} is not None")
    if (
        found.code == "wrong-type"
        and "a side of `or` must be a bool, this is a str" in found.message
    ):
        return _other_text(found, text) or edit
    if found.code == "missing-argument" and edit is not None and edit.text == ", 1h":
        return Edit(edit.at, edit.end, ', "1h"')
    return edit


_NO_RESULT = re.compile(r" *-> *None *$")
_TYPE = re.compile(r"[A-Za-z_]\w*|(?:list|dict)\[[\w, \[\]]*\]")


def _cast(found: Diagnostic, source: PythonFile) -> tuple[str, Edit] | None:
    """Return what a cast of the checker is in Python, and an edit that also imports its names."""
    text, place = source.text, source.text[found.at : found.end]
    if found.code == "wrong-type" and (kind := _sized(found.message)):
        needed = ("vega", "Annotated", "MaxLen")
    elif found.code == "may-be-null" and found.edit is not None:
        _, of, before = found.edit.text.rpartition(" ?? ")
        if of:
            written = f"{place} if {place} is not None else {before}"
            named = place.replace(".", "").isidentifier()
            return (written, Edit(found.at, found.end, written)) if named else None
        kind, needed = _types(found.edit.text.rpartition(" as ")[2].removesuffix(")")), ("vega",)
        if not _TYPE.fullmatch(kind):
            return None
    else:
        return None
    written = f"vega.cast({place}, {kind})"
    edit = Edit(found.at, found.end, written)
    return (written, with_imports(source, edit, *needed)) if _fits(edit, text) else None


def _other_text(found: Diagnostic, text: str) -> Edit | None:
    """`name or "nobody"` is the other where the text is empty."""
    place = text[found.at : found.end]
    other = _OR_TEXT.match(text, found.end)
    if other is None or not place.replace(".", "").isidentifier():
        return None
    return Edit(found.at, other.end(), f'({place} if {place} != "" else {other[1]})')


_OR_TEXT = re.compile(r""" or ("[^"\\\n]*"|'[^'\\\n]*')(?=[)\]},\n])""")

_DECORATOR = re.compile(r"^@program(?:\.function|\.tool)?\b", re.MULTILINE)
_OWN_DECORATOR = re.compile(r"@program(?:\.function|\.tool)?\b[^\n]*(?:\n(?!\n|def |@)[^\n]*)*\n\Z")


def _right(found: Diagnostic, text: str, around: tree.Decl | None) -> Edit | None:
    """Put a right among the arguments of the decorator of a function, or of the program, whose
    rights its functions have."""
    right = _RIGHT.search(found.help) or _RIGHT.search(found.message)
    if around is None or right is None:
        return None
    own = _OWN_DECORATOR.search(text, 0, around.at)
    decorator = own or next(
        (one for one in _DECORATOR.finditer(text) if one[0] == "@program"), None
    )
    if decorator is None:
        return None
    begins = decorator.start()
    name = _DECORATOR.match(text, begins)
    if name is None:
        return None
    clause = "capabilities" if name[0].endswith(".tool") else "may"
    naming = _NAMING.search(found.edit.text if found.edit else "")
    also = f", {naming[1]}={naming[2]}" if naming else ""
    end = text.find("\ndef ", begins)
    listed = text.find(f"{clause}=[", begins, end)
    closes = text.find("]", listed, end)
    if listed >= 0 and closes >= 0:
        at = listed + len(clause) + 2
        rest = text[at : closes + 1]
        return Edit(at, closes + 1, f'"{right[0]}"{", " if at < closes else ""}{rest}{also}')
    at, given = name.end(), f'{clause}=["{right[0]}"]{also}'
    if text[at : at + 1] != "(":
        return Edit(at, at, f"({given})")
    comma = "" if text[at + 1 :].lstrip().startswith(")") else ", "
    return Edit(at + 1, at + 1, f"{given}{comma}")


_NAMING = re.compile(r"(allowed_\w+) (\[[^\]]*\])")


def _clause(edit: Edit, text: str) -> Edit:
    """` allowed_hosts ["a.b"]` is another argument."""
    clause, _, listed = edit.text.strip().partition(" ")
    at = edit.at
    while text[at : at + 1] in {'"', "'", "]"}:
        at += 1
    return Edit(at, at, f", {clause}={listed}")


def _result(found: Diagnostic, text: str, around: tree.FnDecl) -> Edit | None:
    at = text.rfind(":", around.at, around.body.at)
    kind = found.help.partition("`-> ")[2].partition("`")[0]
    declared = _NO_RESULT.search(text, around.at, max(at, around.at))
    first = at if declared is None else declared.start()
    return Edit(first, at, f" -> {_types(kind)}") if at > 0 and kind else None


def _help(found: Diagnostic, text: str) -> str:
    if found.help.startswith("did you mean"):
        return found.help
    if found.code == "nothing-allowed":
        clause, _, listed = found.help.removeprefix("add `").partition("`")[0].partition(" ")
        which = found.help.rpartition("rights")[2]
        return f"write it beside the rights: `{clause}={listed}`{which}"
    if found.code in ("missing-right", "missing-capability", "capability") or (
        "may [" in found.help or "capabilities [" in found.help
    ):
        return _rights(found)
    text = text if "\n" not in text and len(text) <= 60 else "x"
    if found.code == "wrong-type" and (kind := _sized(found.message)):
        return f"write `vega.cast({text}, {kind})`, which is checked when it runs"
    for code, part, advice in _BY_TYPE:
        if found.code == code and part in found.message:
            return advice.format(text=text)
    if found.code == "may-be-null" and not text.replace(".", "").isidentifier():
        return "give it a name, and test that: `if x is not None:`"
    if found.code in _HELP:
        return _HELP[found.code].format(text=text)
    help_ = found.help.replace('`"… {', '`f"… {')
    return "" if _VEGA.search(help_) else _in_python_words(help_)


def _sized(message: str) -> str:
    """Return the first type with a length that a message names, as an annotation; empty if none."""
    message = _SIZED.sub(r"Annotated⟨str, MaxLen(\1)⟩", message)
    for pattern, written in ((_LONG, "str"), (_BOUNDED, "list[{}]"), (_FULL, "dict[str, {}]")):
        if bound := pattern.search(message):
            *inner, most = bound.groups()
            kind = written.format(*inner).replace("⟨", "[").replace("⟩", "]")
            return f"Annotated[{kind}, MaxLen({most})]"
    return ""


def _rights(found: Diagnostic) -> str:
    right = _RIGHT.search(found.help) or _RIGHT.search(found.message)
    name = right[0] if right else "fs::read"
    if "capabilities [" in found.help:
        return f'write it above the tool: `@program.tool(capabilities=["{name}"])`'
    return f'write it above the function: `@program(may=["{name}"])`, or `@program.function(…)`'


def _in_python_words(message: str) -> str:
    """Types as Python writes them; what stands in quotes is source already."""
    parts = _QUOTED.split(message)
    return "".join(part if part.startswith("`") else _types(part) for part in parts)


def _types(text: str) -> str:
    before, text = "", _SIZED.sub(r"str of at most \1", text)
    while text != before:
        before = text
        text = _BOUNDED.sub(r"list⟨\1⟩ of at most \2", text)
        text = _FULL.sub(r"dict⟨str, \1⟩ of at most \2", text)
        text = _MAP.sub(r"dict⟨str, \1⟩", text)
        text = _LIST.sub(r"list⟨\1⟩", text)
    text = _OPTIONAL.sub(r"\1 | None", text.replace("⟩?", "⟩ | None"))
    text = text.replace("list, map or stream", "list, dict or stream")
    return re.sub(r"\bnull\b", "None", text.replace("⟨", "[").replace("⟩", "]"))


def _fits(edit: Edit, text: str) -> bool:
    """Return whether the file is still Python after the edit. Each edit parses the whole file
    again, so it counts as work: a short file with many mistakes is otherwise an expensive one."""
    if _VEGA.search(edit.text):
        return False
    count_steps(len(text) // _CHARACTERS_A_STEP)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text[: edit.at] + edit.text + text[edit.end :])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
