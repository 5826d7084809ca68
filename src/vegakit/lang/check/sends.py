"""Sends, spawns and futures (pure)."""

from vegakit.lang.check.comparisons import sent_comparison, warn_of_comparison
from vegakit.lang.check.context import UNKNOWN, BodyCheck, Rule, infer, is_json
from vegakit.lang.check.fitting import check, check_amount, is_open
from vegakit.lang.check.literals import usable
from vegakit.lang.check.names import process_name, process_of
from vegakit.lang.check.resolution import written
from vegakit.lang.check.settings import check_rules
from vegakit.lang.check.symbols import (
    AgentSymbol,
    RoutineSymbol,
    SupervisorSymbol,
    closest_name,
    described,
    replacement,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import Ask, Await, Expr, ListLit, Name, Spawn
from vegakit.lang.types import (
    ANY,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    STR,
    FutureOf,
    ListOf,
    OptionalOf,
    ProcessOf,
    StreamOf,
    Type,
    type_label,
)

# Sends: to whom, of what, and what comes back.


def _ask(body: BodyCheck, node: Ask, expected: Type | None) -> Type:
    reached, errors = _addressed(body, node), body.reports.errors
    compared = sent_comparison(body, node) if reached else None
    if compared is not None:
        body.sent[id(compared)] = node
    _message(body, node.message)
    is_faulty = body.reports.errors > errors
    if compared is not None and not is_faulty:
        warn_of_comparison(body, node, expected)
    if node.timeout is not None:
        check(body, node.timeout, DURATION, "the timeout")
    if node.budget is not None:
        check_amount(body, node.budget, "the budget")
    answer = _answer(body, node)
    if not reached or answer == UNKNOWN or (compared is not None and is_faulty):
        return UNKNOWN
    if node.stream:
        return StreamOf()
    return FutureOf(answer) if node.later else answer


def _addressed(body: BodyCheck, node: Ask) -> bool:
    if isinstance(node.to, Name) and isinstance(
        found := None if body.scopes.find(node.to.name) else body.names.find(node.to.name),
        RoutineSymbol,
    ):
        called = f"{node.to.name}({body.source(node.message)})"
        message = f"`{node.to.name}` is {described(found)}, which is called"
        edit = Edit(node.at, node.end, called)
        body.reports.error("not-an-agent", node.to, message, f"write `{called}`", edit)
        return False
    if isinstance(node.to, Name) and _is_unknown(body, node.to):
        _no_agent(body, node.to, "agent")
        return True
    to = process_of(body, node.to)
    if not isinstance(to, ProcessOf):
        if to != UNKNOWN and not is_open(body, node.to, to):
            _not_an_agent(body, node, to)
        return to == UNKNOWN
    if to.agent in body.program.supervisors:
        body.reports.error(
            "not-an-agent",
            node.to,
            f"`{body.source(node.to)}` is a supervisor, it takes no messages",
            "spawn one of its children and send to that",
        )
    return True


def _is_unknown(body: BodyCheck, name: Name) -> bool:
    return (
        body.scopes.find(name.name) is None
        and body.names.find(name.name) is None
        and name.name not in body.later
    )


def _not_an_agent(body: BodyCheck, node: Ask, to: Type) -> None:
    """`x <-1` is read as a send."""
    arrow = body.names.unit.text.find("<-", node.to.end, node.message.at)
    left, right = body.source(node.to), body.source(node.message)
    if isinstance(to, FutureOf) and isinstance(to.inner, ProcessOf):
        advice, edit = f"write `(await {left})`", Edit(node.to.at, node.to.end, f"(await {left})")
    elif isinstance(to, OptionalOf) and isinstance(to.inner, ProcessOf):
        advice, edit = f"it may be null: test it before, `if {left} != null {{ … }}`", None
    elif arrow >= 0 and to in (INT, FLOAT, MONEY, DURATION):
        advice, edit = f"write `{left} < -{right}`", Edit(arrow, node.message.at, "< -")
    else:
        advice, edit = "send to the name of an agent, or to what `spawn` gave", None
    body.reports.error(
        "not-an-agent",
        node.to,
        f"the left side is not an agent, it is {type_label(body.type_variables.full(to))}",
        advice,
        edit,
    )


def _message(body: BodyCheck, node: Expr) -> None:
    """Text, or whatever can be written down; a list may hold texts and files side by side."""
    kind = infer(body, node, ANY if isinstance(node, ListLit) else None)
    usable(body, node, kind)
    if isinstance(kind, ProcessOf):
        body.reports.error("not-sendable", node, f"{type_label(kind)} cannot be sent in a message")


def _answer(body: BodyCheck, node: Ask) -> Type:
    if node.answer is None:
        kind = body.answers.get(id(node), STR)
        return kind if is_json(kind) and not _is_loose(body, kind) else STR
    kind = written(body.program, body.names, node.answer)
    if node.stream:
        body.reports.error(
            "typed-stream", node.answer, "a stream is text, piece by piece", "send with `<-`"
        )
    elif is_json(kind):
        return kind
    else:
        body.reports.error("not-an-answer", node.answer, f"an answer cannot be {type_label(kind)}")
    return UNKNOWN


def _is_loose(body: BodyCheck, kind: Type) -> bool:
    """Not a declared type but one that is still open."""
    return kind == ANY or body.type_variables.full(kind, ANY) != kind


def _no_agent(body: BodyCheck, name: Name, what: str) -> None:
    wanted = AgentSymbol | SupervisorSymbol
    known = [key for key, found in body.names.own.items() if isinstance(found, wanted)]
    if what == "agent":
        known = [*known, *body.scopes.names()]
    help_, edit = replacement(name, closest_name(name.name, known))
    body.reports.error(
        "unknown-name",
        name,
        f"there is no agent `{name.name}`",
        help_ or "declare it: `agent Name { model … }`",
        edit,
    )


def _spawn(body: BodyCheck, node: Spawn, _want: Type | None) -> Type:
    if node.wallet is not None:
        check_amount(body, node.wallet, "the wallet")
    if node.named is not None:
        check(body, node.named, STR, "the name")
    if node.under is not None:
        _supervised(body, node.under)
    if node.rules is not None:
        check_rules(body.program, node.rules, "`supervised by`")
    declared = body.names.find(node.agent.name)
    if isinstance(declared, AgentSymbol | SupervisorSymbol):
        handle = process_name(body, node.agent, declared)
        return FutureOf(handle) if node.later else handle
    _not_spawnable(body, node.agent)
    return UNKNOWN


def _not_spawnable(body: BodyCheck, name: Name) -> None:
    declared = body.names.find(name.name)
    variable = body.scopes.find(name.name)
    if declared is None and variable is None:
        _no_agent(body, name, "declared")
        return
    if variable is not None:
        variable.read = True
    what = "a variable" if declared is None else described(declared)
    body.reports.error(
        "not-an-agent", name, f"`{name.name}` is {what}, only an agent or supervisor can be spawned"
    )


def _supervised(body: BodyCheck, node: Expr) -> None:
    kind = process_of(body, node)
    if kind == UNKNOWN or is_open(body, node, kind):
        return
    if not (isinstance(kind, ProcessOf) and kind.agent in body.program.supervisors):
        body.reports.error(
            "not-a-supervisor",
            node,
            f"this is {type_label(kind)}, not a supervisor",
            "name one, or write rules: `supervised by { strategy restart  max_restarts 3 }`",
        )


_NO_WAIT = "there is nothing to wait for"


def _await(body: BodyCheck, node: Await, _want: Type | None) -> Type:
    kind = infer(body, node.of)
    if isinstance(kind, FutureOf):
        return body.type_variables.seen(kind.inner)
    if kind != UNKNOWN and not is_open(body, node.of, kind):
        text = body.source(node.of)
        if isinstance(kind, ListOf) and isinstance(body.type_variables.seen(kind.inner), FutureOf):
            text = f"[for one in {text} {{ await one }}]"
        body.reports.error(
            "not-a-future",
            node,
            f"this is {type_label(body.type_variables.full(kind))}, "
            f"not a future: {'each is waited for' if text[0] == '[' else _NO_WAIT}",
            f"write `{text}`",
            Edit(node.at, node.end, text),
        )
    return UNKNOWN


SENDS: dict[type, Rule] = {Ask: _ask, Spawn: _spawn, Await: _await}
