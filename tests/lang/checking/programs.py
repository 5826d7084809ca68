"""Checking small programs in tests."""

from vegakit.lang import Checked, Diagnostic, check_program, type_label
from vegakit.lang.syntax.tree import Let

DECLARED = """
type Severity = "low" | "high"
type Finding { file: str  severity: Severity  note: str? }
type Findings { items: [Finding; 20] }
agent Coder { model fast }
agent Reviewer { model fast  memory conversation }
supervisor Team { strategy restart_all  children [Coder, Reviewer] }
fn twice(n: int) -> int { return n + n; }
fn nothing() { print("x"); }
tool shout(text: str) -> str { return str::upper(text); }
"""

PARAMETERS = (
    "i: int, x: float, m: money, d: duration, s: str, b: bool, f: Finding, fs: [Finding], "
    "ns: [int], few: [str; 3], by: {str: int}, sev: Severity, o: str?, fo: Finding?, a: any, "
    "c: Coder, p: process"
)


def checked(text: str, **files: str) -> tuple[Checked | None, list[Diagnostic]]:
    """`files` are given as `lib__text="…"` for `lib/text.vega`."""
    sources = {f"{name.replace('__', '/')}.vega": source for name, source in files.items()}
    program, found = check_program(text, "main.vega", sources.get)
    return program, list(found)


def errors(text: str, **files: str) -> list[str]:
    return [one.code for one in checked(text, **files)[1] if one.severity == "error"]


def warnings(text: str) -> list[str]:
    return [one.code for one in checked(text)[1] if one.severity == "warning"]


def in_function(body: str) -> str:
    may = 'may [fs, net, process] allowed_hosts ["example.com"] allowed_commands ["ls"]'
    return f"{DECLARED}\nfn probe({PARAMETERS}) {may} {{ {body} }}\n"


def types_of(body: str) -> dict[str, str]:
    """The types of the variables that a body declares, in a function with `PARAMETERS`."""
    program, found = checked(in_function(body))
    assert program is not None, [(one.code, one.message) for one in found]
    source = program.units["main.vega"].source
    probe = next(decl for decl in source.decls if getattr(decl, "name", "") == "probe")
    waiting = list(probe.body.body)  # pyright: ignore[reportAttributeAccessIssue]
    types: dict[str, str] = {}
    while waiting:
        statement = waiting.pop(0)
        if isinstance(statement, Let):
            types[statement.name] = type_label(program.types[id(statement)])
        for name in ("body", "then", "other"):
            waiting += getattr(getattr(statement, name, None), "body", ())
    return types
