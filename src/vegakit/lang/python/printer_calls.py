"""The Python printer: calls, sends, settings and the declarations of records, agents and
supervisors (pure).
"""

from collections.abc import Callable
from typing import Any

from vegakit.lang.check.symbols import CalleeKind
from vegakit.lang.library import LIBRARY
from vegakit.lang.python.printer_expressions import (
    Fragment,
    Printer,
    annotation,
    as_text,
    duration_text,
    money_text,
    over,
    put,
    quoted,
    shown,
)
from vegakit.lang.python.settings import BLOCKS
from vegakit.lang.syntax.tree import (
    AgentDecl,
    AgentField,
    Ask,
    Await,
    Binary,
    Call,
    Cast,
    Duration,
    Expr,
    Grants,
    ListLit,
    Member,
    MoneyLit,
    Name,
    OptionalType,
    Setting,
    Spawn,
    SupervisorDecl,
    Text,
    ToolRef,
    TypeDecl,
    Whole,
)
from vegakit.lang.types import DURATION, FILE, INT, MONEY, STR, ChoiceOf, FutureOf, ListOf

# Settings of agents, sessions and supervisors as arguments.


def setting_value(p: Printer, node: Expr) -> str:
    match node:
        case MoneyLit():
            return money_text(node)
        case Duration():
            return duration_text(node)
        case Name(name=word):
            return quoted(word)
        case ListLit(items=items):
            return f"[{', '.join(setting_value(p, item) for item in items)}]"
        case Call(callee=Name(name=word), args=args):
            given = ", ".join(setting_value(p, arg) for arg in args)
            return f"{p.uses('vega')}.{word}({given})"
        case _:
            return put(p, node)


def block_value(p: Printer, name: str, rows: tuple[Setting, ...]) -> str:
    given = ", ".join(f"{row.name}={setting_value(p, row.value)}" for row in rows)
    return f"{p.uses('vega')}.{name}({given})"


# Calls of the library, as Python spells them where it means the same.


_METHODS = {
    "str::trim": "strip",
    "str::lower": "lower",
    "str::upper": "upper",
    "str::starts_with": "startswith",
    "str::ends_with": "endswith",
    "str::words": "split",
    "map::get": "get",
}
_WITH_TEXT = {"str::split": "split", "str::replace": "replace"}
_FUNCTIONS = {
    "len": "len",
    "int": "int",
    "float": "float",
    "math::abs": "abs",
    "math::min": "min",
    "math::max": "max",
    "list::sort": "sorted",
}
_TOP = frozenset({"fail", "link", "exec", "file"})
_METHOD_LEVEL = 8


def library_call(p: Printer, node: Call, name: str) -> str:  # noqa: C901
    args = node.args
    if any(node.names):
        return _vega(p, node, name)
    if name in _METHODS:
        return _method(p, _METHODS[name], args)
    if name in _WITH_TEXT and _is_something(args[1]):
        return _method(p, _WITH_TEXT[name], args)
    if name in _FUNCTIONS:
        return f"{_FUNCTIONS[name]}({', '.join(put(p, arg) for arg in args)})"
    match name:
        case "print":
            return f"print({as_text(p, args[0])})"
        case "range":
            return f"list({over(p, node)})"
        case "str":
            is_same = p.type(args[0]) in (STR, INT) or isinstance(p.type(args[0]), ChoiceOf)
            return f"str({put(p, args[0])})" if is_same else as_text(p, args[0])
        case "str::join" if isinstance(args[1], Text | Name | Member):
            return f"{put(p, args[1], _METHOD_LEVEL)}.join({put(p, args[0])})"
        case "map::keys" | "map::values":
            return f"list({put(p, args[0], _METHOD_LEVEL)}.{name.rpartition('::')[2]}())"
        case "str::slice" | "list::slice" if isinstance(args[0], Name | Member | Text):
            return _slice(p, args)
        case _:
            return _vega(p, node, name)


def _method(p: Printer, name: str, args: tuple[Expr, ...]) -> str:
    of, *rest = args
    return f"{put(p, of, _METHOD_LEVEL)}.{name}({', '.join(put(p, arg) for arg in rest)})"


def _is_something(node: Expr) -> bool:
    return (
        isinstance(node, Text)
        and bool(node.parts)
        and all(isinstance(part, str) for part in node.parts)
    )


def _slice(p: Printer, args: tuple[Expr, ...]) -> str:
    of, begin, *end = args
    first = "" if isinstance(begin, Whole) and begin.value == 0 else _bound(p, begin)
    last = _bound(p, end[0]) if end else ""
    return f"{put(p, of, _METHOD_LEVEL)}[{first}:{last}]"


def _bound(p: Printer, node: Expr) -> str:
    text = put(p, node)
    return f"({text})" if isinstance(node, Binary) else text


def _vega(p: Printer, node: Call, name: str) -> str:
    path = name.replace("::", ".")
    if path.endswith(".yield"):
        path += "_"
    given: list[str] = []
    params = LIBRARY[name].params
    for at, (arg, named) in enumerate(zip(node.args, node.names, strict=True)):
        fixed = not named and at < len(params) and params[at].type in (DURATION, MONEY)
        text = _literal(p, arg) if fixed else put(p, arg)
        given.append(f"{p.fit(named, node)}={text}" if named else text)
    return f"{p.uses('vega')}.{path}({', '.join(given)})"


def _literal(p: Printer, node: Expr) -> str:
    """Where an amount is wanted, its text will do."""
    if isinstance(node, Duration):
        return duration_text(node)
    return money_text(node) if isinstance(node, MoneyLit) else put(p, node)


# Calls, sends and spawns as Python.


_POSTFIX = 8


def _call(p: Printer, node: Call) -> Fragment:
    callee = p.checked.callees[id(node)]
    if callee.kind is CalleeKind.LIBRARY:
        return library_call(p, node, callee.name), _POSTFIX
    given = ", ".join(
        f"{p.fit(name, node)}={put(p, arg)}" if name else put(p, arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{_callee(p, node.callee)}({given})", _POSTFIX


def _callee(p: Printer, node: Expr) -> str:
    if isinstance(node, Member):
        return f"{_callee(p, node.of)}.{node.name}"
    assert isinstance(node, Name)
    return p.fit(node.name, node)


def _ask(p: Printer, node: Ask) -> Fragment:
    to = put(p, node.to, _POSTFIX)
    method = "stream" if node.stream else "submit" if node.later else "ask"
    given = [_message(p, node.message)]
    answer = p.type(node)
    if isinstance(answer, FutureOf):
        answer = answer.inner
    if not node.stream and answer is not None and answer != STR:
        typed = shown(p, answer) if node.answer is None else annotation(p, node.answer)
        given.append(f"returns={typed}")
    if node.timeout is not None:
        given.append(f"timeout={_amount(p, node.timeout)}")
    if node.budget is not None:
        given.append(f"budget={_amount(p, node.budget)}")
    if method == "ask" and len(given) == 1 and isinstance(node.to, Name):
        return f"{to}({given[0]})", _POSTFIX
    return f"{to}.{method}({', '.join(given)})", _POSTFIX


def _message(p: Printer, node: Expr) -> str:
    kind = p.type(node)
    if kind == FILE or (
        isinstance(kind, ListOf) and isinstance(node, ListLit) and _has_file(p, node)
    ):
        return put(p, node)
    if isinstance(node, Name) and p.reason(node.name) is not None:
        return put(p, node)
    return as_text(p, node)


def _has_file(p: Printer, node: ListLit) -> bool:
    return any(p.type(item) == FILE for item in node.items)


def _amount(p: Printer, node: Expr) -> str:
    if isinstance(node, MoneyLit):
        return money_text(node)
    return duration_text(node) if isinstance(node, Duration) else put(p, node)


def _spawn(p: Printer, node: Spawn) -> Fragment:
    given = [put(p, node.agent)]
    if node.wallet is not None:
        given.append(f"wallet={_amount(p, node.wallet)}")
    if node.named is not None:
        given.append(f"named={put(p, node.named)}")
    if node.under is not None:
        given.append(f"under={put(p, node.under)}")
    given += [f"{one.name}={setting_value(p, one.value)}" for one in node.rules or ()]
    if node.later:
        given.append("later=True")
    return f"{p.uses('spawn')}({', '.join(given)})", _POSTFIX


def _await(p: Printer, node: Await) -> Fragment:
    return f"{put(p, node.of, _POSTFIX)}.result()", _POSTFIX


def _cast(p: Printer, node: Cast) -> Fragment:
    return f"{p.uses('vega')}.cast({put(p, node.of)}, {annotation(p, node.to)})", _POSTFIX


CALLS: dict[type, Callable[[Printer, Any], Fragment]] = {
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: _await,
    Cast: _cast,
}


# Records, agents and supervisors as Python.


_WIDTH = 96
_ARGUMENTS = {block: argument for argument, block in BLOCKS.items()}


def record(p: Printer, decl: TypeDecl) -> None:
    name = p.fit(decl.name, decl)
    if decl.alias is not None:
        p.line(f"{name} = {annotation(p, decl.alias)}")
        return
    p.line(f"class {name}({p.uses('BaseModel', 'pydantic')}):")
    with p.indented():
        for field in decl.fields:
            default = " = None" if isinstance(field.type, OptionalType) else ""
            p.line(f"{p.fit(field.name, field)}: {annotation(p, field.type)}{default}")
        if not decl.fields:
            p.line("pass")


def agent(p: Printer, decl: AgentDecl) -> None:
    given = [_field(p, field, decl) for field in decl.fields]
    if decl.tools and not any(field.name == "tools" for field in decl.fields):
        given.append(f"tools=[{', '.join(p.fit(tool.name, tool) for tool in decl.tools)}]")
    _assigned(p, p.fit(decl.name, decl), "Agent", given)


def _assigned(p: Printer, name: str, kind: str, given: list[str]) -> None:
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


def _field(p: Printer, field: AgentField, decl: AgentDecl) -> str:
    value = field.value
    if field.name == "tools" and isinstance(value, tuple):
        own = [p.fit(tool.name, tool) for tool in decl.tools]
        refs = [_tool(p, ref) for ref in value if isinstance(ref, ToolRef)]
        return f"tools=[{', '.join([*own, *refs])}]"
    if isinstance(value, tuple):
        rows = tuple(row for row in value if isinstance(row, Setting))
        return f"{_ARGUMENTS[field.name]}={block_value(p, field.name, rows)}"
    return f"{field.name}={setting_value(p, value)}"


def _tool(p: Printer, ref: ToolRef) -> str:
    if ref.kind == "yaml":
        return f"{p.uses('vega')}.yaml({quoted(ref.name)})"
    return p.fit(ref.name, ref)


def supervisor(p: Printer, decl: SupervisorDecl) -> None:
    given = [f"{one.name}={setting_value(p, one.value)}" for one in decl.settings]
    children = ", ".join(p.fit(child.name, child) for child in decl.children)
    _assigned(p, p.fit(decl.name, decl), "vega.supervisor", [*given, f"children=[{children}]"])


def grants_of(p: Printer, grants: Grants | None, word: str, budget: Expr | None) -> str:
    given: list[str] = []
    if grants is not None:
        if grants.capabilities is not None:
            names = ", ".join(quoted(one.name) for one in grants.capabilities)
            given.append(f"{word}=[{names}]")
        for name, rows in (
            ("allowed_paths", grants.paths),
            ("allowed_commands", grants.commands),
            ("allowed_hosts", grants.hosts),
        ):
            if rows is not None:
                given.append(f"{name}=[{', '.join(put(p, row) for row in rows)}]")
    if budget is not None:
        amount = money_text(budget) if isinstance(budget, MoneyLit) else put(p, budget)
        given.append(f"budget={amount}")
    return ", ".join(given)
