"""Statements: each rule says whether control continues after its statement (pure)."""

from collections.abc import Callable
from typing import Any, TypeAlias

from vegakit.lang.check.context import UNKNOWN, Access, BodyCheck, Facts, has_break, infer, merged
from vegakit.lang.check.fitting import check, check_amount, check_declared, condition, is_open
from vegakit.lang.check.literals import items_of
from vegakit.lang.check.names import assign, learn
from vegakit.lang.check.resolution import written
from vegakit.lang.check.settings import SESSION, check_settings
from vegakit.lang.check.symbols import CalleeKind, closest_name, described, replacement
from vegakit.lang.diagnostics import Edit, count_steps
from vegakit.lang.library import BUILTIN_ERRORS, CATCHABLE, ENDS, LIBRARY, VEGA_ERRORS
from vegakit.lang.syntax.tree import (
    Ask,
    Assign,
    Await,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Index,
    Let,
    Monitor,
    Name,
    Node,
    Parallel,
    Race,
    Return,
    Session,
    Spawn,
    Stmt,
    Try,
    Unary,
    While,
    Word,
    below,
)
from vegakit.lang.types import (
    INT,
    NOTHING,
    NULL,
    STR,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    ProcessOf,
    StreamOf,
    Type,
    is_text,
    type_label,
)

# Blocks of statements: each rule says whether control goes on after its statement.


StatementRule: TypeAlias = Callable[[BodyCheck, Any], bool]

STATEMENTS: dict[type, StatementRule] = {}
"""The rule of each kind of statement, put together where the whole program is checked."""


def check_block(body: BodyCheck, block: Block) -> bool:
    """Check a block in a scope of its own; return whether the program goes on behind it."""
    body.scopes.enter()
    goes_on = check_all(body, block.body)
    body.scopes.leave()
    return goes_on


def check_all(body: BodyCheck, statements: tuple[Stmt, ...]) -> bool:
    """Check statements in order and report what is never reached; return whether the program goes
    on behind them."""
    goes_on, reported = True, False
    for statement in statements:
        if not (goes_on or reported):
            reported = True
            body.reports.warn("unreachable", statement, "this is never reached")
        count_steps(2)
        body.program.place = statement
        if not STATEMENTS[type(statement)](body, statement):
            goes_on = False
    return goes_on


def forget_assigned(body: BodyCheck, block: Block) -> None:
    """Forget what is known of the variables that a block assigns: it may have run already, or in
    part."""
    names = body.program.assigned.within(block)
    found = (body.scopes.find(name) for name in names)
    body.scopes.forget({variable.number for variable in found if variable is not None})


# Plain statements: let, assignment, expressions, return, if.


_NO_FACTS: tuple[Facts, Facts] = ({}, {})


def _let(body: BodyCheck, node: Let) -> bool:
    if node.type is not None:
        kind = written(body.program, body.names, node.type)
        given = check_declared(body, node.value, kind, f"`{node.name}`")
    else:
        kind = given = _inferred(body, node)
    body.program.types[id(node)] = kind
    shadows(body, node, node.name)
    variable = body.scopes.declare(node.name, "let", kind, node, node.type is not None)
    learn(body, (variable.number, ""), kind, given)
    return True


def _inferred(body: BodyCheck, node: Let) -> Type:
    kind = infer(body, node.value)
    if kind == NOTHING:
        body.reports.error(
            "no-value",
            node.value,
            "this gives no value",
            f"leave out `let {node.name} =`",
            Edit(node.at, node.value.at, ""),
        )
        return UNKNOWN
    if kind == NULL:
        return OptionalOf(body.type_variables.fresh())
    if is_text(kind) and _is_fixed(body, node.name):
        return body.program.types[id(node.value)]
    return ListOf(kind.inner) if isinstance(kind, ListOf) and kind.most == 0 else kind


def _is_fixed(body: BodyCheck, name: str) -> bool:
    """Whether nothing is assigned to it later, so that it keeps the length of its first value."""
    return body.owner is not None and name not in body.program.assigned.within(body.owner.body)


def shadows(body: BodyCheck, node: Node, name: str) -> None:
    """Report a variable that has the name of a declaration of its file."""
    declared = body.names.own.get(name)
    if declared is not None:
        at = body.names.unit.text.find(name, node.at, node.end)
        body.reports.error(
            "shadows-declaration",
            Node(at, at + len(name)) if at >= 0 else node,
            f"`{name}` is {described(declared)} of this file, a variable cannot have its name",
            "choose another name",
        )


def _assign(body: BodyCheck, node: Assign) -> bool:
    assign(body, node)
    return True


def _expression(body: BodyCheck, node: ExprStmt) -> bool:
    value = node.value
    kind = infer(body, value)
    callee = body.program.callees.get(id(value))
    if isinstance(kind, FutureOf):
        body.reports.warn(
            "never-awaited",
            node,
            "nothing waits for this, and its failure goes unseen",
            "keep it, `let f = …;`, and `await f`; or leave out `async`",
        )
    elif isinstance(value, Binary) and value.op == "==" and isinstance(value.left, Name):
        at = body.names.unit.text.find("==", value.left.end, value.right.at)
        body.reports.warn(
            "no-effect",
            node,
            "this compares and does nothing with the outcome",
            f"to assign write `{value.left.name} = {body.source(value.right)};`",
            Edit(at, at + 2, "=") if at >= 0 else None,
        )
    elif not isinstance(value, Call | Ask | Spawn | Await | Race) and kind != UNKNOWN:
        body.reports.warn("no-effect", node, "this has no effect")
    return not (callee and callee.kind is CalleeKind.LIBRARY and callee.name in ENDS)


_BESIDE = "it runs beside the rest; put the value into a variable"


def _return(body: BodyCheck, node: Return) -> bool:
    if body.task:
        body.reports.error(
            "leaves-task", node, f"`return` cannot leave a `{body.task}` block", _BESIDE
        )
    if body.owner is None:
        _return_at_top(body, node)
    elif node.value is None:
        if body.result not in (NOTHING, UNKNOWN):
            body.reports.error(
                "missing-value",
                node,
                f"`{body.owner.name}` returns {type_label(body.result)}",
                "write `return …;` with a value",
            )
    elif body.result == NOTHING:
        kind = infer(body, node.value)
        if kind not in (NOTHING, UNKNOWN):
            _unwanted_result(body, node, kind)
    else:
        check_declared(body, node.value, body.result, f"what `{body.owner.name}` returns")
    return False


def _return_at_top(body: BodyCheck, node: Return) -> None:
    if node.value is not None:
        infer(body, node.value)
        body.reports.error(
            "return-at-top",
            node,
            "statements at top level return no value",
            "write `fn main() -> T { … }`, or print it",
        )


def _unwanted_result(body: BodyCheck, node: Return, kind: Type) -> None:
    assert body.owner is not None
    at = body.owner.body.at
    body.reports.error(
        "unwanted-value",
        node,
        f"`{body.owner.name}` is declared to return nothing",
        f"add `-> {type_label(body.type_variables.full(kind))}` after its parameters",
        None
        if body.owner.grants
        else Edit(at, at, f"-> {type_label(body.type_variables.full(kind))} "),
    )


def _if(body: BodyCheck, node: If) -> bool:
    """`else if` follows in a chain, which may be long."""
    scopes, ends = body.scopes, list[Facts]()
    current: If | None = node
    while current is not None:
        condition(body, current.test, "a condition")
        when_true, when_false = body.tests.get(id(current.test), _NO_FACTS)
        before = scopes.facts
        scopes.know(when_true)
        if check_block(body, current.then):
            ends.append(scopes.facts)
        scopes.facts = before
        scopes.know(when_false)
        other = current.other
        current = None
        if other is not None and len(other.body) == 1 and isinstance(other.body[0], If):
            current = other.body[0]
        elif other is None or check_block(body, other):
            ends.append(scopes.facts)
    scopes.facts = merged(ends)
    return bool(ends)


PLAIN_STATEMENTS: dict[type, StatementRule] = {
    Let: _let,
    Assign: _assign,
    ExprStmt: _expression,
    Return: _return,
    If: _if,
    Block: check_block,
}


# Blocks that can fail: try and session, and what catches.


def _try(body: BodyCheck, node: Try) -> bool:
    return guarded(body, node.body, node.catches, lambda: check_block(body, node.body))


def guarded(
    body: BodyCheck,
    block: Block,
    catches: tuple[Catch, ...],
    run: Callable[[], bool],
    own: str = "",
) -> bool:
    """A handler may begin after any statement of the block, or for an error of its `own`."""
    scopes, before, ends = body.scopes, body.scopes.facts, list[Facts]()
    if run():
        ends.append(scopes.facts)
    after = scopes.facts
    scopes.facts = before
    if catches:
        forget_assigned(body, block)
    at_fault, seen = scopes.facts, list[str]()
    is_told = any(one.kind in _TOLD for one in catches)
    raised = f"{own} {_raised_in(body, block)}" if is_told else ""
    for one in catches:
        scopes.facts = at_fault
        _catch(body, one, seen, raised)
        scopes.enter()
        if one.reason:
            scopes.declare(one.reason, "reason", STR, one)
        if check_all(body, one.body.body):
            ends.append(scopes.facts)
        scopes.leave()
    scopes.facts = merged(ends) if catches else after
    return bool(ends)


def _catch(body: BodyCheck, node: Catch, seen: list[str], raised: str) -> None:
    where = _word_of(body, node)
    if node.kind and node.kind not in CATCHABLE:
        help_, edit = replacement(where, closest_name(node.kind, CATCHABLE))
        body.reports.error(
            "unknown-error",
            where,
            f"there is no error `{node.kind}`",
            help_ or f"`catch` alone takes every error; there are: {', '.join(CATCHABLE)}",
            edit,
        )
    elif "" in seen or node.kind in seen:
        body.reports.warn("unreachable", where, "a `catch` before this one takes it already")
    elif node.kind in _TOLD and node.kind not in raised.split():
        _never_raised(body, node.kind, where)
    seen.append(node.kind)


_WORLD = "ToolFailed CapabilityDenied Timeout"
_COMPUTED = " ".join((*BUILTIN_ERRORS, "ContractViolated"))
_TOLD = frozenset(CATCHABLE) - {"Cancelled", "LimitReached"}
"""Errors of which a body that cannot raise them is told: the others may come from anywhere."""
_COMPUTES = (Binary, Unary, Index, Cast)


def _raised_in(body: BodyCheck, block: Block) -> str:
    """Return the errors that a block may raise, with spaces between them: rather too many than too
    few. What a function of the program does, is not looked at."""
    found: set[str] = set()
    for node in below(block):
        kind = body.program.types.get(id(node))
        if isinstance(node, Ask | Spawn | Await | Race) or isinstance(kind, FutureOf | StreamOf):
            found |= {*VEGA_ERRORS}
        elif isinstance(node, Call):
            found |= {*_raised_by(body, node).split()}
        elif isinstance(node, _COMPUTES):
            found |= {*_COMPUTED.split()}
        elif isinstance(node, Session):
            found.add("BudgetExceeded")
    return " ".join(found)


def _raised_by(body: BodyCheck, node: Call) -> str:
    callee = body.program.callees.get(id(node))
    if callee is None or callee.kind is not CalleeKind.LIBRARY or callee.name == "process::exit":
        return " ".join(CATCHABLE)
    if callee.name == "fail":
        return "Failed"
    if callee.name.startswith("human::"):
        return "ToolFailed CapabilityDenied"
    return _WORLD if LIBRARY[callee.name].kind == "host" else _COMPUTED


def _never_raised(body: BodyCheck, kind: str, where: Node) -> None:
    advice = "leave it out"
    if kind == "Timeout":
        advice = "where nobody answers in time, `human::ask` is null and `human::approve` false"
    body.reports.warn("never-raised", where, f"nothing before it raises `{kind}`", advice)


def _word_of(body: BodyCheck, node: Catch) -> Node:
    at = body.names.unit.text.find(node.kind or "catch", node.at, node.end)
    return Node(at, at + len(node.kind or "catch")) if at >= 0 else node


def _session(body: BodyCheck, node: Session) -> bool:
    check_amount(body, node.budget, "the budget")
    check_settings(body.program, node.settings, SESSION, "a session")
    return guarded(
        body, node.body, node.catches, lambda: check_block(body, node.body), "BudgetExceeded"
    )


GUARDS: dict[type, StatementRule] = {Try: _try, Session: _session}


# Loops: while and for, break and continue.


_NO_LOOP_FACTS: tuple[Facts, Facts] = ({}, {})


def _leave_loop(body: BodyCheck, node: Break | Continue) -> bool:
    word = "break" if isinstance(node, Break) else "continue"
    if body.loops == 0:
        inside = f" (`{body.task}` runs beside the loop around it)" if body.task else ""
        body.reports.error("outside-loop", node, f"`{word}` is not in a loop{inside}")
    return False


def _loop(body: BodyCheck, block: Block) -> None:
    before = body.scopes.facts
    body.loops += 1
    check_block(body, block)
    body.loops -= 1
    body.scopes.facts = before


def _while(body: BodyCheck, node: While) -> bool:
    forget_assigned(body, node.body)
    condition(body, node.test, "a condition")
    if node.limit is not None:
        check(body, node.limit, INT, "the limit")
    when_true, when_false = body.tests.get(id(node.test), _NO_LOOP_FACTS)
    before, breaks = body.scopes.facts, has_break(node.body)
    body.scopes.know(when_true)
    _loop(body, node.body)
    body.scopes.facts = before
    if not breaks:
        body.scopes.know(when_false)
    for_ever = isinstance(node.test, Word) and node.test.value is True
    return breaks or not for_ever


def _for(body: BodyCheck, node: For) -> bool:
    over = infer(body, node.over)
    forget_assigned(body, node.body)
    body.scopes.enter()
    kinds = _walked(body, node, over)
    for name, kind in zip(node.names, kinds, strict=True):
        shadows(body, node, name)
        body.scopes.declare(name, "loop", kind, node)
    _loop(body, node.body)
    body.scopes.leave()
    return True


def _walked(body: BodyCheck, node: For, over: Type) -> tuple[Type, ...]:
    if len(node.names) == 1:
        return (items_of(body, node.over, over),)
    match over:
        case MapOf(inner=inner):
            return STR, body.type_variables.seen(inner)
        case ListOf(inner=inner):
            return INT, body.type_variables.seen(inner)
        case StreamOf():
            body.reports.error("two-names", node.over, "a stream gives one piece at a time")
        case _:
            items_of(body, node.over, over)
    return UNKNOWN, UNKNOWN


LOOPS: dict[type, StatementRule] = {
    Break: _leave_loop,
    Continue: _leave_loop,
    While: _while,
    For: _for,
}


# Blocks that run beside others: the statements of parallel, and monitor.


def _monitor(body: BodyCheck, node: Monitor) -> bool:
    kind = infer(body, node.of)
    if not (isinstance(kind, ProcessOf) or kind == UNKNOWN or is_open(body, node.of, kind)):
        body.reports.error(
            "not-a-process", node.of, f"only a process can be monitored, this is {type_label(kind)}"
        )
    scopes, facts = body.scopes, body.scopes.facts
    outer = body.loops, body.task, body.fence
    body.loops, body.task, body.fence = 0, "monitor", len(scopes.all)
    scopes.enter()
    scopes.declare(node.reason, "reason", STR, node)
    check_all(body, node.body.body)
    scopes.leave()
    body.loops, body.task, body.fence = outer
    scopes.facts = facts
    return True


def _parallel(body: BodyCheck, node: Parallel) -> bool:
    """It opens no scope: what it declares is there after it."""
    return guarded(body, node.body, node.catches, lambda: _tasks(body, node.body))


def _tasks(body: BodyCheck, block: Block) -> bool:
    outer = body.loops, body.task
    body.loops, body.task = 0, "parallel"
    accesses: list[Access] = []
    declared: dict[str, Node] = {}
    for statement in block.body:
        access = Access()
        if isinstance(statement, Let):
            if statement.name in declared:
                _conflict(body, statement.name, statement, declared[statement.name])
            declared.setdefault(statement.name, statement)
        body.scopes.watching.append(access)
        body.program.place = statement
        STATEMENTS[type(statement)](body, statement)
        body.scopes.watching.pop()
        accesses.append(access)
    body.loops, body.task = outer
    _conflicts(body, accesses)
    return True


def _conflicts(body: BodyCheck, accesses: list[Access]) -> None:
    """One statement assigns what another reads or assigns: told where the second stands."""
    writers: dict[int, int] = {}
    for at, access in enumerate(accesses):
        for number in access.writes:
            writers.setdefault(number, at)
    for at, access in enumerate(accesses):
        for number, where in {**access.writes, **access.reads}.items():
            writer = writers.get(number, at)
            if writer != at:
                name = body.scopes.all[number].name
                _conflict(body, name, where, accesses[writer].writes[number])
                break


def _conflict(body: BodyCheck, name: str, where: Node, written_at: Node) -> None:
    line = body.names.unit.text.count("\n", 0, written_at.at) + 1
    body.reports.error(
        "parallel-conflict",
        where,
        f"`{name}` is set by another statement of this `parallel` block, on line {line}",
        "put the two into one statement, or move this one behind the block",
    )


TASKS: dict[type, StatementRule] = {Monitor: _monitor, Parallel: _parallel}
