"""Hostile programs of at most 40,000 bytes, each meant to cost whoever looks at it more than it
weighs: in loops, types, functions, sends and spawns, in both languages. The same seed makes the
same ones."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

__all__ = ["BOMBS", "Bomb", "harmless", "nested_loops", "some"]

MOST_BYTES = 40_000
_PYTHON_HEAD = "from vegakit import program\n\n\n@program\n"
_AGENT = 'agent A { model "any" max_tokens 10 budget $0.01 }\n'
Make = Callable[[int, Random], str]


class Bomb(NamedTuple):
    name: str
    language: str
    source: str


def nested_loops(depth: int) -> str:
    """Each round of each loop makes a variable of another one grow."""
    lets = _each(depth, lambda i: f"let t{i} = 0;\n")
    loops = _each(depth, lambda i: f"for i{i} in p {{ t{i} = t{(i + 1) % depth} + 1; ")
    return f"fn main(p: [int; 9]) {{\n{lets}{loops}{'}' * depth}}}"


def harmless(characters: int = 2_000) -> str:
    """As a model writes them: a few agents, loops, branches, a function."""
    parts = [
        'type Finding { title: str  severity: "low" | "high"  lines: [int; 5] }\n',
        'agent reviewer { model "any" max_tokens 300 system "You review code, file by file." }\n',
        'agent judge { model "any" max_tokens 100 system "You decide what matters." }\n',
    ]
    count = 0
    while len("".join(parts)) < characters - 420:
        count += 1
        parts.append(
            f"fn review_{count}(name: str, rounds: int) -> str {{\n"
            f'    let said = reviewer <- "Look at part {count} of {{name}} and name its faults.";\n'
            f'    let found: Finding = reviewer <- "As a record: {{said}}";\n'
            f'    if found.severity == "high" {{ return judge <- "Is {{said}} true?"; }}\n'
            f"    return said;\n}}\n"
        )
    calls = "".join(f"        all = all + [review_{i + 1}(file, 2)];\n" for i in range(count))
    parts.append(
        "fn main(files: [str; 3]) -> str {\n    let all: [str] = [];\n    for file in files {\n"
        f"{calls}    }}\n"
        '    return judge <- "Sum up {len(all)} reviews of {len(files)} files.";\n}\n'
    )
    return "".join(parts)


def some(count: int, seed: int = 7) -> list[Bomb]:
    """So many, every kind of them, of different sizes."""
    chance, made = Random(seed), list[Bomb]()
    kinds = list(BOMBS.items())
    while len(made) < count:
        name, (language, make) = kinds[len(made) % len(kinds)]
        size = MOST_BYTES - 200 if len(made) < len(kinds) else chance.randrange(2_000, MOST_BYTES)
        source = make(size, chance)
        while len(source.encode()) > MOST_BYTES:
            size = size * 9 // 10
            source = make(size, chance)
        made.append(Bomb(name, language, source))
    return made


def _each(count: int, make: Callable[[int], str]) -> str:
    return "".join(map(make, range(count)))


def _random_loops(size: int, chance: Random) -> str:
    """Loops, branches and tries in each other, over a few variables."""
    names = [f"v{i}" for i in range(chance.randrange(2, 40))]

    def block(depth: int) -> str:
        return " ".join(row(depth) for _ in range(chance.randrange(1, 4)))

    def row(depth: int) -> str:
        one, other = chance.choice(names), chance.choice(names)
        if depth == 0 or chance.random() < 0.3:
            plain = f"{one} = {other} + 1;", f"all = all + [{one}];", f'A <- "x{{{one}}}";'
            return chance.choice(plain)
        inner = f"{{ {block(depth - 1)} }}"
        match chance.randrange(4):
            case 0:
                return f"for q in p {inner}"
            case 1:
                return f"while {one} < 9 limit {chance.randrange(99)} {inner}"
            case 2:
                return f"if {one} < {other} {inner} else {{ {block(depth - 1)} }}"
            case _:
                return f"try {inner} catch {{ {block(depth - 1)} }}"

    lets = "".join(f"let {name} = 0;\n" for name in names)
    return f"{_AGENT}fn main(p: [int; 9]) {{\n{lets}let all = [0];\n{block(3 + size // 8_000)}\n}}"


def _python_loops(size: int, chance: Random) -> str:
    depth = min(18, 2 + size // 2_000)
    rows = [
        f"{_PYTHON_HEAD}def main(p: list[int]) -> int:",
        *(f"    t{i} = 0" for i in range(depth)),
    ]
    for i in range(depth):
        rows.append(f"{'    ' * (i + 1)}for i{i} in p:")
        rows.append(f"{'    ' * (i + 2)}t{i} = t{(i + 1) % depth} + 1")
    return "\n".join([*rows, "    return t0\n"])


def _main(body: str) -> str:
    return f"{_PYTHON_HEAD}def main() -> int:\n    x = {body}\n    return 1\n"


def _python_rows(size: int, row: Callable[[int], str]) -> str:
    rows: list[str] = []
    while sum(map(len, rows)) < size - 100:
        rows += [f"    {row(i)}\n" for i in range(len(rows), len(rows) + 50)]
    head = f"{_PYTHON_HEAD}def main(p: list[int]) -> int:\n    a0 = 0\n    b = [1]\n"
    return f"{head}{''.join(rows)}    return 0\n"


_LATE = '} catch Timeout { A <- "y"; }'
_OPEN, _CLOSE, _TEXT_OF_A = '"{', '}"', "{a}"
_CHOICES = " | ".join(f'"{i}"' for i in range(250))
_PATHS = ", ".join(f'"a{i}/**"' for i in range(250))
_WORDS = 'fn let for in if else { } ( ) [ ] ; x y 1 "a" <- = + agent try catch'.split()
_VEGA: dict[str, Make] = {
    "nested loops": lambda n, c: nested_loops(c.randrange(20, 150)),
    "loops of a few variables": lambda n, c: (
        f"fn main(p: [int; 9]) {{ let a = 0; let b = 0;\n"
        f"{_each(60, lambda i: f'for i{i} in p {{ a = b + 1; b = a; ')}{'}' * 60}}}"
    ),
    "random loops": _random_loops,
    "while in while": lambda n, c: (
        f"{_AGENT}let t = 0;\n{_each(120, lambda i: f'while t < {i} limit 9 {{ ')}"
        f't = t + 1; A <- "x";{"}" * 120}'
    ),
    "try in try": lambda n, c: f'{_AGENT}{"try { " * 90}A <- "x";{_LATE * 90}',
    "sessions": lambda n, c: f'{_AGENT}{"session budget $0.1 { " * 90}A <- "x";{"}" * 90}',
    "lists in lists": lambda n, c: _each(
        n // 400, lambda i: f"let x{i} = {'[' * 190}1{']' * 190};\n"
    ),
    "a list of lists of it": lambda n, c: (
        "let a0 = [1];\n" + _each(n // 28, lambda i: f"let a{i + 1} = [a{i}, a{i}];\n")
    ),
    "a map of maps of it": lambda n, c: (
        'let a0 = {"k": 1};\n'
        + _each(n // 38, lambda i: f'let a{i + 1} = {{"l": a{i}, "r": a{i}}};\n')
    ),
    "functions twice": lambda n, c: (
        f'{_AGENT}fn f0() {{ A <- "x"; }}\n'
        + _each(n // 42, lambda i: f"fn f{i + 1}() {{ f{i}(); f{i}(); }}\n")
        + f"fn main() {{ session budget $0.1 {{ f{n // 42}(); }} }}\n"
    ),
    "functions backwards": lambda n, c: (
        "fn main() { f0(); }\n"
        + _each(n // 42, lambda i: f"fn f{i}() {{ f{i + 1}(); print({i}); }}\n")
        + f"fn f{n // 42}() {{ }}\n"
    ),
    "functions around": lambda n, c: (
        _each(
            n // 60,
            lambda i: (
                f"fn f{i}(x: int) -> int {{ return f{(i * 7 + 1) % (n // 60)}(x) + "
                f"f{(i * 3 + 2) % (n // 60)}(x); }}\n"
            ),
        )
        + "fn main() { print(f0(1)); }"
    ),
    "functions by sizes": lambda n, c: (
        f"{_AGENT}fn f(s: str, d: int) -> str {{ return A <- s; }}\n"
        + _each(n // 40, lambda i: f'print(f("{"a" * (i % 9)}{i}", {i}));\n')
    ),
    "sends": lambda n, c: _AGENT + _each(n // 15, lambda i: f'A <- "x{i}";\n'),
    "sends of other sizes": lambda n, c: (
        _AGENT + _each(n // 90, lambda i: f'A <- "{"x" * (i % 150)}";\n')
    ),
    "sends that grow": lambda n, c: (
        f'{_AGENT}let s = "";\n' + _each(n // 26, lambda i: f's = A <- "x{{s}}{i}";\n')
    ),
    "sends in branches": lambda n, c: (
        f"{_AGENT}let a = 1;\n" + _each(n // 36, lambda i: f'if a == {i} {{ A <- "x{i}"; }}\n')
    ),
    "sends in loops": lambda n, c: (
        f"{_AGENT}fn main(p: [int; 9]) {{\n let t = 0;\n"
        + _each(n // 46, lambda i: f'for i{i} in p {{ t = t + i{i}; A <- "{{t}}"; }}\n')
        + "}"
    ),
    "sends at once": lambda n, c: (
        _AGENT
        + _each(n // 64, lambda i: f'let x{i} = async A <- "x";\n')
        + _each(n // 64, lambda i: f"print(await x{i});\n")
    ),
    "lists of sends": lambda n, c: (
        _AGENT + _each(n // 62, lambda i: f'let x{i} = [for i in range(9) {{ async A <- "x" }}];\n')
    ),
    "spawns": lambda n, c: (
        _AGENT + _each(n // 54, lambda i: f'let p{i} = spawn A wallet $0.01; p{i} <- "x";\n')
    ),
    "tries": lambda n, c: (
        _AGENT + _each(n // 54, lambda i: 'try { A <- "x"; } catch Timeout { print(1); }\n')
    ),
    "agents": lambda n, c: _each(
        n // 80, lambda i: f'agent A{i} {{ model "any" max_tokens 10 }}\nA{i} <- "x";\n'
    ),
    "tools": lambda n, c: (
        'agent A { model "any" max_tokens 10 budget $0.01\n'
        + _each(n // 62, lambda i: f' tool t{i}(a: str) -> str "x" {{ return a; }}\n')
        + '}\nA <- "x";'
    ),
    "tools that send": lambda n, c: (
        'agent B { model "any" max_tokens 10 }\nagent A { model "any" max_tokens 10 budget $0.01\n'
        + _each(n // 76, lambda i: f' tool t{i}(a: str) -> str "x" {{ return B <- a; }}\n')
        + '}\nA <- "x";\nA <- "y";'
    ),
    "types": lambda n, c: (
        "type T0 { a: int }\n"
        + _each(12, lambda i: f"type T{i + 1} {{ a: T{i}  b: T{i} }}\n")
        + _AGENT
        + _each(n // 34, lambda i: f'let x{i}: T{i % 9} = A <- "x";\n')
    ),
    "choices": lambda n, c: (
        f"fn f(a: {_CHOICES}) {{}}\n"
        f"fn g(a: {_CHOICES}) {{ {'f(a); ' * (n // 20)} }}\n"
        "fn main() {}"
    ),
    "lets": lambda n, c: _each(n // 15, lambda i: f"let a{i} = {i};\n"),
    "sums": lambda n, c: (
        "let a0 = 1;\n" + _each(n // 26, lambda i: f"let a{i + 1} = a{i} + a{i};\n")
    ),
    "one long list": lambda n, c: f"let x = [{'1,' * (n // 2 - 10)}];",
    "texts in texts": lambda n, c: _each(
        n // 205, lambda i: f"let x{i} = {_OPEN * 45}1{_CLOSE * 45};\n"
    ),
    "one long text": lambda n, c: f'let a = 1; let x = "{_TEXT_OF_A * (n // 3 - 20)}";',
    "files": lambda n, c: (
        'program may [fs::read, fs::write] allowed_paths ["**"]\n'
        + _each(n // 46, lambda i: f'file::write("a{i}", file::read("b{i}"));\n')
    ),
    "paths": lambda n, c: (
        f"program may [fs::read] allowed_paths [{_PATHS}]\n"
        + _each(n // 48, lambda i: f'let b{i} = file::read("a1/{i}");\n')
    ),
    "names that are nearly known": lambda n, c: (
        _each(n // 42, lambda i: f"let abcdef{i} = 1;\n")
        + _each(n // 42, lambda i: f"print(abcdeg{i});\n")
    ),
    "parentheses": lambda n, c: f"let x = {'(' * (n // 2 - 10)}1{')' * (n // 2 - 10)};",
    "faults": lambda n, c: "let = ;\n" * (n // 8 - 2),
    "any bytes": lambda n, c: "".join(chr(c.randrange(32, 127)) for _ in range(n)),
    "any words": lambda n, c: " ".join(c.choice(_WORDS) for _ in range(n // 4)),
}
_PYTHON: dict[str, Make] = {
    "python: nested loops": _python_loops,
    "python: parentheses": lambda n, c: _main("(" * (n // 2 - 40) + "1" + ")" * (n // 2 - 40)),
    "python: brackets": lambda n, c: _main("[" * 90 + "1" + "]" * 90),
    "python: a long sum": lambda n, c: _main("1" + "+1" * (n // 2 - 40)),
    "python: a long list": lambda n, c: _main("[" + "1," * (n // 2 - 40) + "]"),
    "python: a long or": lambda n, c: _main("1" + " or 1" * (n // 5 - 20)),
    "python: lambdas": lambda n, c: _main("lambda: " * (n // 8 - 10) + "1"),
    "python: texts": lambda n, c: _main("f'" + "{1}" * (n // 3 - 30) + "'"),
    "python: open brackets": lambda n, c: "{[(" * (n // 3),
    "python: lets": lambda n, c: _python_rows(n, lambda i: f"a{i + 1} = a{i} + 1"),
    "python: appends": lambda n, c: _python_rows(n, lambda i: "b.append(a0)"),
    "python: branches": lambda n, c: _python_rows(n, lambda i: f"if a0 == {i}: a0 = {i}"),
    "python: tuples": lambda n, c: _python_rows(n, lambda i: f"a{i + 1}, c{i} = a{i}, {i}"),
    "python: functions": lambda n, c: (
        "from vegakit import program\n\n\ndef f0(x: int) -> int:\n    return x\n"
        + _each(n // 60, lambda i: f"def f{i + 1}(x: int) -> int:\n    return f{i}(x) + f{i}(x)\n")
        + f"@program\ndef main() -> int:\n    return f{n // 60}(1)\n"
    ),
    "python: digits": lambda n, c: _main("9" * (n - 80)),
    "python: comparisons": lambda n, c: _main("1" + " < 1" * (n // 4 - 20)),
}
BOMBS: dict[str, tuple[str, Make]] = {
    **{name: ("vega", make) for name, make in _VEGA.items()},
    **{name: ("python", make) for name, make in _PYTHON.items()},
}
