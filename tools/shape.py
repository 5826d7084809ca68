"""Measures the shape of the source tree and prints what breaks its rules.

    python tools/shape.py            every figure, then what falls short; exits 1 if anything does

The rules are those of ARCHITECTURE.md, "Shape". Each is a function from a tree to the faults it
finds, so that the tests can plant one fault for each rule.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "vegakit"

MAX_HEADS = 0.12

DUPLICATES_ALLOWED = {
    "lang/syntax/": "nodes of the syntax tree are always written `tree.Call`, as in Python's `ast`",
}
"""Where a public class may share its name with another, and why."""


class Word(NamedTuple):
    """A word that the glossary replaces. `where` are path prefixes in which it is looked for, empty
    for all; `allowed` are identifiers that use it in another sense."""

    instead: str
    where: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()


def _allowed(names: str) -> frozenset[str]:
    return frozenset(names.split())


PROGRAM_ROOMS = ("program/", "vm/", "agent/", "lang/analysis/", "durable/", "host/", "sdk/")
WORDS: dict[str, Word] = {
    "purse": Word("budget or wallet"),
    "pot": Word("budget or cost bound"),
    "grain": Word("budget"),
    "dear": Word("expensive"),
    "dearest": Word("most expensive"),
    # A letter of the alphabet is one: only where messages are.
    "letter": Word("message", ("program/", "vm/", "host/", "sdk/", "durable/", "policy/mailbox")),
    "mail": Word("message", (), _allowed("mailbox")),
    "want": Word("request", ("program/", "vm/")),
    "wish": Word("request"),
    # As the result of an effect; to tell somebody something is another thing.
    "told": Word("Returned", ("program/", "vm/", "host/", "events.py", "effects.py")),
    "fell": Word("Failed"),
    "flying": Word("in flight"),
    # Sockets have families, too.
    "family": Word("supervisor, children", ("program/", "vm/", "host/", "sdk/", "policy/")),
    "scout": Word("lookahead"),
    "strand": Word("task"),
    "terrain": Word("dataflow graph or module facts"),
    "warden": Word("child supervisor"),
    # Arrows of a drawing run in lanes.
    "lane": Word("limiter", ("host/", "sdk/", "policy/", "program/", "testing/")),
    "charter": Word("server policy"),
    "desk": Word("operations"),
    "mend": Word("fix"),
    # `PriceRow` is a row of the table of prices.
    "row": Word("effect set", ("lang/analysis/", "lang/check/", "vm/"), _allowed("PriceRow")),
}
"""Forbidden parts of identifiers. Words that are forbidden only in one sense (`early`, `life`,
`size`) are in `SENSES`."""

SENSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "early": ("speculative", ("program/", "vm/")),
    "ahead": ("speculative", ("program/", "vm/")),
    "life": ("incarnation", ("program/", "effects.py", "events.py")),
    "said": ("result or reply", ("program/",)),
    "heard": ("result", ("program/",)),
    "course": ("dataflow graph", ("program/", "lang/analysis/")),
    "leave": ("capability or grant", ("program/admission",)),
}

PHRASES = {
    r"\bdearest\b": "most expensive",
    r"\bwords behind the file\b": "arguments after the file name",
    r"\b(ask|asks|asked|asking) for leave\b": "approval",
    r"\bmend(s|ed)?\b": "fix",
    r"\bdearer\b": "more expensive",
}


class Tree:
    """The source files, read and parsed once."""

    def __init__(self, src: Path) -> None:
        self.src = src
        self.texts = {
            str(path.relative_to(src)): path.read_text(encoding="utf-8")
            for path in sorted(src.rglob("*.py"))
        }
        self.parsed = {name: ast.parse(text) for name, text in self.texts.items()}
        self.stubs = {
            str(path.relative_to(src).with_suffix(".py")): ast.parse(path.read_text("utf-8"))
            for path in sorted(src.rglob("__init__.pyi"))
        }
        """What packages import when a name is first used."""

    def lines(self) -> int:
        return sum(len(text.splitlines()) for text in self.texts.values())


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def head_lines(tree: Tree) -> int:
    """Count the lines of module docstrings, imports and `__all__`."""
    return sum(_span(node) for parsed in tree.parsed.values() for node in _heads(parsed))


def _heads(parsed: ast.Module) -> Iterator[ast.stmt]:
    for number, node in enumerate(parsed.body):
        is_doc = number == 0 and _is_text(node)
        is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        is_guard = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_doc or is_list or is_guard or isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# The rules. Each yields one sentence for each fault.


def heads_are_small(tree: Tree) -> Iterator[str]:
    if (share := head_lines(tree) / tree.lines()) > MAX_HEADS:
        yield f"{share:.1%} of all lines are heads of files; at most {MAX_HEADS:.0%}"


def imports_have_no_circle(tree: Tree) -> Iterator[str]:
    """Circles among modules, imports for type checkers and inside functions counted. A package's
    `__init__` re-exports its modules, so an import of the package stands for the module that
    defines the name."""
    for circle in circles(import_graph(tree)):
        yield f"import circle of {len(circle)}: {', '.join(sorted(circle))}"


def class_names_are_unique(tree: Tree) -> Iterator[str]:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for name, parsed in tree.parsed.items():
        if any(name.startswith(prefix) for prefix in DUPLICATES_ALLOWED):
            continue
        for node in parsed.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    for name, found in sorted(homes.items()):
        if len(found) > 1:
            yield f"class {name} is defined in {' and '.join(found)}"


def words_are_the_glossarys(tree: Tree) -> Iterator[str]:
    for name, text in tree.texts.items():
        found: Counter[tuple[str, str, str]] = Counter()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                for part in _parts(token.string):
                    if instead := _instead(part, token.string, name):
                        found[token.string, part, instead] += 1
        for (identifier, part, instead), count in sorted(found.items()):
            yield f"{name}: {identifier} ({count} ×) says {part!r}: {instead}"
        for pattern, instead in PHRASES.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: says {match[0]!r}: {instead}"


def _parts(identifier: str) -> Iterator[str]:
    for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", identifier):
        word = part.lower()
        yield {"families": "family", "lives": "life", "wishes": "wish"}.get(word) or (
            word[:-1] if word.endswith("s") and word[:-1] in {*WORDS, *SENSES} else word
        )


def _instead(part: str, identifier: str, name: str) -> str:
    if (word := WORDS.get(part)) and identifier not in word.allowed:
        return word.instead if not word.where or name.startswith(word.where) else ""
    if part in SENSES and name.startswith(SENSES[part][1]):
        return SENSES[part][0]
    return ""


RULES = (
    heads_are_small,
    imports_have_no_circle,
    class_names_are_unique,
    words_are_the_glossarys,
)


def import_graph(tree: Tree) -> dict[str, set[str]]:
    """Return which module uses which, by file name relative to the source tree."""
    graph: dict[str, set[str]] = {name: set() for name in tree.texts}
    for name, parsed in tree.parsed.items():
        if name.endswith("__init__.py"):
            continue
        for node in ast.walk(parsed):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    home = _home(tree, _absolute(node, name), alias.name)
                    if home and home != name:
                        graph[name].add(home)
            elif isinstance(node, ast.Import):
                homes = (_file(tree, alias.name) for alias in node.names)
                graph[name].update(home for home in homes if home and home != name)
    return graph


def _absolute(node: ast.ImportFrom, name: str) -> str:
    if not node.level:
        return node.module or ""
    package = ["vegakit", *Path(name).parts[:-1]]
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _file(tree: Tree, module: str) -> str | None:
    if module.partition(".")[0] != "vegakit":
        return None
    path = "/".join(module.split(".")[1:])
    for candidate in (f"{path}.py", f"{path}/__init__.py" if path else "__init__.py"):
        if candidate in tree.texts:
            return candidate
    return None


def _home(tree: Tree, module: str, name: str, depth: int = 0) -> str | None:
    """Follow re-exports from `module` to the file that defines `name`."""
    if inner := _file(tree, f"{module}.{name}"):
        return inner
    here = _file(tree, module)
    if here is None or not here.endswith("__init__.py") or depth > 5:
        return here
    for node in ast.walk(tree.stubs.get(here) or tree.parsed[here]):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _home(tree, _absolute(node, here), alias.name, depth + 1)
    return here


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            component = set(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def main() -> int:
    tree = Tree(SRC)
    short = 0
    for rule in RULES:
        faults = list(rule(tree))
        short += bool(faults)
        for fault in faults[:60]:
            print(fault)
        if len(faults) > 60:
            print(f"… and {len(faults) - 60} more")
    files, lines = len(tree.texts), tree.lines()
    print(f"\n{files} files, {lines:,} lines")
    print(f"{head_lines(tree) / lines:.1%} heads (≤ {MAX_HEADS:.0%})")
    print(f"{len(circles(import_graph(tree)))} import circles (0)")
    print(f"{len(list(class_names_are_unique(tree)))} class names defined more than once (0)")
    print(f"{len(list(words_are_the_glossarys(tree)))} words outside the glossary (0)")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
