"""Cost of statements, one rule for each kind, and of a whole program (pure)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.analysis.cost_bounds import (
    NONE,
    SpendingBound,
    capped,
    moved,
    plus,
    times,
    worse_of,
)
from vegakit.lang.analysis.cost_expressions import call_function, evaluate
from vegakit.lang.analysis.cost_library import FAILED, REASON_BYTES, bound_of, the_value
from vegakit.lang.analysis.cost_typical import typical_reason, typical_value
from vegakit.lang.analysis.cost_values import (
    Size,
    ValueBound,
    as_symbol,
    either,
    exactly,
    greater,
    number,
    of_type,
    smaller,
    total,
    without_exact,
)
from vegakit.lang.analysis.cost_walk import (
    STATEMENTS,
    CostFacts,
    CostWalk,
    KnownWorld,
    loop,
)
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.writer import bodies_of
from vegakit.lang.library import ENDS
from vegakit.lang.syntax.tree import (
    Assign,
    Binary,
    Block,
    Break,
    Catch,
    Continue,
    Expr,
    ExprStmt,
    FnDecl,
    For,
    If,
    Index,
    Let,
    Member,
    MoneyLit,
    Monitor,
    Name,
    Parallel,
    Return,
    Session,
    Stmt,
    Text,
    ToolDecl,
    Try,
    While,
    Word,
    below,
    root_of,
)
from vegakit.lang.types import ANY, INT, STR, ListOf, MapOf, StreamOf, Type, is_text

_LOOSE = ("warn", "allow")


def _let(w: CostWalk, node: Let) -> None:
    kind = w.facts.type(node)
    w.scopes.declare(node.name, evaluate(w, node.value), kind)


def _assign(w: CostWalk, node: Assign) -> None:
    value = evaluate(w, node.value)
    target, root = node.target, root_of(node.target)
    found = w.scopes.find(root.name)
    if found is None or id(node) in w.gathered:
        return
    depth, variable = found
    key = evaluate(w, target.index).size if isinstance(target, Index) else None
    w.raises |= not isinstance(target, Name)  # an index outside, or one key too many
    if isinstance(target, Name):
        w.scopes.put(depth, root.name, value)
    elif isinstance(target, Index) and isinstance(target.of, Name):
        w.scopes.put(depth, root.name, _with_item(variable.value, variable.type, key, value))
    elif isinstance(target, Member) and isinstance(target.of, Name):
        fields = {**dict(variable.value.fields), target.name: value}
        w.scopes.put(depth, root.name, ValueBound(fields=tuple(fields.items())))
    else:
        w.scopes.put(depth, root.name, of_type(variable.type))


def _with_item(of: ValueBound, kind: Type, key: Size | None, item: ValueBound) -> ValueBound:
    """A list keeps its length, a map may have one entry more."""
    inner = None if of.item is None else either(of.item, item)
    if isinstance(kind, ListOf):
        return ValueBound(of.size, inner)
    inner = item if number(of.size) == 0 else inner
    return ValueBound(total(of.size, exactly(1)), inner, key=greater(of.key, key))


def _expression(w: CostWalk, node: ExprStmt) -> None:
    evaluate(w, node.value)
    callee = w.facts.checked.callees.get(id(node.value))
    w.over = callee is not None and callee.name in ENDS


def _return(w: CostWalk, node: Return) -> None:
    if node.value is not None:
        w.returned.append(evaluate(w, node.value))
    w.over = True


def _leave(w: CostWalk, node: Break | Continue) -> None:
    left = w.left[-1]
    (left.by_break if isinstance(node, Break) else left.by_continue).append(w.scopes.copy())
    w.over = True


def _if(w: CostWalk, node: If) -> None:
    test, other = the_value(evaluate(w, node.test)), node.other
    if test is not None and type(test[0]) is bool:
        if test[0]:
            w.block(node.then)
        elif other:
            w.block(other)
        return
    ways = [partial(w.block, node.then), partial(w.block, other) if other else _nothing]
    then, otherwise = w.branches(*ways)
    if w.facts.typical:
        w.spend(times(plus(then, otherwise), 0.5, w.place(node, "")))
    else:
        w.spend(worse_of(then, otherwise))


def _nothing() -> None:
    pass


def _while(w: CostWalk, node: While) -> None:
    """Its test is asked once more than it has rounds, and past the limit it raises; nothing comes
    after one that only that can end."""
    limit = None if node.limit is None else number(evaluate(w, node.limit).size)
    place = w.place(node, "this loop has no limit")
    w.raises |= node.limit is not None

    def body(_: int | None) -> None:
        evaluate(w, node.test)
        w.block(node.body)

    came = loop(w, node, body, limit, place)
    w.spend(came.spent)
    if came.goes_on:
        evaluate(w, node.test)
    w.over = isinstance(node.test, Word) and node.test.value is True and not came.breaks


def _for(w: CostWalk, node: For) -> None:
    over = evaluate(w, node.over)
    kind = w.facts.type(node.over)
    place = w.place(node, "how often this loop runs has no bound")

    def body(turn: int | None) -> None:
        with w.scopes.block():
            for name, value, each in _walked(node, over, kind, turn):
                if w.facts.is_noting and over.size is None and is_text(each):
                    value = as_symbol(f"item@{id(node)}", STR)  # noqa: PLW2901
                w.scopes.declare(name, value, each)
            w.block(node.body)

    if isinstance(kind, StreamOf):
        _gather(w, node, over.item)
    came = loop(w, node, body, number(over.size), place, differ=_items(over) is not None)
    if number(over.size) is None:
        w.facts.keep_round(node, came.once)
    w.spend(came.spent)


def _gather(w: CostWalk, node: For, answer: ValueBound | None) -> None:
    """Make the texts that gather the pieces of a stream, `text = text + piece`, longer by the whole
    answer: that is all its pieces together, however many they are."""
    for assign in _gathering(node):
        found = w.scopes.find(root_of(assign.target).name)
        if found is not None and answer is not None and is_text(found[1].type):
            depth, variable = found
            most = smaller(of_type(variable.type).size, total(variable.value.size, answer.size))
            w.scopes.put(depth, root_of(assign.target).name, ValueBound(most))
            w.gathered.add(id(assign))


def _gathering(node: For) -> list[Assign]:
    """Return what puts a piece behind a text, or before it, once in a round at most. Nothing else
    in the loop may change the text or the piece."""
    [piece] = node.names
    inside = [*below(node.body)]
    in_loops = {id(one) for each in inside if isinstance(each, For | While) for one in below(each)}
    named = [root_of(one.target).name for one in inside if isinstance(one, Assign)]
    named += [one.name for one in inside if isinstance(one, Let)]
    named += [name for one in inside if isinstance(one, For) for name in one.names]
    named += [one.reason for one in inside if isinstance(one, Catch | Monitor)]
    found: list[Assign] = []
    for one in inside:
        if isinstance(one, Assign) and isinstance(one.target, Name) and id(one) not in in_loops:
            text, joined = one.target.name, _joined(one.value)
            if {text, piece} == set(joined) and len(joined) == 2 and piece not in named:
                found += [one] if named.count(text) == 1 else []
    return found


def _joined(value: Expr) -> list[str]:
    """Return the variables that a value is made of, one behind the other; none of what is more."""
    parts: Sequence[object] = ()
    if isinstance(value, Binary) and value.op == "+":
        parts = (value.left, value.right)
    elif isinstance(value, Text):
        parts = value.parts
    names = [part.name for part in parts if isinstance(part, Name)]
    return names if len(names) == len(parts) else []


def _items(over: ValueBound) -> list[tuple[Any, Any]] | None:
    """Return the keys and values that are walked, where they are known."""
    value = over.exact.values[0] if over.exact and len(over.exact.values) == 1 else None
    if isinstance(value, list):
        return list(enumerate(cast("list[Any]", value)))
    return list(cast("dict[str, Any]", value).items()) if isinstance(value, dict) else None


def _walked(
    node: For, over: ValueBound, kind: Type, turn: int | None
) -> list[tuple[str, ValueBound, Type]]:
    *first, last = node.names
    key: Type = INT if isinstance(kind, ListOf) else STR
    inner = kind.inner if isinstance(kind, ListOf) or (isinstance(kind, MapOf) and first) else STR
    if turn is not None and (items := _items(over)) is not None:
        at, value = map(bound_of, items[turn])
        value = at if isinstance(kind, MapOf) and not first else value
        return [*((name, at, key) for name in first), (last, value, inner)]
    match kind:
        case ListOf():
            item, most = over.item, total(over.size, exactly(-1))
            at = ValueBound(most, least=0)
        case MapOf():
            at = ValueBound(over.key)
            item = over.item if first else at
        case _:
            item, at = over.item, of_type(STR)
    return [*((name, at, key) for name in first), (last, item or of_type(inner), inner)]


def _guarded(
    w: CostWalk, body: Callable[[], None], catches: Sequence[Catch], cap: int | None
) -> None:
    """A handler runs when the body has run in part, outside the budget of the body. What it fails
    with itself goes to the one around it."""
    before, raised, fails = w.scopes.copy(), w.raises, w.fails
    w.raises, w.fails = False, exactly(0)
    with w.scopes.watch() as seen, w.apart() as spent:
        body()
    w.spend(capped(spent[0], cap))
    reason, is_caught = w.fails, any(catch.kind in _FAILURES for catch in catches)
    w.fails = fails if is_caught else greater(fails, reason)
    if catches and w.raises:
        ways = [partial(_handler, w, catch, reason) for catch in catches]
        ways += [] if w.over else [_nothing]
        w.raises = not any(catch.kind == "" for catch in catches)
        w.scopes.restore(before)
        w.scopes.join(seen)
        handled = reduce(worse_of, w.branches(*ways), NONE)
        w.spend(NONE if w.facts.typical else handled)
    w.raises |= raised


def _handler(w: CostWalk, catch: Catch, own: Size | None) -> None:
    with w.scopes.block():
        if catch.reason:
            own = own if catch.kind in _FAILURES else exactly(0)
            w.scopes.declare(catch.reason, _reason(w, own), STR)
        w.block(catch.body)


_FAILURES = ("", "Failed")


def _reason(w: CostWalk, own: Size | None) -> ValueBound:
    """What a program says itself when it fails may be longer than what is said to it."""
    if w.facts.is_noting:
        return of_type(STR)
    if w.facts.typical:
        return typical_reason()
    return ValueBound(greater(exactly(REASON_BYTES), own))


def _try(w: CostWalk, node: Try) -> None:
    _guarded(w, partial(w.block, node.body), node.catches, None)


def _session(w: CostWalk, node: Session) -> None:
    """One that is larger than what is around it never opens."""
    cap = number(evaluate(w, node.budget).size)
    for setting in node.settings:
        if setting.name == "on_exceed" and getattr(setting.value, "name", "") in _LOOSE:
            cap = None
    is_sure = isinstance(node.budget, MoneyLit) and cap is not None
    never = is_sure and w.cap is not None and (cap or 0) > w.cap

    def body() -> None:
        w.raises |= w.may_lack or not is_sure
        if not never:
            w.scope(cap, lambda: w.block(node.body))

    _guarded(w, body, node.catches, cap)


def _parallel(w: CostWalk, node: Parallel) -> None:
    def body() -> None:
        is_over = False
        for task in node.body.body:
            w.over = False
            w.statement(task)
            is_over |= w.over
        w.over = is_over

    _guarded(w, body, node.catches, None)


def _monitor(w: CostWalk, node: Monitor) -> None:
    """Walk its body, which runs once, perhaps when the sessions around it are over."""
    evaluate(w, node.of)
    before = w.scopes.copy()
    cap, w.cap, loops, w.left = w.cap, None, w.left, []
    with w.scopes.watch() as seen, w.apart() as spent, w.scopes.block():
        w.scopes.declare(node.reason, _reason(w, w.facts.assumed.most(FAILED)), STR)
        w.block(node.body)
    w.cap, w.left, w.over = cap, loops, False
    w.scopes.restore(before)
    w.scopes.join(seen)
    w.spend(moved(spent[0]))


STATEMENTS.update(
    {
        Let: _let,
        Assign: _assign,
        ExprStmt: _expression,
        Return: _return,
        Break: _leave,
        Continue: _leave,
        If: _if,
        While: _while,
        For: _for,
        Try: _try,
        Session: _session,
        Parallel: _parallel,
        Monitor: _monitor,
        Block: CostWalk.block,
    }
)
assert STATEMENTS.keys() == {*get_args(Stmt)}


# The walk through a whole program.


_MAIN = "main"


class KnownRun(Struct, frozen=True):
    """The arguments of `main` and the world, as far as they are known before a run begins."""

    arguments: tuple[Any, ...]
    world: KnownWorld | None = None


def main_params(checked: Checked) -> list[tuple[str, Type]]:
    """Return the names and types of what `main` takes."""
    found = dict(bodies_of(checked)).get(_MAIN)
    params = () if found is None else found[1].params
    return [(param.name, checked.types.get(id(param), ANY)) for param in params]


def walk_all(facts: CostFacts, known: KnownRun | None = None) -> SpendingBound:
    """Return what the whole program spends at most."""
    unit, budget = facts.checked.units[facts.checked.main], facts.budget
    walk = CostWalk(facts, unit, budget, may_lack=budget is not None)
    if _MAIN not in facts.bodies:
        walk.all(walk.unit.source.body)
        return walk.spent
    _, decl = facts.bodies[_MAIN]
    typed = typical_value if facts.typical else of_type
    given = [typed(facts.type(param)) for param in decl.params]
    if known is not None:
        given = [bound_of(value) for value in known.arguments]
        if facts.world is None:
            given = list(map(without_exact, given))
    spent = call_function(walk, _MAIN, tuple(given)).spent
    cap = main_budget(facts.bodies)
    if cap is None or spent.apart:
        return spent
    # Wallets of what `main` spawns are parts of its budget, and one that does not fit is refused.
    return replace(spent, most=min(spent.total, cap))


def main_budget(bodies: Mapping[str, tuple[Unit, FnDecl | ToolDecl]]) -> int | None:
    """Return the budget of `main`, where it is written as an amount."""
    _, decl = bodies.get(_MAIN, (None, None))
    budget = decl.budget if isinstance(decl, FnDecl) else None
    return budget.nanos if isinstance(budget, MoneyLit) else None
