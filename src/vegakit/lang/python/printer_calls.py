"""The Python printer: calls, sends, settings and the declarations of records, agents and
supervisors (pure).
"""

from collections.abc import Callable
from typing import Any

from vegakit.lang.check.symbols import CalleeKind
from vegakit.lang.library import LIBRARY
from vegakit.lang.python.printer_expressions import (
    POSTFIX,
    Fragment,
    PythonPrinter,
    annotation,
    as_text,
    over,
    put_amount,
    quoted,
)
from vegakit.lang.python.settings import BLOCKS
from vegakit.lang.python.subset import FUNCTIONS, METHODS
from vegakit.lang.syntax import tree
from vegakit.lang.types import DURATION, FILE, INT, MONEY, STR, ChoiceOf, FutureOf, ListOf, is_text

# Settings of agents, sessions and supervisors as arguments.


def setting_value(p: PythonPrinter, node: tree.Expr) -> str:
    """Return the value of a setting as an argument."""
    match node:
        case tree.Name(name=word):
            return quoted(word)
        case tree.ListLit(items=items):
            return f"[{', '.join(setting_value(p, item) for item in items)}]"
        case tree.Call(callee=tree.Name(name=word), args=args):
            given = ", ".join(setting_value(p, arg) for arg in args)
            return f"{p.uses('vega')}.{word}({given})"
        case _:
            return put_amount(p, node)


def settings(p: PythonPrinter, rows: tuple[tree.Setting, ...]) -> list[str]:
    """Return settings as named arguments."""
    return [f"{row.name}={setting_value(p, row.value)}" for row in rows]


# Calls of the library, as Python spells them where it means the same.


_METHODS = {
    **{called: name for name, (called, _) in METHODS.items()},
    "str::words": "split",
    "map::get": "get",
}
_WITH_TEXT = frozenset({"str::split", "str::replace"})
"""Of an empty text they differ, so what is looked for has to be seen."""
_FUNCTIONS = {
    **{called: name for name, (called, *_) in FUNCTIONS.items() if name != "round"},
    "math::min": "min",
    "math::max": "max",
}


def library_call(p: PythonPrinter, node: tree.Call, name: str) -> str:
    """Return a call of the library, as Python spells it where that means the same, else as
    `vega.…(…)`."""
    args = node.args
    if any(node.names):
        return _vega(p, node, name)
    if name in _METHODS and (name not in _WITH_TEXT or _is_something(args[1])):
        return _method(p, _METHODS[name], args)
    if name in _FUNCTIONS or (name == "list::sort" and len(args) == 1):
        return f"{_FUNCTIONS.get(name, 'sorted')}({p.put_all(args)})"
    match name:
        case "print":
            return f"print({as_text(p, args[0])})"
        case "range":
            return f"list({over(p, node)})"
        case "str":
            of = p.type(args[0])
            is_same = is_text(of) or of == INT or isinstance(of, ChoiceOf)
            return f"str({p.put(args[0])})" if is_same else as_text(p, args[0])
        case "str::join" if isinstance(args[1], tree.Text | tree.Name | tree.Member):
            return f"{p.put(args[1], POSTFIX)}.join({p.put(args[0])})"
        case "map::keys" | "map::values":
            return f"list({p.put(args[0], POSTFIX)}.{name.rpartition('::')[2]}())"
        case "str::slice" | "list::slice" if isinstance(
            args[0], tree.Name | tree.Member | tree.Text
        ):
            return _slice(p, args)
        case _:
            return _vega(p, node, name)


def _method(p: PythonPrinter, name: str, args: tuple[tree.Expr, ...]) -> str:
    of, *rest = args
    return f"{p.put(of, POSTFIX)}.{name}({p.put_all(rest)})"


def _is_something(node: tree.Expr) -> bool:
    return (
        isinstance(node, tree.Text)
        and bool(node.parts)
        and all(isinstance(part, str) for part in node.parts)
    )


def _slice(p: PythonPrinter, args: tuple[tree.Expr, ...]) -> str:
    of, begin, *end = args
    first = "" if isinstance(begin, tree.Whole) and begin.value == 0 else _bound(p, begin)
    last = _bound(p, end[0]) if end else ""
    return f"{p.put(of, POSTFIX)}[{first}:{last}]"


def _bound(p: PythonPrinter, node: tree.Expr) -> str:
    text = p.put(node)
    return f"({text})" if isinstance(node, tree.Binary) else text


def _vega(p: PythonPrinter, node: tree.Call, name: str) -> str:
    path = name.replace("::", ".")
    if path.endswith(".yield"):
        path += "_"
    given: list[str] = []
    params = LIBRARY[name].params
    for at, (arg, named) in enumerate(zip(node.args, node.names, strict=True)):
        fixed = not named and at < len(params) and params[at].type in (DURATION, MONEY)
        text = put_amount(p, arg) if fixed else p.put(arg)
        given.append(f"{p.fit(named, node)}={text}" if named else text)
    return f"{p.uses('vega')}.{path}({', '.join(given)})"


# Calls, sends and spawns as Python.


def _call(p: PythonPrinter, node: tree.Call) -> Fragment:
    callee = p.checked.callees[id(node)]
    if callee.kind is CalleeKind.LIBRARY:
        return library_call(p, node, callee.name), POSTFIX
    given = ", ".join(
        f"{p.fit(name, node)}={p.put(arg)}" if name else p.put(arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{_callee(p, node.callee)}({given})", POSTFIX


def _callee(p: PythonPrinter, node: tree.Expr) -> str:
    if isinstance(node, tree.Member):
        return f"{_callee(p, node.of)}.{node.name}"
    assert isinstance(node, tree.Name)
    return p.fit(node.name, node)


def _ask(p: PythonPrinter, node: tree.Ask) -> Fragment:
    to = p.put(node.to, POSTFIX)
    method = "stream" if node.stream else "submit" if node.later else "ask"
    given = [_message(p, node.message)]
    answer = p.type(node)
    if isinstance(answer, FutureOf):
        answer = answer.inner
    if not node.stream and answer is not None and answer != STR:
        given.append(f"returns={annotation(p, node.answer or answer)}")
    if node.timeout is not None:
        given.append(f"timeout={put_amount(p, node.timeout)}")
    if node.budget is not None:
        given.append(f"budget={put_amount(p, node.budget)}")
    if method == "ask" and len(given) == 1 and isinstance(node.to, tree.Name):
        return f"{to}({given[0]})", POSTFIX
    return f"{to}.{method}({', '.join(given)})", POSTFIX


def _message(p: PythonPrinter, node: tree.Expr) -> str:
    kind = p.type(node)
    if kind == FILE or (
        isinstance(kind, ListOf)
        and isinstance(node, tree.ListLit)
        and any(p.type(item) == FILE for item in node.items)
    ):
        return p.put(node)
    if isinstance(node, tree.Name) and p.reason(node.name) is not None:
        return p.put(node)
    return as_text(p, node)


def _spawn(p: PythonPrinter, node: tree.Spawn) -> Fragment:
    given = [p.put(node.agent)]
    if node.wallet is not None:
        given.append(f"wallet={put_amount(p, node.wallet)}")
    if node.named is not None:
        given.append(f"named={p.put(node.named)}")
    if node.under is not None:
        given.append(f"under={p.put(node.under)}")
    given += settings(p, node.rules or ())
    if node.later:
        given.append("later=True")
    return f"{p.uses('spawn')}({', '.join(given)})", POSTFIX


def _race(p: PythonPrinter, node: tree.Race) -> Fragment:
    listed = node.of
    given = f"*{p.put(listed)}" if isinstance(listed, tree.Build) else p.put_all(listed.items)
    if node.where is not None:
        with p.scope():
            name = p.declare(node.name, node)
            given += f", good=lambda {name}: {p.put(node.where)}"
    return f"{p.uses('race')}({given})", POSTFIX


def _cast(p: PythonPrinter, node: tree.Cast) -> Fragment:
    return f"{p.uses('vega')}.cast({p.put(node.of)}, {annotation(p, node.to)})", POSTFIX


CALLS: dict[type, Callable[[PythonPrinter, Any], Fragment]] = {
    tree.Call: _call,
    tree.Ask: _ask,
    tree.Spawn: _spawn,
    tree.Race: _race,
    tree.Await: lambda p, node: (f"{p.put(node.of, POSTFIX)}.result()", POSTFIX),
    tree.Cast: _cast,
}


# Records, agents and supervisors as Python.


_WIDTH = 96
_ARGUMENTS = {block: argument for argument, block in BLOCKS.items()}


def record(p: PythonPrinter, decl: tree.TypeDecl) -> None:
    """Print a record as a class, or another name for a type."""
    name = p.fit(decl.name, decl)
    if decl.alias is not None:
        p.line(f"{name} = {annotation(p, decl.alias)}")
        return
    p.line(f"class {name}({p.uses('BaseModel', 'pydantic')}):")
    with p.indented():
        for field in decl.fields:
            default = " = None" if isinstance(field.type, tree.OptionalType) else ""
            p.line(f"{p.fit(field.name, field)}: {annotation(p, field.type)}{default}")
        if not decl.fields:
            p.line("pass")


def agent(p: PythonPrinter, decl: tree.AgentDecl) -> None:
    """Print an agent as a variable."""
    given = [_field(p, field, decl) for field in decl.fields]
    if decl.tools and not any(field.name == "tools" for field in decl.fields):
        given.append(f"tools=[{', '.join(p.fit(tool.name, tool) for tool in decl.tools)}]")
    _assigned(p, p.fit(decl.name, decl), "Agent", given)


def _assigned(p: PythonPrinter, name: str, kind: str, given: list[str]) -> None:
    p.uses(kind.partition(".")[0])
    made = f"{name} = {kind}({', '.join([quoted(name), *given])})"
    if len(made) <= _WIDTH:
        p.line(made)
        return
    p.line(f"{name} = {kind}(")
    with p.indented():
        for one in [quoted(name), *given]:
            p.line(f"{one},")
    p.line(")")


def _field(p: PythonPrinter, field: tree.AgentField, decl: tree.AgentDecl) -> str:
    value = field.value
    if field.name == "tools" and isinstance(value, tuple):
        own = [p.fit(tool.name, tool) for tool in decl.tools]
        refs = [_tool(p, ref) for ref in value if isinstance(ref, tree.ToolRef)]
        return f"tools=[{', '.join([*own, *refs])}]"
    if isinstance(value, tuple):
        rows = tuple(row for row in value if isinstance(row, tree.Setting))
        given = ", ".join(settings(p, rows))
        return f"{_ARGUMENTS[field.name]}={p.uses('vega')}.{field.name}({given})"
    return f"{field.name}={setting_value(p, value)}"


def _tool(p: PythonPrinter, ref: tree.ToolRef) -> str:
    if ref.kind == "yaml":
        return f"{p.uses('vega')}.yaml({quoted(ref.name)})"
    return p.fit(ref.name, ref)


def supervisor(p: PythonPrinter, decl: tree.SupervisorDecl) -> None:
    """Print a supervisor as a variable."""
    given = settings(p, decl.settings)
    children = ", ".join(p.fit(child.name, child) for child in decl.children)
    _assigned(p, p.fit(decl.name, decl), "vega.supervisor", [*given, f"children=[{children}]"])


def grants_of(
    p: PythonPrinter, grants: tree.Grants | None, word: str, budget: tree.Expr | None
) -> str:
    """Return rights and a budget as arguments of a decorator."""
    given: list[str] = []
    if grants is not None:
        if grants.capabilities is not None:
            names = ", ".join(quoted(one.name) for one in grants.capabilities)
            given.append(f"{word}=[{names}]")
        narrowing = (grants.paths, grants.commands, grants.hosts)
        for name, texts in zip(("paths", "commands", "hosts"), narrowing, strict=True):
            if texts is not None:
                given.append(f"allowed_{name}=[{p.put_all(texts)}]")
    if budget is not None:
        given.append(f"budget={put_amount(p, budget)}")
    return ", ".join(given)
