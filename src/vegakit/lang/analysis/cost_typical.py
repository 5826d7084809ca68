"""The sizes that a typical quote takes where nothing is known, and the cost of a typical send
(pure).

A typical quote is no promise. Each send is one call that succeeds; of two branches half of each
counts; a loop that may be left early runs half of its rounds; nothing raises. Where arguments and
files are known they are used. All else is stated here, and none of it is fitted to a program.

| what                             | counts as                                             |
|----------------------------------|-------------------------------------------------------|
| a text that a model writes       | half of its `max_tokens`, four bytes a token          |
| a text in a typed answer         | 15 words, and no more than that                       |
| a list `[T; n]` in an answer     | three quarters of n                                   |
| a list that nothing bounds       | ten items                                             |
| a page, a file that is not known | 8,000 bytes; the output of a command 2,000            |
| what a person says               | 60 bytes; a text that is given to `main` 400          |
| an agent with tools              | three calls, or its `max_steps`, each with 2,000      |
|                                  | bytes of results more                                 |
| a process with memory            | hears two of its answers again                        |
"""

from collections.abc import Callable, Sequence
from math import ceil

from vegakit.lang.analysis.cost_bounds import cost_bound
from vegakit.lang.analysis.cost_sends import SendCost, SendTerms, Terms, has_tools
from vegakit.lang.analysis.cost_values import (
    ValueBound,
    exactly,
    greater,
    number,
    smaller,
    total,
)
from vegakit.lang.schemas import answer_schema
from vegakit.lang.types import STR, ChoiceOf, ListOf, MapOf, OptionalOf, Plain, RecordOf, Type
from vegakit.prices import worst_case
from vegakit.records import canonical

TOKEN_BYTES = 4
_FIELD_BYTES = 90
_LIST_ITEMS = 10
_GIVEN_BYTES, _PERSON_BYTES, _REASON_BYTES = 400, 60, 100
_PAGE_BYTES, _OUTPUT_BYTES = 8_000, 2_000
_LINE_BYTES, _WORD_BYTES, _NAME_BYTES = 50, 6, 30
_TOOL_STEPS, _CALL_TOKENS = 3, 60
_AROUND_TOKENS = 20


def typical_text(max_tokens: int) -> int:
    """Return the tokens of a text that a model writes."""
    return ceil(max_tokens / 2)


def typical_answer(kind: Type, max_tokens: int) -> ValueBound:
    """Return an answer of this type: all of it, if it is a text, and short texts in records."""
    if kind == STR:
        return ValueBound(exactly(typical_text(max_tokens) * TOKEN_BYTES))
    return _value(kind, _FIELD_BYTES)


def typical_value(kind: Type) -> ValueBound:
    """Return a value that is given to a program."""
    return _value(kind, _GIVEN_BYTES)


def _value(kind: Type, text: int) -> ValueBound:
    match kind:
        case OptionalOf(inner=inner):
            return _value(inner, text)
        case ListOf(inner=inner, most=most):
            count = _LIST_ITEMS if most is None else ceil(most * 3 / 4)
            return ValueBound(exactly(count), _value(inner, text), least=count)
        case MapOf(inner=inner, most=most):
            count = _LIST_ITEMS if most is None else ceil(most * 3 / 4)
            return ValueBound(exactly(count), _value(inner, text), key=exactly(_NAME_BYTES))
        case RecordOf(fields=fields):
            return ValueBound(fields=tuple((name, _value(each, text)) for name, each in fields))
        case Plain(name="str", most=most):
            return ValueBound(exactly(text if most is None else min(text, most)))
        case ChoiceOf(choices=choices):
            return ValueBound(exactly(max(len(each.encode()) for each in choices)))
        case _:
            return ValueBound()


def typical_reason() -> ValueBound:
    """Return the reason of an error."""
    return ValueBound(exactly(_REASON_BYTES))


def typical_file() -> ValueBound:
    """Return the text of a file of which nothing is known."""
    return ValueBound(exactly(_PAGE_BYTES))


def typical_call(name: str, values: Sequence[ValueBound]) -> ValueBound | None:
    """Return the result of a library function where it is not what its bound is."""
    rule = _RULES.get(name)
    return None if rule is None else rule(*values)


def _parts(each: int) -> Callable[..., ValueBound]:
    def rule(text: ValueBound, *_: ValueBound) -> ValueBound:
        size = number(text.size)
        size = _GIVEN_BYTES if size is None else size
        count = max(1, size // each)
        return ValueBound(exactly(count), ValueBound(exactly(size // count)), whole=exactly(size))

    return rule


def _slice(text: ValueBound, start: ValueBound, end: ValueBound | None = None) -> ValueBound:
    if end is None:
        return ValueBound(text.size)
    chars = greater(total(end.size, exactly(-(start.least or 0))), exactly(0))
    return ValueBound(smaller(text.size, chars))


def _of(size: int) -> Callable[..., ValueBound]:
    return lambda *_: ValueBound(exactly(size))


def _same(text: ValueBound, *_: ValueBound) -> ValueBound:
    return ValueBound(text.size)


def _page(*_: ValueBound) -> ValueBound:
    return ValueBound(fields=(("body", ValueBound(exactly(_PAGE_BYTES))),))


def _ran(*_: ValueBound) -> ValueBound:
    out = ValueBound(exactly(_OUTPUT_BYTES))
    return ValueBound(fields=(("out", out), ("err", ValueBound(exactly(0)))))


def _table(text: ValueBound, *_: ValueBound) -> ValueBound:
    """A line has a few cells; as JSON each of them stands beside the name of its column."""
    size = number(text.size)
    size = _GIVEN_BYTES if size is None else size
    count = max(1, size // _LINE_BYTES)
    cell = ValueBound(exactly(size // count // _LIST_ITEMS))
    cells = ValueBound(exactly(_LIST_ITEMS), cell, key=exactly(_NAME_BYTES))
    return ValueBound(exactly(count), cells, spelled=exactly(2 * size))


def _names(*_: ValueBound) -> ValueBound:
    return ValueBound(exactly(_LIST_ITEMS), ValueBound(exactly(_NAME_BYTES)))


_RULES: dict[str, Callable[..., ValueBound]] = {
    "str::lines": _parts(_LINE_BYTES),
    "str::words": _parts(_WORD_BYTES),
    "str::split": _parts(_WORD_BYTES),
    "csv::parse": _table,
    "str::slice": _slice,
    "str::lower": _same,
    "str::upper": _same,
    "str::replace": _same,
    "http::get": _page,
    "http::post": _page,
    "exec": _of(_OUTPUT_BYTES),
    "exec::run": _ran,
    "exec::look": _ran,
    "human::ask": _of(_PERSON_BYTES),
    "file::list": _names,
}


# What a send typically costs.


def typical_cost(sending: SendTerms, terms: Terms, *, remembers: bool) -> SendCost:
    """Return the cost of one call, or of a few where the agent has tools, at the price of its first
    model."""
    model = terms(sending.spec)
    if model is None:
        return SendCost(1, cost_bound(0))
    max_tokens = sending.spec.max_tokens or model.max_tokens
    said = _answer_tokens(sending.answer, max_tokens)
    heard = _GIVEN_BYTES if sending.size is None else sending.size
    heard += len(sending.spec.system.encode())
    heard += sum(len(canonical(spec)) for spec in sending.specs or ())
    if sending.answer != STR:
        heard += len(canonical(answer_schema(sending.answer)))
    if remembers:
        heard += 2 * said * TOKEN_BYTES
    most_steps = sending.spec.max_steps or _TOOL_STEPS
    steps = min(_TOOL_STEPS, most_steps) if has_tools(sending.spec) else 1
    spent = 0
    for step in range(steps):
        tokens = ceil((heard + step * _OUTPUT_BYTES) / TOKEN_BYTES) + _AROUND_TOKENS
        room = tokens if model.window is None else min(tokens, model.window)
        is_last = step == steps - 1
        spent += worst_case(model.price, room, said if is_last else min(_CALL_TOKENS, max_tokens))
    most = spent if sending.part is None else min(spent, sending.part)
    return SendCost(steps, cost_bound(most), most)


def _answer_tokens(kind: Type, max_tokens: int) -> int:
    if kind == STR:
        return typical_text(max_tokens)
    return min(max_tokens, ceil(_json_bytes(kind) / TOKEN_BYTES))


def _json_bytes(kind: Type) -> int:
    """Return the bytes of a typical answer of this type as JSON."""
    match kind:
        case OptionalOf(inner=inner):
            return _json_bytes(inner)
        case ListOf(inner=inner, most=most):
            count = _LIST_ITEMS if most is None else ceil(most * 3 / 4)
            return 2 + count * (_json_bytes(inner) + 2)
        case MapOf(inner=inner, most=most):
            count = _LIST_ITEMS if most is None else ceil(most * 3 / 4)
            return 2 + count * (_json_bytes(inner) + _NAME_BYTES + 4)
        case RecordOf(fields=fields):
            return 2 + sum(len(name) + 6 + _json_bytes(each) for name, each in fields)
        case Plain(name="str", most=most):
            return 2 + (_FIELD_BYTES if most is None else min(_FIELD_BYTES, most))
        case ChoiceOf(choices=choices):
            return max(len(each) for each in choices) + 2
        case _:
            return 6
