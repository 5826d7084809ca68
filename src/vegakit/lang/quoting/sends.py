"""What one send may cost: its budget, or all the calls that it may make at their dearest.

| the send                     | calls at most, each as often as it may be retried               |
|------------------------------|-----------------------------------------------------------------|
| for text, agent has no tools | 2: an empty answer is asked for once more                       |
| for a type, likewise         | 4: and two answers that do not fit                              |
| the agent has tools          | max_steps                                                       |

A first call without tools is as long as its message, where the source bounds that; others hold
answers and results, which only the window bounds. It is taken that a model calls tools only where
it was given some, and that no process crashes in the middle: its next life is asked again.
"""

from math import inf

from msgspec import Struct

from vegakit.conversation import ModelRequest, ModelSettings, OutputSpec, Text, UserMessage
from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.quoting.records import ModelTerms, Terms
from vegakit.lang.quoting.spending import Amount
from vegakit.lang.schemas import answer_schema
from vegakit.lang.types import STR, RecordOf, Type
from vegakit.prices import DEFAULT_PART, worst_case

__all__ = ["MAX_TOOL_CALLS", "SendCost", "Sending", "cost_of", "part_of"]

MAX_TOOL_CALLS = 64
_MAX_STEPS, _MAX_ATTEMPTS, _RE_ASKS = 8, 3, 2
_NOTE_BYTES = 100
_TOO_LONG = 1_000_000
_LOOSE = ("warn", "allow")


class SendCost(Struct, frozen=True):
    """`why` says what has no bound where the cost has none."""

    calls: int
    worst: Amount
    why: str = ""


class Sending(Struct, frozen=True):
    spec: AgentSpec
    answer: Type
    size: int | None
    part: int | None


def part_of(spec: AgentSpec) -> int | None:
    """What one send of it may spend when nothing else is said there; None is no cap."""
    if spec.budget is not None and not spec.period and spec.on_exceed not in _LOOSE:
        return spec.budget
    return DEFAULT_PART if spec.tools and spec.budget is None else None


def cost_of(sending: Sending, terms: Terms) -> SendCost:
    steps, attempts = _steps(sending), _attempts(sending.spec)
    calls = steps * attempts
    part = inf if sending.part is None else sending.part
    known = terms(sending.spec)
    if known is None:
        why = f"nobody knows the price of {sending.spec.model or 'its model'}"
        return SendCost(calls, part, why if part == inf else "")
    first = _call(sending, known, 0)
    worst = first if steps == 1 else first + (steps - 1) * _call(sending, known, 1)
    worst = min(part, worst * attempts)
    why = "the input has no bound, and the model no known window" if worst == inf else ""
    return SendCost(calls, worst, why)


def _steps(sending: Sending) -> int:
    spec = sending.spec
    most = _MAX_STEPS if spec.max_steps is None else spec.max_steps
    if _has_tools(spec):
        return most
    return min(most, 2 if sending.answer == STR else 2 + _RE_ASKS)


def _has_tools(spec: AgentSpec) -> bool:
    return bool(spec.tools or spec.mcp or spec.yaml)


def _attempts(spec: AgentSpec) -> int:
    return (spec.retry or {}).get("max_attempts", _MAX_ATTEMPTS)


def _call(sending: Sending, known: ModelTerms, step: int) -> Amount:
    max_tokens = sending.spec.max_tokens or known.max_tokens
    tokens = _input(sending, known, step, max_tokens)
    return inf if tokens is None else worst_case(known.price, tokens, max_tokens)


def _input(sending: Sending, known: ModelTerms, step: int, max_tokens: int) -> int | None:
    room = None if known.window is None else max(known.window - max_tokens, 0)
    if _has_tools(sending.spec) or (step and sending.answer != STR):
        return room
    if sending.size is None or sending.size > _TOO_LONG:
        return room
    bound = known.count(_request(sending, step, max_tokens))
    return bound if room is None else min(bound, room)


def _request(sending: Sending, step: int, max_tokens: int) -> ModelRequest:
    spec, answer = sending.spec, sending.answer
    said = [UserMessage((Text(_longest(sending.size or 0)),))]
    said += [UserMessage((Text(_longest(_NOTE_BYTES)),))] * step
    output = None
    if answer != STR:
        name = answer.name.rpartition("::")[2] if isinstance(answer, RecordOf) else "Answer"
        output = OutputSpec(name, answer_schema(answer))
    settings = ModelSettings(max_tokens, spec.temperature)
    return ModelRequest(spec.model, tuple(said), settings, spec.system, (), output)


def _longest(size: int) -> str:
    """As many bytes, and as many words, as a text of this size can have."""
    return "x " * (size // 2 + 1)
