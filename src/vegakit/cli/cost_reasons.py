"""`vega cost --why LINE`: what makes the bound of a line, and what to write to tighten it."""

from vegakit.cli.look import Look, Rounding, count, money, one_line
from vegakit.errors import UserError
from vegakit.lang import Quote, QuotedLine

_LONG = 4_000
_MANY = 10
_OFTEN = 3


def render_reasons(quoted: Quote, name: str, line: int, look: Look) -> str:
    """Return what makes the bound of the sends on a line; refuse a line that sends nothing."""
    found = [one for one in quoted.lines if one.file == name and one.line == line]
    if not found:
        lines = sorted({one.line for one in quoted.lines if one.file == name})
        known = ", ".join(map(str, lines)) or "none"
        raise UserError(f"nothing is sent on line {line} of {name}; lines that send: {known}")
    told: list[str] = []
    for one in found:
        most = "no bound" if one.worst is None else money(one.worst, rounding=Rounding.UP)
        told.append(f"line {line}, {one_line(one.what)}: at most {most}")
        pool = _repeats(quoted.paid_repeats) if one.calls else []
        for reason in (*_causes(one), *pool, *_advice(one)):
            told += look.fold(reason, "    ", "  ")
    told += [
        part
        for gap in quoted.unbounded
        if gap.file == name and gap.line == line
        for part in look.fold(gap.why, "    ", "  ")
    ]
    return "\n".join(told)


def _causes(line: QuotedLine) -> list[str]:
    if line.calls == 0:
        return ["it never fits the budget around it, so it is never sent, and costs nothing"]
    sends = line.sends
    often = "it may be sent without bound" if sends is None else f"it is sent {_times(sends)}"
    size = (
        "its message has no bound, so it counts as a full window of the model"
        if line.bytes is None
        else f"its longest message has {count(line.bytes, 'byte')}"
    )
    tokens = "" if line.max_tokens is None else f", its answer {count(line.max_tokens, 'token')}"
    tries = (
        f"each send may take {count(line.tries, 'call')}: what fails or does not fit is repeated"
    )
    return [often, f"{size}{tokens}", *([tries] if line.tries > 1 else [])]


def _repeats(pool: int | None) -> list[str]:
    if not pool:
        return []
    return [f"{count(pool, 'paid repeat')} of the whole run may fall on it"]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times at most"


def _advice(line: QuotedLine) -> list[str]:
    """Return what to write, the most helpful first."""
    if line.calls == 0:
        return ["write: a larger `budget` around it, or a lower `max_tokens` for its agent"]
    advice: list[str] = []
    if line.bytes is None or line.bytes > _LONG:
        advice.append("write: str::slice(text, 0, 2000) around what is long in the message")
    if line.sends is None or line.sends > _MANY:
        advice.append(
            "write: list::take(items, 10), [T; 10] or a `limit`, to bound the loop around"
        )
    if line.tries > _OFTEN:
        advice.append("write: retry { max_attempts 1 } in the agent, for fewer repeats")
    return advice or ["write: a `budget` on the send, such as: Agent <- message budget $0.02"]
