"""Compile statements, and a checked program to a module (pure).

What is open around a statement (loops, budget scopes, handlers) is closed on every way out of
it: by its end, by `break`, `continue` and `return`, and by an error.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import CompiledTool, Function, Module, Op, Rights
from vegakit.lang.codegen.expressions import put, value
from vegakit.lang.codegen.writer import (
    Label,
    Loop,
    ModuleContext,
    Pools,
    Writer,
    agent_of,
    bodies_of,
    confirm,
    rights_of,
    settings_of,
    supervisor_of,
    tool_decls,
    tool_of,
)
from vegakit.lang.diagnostics import count_steps, step_limit
from vegakit.lang.syntax import tree
from vegakit.lang.types import NOTHING, MapOf, StreamOf, Type
from vegakit.records import digest128

# Statements. What is open around a statement (loops, budget scopes, handlers) is closed on every
# way out of it: by its own end, by `break`, `continue` and `return`, and by an error.


def write_all(w: Writer, body: tuple[tree.Stmt, ...]) -> None:
    """Write the code of statements, one after the other."""
    for node in body:
        write(w, node)


def write(w: Writer, node: tree.Stmt) -> None:
    """Write the code of one statement. Registers that it needs for itself are free again after
    it."""
    count_steps(2)
    w.at(node)
    with w.scratch():
        _WRITE[type(node)](w, node)


def _write_block(w: Writer, node: tree.Block) -> None:
    with w.block():
        write_all(w, node.body)


def _write_let(w: Writer, node: tree.Let) -> None:
    """The value before the name: `let x = x + 1` reads the outer x."""
    register = w.register()
    put(w, node.value, register)
    w.bind(node.name, register)


def _write_assign(w: Writer, node: tree.Assign) -> None:
    if isinstance(node.target, tree.Name):
        put(w, node.value, w.variables[node.target.name])
        return
    steps = list(_steps(node.target))
    root = w.variables[tree.root_of(node.target).name]
    keys = [value(w, step.index) if isinstance(step, tree.Index) else -1 for step in steps]
    holders = [root]
    for step, key in zip(steps[:-1], keys[:-1], strict=True):
        holders.append(w.register())
        _read_step(w, step, holders[-1], holders[-2], key)
    new = value(w, node.value)
    w.at(node)
    for step, key, holder in zip(reversed(steps), reversed(keys), reversed(holders), strict=True):
        made = w.register()
        if isinstance(step, tree.Index):
            w.emit(Op.WITH_INDEX, made, holder, key, new)
            of = w.program.checked.types[id(step.of)]
            if isinstance(of, MapOf) and of.most is not None:  # it may have got one key more
                made, changed = w.register(), made
                w.emit(Op.CAST, made, changed, w.program.pools.type(of))
        else:
            w.emit(Op.WITH_FIELD, made, holder, w.program.pools.constant(step.name), new)
        new = made
    w.emit(Op.MOVE, root, new)


def _read_step(w: Writer, step: tree.Member | tree.Index, into: int, of: int, key: int) -> None:
    if isinstance(step, tree.Index):
        w.emit(Op.INDEX, into, of, key)
    else:
        w.emit(Op.FIELD, into, of, w.program.pools.constant(step.name))


def _steps(target: tree.Expr) -> Iterator[tree.Member | tree.Index]:
    if isinstance(target, tree.Member | tree.Index):
        yield from _steps(target.of)
        yield target


def _write_expr(w: Writer, node: tree.ExprStmt) -> None:
    put(w, node.value, w.register())


def _write_return(w: Writer, node: tree.Return) -> None:
    w.emit(Op.RETURN, w.constant(None) if node.value is None else value(w, node.value))


def _write_break(w: Writer, node: tree.Break | tree.Continue) -> None:
    loop = w.loops[-1]
    for _ in range(w.scopes - loop.scopes):
        w.emit(Op.BUDGET_EXIT)
    w.emit(Op.JUMP, loop.after if isinstance(node, tree.Break) else loop.again)


def _write_if(w: Writer, node: tree.If) -> None:
    other, end = Label(), Label()
    w.emit(Op.JUMP_IF_NOT, value(w, node.test), other)
    _write_block(w, node.then)
    if node.other is not None:
        w.emit(Op.JUMP, end)
    w.here(other)
    if node.other is not None:
        _write_block(w, node.other)
    w.here(end)


def _write_while(w: Writer, node: tree.While) -> None:
    again, after = Label(), Label()
    limit = -1 if node.limit is None else value(w, node.limit)
    rounds = w.constant(-1)
    w.rounds.append(rounds)
    w.here(again)
    with w.scratch():
        w.emit(Op.JUMP_IF_NOT, value(w, node.test), after)
    w.emit(Op.ROUND, rounds, limit)
    _write_looped(w, node.body, Loop(again, after, w.scopes))


def _write_looped(w: Writer, body: tree.Block, loop: Loop) -> None:
    """The counter of the loop is already among the rounds."""
    w.loops.append(loop)
    _write_block(w, body)
    w.loops.pop()
    w.rounds.pop()
    w.emit(Op.JUMP, loop.again)
    w.here(loop.after)


def _write_for(w: Writer, node: tree.For) -> None:
    again, after = Label(), Label()
    streams = isinstance(w.program.checked.types[id(node.over)], StreamOf)
    with w.block():
        (_begin_stream if streams else _begin_items)(w, node, again, after)
        _write_looped(w, node.body, Loop(again, after, w.scopes))


def _begin_stream(w: Writer, node: tree.For, again: Label, after: Label) -> None:
    stream = value(w, node.over)
    rounds, done = w.constant(-1), w.register()
    w.here(again)
    w.emit(Op.STREAM_DONE, done, stream)
    w.emit(Op.JUMP_IF, done, after)
    w.emit(Op.ROUND, rounds, -1)
    w.emit(Op.STREAM_NEXT, w.declare(node.names[0]), stream)
    w.rounds.append(rounds)


def _begin_items(w: Writer, node: tree.For, again: Label, after: Label) -> None:
    items = w.register()
    w.emit(Op.ITEMS if len(node.names) == 1 else Op.PAIRS, items, value(w, node.over))
    confirm(w, node, items)
    rounds = w.constant(-1)
    item = w.register()
    w.here(again)
    w.emit(Op.NEXT, item, items, rounds, after)
    if len(node.names) == 1:
        w.bind(node.names[0], item)
    else:
        for at, name in enumerate(node.names):
            w.emit(Op.INDEX, w.declare(name), item, w.constant(at))
    w.rounds.append(rounds)


def _write_try(w: Writer, node: tree.Try) -> None:
    _write_guarded(w, node.catches, lambda: _write_block(w, node.body))


def _write_guarded(w: Writer, catches: tuple[tree.Catch, ...], body: Callable[[], None]) -> None:
    start, end = w.place, Label()
    body()
    if not catches:
        return
    stop = w.place
    w.emit(Op.JUMP, end)
    for catch in catches:
        target = Label()
        with w.block():
            reason = w.declare(catch.reason) if catch.reason else w.register()
            w.handle(start, stop, target, (catch.kind,) if catch.kind else (), reason)
            w.here(target)
            w.at(catch)
            write_all(w, catch.body.body)
            w.emit(Op.JUMP, end)
    w.here(end)


def _write_session(w: Writer, node: tree.Session) -> None:
    def body() -> None:
        amount = value(w, node.budget)
        settings = w.program.pools.constant(settings_of(node.settings))
        w.emit(Op.BUDGET_ENTER, amount, settings, w.site(node))
        w.scopes += 1
        _write_block(w, node.body)
        w.scopes -= 1
        w.emit(Op.BUDGET_EXIT)

    _write_guarded(w, node.catches, body)


def _write_parallel(w: Writer, node: tree.Parallel) -> None:
    """Its lets are visible after it, also after its catches."""
    lets = [(each, w.register()) for each in node.body.body if isinstance(each, tree.Let)]
    _write_guarded(w, node.catches, lambda: _write_tasks(w, node, {id(n): r for n, r in lets}))
    for each, register in lets:
        w.bind(each.name, register)


def _write_tasks(w: Writer, node: tree.Parallel, lets: dict[int, int]) -> None:
    group = w.register()
    w.emit(Op.PAR_BEGIN, group)
    for each in node.body.body:
        label = Label()
        w.at(each)
        if isinstance(each, tree.Let):
            register = lets[id(each)]
            w.emit(Op.PAR_SPAWN, group, label, [register])
            w.behind(label, _putting(w, each.value, register))
        else:
            known = tree.assigned_in(each) & w.variables.keys()
            assigned = sorted({w.variables[name] for name in known})
            w.emit(Op.PAR_SPAWN, group, label, assigned)
            w.behind(label, _writing(w, each))
    w.emit(Op.PAR_JOIN, group)


def _putting(w: Writer, node: tree.Expr, into: int) -> Callable[[], None]:
    return lambda: put(w, node, into)


def _writing(w: Writer, node: tree.Stmt) -> Callable[[], None]:
    return lambda: write(w, node)


def _write_monitor(w: Writer, node: tree.Monitor) -> None:
    after, body = Label(), Label()
    watched = value(w, node.of)
    with w.block():
        reason = w.declare(node.reason)
        w.emit(Op.MONITOR, reason, watched, after, w.site(node))
        w.emit(Op.JUMP, body)
        w.behind(body, lambda: _write_block(w, node.body))
    w.here(after)


_WRITE: dict[type[Any], Callable[[Writer, Any], None]] = {
    tree.Block: _write_block,
    tree.Let: _write_let,
    tree.Assign: _write_assign,
    tree.ExprStmt: _write_expr,
    tree.Return: _write_return,
    tree.Break: _write_break,
    tree.Continue: _write_break,
    tree.If: _write_if,
    tree.While: _write_while,
    tree.For: _write_for,
    tree.Try: _write_try,
    tree.Session: _write_session,
    tree.Parallel: _write_parallel,
    tree.Monitor: _write_monitor,
}


# From a checked program to a module: all functions and tools of all its files.


D = TypeVar("D", tree.AgentDecl, tree.SupervisorDecl, tree.UseMcp)

MAIN = "main"
_MODULE = "module"


def compile_program(checked: Checked) -> Module:
    """Return the module of a program that was checked without errors. It is made once, since other
    phases need it too."""
    module = checked.kept.get(_MODULE)
    if module is None:
        with step_limit():
            module = checked.kept[_MODULE] = _compiled(checked)
    return module


def _compiled(checked: Checked) -> Module:
    bodies = dict(bodies_of(checked))
    places = {name: at for at, name in enumerate(bodies)}
    program = ModuleContext(checked, Pools(), places, _rounds(checked))
    functions = [_function(program, name, *body) for name, body in bodies.items()]
    if MAIN not in places:
        functions.append(_top_level(program, checked.units[checked.main]))
    return Module(
        checked.main,
        places.get(MAIN, len(functions) - 1),
        tuple(functions),
        tuple(program.pools.constants.rows),
        tuple(program.pools.types.rows),
        tuple(program.pools.rights.rows),
        tuple(agent_of(decl, checked) for decl in _decls(checked, tree.AgentDecl)),
        tuple(_tools(checked, functions, places)),
        tuple(supervisor_of(decl, checked) for decl in _decls(checked, tree.SupervisorDecl)),
        tuple(sorted({use.server for use in _decls(checked, tree.UseMcp)})),
        tuple((unit.path, digest128(unit.text)) for unit in checked.units.values()),
        _sends(checked),
    )


def _sends(checked: Checked) -> int | None:
    from vegakit.lang.analysis.quotes import sends_of

    return sends_of(checked)


def _rounds(checked: Checked) -> dict[int, list[Any]]:
    """Only who says `confirm` somewhere is asked."""
    nodes = (node for unit in checked.units.values() for node in tree.below(unit.source))
    if not any(isinstance(node, tree.Setting) and node.name == "confirm" for node in nodes):
        return {}
    from vegakit.lang.analysis.quotes import rounds_of

    return rounds_of(checked)


def _function(
    program: ModuleContext, name: str, unit: Unit, decl: tree.FnDecl | tree.ToolDecl
) -> Function:
    """What is not said of its rights the header of its file says; a tool has only its own."""
    checked, w = program.checked, Writer(program, unit)
    rights = rights_of(decl.grants)
    if rights is None and isinstance(decl, tree.FnDecl):
        rights = rights_of(unit.source.header)
    for param in decl.params:
        w.declare(param.name)
    w.at(decl)
    if isinstance(decl, tree.FnDecl) and decl.budget is not None:
        with w.scratch():
            amount = value(w, decl.budget)
            w.emit(Op.BUDGET_ENTER, amount, program.pools.constant({}), w.site(decl.budget))
        w.scopes += 1
    write_all(w, decl.body.body)
    params = {param.name: checked.types[id(param)] for param in decl.params}
    return w.finish(name, params, _result(checked, decl), program.pools.right(rights or Rights()))


def _result(checked: Checked, decl: tree.FnDecl | tree.ToolDecl) -> Type:
    return NOTHING if decl.result is None else checked.types[id(decl.result)]


def _top_level(program: ModuleContext, unit: Unit) -> Function:
    w = Writer(program, unit)
    write_all(w, unit.source.body)
    rights = rights_of(unit.source.header) or Rights()
    return w.finish(MAIN, {}, NOTHING, program.pools.right(rights))


def _tools(
    checked: Checked, functions: list[Function], places: dict[str, int]
) -> Iterator[CompiledTool]:
    for unit in checked.units.values():
        for name, decl in tool_decls(checked, unit):
            place = places[name]
            yield tool_of(name, decl, place, functions[place])


def _decls(checked: Checked, kind: type[D]) -> Iterator[D]:
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, kind):
                yield decl
