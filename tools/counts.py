"""Counts that may only fall: what we want less of in `src`, in tests and in the documents.

    python tools/counts.py            each count beside its limit; exits 1 if one is above it
    python tools/counts.py --places   the same with the places of each count
    python tools/counts.py --write    lower the limits in tools/counts.json to what is there now

The limit of a count is what it was when it was last lowered. A change that needs more of one thing
removes it elsewhere, or says in its commit why it raises the limit by hand.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import inner_imports

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_suffix(".json")
ODD_NAMES = frozenset(
    "asked at away began begun come each fell found gone given goes heard kept known least left "
    "made meant met most one other owed part parts place places rest said seen shown sort taken "
    "there told tried way ways wanted went word words".split()
)
"""Participles, pronouns and adverbs. A name of data is a noun: `reply`, `missing_keys`."""
MOST_POSITIONAL = 6
CONSTRUCTORS = frozenset(["__init__", "__new__", "__post_init__", "__aenter__", "__enter__"])
PHRASES = re.compile(
    "|".join(
        rf"\b{phrase}\b"
        for phrase in (
            r"all that",
            r"anew",
            r"as (is|was) told",
            r"be(ing)? had",
            r"beside",
            r"by (itself|themselves) alone",
            r"come(s)? to (be|an end|its end)",
            r"for who",
            r"from here on",
            r"goes? on",
            r"going on",
            r"(is|are|was|were) (told|said|meant|let)",
            r"is (there|gone|known) (of|by)",
            r"is left (of|to)",
            r"it is so",
            r"let(s)? in",
            r"looked (at|into|after)",
            r"nobody",
            r"nothing (of|that)",
            r"of (its|their) own",
            r"of that which",
            r"of what",
            r"of which(ever)?",
            r"of who(m|se)?",
            r"once more",
            r"says? (of|so|what)",
            r"so that which",
            r"somebody",
            r"stands?",
            r"that which",
            r"those (of|that|who)",
            r"told",
            r"to whom",
            r"was begun",
            r"what (is|was|are|were|it|they|has|had|comes?|goes)",
            r"whatever",
            r"where there is (no|none)",
            r"whichever",
            r"who(ever)? (is|has|was|asks?|looks?|reads?|sends?|waits?)",
            r"whoever",
        )
    ),
    re.IGNORECASE,
)
"""Phrases of our dialect. Say it as the documentation of uv or Stripe does: the thing with its
name, what it does, in the present tense."""
Places = Iterator[str]


def statements(trees: Mapping[str, ast.Module]) -> Places:
    """Statements in `src`, as the parser counts them. Stubs are types, and not run."""
    for name, tree in trees.items():
        if name.endswith(".pyi"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                yield f"{name}:{node.lineno}"


def late_attributes(trees: Mapping[str, ast.Module]) -> Places:
    """Attributes of `self` that are first set outside of a constructor."""
    for name, tree in trees.items():
        for kind in ast.walk(tree):
            if isinstance(kind, ast.ClassDef):
                methods = [
                    node
                    for node in kind.body
                    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                ]
                early = {
                    attribute
                    for method in methods
                    if method.name in CONSTRUCTORS
                    for attribute, _ in _set_attributes(method)
                }
                early |= {
                    node.target.id
                    for node in kind.body
                    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                }
                late: dict[str, int] = {}
                for method in methods:
                    for attribute, line in _set_attributes(method):
                        if attribute not in early:
                            late.setdefault(attribute, line)
                yield from (f"{name}:{line} {attribute}" for attribute, line in late.items())


def _set_attributes(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
    for node in ast.walk(method):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr, node.lineno


def long_calls(trees: Mapping[str, ast.Module]) -> Places:
    """Calls with more positional arguments than a reader can tell apart."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                plain = [one for one in node.args if not isinstance(one, ast.Starred)]
                if len(plain) > MOST_POSITIONAL:
                    yield f"{name}:{node.lineno} {len(plain)} arguments"


def parallel_assignments(trees: Mapping[str, ast.Module]) -> Places:
    """Assignments of several values to several names in one line; a swap is none."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Tuple)
                and isinstance(node.value, ast.Tuple)
            ):
                targets = sorted(ast.unparse(one) for one in node.targets[0].elts)
                if targets != sorted(ast.unparse(one) for one in node.value.elts):
                    yield f"{name}:{node.lineno}"


def odd_names(trees: Mapping[str, ast.Module]) -> Places:
    """Assigned names that are not nouns."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=word, ctx=ast.Store()) if word.strip("_") in ODD_NAMES:
                    yield f"{name}:{node.lineno} {word}"
                case _:
                    pass


def imports_for_effects(trees: Mapping[str, ast.Module]) -> Places:
    """Statements that change another module's table when they are imported."""
    for name, tree in trees.items():
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in tree.body:
            changed = _changed_by(node)
            if changed in imported:
                yield f"{name}:{node.lineno} {changed}"


def _changed_by(node: ast.stmt) -> str:
    """Return the name of the object that a statement of a module changes, if it is such a one."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name))]):
            return name
        case _:
            return ""


def imports_below_packages(trees: Mapping[str, ast.Module]) -> Places:
    """Imports outside of `src` that reach below a package (tools/inner_imports.py)."""
    texts = inner_imports.outside_texts()
    yield from map(str, inner_imports.forbidden_imports(texts, trees))


def phrases_in_code(trees: Mapping[str, ast.Module]) -> Places:
    """Phrases of our dialect in docstrings of `src`."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                for match in PHRASES.finditer(str(node.value.value)):
                    yield f"{name}:{node.lineno} {match[0]}"


def phrases_in_pages(_: Mapping[str, ast.Module]) -> Places:
    """Phrases of our dialect in pages, outside of code."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        if page.name == "CHANGELOG.md":
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for match in PHRASES.finditer(text):
            yield f"{page.relative_to(ROOT)} {match[0]}"


COUNTS: dict[str, Callable[[Mapping[str, ast.Module]], Places]] = {
    count.__name__: count
    for count in (
        statements,
        late_attributes,
        long_calls,
        parallel_assignments,
        odd_names,
        imports_for_effects,
        imports_below_packages,
        phrases_in_code,
        phrases_in_pages,
    )
}


def trees_of(src: Path) -> dict[str, ast.Module]:
    """Parse the source files, and the stubs of packages. Generated code counts nowhere."""
    return {
        path.relative_to(src).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted([*src.rglob("*.py"), *src.rglob("__init__.pyi")])
        if "_pb2" not in path.name
    }


def limits() -> dict[str, int]:
    return json.loads(LIMITS.read_text("utf-8"))


def main() -> int:
    trees = trees_of(ROOT / "src" / "vegakit")
    places = {name: list(count(trees)) for name, count in COUNTS.items()}
    if "--write" in sys.argv:
        before = limits() if LIMITS.exists() else {}
        after = {
            name: min(len(found), before.get(name, len(found))) for name, found in places.items()
        }
        LIMITS.write_text(json.dumps(after, indent=1) + "\n", "utf-8")
    above = 0
    for name, limit in limits().items():
        count = len(places[name])
        above += count > limit
        print(f"{name:<22} {count:8,}  limit {limit:8,}  {'ABOVE' if count > limit else 'ok'}")
        if "--places" in sys.argv and name != "statements":
            print(*(f"  {place}" for place in places[name]), sep="\n")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
