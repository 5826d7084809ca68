"""Settings of agents and blocks: which exist, what values each takes, and the check of those
written; and whether budgets fit into those around them (pure).
"""

import re
from collections.abc import Collection
from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import ErrorClass
from vegakit.lang.check.context import ProgramCheck
from vegakit.lang.check.fitting import constant_text
from vegakit.lang.check.symbols import (
    AgentSymbol,
    NameKind,
    Names,
    RoutineSymbol,
    Symbol,
    closest_name,
    replacement,
)
from vegakit.lang.diagnostics import Edit, count_steps
from vegakit.lang.syntax.cursor import SETTING_WORDS
from vegakit.lang.syntax.lexer import money_text
from vegakit.lang.syntax.tree import (
    Ask,
    Binary,
    Build,
    Call,
    Catch,
    Decimal,
    Duration,
    Expr,
    FnDecl,
    For,
    If,
    ListLit,
    MoneyLit,
    Monitor,
    Name,
    Node,
    Race,
    Session,
    Setting,
    Spawn,
    Text,
    Unary,
    While,
    Whole,
)

# Fields of agents and settings of blocks: which there are, and what each takes.


class NumberSetting(Struct, frozen=True):
    """A whole number within its range: `3`."""

    least: int
    most: int


class FractionSetting(Struct, frozen=True):
    """A number within its range: `0.2` or `1`."""

    least: float
    most: float


class AmountSetting(Struct, frozen=True):
    """Money: `$0.50`, and `$5/day` where a period fits."""

    period: bool = False
    zero: bool = False


class TimeSetting(Struct, frozen=True):
    """A duration: `30s`."""


class ChoiceSetting(Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]


class ListSetting(Struct, frozen=True):
    """A list of such words: `[timeout, overloaded]`."""

    words: tuple[str, ...]


class BackoffSetting(Struct, frozen=True):
    """A wait that grows: `exponential(100ms, 2.0, 5s)`."""


class LiteralSetting(Struct, frozen=True):
    """A string, or, where `bare`, the name of a model: a bare word, too, or a list of names."""

    bare: bool = False


SettingKind: TypeAlias = (
    NumberSetting
    | FractionSetting
    | AmountSetting
    | TimeSetting
    | ChoiceSetting
    | ListSetting
    | BackoffSetting
    | LiteralSetting
)

_TRANSIENT = tuple(
    str(kind)
    for kind in (
        ErrorClass.RATE_LIMIT,
        ErrorClass.OVERLOADED,
        ErrorClass.UNAVAILABLE,
        ErrorClass.SERVER,
        ErrorClass.TIMEOUT,
        ErrorClass.CONNECTION,
    )
)
_MANY = 1_000_000
_ON_EXCEED = ChoiceSetting(("block", "ask", "warn", "allow"))

AGENT: dict[str, SettingKind] = {
    "model": LiteralSetting(bare=True),
    "system": LiteralSetting(),
    "temperature": FractionSetting(0, 2),
    "effort": ChoiceSetting(("low", "medium", "high")),
    "max_tokens": NumberSetting(1, 10_000_000),
    "max_steps": NumberSetting(1, 10_000),
    "budget": AmountSetting(period=True),
    "on_exceed": _ON_EXCEED,
    "memory": ChoiceSetting(("conversation",)),
    "priority": ChoiceSetting(("realtime", "high", "normal", "low", "idle")),
    "timeout": TimeSetting(),
}
BLOCKS: dict[str, dict[str, SettingKind]] = {
    "retry": {
        "max_attempts": NumberSetting(1, 100),
        "backoff": BackoffSetting(),
        "on": ListSetting(_TRANSIENT),
        "resend_unknown": ChoiceSetting(("always", "never")),
    },
    "circuit_breaker": {
        "threshold": NumberSetting(1, _MANY),
        "reset_after": TimeSetting(),
        "probes": NumberSetting(1, _MANY),
    },
    "rate_limit": {
        "requests": NumberSetting(1, _MANY),
        "tokens": NumberSetting(1, 1_000 * _MANY),
        "per": TimeSetting(),
        "burst": NumberSetting(1, _MANY),
        "slots": NumberSetting(1, _MANY),
        "strategy": ChoiceSetting(("queue", "reject", "backpressure")),
    },
}
RULES: dict[str, SettingKind] = {
    "strategy": ChoiceSetting(("restart", "stop", "escalate", "restart_all", "rest_for_one")),
    "max_restarts": NumberSetting(0, _MANY),
    "window": TimeSetting(),
    "backoff": BackoffSetting(),
}
_NEVER_RESTART = ("stop", "escalate")
SESSION: dict[str, SettingKind] = {
    "on_exceed": _ON_EXCEED,
    "speculate": AmountSetting(zero=True),
    "confirm": AmountSetting(zero=True),
}


# Holding fields of agents and settings of blocks to what they take.


def check_settings(
    program: ProgramCheck, settings: tuple[Setting, ...], known: dict[str, SettingKind], what: str
) -> None:
    """`what` has these settings: "`retry`", "a supervisor"."""
    seen: set[str] = set()
    for setting in settings:
        word = Node(setting.at, setting.at + len(setting.name))
        if setting.name not in known:
            unknown_setting(program, word, setting.name, known, what)
        elif setting.name in seen:
            once = " for `requests` and `tokens` together" if setting.name == "per" else ""
            found, edit = f"`{setting.name}` is set already", Edit(setting.at, setting.end, "")
            program.reports.error("duplicate-setting", word, found, f"write it once{once}", edit)
        else:
            check_value(program, setting.value, known[setting.name], f"`{setting.name}`")
        seen.add(setting.name)
    rates = [setting for setting in settings if setting.name in ("requests", "tokens")]
    if "per" in known and rates and "per" not in seen:
        at = rates[-1]
        advice, edit = "say in which time: add `per 1m`", Edit(at.end, at.end, " per 1m")
        found = "a rate is a number in a time"
        program.reports.error("missing-setting", at, found, advice, edit)


def check_rules(program: ProgramCheck, settings: tuple[Setting, ...], what: str) -> None:
    """Check the rules of a supervisor; one that never restarts has nothing to wait for."""
    check_settings(program, settings, RULES, what)
    rules = {setting.name: setting for setting in reversed(settings)}
    waits, strategy, most = map(rules.get, ("backoff", "strategy", "max_restarts"))
    if waits is None:
        return
    never = ""
    if strategy is not None and getattr(strategy.value, "name", "") in _NEVER_RESTART:
        never = f"`strategy {getattr(strategy.value, 'name', '')}`"
    elif most is not None and _value(most.value) == 0:
        never = "`max_restarts 0`"
    if never:
        program.reports.error(
            "wrong-setting",
            waits,
            f"`backoff` is the wait before a restart, and with {never} there is none",
            "leave it out, or allow restarts",
            Edit(waits.at, waits.end, ""),
        )


def unknown_setting(
    program: ProgramCheck, word: Node, name: str, known: Collection[str], what: str
) -> None:
    """Report a setting that does not exist, with the closest one."""
    meant = SETTING_WORDS.get(name, "")
    help_, edit = replacement(word, meant if meant in known else closest_name(name, known))
    program.reports.error(
        "unknown-setting",
        word,
        f"{what} has no `{name}`",
        help_ or f"there are: {', '.join(known)}",
        edit,
    )


def check_value(program: ProgramCheck, node: Expr, kind: SettingKind, what: str) -> None:
    """Check the value of a setting by its rule."""
    match kind:
        case NumberSetting(least=least, most=most):
            _number(program, node, least, most, what)
        case FractionSetting(least=least, most=most):
            _fraction(program, node, least, most, what)
        case AmountSetting():
            _amount(program, node, kind, what)
        case TimeSetting():
            _time(program, node, what)
        case ChoiceSetting(words=words):
            _one_of(program, node, words, what)
        case ListSetting(words=words):
            _words(program, node, words, what)
        case BackoffSetting():
            _growth(program, node, what)
        case LiteralSetting(bare=bare):
            _literal(program, node, bare, what)


def _wrong(
    program: ProgramCheck,
    node: Expr,
    message: str,
    advice: str = "",
    written: str = "",
) -> None:
    edit = Edit(node.at, node.end, written) if written else None
    program.reports.error("wrong-setting", node, message, advice, edit)


def _write(written: str) -> str:
    return f"write {written}" if written else ""


_DECIMAL = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def _value(node: Expr) -> float | None:
    match node:
        case Whole(value=value) | Decimal(value=value):
            return value
        case Unary(op="-", of=Whole(value=value) | Decimal(value=value)):
            return -value
        case _:
            return None


def _number(program: ProgramCheck, node: Expr, least: int, most: int, what: str) -> None:
    value = _value(node)
    if not isinstance(value, int):
        in_text = constant_text(node) or ""
        written = in_text if in_text.isdecimal() else ""
        range_ = f"write one from {least:,} to {most:,}"
        _wrong(program, node, f"{what} is a whole number", _write(written) or range_, written)
    elif not least <= value <= most:
        written = str(min(max(value, least), most))
        message = f"{what} is from {least:,} to {most:,}, this is {value:,}"
        _wrong(program, node, message, _write(written), written)


def _fraction(program: ProgramCheck, node: Expr, least: float, most: float, what: str) -> None:
    value = _value(node)
    if value is None:
        in_text = constant_text(node) or ""
        written = in_text if _DECIMAL.fullmatch(in_text) else ""
        range_ = f"write one from {least:g} to {most:g}"
        _wrong(program, node, f"{what} is a number", _write(written) or range_, written)
    elif not least <= value <= most:
        written = f"{min(max(value, least), most):g}"
        message = f"{what} is from {least:g} to {most:g}, this is {value:g}"
        _wrong(program, node, message, _write(written), written)


def _amount(program: ProgramCheck, node: Expr, kind: AmountSetting, what: str) -> None:
    text = _text_of(program, node)
    if not isinstance(node, MoneyLit):
        help_ = f"write ${text}" if _value(node) is not None else "write such as $0.50"
        _wrong(program, node, f"{what} is money", help_, f"${text}" if _value(node) else "")
    elif node.period and not kind.period:
        _wrong(program, node, f"{what} has no period", "", text.partition("/")[0].rstrip())
    elif node.nanos == 0 and not kind.zero:
        _wrong(program, node, f"with $0 as {what} nothing can run", "leave it out for no limit")


def _time(program: ProgramCheck, node: Expr, what: str) -> None:
    text = _text_of(program, node)
    if not isinstance(node, Duration):
        is_number = isinstance(node, Whole)
        help_ = f"write {text}s" if is_number else "write such as 30s, 500ms, 5m"
        _wrong(program, node, f"{what} is a duration", help_, f"{text}s" if is_number else "")
    elif node.ms == 0:
        _wrong(program, node, f"{what} is longer than nothing", "write at least 1ms")


_MEANT = {
    "one_for_one": "restart",
    "one_for_all": "restart_all",
    "all_for_one": "restart_all",
    "permanent": "restart",
    "temporary": "stop",
    "never": "stop",
    "wait": "queue",
    "error": "reject",
    "fail": "reject",
    "buffer": "conversation",
    "history": "conversation",
    "minimal": "low",
    "urgent": "realtime",
    "raise": "block",
}
"""Words of other systems, by what is written here."""


def _one_of(program: ProgramCheck, node: Expr, words: tuple[str, ...], what: str) -> None:
    word = node.name if isinstance(node, Name) else constant_text(node)
    if isinstance(node, Name) and node.name in words:
        return
    listed = ", ".join(words)
    if word in words:
        _wrong(program, node, f"{what} is a bare word", f"write {word}, without quotes", word or "")
        return
    meant = _MEANT.get(word or "", "")
    close = meant if meant in words else closest_name(word or "", words)
    _wrong(
        program,
        node,
        f"{what} is one of: {listed}" if len(words) > 1 else f"{what} can only be {listed}",
        f"did you mean `{close}`?" if close else "",
        close,
    )


def _words(program: ProgramCheck, node: Expr, words: tuple[str, ...], what: str) -> None:
    if not isinstance(node, ListLit):
        _wrong(program, node, f"{what} is a list", f"write such as [{words[0]}, {words[1]}]")
        return
    for item in node.items:
        _one_of(program, item, words, f"an item of {what}")


def _growth(program: ProgramCheck, node: Expr, what: str) -> None:
    shape = "write exponential(100ms, 2.0, 5s): the first wait, the factor, the longest wait"
    if not (isinstance(node, Call) and isinstance(node.callee, Name)) or len(node.args) != 3:
        _wrong(program, node, f"{what} is exponential(…) of three values", shape)
        return
    first, factor, longest = node.args
    if node.callee.name != "exponential" or any(node.names):
        _wrong(program, node, f"{what} is exponential(…) of three values", shape)
        return
    _time(program, first, "the first wait")
    _fraction(program, factor, 1, 1000, "the factor")
    _time(program, longest, "the longest wait")
    if isinstance(first, Duration) and isinstance(longest, Duration) and first.ms > longest.ms > 0:
        _wrong(program, longest, "the longest wait is shorter than the first", shape)


def _literal(program: ProgramCheck, node: Expr, bare: bool, what: str) -> None:
    if bare and isinstance(node, ListLit):
        names: list[str] = []
        for item in node.items:
            if isinstance(item, ListLit):
                _wrong(program, item, f"an item of {what} is one model", "write [smart, fast]")
                continue
            _literal(program, item, bare, f"an item of {what}")
            name = item.name if isinstance(item, Name) else constant_text(item)
            if name and name in names:
                _wrong(program, item, f"{name} is in the list already", "name each model once")
            names.append(name or "")
        if not node.items:
            _wrong(program, node, f"{what} is empty", "name a model, or leave the field out")
        return
    if bare and isinstance(node, Name) and "::" not in node.name:
        return
    if isinstance(node, Text):
        part = next((part for part in node.parts if not isinstance(part, str)), None)
        if part is not None:
            _wrong(
                program,
                part,
                f"{what} is fixed text: there are no variables where an agent is declared",
                "write `\\{` for a brace, or put it into the message",
            )
        elif bare and not constant_text(node):
            _wrong(program, node, f"{what} is empty", "name a model, or leave the field out")
        return
    _wrong(program, node, f"{what} is a string", 'write it in quotes: "…"')


def _text_of(program: ProgramCheck, node: Expr) -> str:
    return program.files[program.reports.file].unit.text[node.at : node.end]


# What never fits the budget around it, whatever it costs and whatever a program is given.
#
# Only amounts that are written are compared, so no price is needed. What is larger than the budget
# around it is always refused; so are wallets that are set aside one after the other and are more
# than that together: a wallet is held for as long as its process lives, which no statement ends.


_LOOSE = ("warn", "allow")
_MAY_BE_LEFT_OUT = (If, While, For, Build, Race, Binary, Catch, Monitor)
"""What is inside may run never, or more than once."""


class _Wallets(Struct):
    """Those that are set aside under one budget, for certain."""

    around: MoneyLit
    spawns: list[tuple[Spawn, MoneyLit]]


_Part: TypeAlias = tuple[str, MoneyLit, Node]
"""A part that is set aside as a whole: what it is called, its amount, and where it is refused."""


def check_budgets(program: ProgramCheck, names: Names, body: object, budget: Node | None) -> None:
    """Warn of parts of a body that never fit the budget around them."""
    due: list[tuple[object, MoneyLit | None, bool]] = [(body, _money_in(budget), True)]
    by_budget: dict[int, _Wallets] = {}
    spends, too_much = list[tuple[Node, MoneyLit]](), list[tuple[_Part, Node, MoneyLit, bool]]()
    while due:
        node, around, is_sure = due.pop()
        if isinstance(node, tuple):
            due += [(each, around, is_sure) for each in node]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(node, Node):
            continue
        count_steps()
        part = None if around is None else _part(program, names, node)
        spends += _spending(names, node, around)
        if around is not None and part is not None:
            if part[1].nanos > around.nanos:
                too_much.append((part, node, around, is_sure))
            elif isinstance(node, Spawn) and is_sure:
                held = by_budget.setdefault(id(around), _Wallets(around, []))
                held.spawns.append((node, part[1]))
        is_sure = is_sure and not isinstance(node, _MAY_BE_LEFT_OUT)
        for name in node.__struct_fields__[2:]:
            inner = _around_body(node, around) if name == "body" else around
            due.append((getattr(node, name), inner, is_sure))
    for part, node, around, is_once in too_much:
        is_first = is_once and not any(of is around and each.end <= node.at for each, of in spends)
        _warn_of_one(program, names, part, around, is_first=is_first)
    for held in by_budget.values():
        _warn_of_wallets(program, names, held)


def _around_body(node: Node, around: MoneyLit | None) -> MoneyLit | None:
    if isinstance(node, Monitor):  # perhaps when the sessions around it are over
        return None
    if isinstance(node, Session) and not any(map(_is_loose, node.settings)):
        own = _money_in(node.budget)
        return around if own is None or (around and around.nanos < own.nanos) else own
    return around


def _money_in(node: object) -> MoneyLit | None:
    return node if isinstance(node, MoneyLit) and not node.period else None


def _is_loose(setting: Setting) -> bool:
    return setting.name == "on_exceed" and getattr(setting.value, "name", "") in _LOOSE


def _spending(names: Names, node: Node, around: MoneyLit | None) -> list[tuple[Node, MoneyLit]]:
    """Return a node that may spend, with the budget that it spends from, if there is one."""
    if isinstance(node, Call):
        callee = names.find(node.callee.name) if isinstance(node.callee, Name) else None
        spends = isinstance(callee, RoutineSymbol)
    else:
        spends = isinstance(node, Ask | Session | Spawn)
    return [(node, around)] if spends and around is not None else []


def _part(program: ProgramCheck, names: Names, node: Node) -> _Part | None:
    match node:
        case Spawn(wallet=MoneyLit() as amount, under=None):
            return "this wallet", amount, amount
        case Session(budget=MoneyLit() as amount):
            is_kept = not amount.period and not any(map(_is_loose, node.settings))
            return ("this session", amount, amount) if is_kept else None
        case Ask(to=Name() as to) if program.names.get(id(to)) is NameKind.AGENT:
            if node.budget is not None:
                amount = _money_in(node.budget)
                return None if amount is None else ("this send", amount, amount)
            amount = _of_agent(names.find(to.name))
            return None if amount is None else (f"a send to `{to.name}`", amount, node)
        case Call(callee=Name() as of):
            found = names.find(of.name)
            decl = found.node if isinstance(found, RoutineSymbol) else None
            amount = _money_in(decl.budget) if isinstance(decl, FnDecl) else None
            return None if amount is None else (f"`{of.name}`", amount, of)
        case _:
            return None


def _of_agent(found: Symbol | None) -> MoneyLit | None:
    if not isinstance(found, AgentSymbol):
        return None
    fields = {field.name: field.value for field in found.node.fields}
    is_loose = getattr(fields.get("on_exceed"), "name", "") in _LOOSE
    return None if is_loose else _money_in(fields.get("budget"))


def _warn_of_one(
    program: ProgramCheck, names: Names, part: _Part, around: MoneyLit, *, is_first: bool
) -> None:
    """Warn of a part that is larger than the budget around it. All of that is only there for one
    that `is_first`; for another one the budget has to hold also what may be spent before."""
    what, amount, where = part
    most, taken = money_text(around.nanos), money_text(amount.nanos)
    both = around.nanos + amount.nanos
    fix = f"write `{money_text(both)}` for the budget around it, or give it less than is left there"
    edit = _written(names, around, both)
    if is_first:
        fix = f"write `{most}` for it or less, or raise the budget around it"
        edit = _written(names, amount, around.nanos)
        if isinstance(where, Ask):
            edit = Edit(where.end, where.end, f" budget {most}")
        elif isinstance(where, Name) and "::" in where.name:
            edit = None  # it stands in another file
    program.reports.warn(
        "over-budget",
        where,
        f"{what} takes {taken}, and the budget around it is {most}: it is always refused",
        fix,
        edit,
    )


def _warn_of_wallets(program: ProgramCheck, names: Names, held: _Wallets) -> None:
    total = 0
    held.spawns.sort(key=lambda each: each[0].at)
    everything = sum(amount.nanos for _, amount in held.spawns)
    for _, amount in held.spawns:
        total += amount.nanos
        if total > held.around.nanos:
            taken, most = money_text(everything), money_text(held.around.nanos)
            program.reports.warn(
                "over-budget",
                amount,
                f"the wallets here take {taken} together, and the budget around them is {most}: "
                "this one is always refused",
                f"write `{taken}` for the budget around them, or give each less",
                _written(names, held.around, everything),
            )
            return


def _written(names: Names, old: MoneyLit, nanos: int) -> Edit:
    """Return the edit that puts another amount there; in Python it stands in quotes."""
    first = names.unit.text[old.at : old.at + 1]
    quote = first if first in ("'", '"') else ""
    return Edit(old.at, old.end, f"{quote}{money_text(nanos)}{quote}")
