"""Settings of agents and blocks: which exist, what values each takes, and the check of those
written (pure).
"""

from collections.abc import Collection
from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import ErrorClass
from vegakit.lang.check.context import ProgramCheck
from vegakit.lang.check.literals import constant_text
from vegakit.lang.check.symbols import closest_name, replacement
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import (
    Call,
    Decimal,
    Duration,
    Expr,
    ListLit,
    MoneyLit,
    Name,
    Node,
    Setting,
    Text,
    Unary,
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
        "per": TimeSetting(),
        "burst": NumberSetting(1, _MANY),
        "strategy": ChoiceSetting(("queue", "reject", "backpressure")),
    },
}
RULES: dict[str, SettingKind] = {
    "strategy": ChoiceSetting(("restart", "stop", "escalate", "restart_all", "rest_for_one")),
    "max_restarts": NumberSetting(0, _MANY),
    "window": TimeSetting(),
}
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
            program.reports.error("duplicate-setting", word, f"`{setting.name}` is set already")
        else:
            check_value(program, setting.value, known[setting.name], f"`{setting.name}`")
        seen.add(setting.name)
    if "requests" in known and "requests" in seen and "per" not in seen:
        at = next(setting for setting in settings if setting.name == "requests")
        program.reports.error(
            "missing-setting",
            at,
            "a rate is a number in a time",
            "write `requests 60 per 1m`",
            Edit(at.end, at.end, " per 1m"),
        )


def unknown_setting(
    program: ProgramCheck, word: Node, name: str, known: Collection[str], what: str
) -> None:
    """Report a setting that does not exist, with the closest one."""
    help_, edit = replacement(word, closest_name(name, known))
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
        _wrong(program, node, f"{what} is a whole number", f"write one from {least:,} to {most:,}")
    elif not least <= value <= most:
        _wrong(program, node, f"{what} is from {least:,} to {most:,}, this is {value:,}")


def _fraction(program: ProgramCheck, node: Expr, least: float, most: float, what: str) -> None:
    value = _value(node)
    if value is None:
        _wrong(program, node, f"{what} is a number", f"write one from {least:g} to {most:g}")
    elif not least <= value <= most:
        _wrong(program, node, f"{what} is from {least:g} to {most:g}, this is {value:g}")


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


def _one_of(program: ProgramCheck, node: Expr, words: tuple[str, ...], what: str) -> None:
    word = node.name if isinstance(node, Name) else constant_text(node)
    if isinstance(node, Name) and node.name in words:
        return
    listed = ", ".join(words)
    if word in words:
        _wrong(program, node, f"{what} is a bare word", f"write {word}, without quotes", word or "")
        return
    close = closest_name(word or "", words)
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


def only_block(program: ProgramCheck, value: Name) -> None:
    """Warn of a setting that is understood and not kept: a cap that nobody holds would be a lie."""
    if value.name in ("ask", "warn", "allow"):
        program.reports.warn(
            "not-yet",
            value,
            f"`on_exceed {value.name}` is not kept yet: what does not fit is refused",
            "write `on_exceed block`, or leave it out",
        )
