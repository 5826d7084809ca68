"""Cost of expressions, calls and sends, and what is known of their values (pure)."""

from collections.abc import Callable
from functools import reduce
from math import inf
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import ToolSpec
from vegakit.lang.analysis.cost_bounds import (
    APART,
    INSIDE,
    NONE,
    CostLocation,
    LineCost,
    MissingBound,
    SpawnedWallets,
    SpendingBound,
    capped,
    times,
    with_tools,
    worse_of,
)
from vegakit.lang.analysis.cost_library import (
    FAILED,
    bound_of,
    call_library,
    computed,
    exact_text,
    item_at,
    joined_items,
    keeps_values,
    list_of,
    map_of,
    record_of,
    texts_of,
)
from vegakit.lang.analysis.cost_sends import (
    MAX_TOOL_CALLS,
    SendCost,
    SendTerms,
    cost_of,
    part_of,
    size_of_answer,
)
from vegakit.lang.analysis.cost_typical import typical_answer, typical_cost
from vegakit.lang.analysis.cost_values import (
    NO_ITEM,
    NULL_VALUE,
    Size,
    SpawnOrigin,
    ValueBound,
    as_symbol,
    bytes_of,
    either,
    exactly,
    greater,
    is_natural,
    known,
    least_difference,
    least_in_64_bits,
    least_sum,
    number,
    of_answer,
    of_type,
    product,
    size_of_text,
    throughout,
    tokens_in,
    total,
    within,
    without_exact,
)
from vegakit.lang.analysis.cost_walk import (
    CallOutcome,
    CostWalk,
    RecordedSend,
    SentMessage,
    as_amount,
)
from vegakit.lang.check.symbols import CalleeKind, NameKind
from vegakit.lang.codegen.writer import literal
from vegakit.lang.schemas import schema_of
from vegakit.lang.syntax.tree import (
    Ask,
    Await,
    Binary,
    Build,
    Call,
    Cast,
    Decimal,
    Duration,
    Expr,
    FnDecl,
    Index,
    ListLit,
    MapLit,
    Member,
    MoneyLit,
    Name,
    Node,
    Race,
    Spawn,
    Text,
    ToolDecl,
    Unary,
    Whole,
    Word,
)
from vegakit.lang.types import (
    INT,
    NOTHING,
    STR,
    FutureOf,
    ListOf,
    MapOf,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
    is_text,
)
from vegakit.prices import DEFAULT_SEND_BUDGET

# Calls of functions, and sends with what the tools of the agent may spend meanwhile.


class SendFacts(Struct, frozen=True):
    """A send in the source, with what is known of its message and budget."""

    node: Ask
    bytes: Size | None
    least: int
    answer: Type
    budget: tuple[Expr, ValueBound] | None

    @property
    def size(self) -> int | None:
        """Return the most bytes of the message; None if nothing, or only a symbol, bounds them."""
        most = number(self.bytes)
        return None if most is None else max(most, 0)


def call_function(w: CostWalk, name: str, given: tuple[ValueBound, ...]) -> CallOutcome:
    """Return what a call spends and returns. For one that calls itself nothing is added here:
    the call around it has no bound then."""
    facts = w.facts
    if name in facts.running:
        facts.recursive.add(name)
        fails = facts.assumed.most(FAILED)
        return CallOutcome(NONE, _result(w, name), raises=True, fails=fails)
    known = facts.known.get((name, given, w.cap, w.may_lack))
    if known is None:
        facts.running.append(name)
        known = _walked(w, name, given)
        facts.running.pop()
        if not facts.recursive & set(facts.running):
            facts.known[name, given, w.cap, w.may_lack] = known
    return known


def _result(w: CostWalk, name: str) -> ValueBound:
    _, decl = w.facts.bodies[name]
    return of_type(NOTHING if decl.result is None else w.facts.type(decl.result))


def _walked(w: CostWalk, name: str, given: tuple[ValueBound, ...]) -> CallOutcome:
    facts = w.facts
    unit, decl = facts.bodies[name]
    inner = CostWalk(facts, unit, w.cap, may_lack=w.may_lack)
    for param, value in zip(decl.params, given, strict=True):
        kind = facts.type(param)
        inner.scopes.declare(param.name, within(value, kind), kind)
    cap = None
    if isinstance(decl, FnDecl) and decl.budget is not None:
        cap = number(evaluate(inner, decl.budget).size)
        inner.raises |= w.may_lack
        if isinstance(decl.budget, MoneyLit) and w.cap is not None and decl.budget.nanos > w.cap:
            return CallOutcome(NONE, _result(w, name), raises=True)
    inner.scope(cap, lambda: inner.block(decl.body))
    spent = inner.spent
    if name in facts.recursive:
        facts.recursive.discard(name)
        inner.raises = True
        for place in spent.shares:  # what it is called with next may be longer
            if (sent := facts.sent.get(place)) is not None:
                facts.sent[place] = replace(sent, size=None)
        spent = times(spent, inf, inner.place(decl, f"{decl.name} calls itself"))
    facts.uncut[name] = spent.shares
    value = reduce(either, inner.returned) if inner.returned else _result(w, name)
    return CallOutcome(capped(spent, cap), value, inner.raises, inner.fails)


def send_to(
    w: CostWalk, asked: SendFacts, agents: list[str], is_process: bool, spawned: SpawnOrigin | None
) -> None:
    """Spend what a send to one of these agents costs at most."""
    fund = _payer(w, is_process, spawned)
    most = NONE
    for name in agents:
        spec, cap = w.facts.agents[name], w.cap
        if fund != INSIDE:
            cap = None if spawned is None else spawned.wallet
        part = _part(part_of(spec), asked.budget)
        tools = _tools(w, name, _least(part or DEFAULT_SEND_BUDGET, cap))
        remembers = is_process and spec.memory
        size = None if remembers else asked.size
        spend, tokens, specs = tools.as_cost_bound, tokens_in(asked.bytes), _specs(w, name)
        sending = SendTerms(spec, asked.answer, size, asked.least, part, specs, spend, tokens)
        what = _recorded(w, name, asked)
        if w.facts.typical:
            sending = replace(sending, size=asked.size)
            cost = typical_cost(sending, w.facts.terms, remembers=remembers)
        else:
            cost = cost_of(sending, w.facts.terms, cap, w.facts.pool)
        if w.facts.notes is not None and cost.calls:
            size = None if remembers else asked.bytes
            w.facts.notes[what] = RecordedSend(name, cost.calls, size, asked.answer, part)
        place = w.place(asked.node, what)
        answer = w.facts.answer_tokens(name)
        sent = SentMessage(cost.calls, sending.size, answer, cost.fund.repeats.once)
        w.facts.sent[place] = sent.joined(w.facts.sent.get(place))
        one = _of_calls(cost, place, fund)
        most = worse_of(most, with_tools(one, tools))
    w.spend(most)


def _recorded(w: CostWalk, name: str, asked: SendFacts) -> str:
    """Return what a send is called; where sends are noted, each by a name of its own."""
    if w.facts.notes is not None:
        return f"{name}@{w.unit.path}@{asked.node.at}"
    return f"{name} <{'~' if asked.node.stream else '-'}"


def _payer(w: CostWalk, is_process: bool, spawned: SpawnOrigin | None) -> str:
    """A process that has no wallet spends as whoever spawned it, in the session of the send."""
    if not is_process or w.facts.handles_in_sessions:
        return INSIDE
    if spawned is None:
        return APART
    return INSIDE if spawned.wallet is None else spawned.site


def _least(*caps: int | None) -> int | None:
    return min((cap for cap in caps if cap is not None), default=None)


def _part(declared: int | None, budget: tuple[Expr, ValueBound] | None) -> int | None:
    """Return the part of this send, or else the agent's; None where nobody knows it."""
    if budget is None:
        return declared
    node, value = budget
    return node.nanos if isinstance(node, MoneyLit) else number(value.size)


def _of_calls(cost: SendCost, place: CostLocation, fund: str) -> SpendingBound:
    amount = cost.fund.amount
    inside, rest = (amount, 0) if fund == INSIDE else (0, amount)
    repeats = cost.fund.repeats
    share = LineCost(cost.calls, inside, rest, cost.sends, repeats)
    gaps = (MissingBound(replace(place, what=cost.why), fund),) if amount == inf else ()
    shares = {place: share}
    spend = SpendingBound(
        calls=cost.calls,
        shares=shares,
        gaps=gaps,
        most=amount,
        asked=cost.held,
        sends=cost.sends,
        most_repeats=repeats,
    )
    match fund:
        case "inside":
            return replace(spend, inside=cost.fund)
        case "apart":
            return replace(spend, apart=amount, apart_repeats=repeats)
        case _:
            return replace(spend, handles={fund: cost.fund})


def _specs(w: CostWalk, agent: str) -> tuple[ToolSpec, ...] | None:
    spec = w.facts.agents[agent]
    found = [w.facts.bodies.get(name) for name in spec.tools]
    if spec.mcp or spec.yaml or None in found:
        return None
    return tuple(_spec(w, body[1]) for body in found if body is not None)


def _spec(w: CostWalk, decl: FnDecl | ToolDecl) -> ToolSpec:
    params = tuple((param.name, w.facts.type(param)) for param in decl.params)
    said = literal(decl.description) if isinstance(decl, ToolDecl) else ""
    return ToolSpec(decl.name, said, schema_of(RecordOf(decl.name, params)))


def _tools(w: CostWalk, agent: str, part: int | None) -> SpendingBound:
    """Return what the tools of the agent spend. Every round may call the most expensive of them;
    after the last step none is called. Where sends are noted, those of tools are paid by the
    part of the send."""
    most, spec = NONE, w.facts.agents[agent]
    if spec.max_steps == 1 or w.facts.is_noting or w.facts.typical:
        return NONE
    for name in spec.tools:
        found = w.facts.bodies.get(name)
        if found is not None:
            _, decl = found
            given = tuple(of_type(w.facts.type(param)) for param in decl.params)
            within_part = CostWalk(w.facts, w.unit, part, may_lack=True)
            most = worse_of(most, call_function(within_part, name, given).spent)
    return most if most == NONE else times(most, MAX_TOOL_CALLS, CostLocation("", 0, ""))


# Expressions, walked: what is known of their value.


_HARMLESS = frozenset(
    {Whole, Decimal, MoneyLit, Duration, Word, Text, Name, ListLit, MapLit, Member, Build}
    | {Call, Binary, Spawn}
)
"""What raises nothing by itself; the last three have rules of their own."""
_NEVER_FAIL = frozenset({"print", "len", "range", "list::len", "map::len"})
_MAY_OVERFLOW = frozenset("+-*/%")


def evaluate(w: CostWalk, node: Expr) -> ValueBound:
    """Return what is known of the value of an expression, and spend what it costs."""
    w.facts.count()
    w.raises |= type(node) not in _HARMLESS
    return within(_RULES[type(node)](w, node), w.facts.type(node))


def _whole(w: CostWalk, node: Whole | Word) -> ValueBound:
    return _literal(w, node.value)


def _literal(w: CostWalk, value: int | bool | str | None) -> ValueBound:
    """Where values are followed, those that are written are too."""
    if w.facts.world is not None:
        return bound_of(value)
    if value is None:
        return NULL_VALUE
    return known(value) if type(value) is int else ValueBound()


def _unsized(w: CostWalk, node: Decimal | Duration) -> ValueBound:
    return ValueBound()


def _text(w: CostWalk, node: Text) -> ValueBound:
    size, least = exactly(0), 0
    texts: list[tuple[str, ...] | None] = []
    for part in node.parts:
        if isinstance(part, str):
            more = size_of_text(part)
            least += more.number
            texts.append((part,))
        else:
            value, kind = evaluate(w, part), w.facts.type(part)
            more = bytes_of(value, kind)
            least += (value.least or 0) if is_text(kind) else 0
            texts.append(texts_of(value) if is_text(kind) or kind == INT else None)
        size = total(size, more)
    bound = ValueBound(size, least=least_in_64_bits(least))
    exact = None if w.facts.world is None else exact_text(texts)
    return bound if exact is None else replace(exact, least=bound.least)


def _name(w: CostWalk, node: Name) -> ValueBound:
    found = w.scopes.find(node.name)
    return ValueBound() if found is None else found[1].value


def _map(w: CostWalk, node: MapLit) -> ValueBound:
    keys = [evaluate(w, pair.key).size for pair in node.pairs]
    parts = [(evaluate(w, pair.value), w.facts.type(pair.value)) for pair in node.pairs]
    return map_of(keys, parts)


def _race(w: CostWalk, node: Race) -> ValueBound:
    """All of them run, and each is looked at."""

    def judge(item: ValueBound) -> ValueBound:
        with w.scopes.block():
            w.scopes.declare(node.name, item, w.facts.type(node))
            _evaluate_all(w, node.where)
        return item

    if isinstance(node.of, Build):
        return _build(w, node.of, judge).item or of_type(w.facts.type(node))
    items = [judge(evaluate(w, item)) for item in node.of.items]
    return without_exact(reduce(either, items, NO_ITEM))


def _build(
    w: CostWalk, node: Build, judge: Callable[[ValueBound], ValueBound] = lambda item: item
) -> ValueBound:
    over, kind = evaluate(w, node.over), w.facts.type(node.over)
    with w.apart() as spent, w.scopes.block():
        inner = kind.inner if isinstance(kind, ListOf) else STR
        item = (over.item if isinstance(kind, ListOf) else None) or of_type(inner)
        if w.facts.is_noting and over.size is None and is_text(inner):
            item = as_symbol(f"item@{id(node)}", STR)
        w.scopes.declare(node.name, item, inner)
        if node.where is not None:
            evaluate(w, node.where)
        item = judge(evaluate(w, node.item))
    place = w.place(node, "this list has no bound")
    if number(over.size) is None:
        w.facts.keep_round(node, spent[0])
    w.spend(times(spent[0], as_amount(number(over.size)), place))
    return ValueBound(over.size, item, whole=over.whole if _is_part_of(node) else None)


def _is_part_of(node: Build) -> bool:
    """Return whether what is built holds parts of the items only, each once."""
    of = node.item
    while isinstance(of, Member):
        of = of.of
    return isinstance(of, Name) and of.name == node.name


def _unary(w: CostWalk, node: Unary) -> ValueBound:
    evaluate(w, node.of)
    return known(-node.of.value) if isinstance(node.of, Whole) else ValueBound()


def _binary(w: CostWalk, node: Binary) -> ValueBound:
    left, right = evaluate(w, node.left), evaluate(w, node.right)
    if (found := computed(node.op, left, right)) is not None:
        return found
    w.raises |= node.op in _MAY_OVERFLOW and not is_text(w.facts.type(node)) and not left.item
    match node.op:
        case "+":
            least = None if isinstance(w.facts.type(node), MapOf) else least_sum(left, right)
            return ValueBound(
                total(left.size, right.size),
                joined_items(left, right),
                least=least,
                key=greater(left.key, right.key),
                whole=total(left.whole, right.whole),
            )
        case "-" if right.least is not None:
            return ValueBound(
                total(left.size, exactly(-right.least)), least=least_difference(left, right)
            )
        case "*" if is_natural(left) and is_natural(right):
            return ValueBound(product(left.size, right.size), least=0)
        case "??":
            return either(left, right)
        case _:
            return ValueBound()


def _index(w: CostWalk, node: Index) -> ValueBound:
    of = evaluate(w, node.of)
    if (found := item_at(of, evaluate(w, node.index))) is not None:
        return found
    return (
        of.item if of.item and isinstance(w.facts.type(node.of), ListOf | MapOf) else ValueBound()
    )


def _call(w: CostWalk, node: Call) -> ValueBound:
    values = [evaluate(w, arg) for arg in node.args]
    callee = w.facts.checked.callees.get(id(node))
    if callee is None:
        w.raises = True
        return ValueBound()
    if callee.kind is CalleeKind.LIBRARY:
        w.raises |= callee.name not in _NEVER_FAIL
        kinds = [w.facts.type(arg) for arg in node.args]
        if callee.name == "fail":
            w.fails = greater(w.fails, values[0].size)
        return call_library(w.facts, callee.name, values, kinds)
    order = w.facts.checked.arguments.get(id(node), tuple(range(len(values))))
    given = [NULL_VALUE if at is None else values[at] for at in order]
    if callee.kind in (CalleeKind.FUNCTION, CalleeKind.TOOL):
        called = call_function(w, callee.name, tuple(given))
        w.spend(called.spent)
        w.raises |= called.raises
        w.fails = greater(w.fails, called.fails)
        return called.value
    w.raises = True
    kind, made = w.facts.type(node), callee.kind is CalleeKind.RECORD
    return record_of(kind, given) if made and isinstance(kind, RecordOf) else ValueBound()


def _ask(w: CostWalk, node: Ask) -> ValueBound:
    _evaluate_all(w, node.timeout)
    message = evaluate(w, node.message)
    budget = None if node.budget is None else (node.budget, evaluate(w, node.budget))
    kind = w.facts.type(node)
    if isinstance(kind, FutureOf):
        kind = kind.inner
    answer = STR if isinstance(kind, StreamOf) or node.stream else kind
    said = w.facts.type(node.message)
    size = None if isinstance(said, ListOf) else bytes_of(message, said)
    least = (message.least or 0) if is_text(said) else 0
    agents, is_process, spawned = _whom(w, node.to)
    send_to(w, SendFacts(node, size, least, answer, budget), agents, is_process, spawned)
    value = _answer(w, agents, answer)
    return ValueBound(None, value) if isinstance(kind, StreamOf) else value


def _answer(w: CostWalk, agents: list[str], kind: Type) -> ValueBound:
    """An answer counts as no longer than its tokens, whatever its type."""
    tokens = [w.facts.answer_tokens(name) for name in agents]
    known_tokens = [most for most in tokens if most is not None]
    if w.facts.is_noting or not tokens or len(known_tokens) < len(tokens):
        return of_type(kind)
    if w.facts.typical:
        return typical_answer(kind, max(known_tokens))
    return of_answer(kind, size_of_answer(max(known_tokens), w.facts.tokenizer))


def _whom(w: CostWalk, to: Expr) -> tuple[list[str], bool, SpawnOrigin | None]:
    """The agents it may be, whether it is a process, and which."""
    if isinstance(to, Name) and w.facts.checked.names.get(id(to)) is NameKind.AGENT:
        return [w.facts.checked.full_names[id(to)]], False, None
    value, kind = evaluate(w, to), w.facts.type(to)
    if isinstance(kind, ProcessOf) and kind.agent in w.facts.agents:
        return [kind.agent], True, value.spawned
    return list(w.facts.agents), True, value.spawned


def _spawn(w: CostWalk, node: Spawn) -> ValueBound:
    _evaluate_all(w, node.named, node.under)
    has_room = node.named is None and node.under is None and not w.may_lack
    w.raises |= not has_room or w.facts.spawns_may_fail
    if node.under is not None:
        w.spend(SpendingBound(processes=1))
        return ValueBound()
    wallet = None if node.wallet is None else number(evaluate(w, node.wallet).size)
    if node.wallet is not None and wallet is None:
        w.spend(SpendingBound(processes=1))
        return ValueBound()
    if wallet is not None and w.cap is not None and wallet > w.cap:
        w.raises = True
        return ValueBound()
    site = f"{w.unit.path}:{node.at}"
    spawned_wallets = {} if wallet is None else {site: SpawnedWallets(wallet)}
    w.spend(SpendingBound(spawned_wallets=spawned_wallets, processes=1, asked=wallet or 0))
    return ValueBound(spawned=SpawnOrigin(site, wallet))


def _evaluate_all(w: CostWalk, *nodes: Expr | None) -> None:
    for node in nodes:
        if node is not None:
            evaluate(w, node)


def _cast(w: CostWalk, node: Cast) -> ValueBound:
    value, kind = evaluate(w, node.of), w.facts.type(node)
    return throughout(value if keeps_values(kind) else without_exact(value), kind)


_RULES: dict[type[Node], Callable[[CostWalk, Any], ValueBound]] = {
    Whole: _whole,
    Decimal: _unsized,
    Duration: _unsized,
    MoneyLit: lambda _w, node: known(node.nanos),
    Word: _whole,
    Text: _text,
    Name: _name,
    ListLit: lambda w, node: list_of(
        [(evaluate(w, item), w.facts.type(item)) for item in node.items]
    ),
    MapLit: _map,
    Build: _build,
    Race: _race,
    Unary: _unary,
    Binary: _binary,
    Member: lambda w, node: evaluate(w, node.of).field(node.name) or ValueBound(),
    Index: _index,
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: lambda w, node: evaluate(w, node.of),
    Cast: _cast,
}
assert _RULES.keys() == {*get_args(Expr)}
