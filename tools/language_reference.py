"""Writes docs/reference/language.md: prose from language_reference.md, tables from the source.

python tools/language_reference.py            write the page
python tools/language_reference.py --check    exit 1 if the page is not up to date
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vegakit.lang import CATCHABLE, LIBRARY, Op
from vegakit.lang.check import settings as fields
from vegakit.lang.check.symbols import MOST_FILES
from vegakit.lang.diagnostics import MAX_DIAGNOSTICS
from vegakit.lang.library import LibraryFunction
from vegakit.lang.syntax.cursor import CLAUSES_OF, FOREIGN_WORDS, TOP_WORDS
from vegakit.lang.syntax.lexer import MAX_NESTING, MAX_SOURCE, MAX_TOKENS, RESERVED
from vegakit.program import Bounds
from vegakit.testing import expectations as expecting
from vegakit.vm.values import MAX_CHARS, MAX_ITEMS, MAX_PARSED

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/reference/language.md"

ERRORS = {
    "BudgetExceeded": "a call could cost more than is left in a budget around it; nothing was sent",
    "AgentFailed": "a call failed after its retries, or the process has ended",
    "Timeout": "no answer in the `timeout` of the send",
    "RateLimited": "the provider, or `rate_limit` with `strategy reject`, refused",
    "CircuitOpen": "the circuit breaker of the agent is open; nothing was sent",
    "CapabilityDenied": "a right is missing, or a path, host or command is not allowed",
    "ContractViolated": "an answer did not fit its type after it was asked again, or `as` failed",
    "OutputTruncated": "the answer was cut by `max_tokens`",
    "LimitReached": "a loop passed its `limit`, or a value its largest size",
    "Cancelled": "what was waited for was called off",
    "ToolFailed": "a library function failed outside, or a tool failed again and again",
    "Failed": "`fail(reason)`",
    "ArithmeticError": "overflow, division by zero, no number",
    "IndexError": "an index outside a list or string",
    "KeyError": "a key that is not in the map",
    "ValueError": "a text that cannot be read as what it should be",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def keywords() -> str:
    always = f"Keywords: {code(sorted(RESERVED))}."
    at_top = f"Keywords only where a declaration can begin: {code(sorted(TOP_WORDS))}."
    return f"{always}\n\n{at_top}"


def foreign() -> str:
    ours: dict[str, list[str]] = {}
    for theirs, our in FOREIGN_WORDS.items():
        ours.setdefault(our, []).append(theirs)
    return table(
        ["elsewhere", "here"], ([code(theirs), f"`{our}`"] for our, theirs in ours.items())
    )


def taken(kind: fields.SettingKind) -> str:
    """What a setting takes."""
    match kind:
        case fields.NumberSetting(least=least, most=most):
            return f"a whole number from {least:,} to {most:,}"
        case fields.FractionSetting(least=least, most=most):
            return f"a number from {least:g} to {most:g}"
        case fields.AmountSetting(period=period):
            return "money" + (", also `/hour`, `/day`, `/month`" if period else "")
        case fields.TimeSetting():
            return "a duration"
        case fields.ChoiceSetting(words=words):
            return code(words)
        case fields.ListSetting(words=words):
            return f"a list of {code(words)}"
        case fields.BackoffSetting():
            return "`exponential(first, factor, most)`"
        case fields.LiteralSetting(bare=bare):
            also = ", or a bare word: an alias of vega.toml; or a list of them"
            return "text" + (also if bare else "")


def settings(known: dict[str, fields.SettingKind]) -> str:
    return table(["setting", "takes"], ([f"`{name}`", taken(kind)] for name, kind in known.items()))


def blocks() -> str:
    rows = (
        [f"`{block}`", f"`{name}`", taken(kind)]
        for block, known in fields.BLOCKS.items()
        for name, kind in known.items()
    )
    return table(["block", "setting", "takes"], rows)


def clauses() -> str:
    rows = (
        [f"`{what}`" if what == "program" else what, code(all_)]
        for what, all_ in CLAUSES_OF.items()
    )
    return table(["of", "clauses, in any order"], rows)


def errors() -> str:
    return table(["error", "is raised when"], ([f"`{name}`", ERRORS[name]] for name in CATCHABLE))


def library() -> str:
    spaces: dict[str, list[LibraryFunction]] = {}
    for row in LIBRARY.values():
        spaces.setdefault(row.name.partition("::")[0] if "::" in row.name else "", []).append(row)
    return "\n\n".join(_namespace(name, rows) for name, rows in spaces.items())


def _namespace(name: str, rows: list[LibraryFunction]) -> str:
    head = f"### {name}::" if name else "### Everywhere"
    cells = (
        [f"`{row.signature}`", f"`{row.capability}`" if row.capability else "", row.doc]
        for row in rows
    )
    return f"{head}\n\n{table(['function', 'needs', ''], cells)}"


def opcodes() -> str:
    rows = ([f"`{op.value:#04x}`", f"`{op.name}`", " ".join(op.operands), op.meaning] for op in Op)
    return table(["number", "name", "operands", "meaning"], rows)


def operands() -> str:
    from vegakit.lang.codegen import bytecode as module

    return _table_in(module.__doc__ or "")


def comments() -> str:
    return _table_in(expecting.__doc__ or "")


def _table_in(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def diagnostics() -> str:
    lines = (HERE / "diagnostics.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(": ") for line in lines)
    return table(["code", "means"], ([f"`{name}`", meaning] for name, _, meaning in rows))


def limits() -> str:
    bounds = Bounds()
    rows = [
        ("source of one file", f"{MAX_SOURCE:,} bytes, {MAX_TOKENS:,} tokens"),
        ("files of a program", f"{MOST_FILES}"),
        ("nesting", f"{MAX_NESTING} levels"),
        ("diagnostics", f"{MAX_DIAGNOSTICS}"),
        ("text", f"{MAX_CHARS:,} characters"),
        ("list or map", f"{MAX_ITEMS:,} items"),
        ("one text that `json::parse` reads", f"{MAX_PARSED:,} lists and maps"),
        ("processes below processes", f"{bounds.depth} levels"),
        ("processes that one process spawns", f"{bounds.width}"),
        ("living processes of a program", f"{bounds.living:,}"),
        ("the same tool call in one send", f"{bounds.repeats} times"),
    ]
    return table(["of", "at most"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "keywords": keywords,
    "foreign": foreign,
    "agent": lambda: settings(fields.AGENT),
    "blocks": blocks,
    "rules": lambda: settings(fields.RULES),
    "session": lambda: settings(fields.SESSION),
    "clauses": clauses,
    "errors": errors,
    "library": library,
    "opcodes": opcodes,
    "operands": operands,
    "comments": comments,
    "diagnostics": diagnostics,
    "limits": limits,
}


def page() -> str:
    text = (HERE / "language_reference.md").read_text(encoding="utf-8")
    for name, made in TABLES.items():
        mark = f"<!-- {name} -->"
        if text.count(mark) != 1:
            raise SystemExit(f"language_reference.md has to have {mark} once")
        text = text.replace(mark, made())
    return text


def main() -> int:
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PAGE.name} is not up to date; type: python tools/language_reference.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
