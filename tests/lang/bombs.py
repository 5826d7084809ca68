"""Hostile source: each is meant to cost more than it weighs.

python -m tests.lang.bombs [MS] prints milliseconds of CPU and the peak of memory of each, and
                                exits 1 when one is above what is allowed: 500 ms, or so many
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from vegakit.lang import parse, render

MIB = 1024 * 1024
MAX_MS = 500
MAX_MB = 80

BOMBS: dict[str, Callable[[], str]] = {
    "parentheses": lambda: "(" * MIB,
    "parentheses below the limit": lambda: "(" * 49_000,
    "brackets": lambda: "[" * MIB,
    "braces": lambda: "{" * 49_000,
    "maps": lambda: "let x = " + '{"a": ' * 15_000,
    "calls": lambda: "a" + "()" * 24_000 + ";",
    "members": lambda: "let x = a" + ".b" * 24_000 + ";",
    "indexes": lambda: "a" + "[0]" * 15_000 + ";",
    "a long sum": lambda: "let x = 1" + " + 1" * 24_000 + ";",
    "a long or": lambda: "let x = a" + " or a" * 24_000 + ";",
    "comparisons": lambda: "let x = a" + " < a" * 24_000 + ";",
    "negations": lambda: "let x = " + "not " * 49_000 + "a;",
    "signs": lambda: "let x = " + "-" * 49_000 + "1;",
    "awaiting": lambda: "await " * 49_000 + "x;",
    "casts": lambda: "let x = 1" + " as int" * 16_000 + ";",
    "types": lambda: "let x: " + "[" * 40_000,
    "else if": lambda: "if a {}" + " else if a {}" * 9_000,
    "if in if": lambda: "if a { " * 12_000,
    "try in catch": lambda: "try {} catch { " * 9_000,
    "monitors": lambda: "monitor(a) { r -> " * 7_000,
    "agents in agents": lambda: "agent A { " * 12_000,
    "tools in tools": lambda: "agent A { " + "tool f() { " * 8_000,
    "retry in retry": lambda: "agent A {" + " retry {" * 20_000,
    "lists of settings": lambda: "agent A { model " + "[" * 40_000,
    "spawn rules": lambda: "let x = " + "spawn A supervised by { window f(" * 3_000,
    "quotes": lambda: '"' * MIB,
    "strings in strings": lambda: '"{' * (MIB // 2),
    "unclosed interpolations": lambda: '"{" ' * 15_000,
    "unclosed strings": lambda: '"abc\n' * 100_000,
    "three quotes": lambda: '"""' + "\n {a" * 200_000,
    "a long string": lambda: '"' + "a" * (MIB - 3) + '"',
    "escapes": lambda: '"' + "\\n" * (MIB // 2 - 2) + '"',
    "bad escapes": lambda: '"' + "\\q" * (MIB // 2 - 2) + '"',
    "comments": lambda: "/**/" * (MIB // 4),
    "comments that overlap": lambda: "/*" * (MIB // 2),
    "an unclosed comment": lambda: "/*" + " /" * (MIB // 2 - 2),
    "line comments": lambda: "//\n" * (MIB // 3),
    "a long name": lambda: "x" * MIB,
    "long digits": lambda: "1" * MIB,
    "long money": lambda: "$" + "1" * (MIB - 1),
    "long decimals": lambda: "0." + "1" * (MIB - 2),
    "blanks": lambda: " " * MIB,
    "lines": lambda: "\n" * MIB,
    "carriage returns": lambda: "\r" * MIB,
    "semicolons": lambda: ";" * MIB,
    "commas": lambda: "f(" + "," * 45_000 + ");",
    "keywords": lambda: "let " * 49_000,
    "names": lambda: "a " * (MIB // 2),
    "paths": lambda: "a" + "::a" * 24_000 + ";",
    "faults on every line": lambda: "let = ;\n" * 16_000,
    "one token too many": lambda: "; " * 50_001,
    "one byte too many": lambda: " " * (MIB + 1),
    "control characters": lambda: "\x00" * MIB,
    "bidirectional marks": lambda: "\u202e" * (MIB // 3),
    "format characters": lambda: "a\u200b" * (MIB // 4),
    "accents apart": lambda: "e\u0301" * (MIB // 3 - 1),
    "many accents": lambda: "e" + "\u0301" * (MIB // 2 - 2),
    "emoji": lambda: "\U0001f600" * (MIB // 4),
    "halves of characters": lambda: "\ud800" * (MIB // 3 - 1),
    "fillers": lambda: "\u3164 " * (MIB // 4),
}
FINE = {"blanks", "lines", "carriage returns", "paths"}
"""Strange, but right in form."""


def milliseconds(text: str) -> float:
    """Of CPU, for parsing and showing what was found."""
    began = time.process_time()
    render(parse(text).diagnostics, {"main.vega": text})
    return (time.process_time() - began) * 1000


def peak_mb() -> int:
    """Of this process since the last call."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def main(max_ms: int = MAX_MS) -> int:
    short = 0
    for name, make in BOMBS.items():
        text = make()
        peak_mb()
        took, peak = milliseconds(text), peak_mb()
        short += took > max_ms or peak > MAX_MB
        print(f"{name:<30} {took:6.0f} ms  peak {peak} MB")
    print(f"{len(BOMBS)} bombs, {short} above {max_ms} ms or {MAX_MB} MB")
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
