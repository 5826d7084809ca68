"""Compile expressions: each leaves its value in a register, the one asked for or one of its own
(pure).
"""

from collections.abc import Callable
from typing import Any

from vegakit.lang.check.symbols import CalleeKind, NameKind
from vegakit.lang.codegen.bytecode import Op
from vegakit.lang.codegen.writer import Label, Writer, confirm, settings_of
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.library import LIBRARY
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.lexer import MAX_INT
from vegakit.lang.types import (
    DURATION,
    FILE,
    FLOAT,
    INT,
    MONEY,
    STR,
    FutureOf,
    ListOf,
    StreamOf,
    Type,
)

_PLAIN = {
    "+": Op.ADD,
    "-": Op.SUB,
    "*": Op.MUL,
    "/": Op.DIV,
    "%": Op.MOD,
    "==": Op.EQ,
    "!=": Op.NE,
    "<": Op.LT,
    "<=": Op.LE,
    "in": Op.IN,
}
_SWAPPED = {">": Op.LT, ">=": Op.LE}
_BUDGETS = {"budget::remaining": 0, "budget::used": 1, "budget::limit": 2}


def value(w: Writer, node: tree.Expr) -> int:
    """Return the register that holds the value of an expression: that of a variable, or a new
    one."""
    if isinstance(node, tree.Name) and node.name in w.variables:
        return w.variables[node.name]
    register = w.register()
    put(w, node, register)
    return register


def put(w: Writer, node: tree.Expr, into: int) -> None:
    """Write the code that leaves the value of an expression in the register `into`."""
    count_steps(2)
    w.at(node)
    _PUT[type(node)](w, node, into)


def _put_constant(w: Writer, node: tree.Decimal | tree.Word, into: int) -> None:
    w.constant(node.value, into)


def _put_whole(w: Writer, node: tree.Whole, into: int) -> None:
    """A float where one is wanted: `let x: float = 1`."""
    is_float = w.program.checked.types[id(node)] == FLOAT
    w.constant(float(node.value) if is_float else node.value, into)


def _put_money(w: Writer, node: tree.MoneyLit, into: int) -> None:
    w.constant({"$": "money", "of": node.nanos}, into)


def _put_duration(w: Writer, node: tree.Duration, into: int) -> None:
    w.constant({"$": "duration", "of": node.ms}, into)


def _put_text(w: Writer, node: tree.Text, into: int) -> None:
    if all(isinstance(part, str) for part in node.parts):
        w.constant("".join(map(str, node.parts)), into)
        return
    parts = [w.constant(part) if isinstance(part, str) else value(w, part) for part in node.parts]
    w.emit(Op.TEXT, into, parts)


def _put_name(w: Writer, node: tree.Name, into: int) -> None:
    if w.program.checked.names.get(id(node)) in (NameKind.AGENT, NameKind.SUPERVISOR):
        full = w.program.checked.full_names[id(node)]
        w.emit(Op.AGENT, into, w.program.pools.constant(full))
    else:
        w.emit(Op.MOVE, into, w.variables[node.name])


def _put_list(w: Writer, node: tree.ListLit, into: int) -> None:
    w.emit(Op.LIST, into, [value(w, item) for item in node.items])


def _put_map(w: Writer, node: tree.MapLit, into: int) -> None:
    both = [value(w, side) for pair in node.pairs for side in (pair.key, pair.value)]
    w.emit(Op.MAP, into, both)


def _put_built(w: Writer, node: tree.Build, into: int) -> None:
    made = w.register()
    w.emit(Op.LIST, made, [])

    def append(build: tree.Build) -> None:
        one = w.register()
        w.emit(Op.LIST, one, [value(w, build.item)])
        w.emit(Op.ADD, made, made, one)

    _put_rounds(w, node, append)
    w.emit(Op.MOVE, into, made)


def _put_rounds(w: Writer, node: tree.Build, each: Callable[[tree.Build], None]) -> None:
    items, rounds = w.register(), w.register()
    w.emit(Op.ITEMS, items, value(w, node.over))
    confirm(w, node, items)
    w.constant(-1, rounds)
    again, after = Label(), Label()
    with w.block():
        item = w.declare(node.name)
        w.here(again)
        w.emit(Op.NEXT, item, items, rounds, after)
        w.rounds.append(rounds)
        if node.where is not None:
            w.emit(Op.JUMP_IF_NOT, value(w, node.where), again)
        each(node)
        w.rounds.pop()
        w.emit(Op.JUMP, again)
    w.here(after)


def _put_race(w: Writer, node: tree.Race, into: int) -> None:
    """Each candidate is a task that wins when it has its value and that is good."""
    group, won = w.register(), w.register()
    site = w.site(node)
    w.constant(None, won)
    w.emit(Op.RACE_BEGIN, group)

    def start(item: tree.Expr) -> None:
        label = Label()
        w.emit(Op.PAR_SPAWN, group, label, [won])
        w.behind(label, lambda: _put_candidate(w, node, item, won, site))

    if isinstance(node.of, tree.Build):
        _put_rounds(w, node.of, lambda build: start(build.item))
    else:
        for item in node.of.items:
            start(item)
    w.emit(Op.PAR_JOIN, group)
    w.emit(Op.MOVE, into, won)


def _put_candidate(w: Writer, node: tree.Race, item: tree.Expr, won: int, site: int) -> None:
    put(w, item, won)
    lost = Label()
    if node.where is not None:
        with w.block():
            w.emit(Op.MOVE, w.declare(node.name), won)
            w.emit(Op.JUMP_IF_NOT, value(w, node.where), lost)
    w.at(node)
    w.emit(Op.RACE_WON, site)
    w.here(lost)


def _put_unary(w: Writer, node: tree.Unary, into: int) -> None:
    """The smallest int has no positive one to be made of."""
    match node.of:
        case tree.Whole(value=number) if (
            number > MAX_INT and w.program.checked.types[id(node.of)] == INT
        ):
            w.constant(-number, into)
            return
        case _:
            pass
    w.emit(Op.NOT if node.op == "not" else Op.NEG, into, value(w, node.of))


def _put_binary(w: Writer, node: tree.Binary, into: int) -> None:
    if node.op in ("and", "or", "??"):
        _put_short(w, node, into)
        return
    left, right = value(w, node.left), value(w, node.right)
    w.at(node)
    if node.op in _SWAPPED:
        w.emit(_SWAPPED[node.op], into, right, left)
    else:
        w.emit(_PLAIN[node.op], into, left, right)


def _put_short(w: Writer, node: tree.Binary, into: int) -> None:
    """The right side only where the left does not decide; scratch, as `into` may be read in it."""
    kept, end, other = w.register(), Label(), Label()
    put(w, node.left, kept)
    if node.op == "??":
        w.emit(Op.JUMP_IF_NULL, kept, other)
        w.emit(Op.JUMP, end)
        w.here(other)
    else:
        w.emit(Op.JUMP_IF if node.op == "or" else Op.JUMP_IF_NOT, kept, end)
    put(w, node.right, kept)
    w.here(end)
    w.emit(Op.MOVE, into, kept)


def _put_member(w: Writer, node: tree.Member, into: int) -> None:
    w.emit(Op.FIELD, into, value(w, node.of), w.program.pools.constant(node.name))


def _put_index(w: Writer, node: tree.Index, into: int) -> None:
    of, index = value(w, node.of), value(w, node.index)
    w.at(node)
    w.emit(Op.INDEX, into, of, index)


def _put_call(w: Writer, node: tree.Call, into: int) -> None:
    checked = w.program.checked
    callee = checked.callees[id(node)]
    order = checked.arguments.get(id(node), tuple(range(len(node.args))))
    args = [w.constant(None) if at is None else value(w, node.args[at]) for at in order]
    w.at(node)
    match callee.kind:
        case CalleeKind.FUNCTION | CalleeKind.TOOL:
            w.emit(Op.CALL, into, w.program.functions[callee.name], args, w.site(node))
        case CalleeKind.RECORD:
            made = checked.types[id(node)]
            w.emit(Op.RECORD, into, w.program.pools.type(made), args)
        case CalleeKind.LIBRARY:
            _put_library(w, node, callee.name, args, into)
        case CalleeKind.MCP | CalleeKind.PYTHON | CalleeKind.NODE:
            # Who runs the program is given both as tools of Python.
            kind = CalleeKind.PYTHON if callee.kind is CalleeKind.NODE else callee.kind
            name = w.program.pools.constant(f"{kind}:{callee.name}{_named(node, kind)}")
            w.emit(Op.HOST, into, name, args, w.site(node))


def _named(node: tree.Call, kind: CalleeKind) -> str:
    """What an MCP server takes is not known yet, so the names that are written go with the call."""
    named = kind is CalleeKind.MCP and any(node.names)
    return f"({','.join(node.names)})" if named else ""


def _put_library(w: Writer, node: tree.Call, name: str, args: list[int], into: int) -> None:
    """Where the function gives nothing, the register gets null, so that no old value is read."""
    pools = w.program.pools
    if name in _BUDGETS:
        w.emit(Op.BUDGET_CHECK, into, _BUDGETS[name], w.site(node))
        return
    match name:
        case "print":
            w.emit(Op.PRINT, args[0], w.site(node))
        case "link":
            w.emit(Op.LINK, args[0], args[1])
        case "fail":
            w.emit(Op.RAISE, pools.constant("Failed"), args[0])
        case "process::exit":
            w.emit(Op.EXIT, args[0])
        case _ if LIBRARY[name].kind == "pure":
            if name == "list::sum":
                args = [_with_zero(w, node, args[0])]
            w.emit(Op.LIBRARY, into, pools.constant(name), args)
            return
        case _:
            w.emit(Op.HOST, into, pools.constant(name), args, w.site(node))
            return
    w.constant(None, into)


_ZEROS: dict[Type, Any] = {
    INT: 0,
    FLOAT: 0.0,
    MONEY: {"$": "money", "of": 0},
    DURATION: {"$": "duration", "of": 0},
}


def _with_zero(w: Writer, node: tree.Call, items: int) -> int:
    """Return the register of a list to add up, with a zero before its items: a list that is empty
    when the program runs does not say of what it is the sum."""
    of, given = w.program.checked.types[id(node)], node.args[0]
    # Programs in Python, whose `sum` begins with 0, write `[0] + items`: that is never empty.
    first = given.left if isinstance(given, tree.Binary) else given
    if of not in _ZEROS or (isinstance(first, tree.ListLit) and first.items):
        return items
    zero, whole = w.register(), w.register()
    w.emit(Op.LIST, zero, [w.constant(_ZEROS[of])])
    w.emit(Op.ADD, whole, zero, items)
    return whole


def _put_ask(w: Writer, node: tree.Ask, into: int) -> None:
    to, message = value(w, node.to), _message(w, node)
    timeout = -1 if node.timeout is None else value(w, node.timeout)
    budget = -1
    if node.budget is not None:
        budget = w.register()
        w.emit(Op.BUDGET_RESERVE, budget, value(w, node.budget))
    answer = _answer(w.program.checked.types[id(node)])
    of_type = -1 if answer == STR else w.program.pools.type(answer)
    w.at(node)
    op, waits = Op.SEND_STREAM if node.stream else Op.ISSUE_SEND, not (node.later or node.stream)
    future = w.register() if waits else into
    w.emit(op, future, to, message, of_type, timeout, budget, w.site(node))
    if waits:
        w.emit(Op.FORCE, into, future)


def _message(w: Writer, node: tree.Ask) -> int:
    """Files in it are read here, with the rights of this function."""
    message = value(w, node.message)
    types = w.program.checked.types
    items = node.message.items if isinstance(node.message, tree.ListLit) else ()
    if FILE not in [types[id(each)] for each in (node.message, *items)] and (
        types[id(node.message)] != ListOf(FILE)
    ):
        return message
    attached = w.register()
    name = w.program.pools.constant("file::attach")
    w.emit(Op.HOST, attached, name, [message], w.site(node.message))
    return attached


def _answer(of: Type) -> Type:
    if isinstance(of, FutureOf):
        return of.inner
    return STR if isinstance(of, StreamOf) else of


def _put_spawn(w: Writer, node: tree.Spawn, into: int) -> None:
    agent = value(w, node.agent)
    wallet, name, under = (
        -1 if part is None else value(w, part) for part in (node.wallet, node.named, node.under)
    )
    rules = None if node.rules is None else settings_of(node.rules)
    w.at(node)
    constant = w.program.pools.constant(rules)
    future = into if node.later else w.register()
    w.emit(Op.SPAWN_SUPERVISED, future, agent, wallet, name, under, constant, w.site(node))
    if not node.later:
        w.emit(Op.FORCE, into, future)


def _put_awaited(w: Writer, node: tree.Await, into: int) -> None:
    w.emit(Op.FORCE, into, value(w, node.of))


def _put_cast(w: Writer, node: tree.Cast, into: int) -> None:
    to = w.program.pools.type(w.program.checked.types[id(node)])
    w.emit(Op.CAST, into, value(w, node.of), to)


_PUT: dict[type[Any], Callable[[Writer, Any, int], None]] = {
    tree.Whole: _put_whole,
    tree.Decimal: _put_constant,
    tree.Word: _put_constant,
    tree.MoneyLit: _put_money,
    tree.Duration: _put_duration,
    tree.Text: _put_text,
    tree.Name: _put_name,
    tree.ListLit: _put_list,
    tree.MapLit: _put_map,
    tree.Build: _put_built,
    tree.Race: _put_race,
    tree.Unary: _put_unary,
    tree.Binary: _put_binary,
    tree.Member: _put_member,
    tree.Index: _put_index,
    tree.Call: _put_call,
    tree.Ask: _put_ask,
    tree.Spawn: _put_spawn,
    tree.Await: _put_awaited,
    tree.Cast: _put_cast,
}
