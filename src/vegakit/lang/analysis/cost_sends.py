"""The cost bound of one send: its budget, or all the calls it may make at their most expensive; and
the records of a quote (pure).
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from math import ceil, inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    Text,
    Tokenizer,
    ToolSpec,
    UserMessage,
)
from vegakit.lang.analysis.cost_bounds import (
    EMPTY,
    Amount,
    CallCost,
    CostBound,
    Repeats,
    added,
    cost_bound,
)
from vegakit.lang.analysis.cost_values import Size, exactly, of_text
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.schemas import answer_schema, problem_bytes
from vegakit.lang.types import STR, RecordOf, Type
from vegakit.prices import DEFAULT_SEND_BUDGET, PriceRow, worst_case

# What a quote says, and what it needs to know of models. Amounts are whole units of `Money`.


class ModelTerms(Struct, frozen=True):
    """`window` is what question and answer share, None if nobody knows; `count` gives no fewer
    tokens than a request is billed as input, of text by `tokenizer` where there is one. `attempts`
    is how often an agent calls it at most that has no `retry` of its own; `fallbacks` are the
    models that are asked after it, each in vain and charged in the worst case."""

    price: PriceRow
    window: int | None
    max_tokens: int
    count: Callable[[ModelRequest], int]
    attempts: int = 3
    fallbacks: tuple["ModelTerms", ...] = ()
    tokenizer: Tokenizer | None = None


def in_order(models: Iterable[ModelTerms | None]) -> ModelTerms | None:
    """Return the terms of models of which each is asked when the one before is not available; None
    if one of them has no known price."""
    known = [*models]
    first, *others = known
    if first is None or None in others:
        return None
    later = [one for other in others if other is not None for one in (other, *other.fallbacks)]
    return replace(first, fallbacks=(*first.fallbacks, *later))


Terms: TypeAlias = Callable[[AgentSpec], ModelTerms | None]
"""None of a model whose price nobody knows."""


class QuotedLine(Struct, frozen=True):
    """One send in the source with all the times it may run; None is no bound. `bytes` are of its
    longest message, `max_tokens` of each answer. `uncut` is what it may cost where that is more
    than the budget of `main`, and only that budget holds it. `once` is what one
    send costs that is not repeated, `usual_bytes` how long its message typically is. One that
    `is_refused` never fits the budgets around it, on one of its ways at least."""

    file: str
    line: int
    what: str
    calls: int | None
    worst: int | None
    tries: int = 1
    bytes: int | None = None
    max_tokens: int | None = None
    uncut: int | None = None
    once: int | None = None
    usual_bytes: int | None = None
    is_refused: bool = False

    @property
    def sends(self) -> int | None:
        """Return how often it is sent; each may take as many calls as it has `tries`."""
        return None if self.calls is None else -(-self.calls // max(self.tries, 1))


class Unbounded(Struct, frozen=True):
    """A place where the source sets no bound, and the budget that does; None where none does."""

    file: str
    line: int
    why: str
    cap: int | None


class Quote(Struct, frozen=True):
    """`total` and `calls` are None where nothing bounds them; `processes` are those it spawns.
    `calls` counts each send once, that of an agent with tools once for each of its steps, and
    `paid_repeats` how many of them may be made and paid once more; None where only the `retry` of
    each agent says so, and `calls` has these. The pool of the run is a part of `sends`. `typical`
    is what it usually spends, which is no promise."""

    total: int | None
    calls: int | None
    processes: int | None
    lines: tuple[QuotedLine, ...]
    unbounded: tuple[Unbounded, ...]
    paid_repeats: int | None = None
    sends: int | None = None
    typical: int | None = None


# What one send may cost: its budget, or all the calls that it may make, each at its highest price.
#
# | the send                     | calls at most, each as often as it may be retried               |
# |------------------------------|-----------------------------------------------------------------|
# | for text, agent has no tools | 2: an empty answer is asked for once more                       |
# | for a type, likewise         | 4: and two answers that do not fit                              |
# | the agent has tools          | max_steps                                                       |
#
# A first call is as long as its message, where that has a bound; later ones hold also the answers
# that did not fit, each as long as its tokens, and what was wrong with them. Results of tools are
# bounded by the window only. A crash in the middle changes nothing: part and
# attempts of a message are the same ones in the next life. An agent with several models may make
# all attempts at each of them for one answer, and be charged for all.
#
# What holds its part as a whole is refused where that does not fit, and a call is refused whose
# worst case does not fit; so a send under a cap that it never fits costs nothing.


MAX_TOOL_CALLS = 64
_MAX_STEPS, _MAX_ATTEMPTS = 8, 3
RE_ASKS = 2
PROBLEM_BYTES = 240
"""A model is told in no more bytes why its answer does not fit."""
MISFIT_NOTE = "Your answer does not fit: {}. Answer again."
"""What stands around them."""
ANSWER_BYTES = 6
"""So many bytes a token of an answer counts as: English has four to six."""
_AGAIN, _AGAIN_OVER, _AGAIN_MORE = 5, 4, 16
"""A token that a model wrote counts as five quarters of one where it is read by the same tokenizer,
and an answer as 16 more. A text is mostly read as the tokens that it was written as; a thousand
tokens by chance, which are no text, are read as at most 1,200, and ten as 18."""
EMPTY_NOTE = "Your last answer was empty. Answer in words; there are no tools here."
"""What an agent without tools is told then."""
_TOO_LONG = 1_000_000
_LOOSE = ("warn", "allow")


def size_of_answer(max_tokens: int, tokenizer: Tokenizer | None) -> Size:
    """Return the size of the longest answer, where it is passed on."""
    size = max_tokens * ANSWER_BYTES
    if tokenizer is None:
        return exactly(size)
    return of_text(size, -(-max_tokens * _AGAIN // _AGAIN_OVER) + _AGAIN_MORE)


class SendCost(Struct, frozen=True):
    """`calls` and `fund` are with all its repeats, `sends` are the calls without any; `held` is
    what is set aside for it; `why` says what has no bound where the cost has none."""

    calls: int
    fund: CostBound
    held: Amount = 0
    why: str = ""
    sends: int = 0


class SendTerms(Struct, frozen=True):
    """`part` is what it holds and may spend, None where nothing is said; `size` and `least` bound
    the bytes of its message, `tokens` its tokens, if they are fewer; `specs` are its tools, None
    where only their host knows them; `tools_spend` is what its tools may spend."""

    spec: AgentSpec
    answer: Type
    size: int | None = None
    least: int = 0
    part: int | None = None
    specs: tuple[ToolSpec, ...] | None = ()
    tools_spend: CostBound = EMPTY
    tokens: int | None = None


def part_of(spec: AgentSpec) -> int | None:
    """Return what one send of it holds when nothing else is said there."""
    return None if spec.period or spec.on_exceed in _LOOSE else spec.budget


def cost_of(
    sending: SendTerms, terms: Terms, cap: int | None = None, pool: Amount = inf
) -> SendCost:
    """`cap` is that of the budgets around it, `pool` how many repeats all sends of a run may have.
    A server or file of tools may turn out to have none, and who has none has no part."""
    cost = _cost(sending, terms, cap, pool)
    spec = sending.spec
    if sending.part is not None or spec.tools or not (spec.mcp or spec.yaml):
        return cost
    bare = _cost(replace(sending, spec=replace(spec, mcp=(), yaml=()), specs=()), terms, cap, pool)
    held, why = max(cost.held, bare.held), cost.why or bare.why
    calls, sends = max(cost.calls, bare.calls), max(cost.sends, bare.sends)
    return SendCost(calls, cost.fund.either(bare.fund), held, why, sends)


def _cost(sending: SendTerms, terms: Terms, cap: int | None, pool: Amount) -> SendCost:
    known = terms(sending.spec)
    models = (known, *known.fallbacks) if known is not None else (None,)
    steps, attempts = _steps(sending), [_attempts(sending.spec, model) for model in models]
    calls, sends = steps * sum(attempts), steps if has_tools(sending.spec) else 1
    around = inf if cap is None else cap
    if sending.part is not None and sending.part > around:
        return SendCost(0, EMPTY, sends=sends)
    if known is None:
        why = f"nobody knows the price of {sending.spec.model or 'its model'}"
        return replace(_without_price(sending, calls, around, why), sends=sends)
    costs = [_calls_cost(sending, model, steps) for model in (known, *known.fallbacks)]
    least, first, _ = costs[0]
    if least > min(around, _held(sending)):
        return SendCost(0, EMPTY, sends=sends)
    total = sum(
        (first + sum(later)) * count
        for (_, first, later), count in zip(costs, attempts, strict=True)
    )
    why = "the input has no bound, and the model no known window" if total == inf else ""
    is_single = steps == 1 and total != inf and not known.fallbacks
    single = CallCost(int(least), int(first), attempts[0]) if is_single else None
    repeats = _repeats([(first, later) for _, first, later in costs], attempts, sends, pool)
    fund, held = _cost_bound(sending, total, single, around, repeats), _held(sending)
    return SendCost(calls, fund, fund.amount if held == inf else held, why, sends)


def _repeats(
    costs: list[tuple[Amount, tuple[Amount, ...]]],
    attempts: list[int],
    sends: int,
    pool: Amount = inf,
) -> Repeats:
    """Return what a send costs when each of its calls is made once, by whichever of its models, and
    what each repeat adds. Every call after the first is one, but for those of an agent with
    tools: its steps are counted."""
    steps = [Repeats() for _ in range(1 + max(len(later) for _, later in costs))]
    for (first, later), count in zip(costs, attempts, strict=True):
        for at, cost in enumerate((first, *later)):
            steps[at] = steps[at].plus(Repeats(0, ((cost, count),)))
    firsts, *laters = steps
    if sends > 1 or any(step.within(1) == inf for step in steps):
        later = reduce(Repeats.plus, laters, Repeats())
        once = added(firsts.within(1), later.within(sends - 1))
        return Repeats(once, firsts.without(1).plus(later.without(sends - 1)).more)
    return Repeats(firsts.within(1), _in_turn(firsts.without(1), laters, pool))


def _in_turn(
    again: Repeats, laters: list[Repeats], pool: Amount = inf
) -> tuple[tuple[Amount, Amount], ...]:
    """Return the prices of the repeats of one send, of which each step comes after those before it.

    So the longest request of a send is not its first repeat. What k repeats cost at most is rounded
    up to a curve that rises ever less, as if the high ones were spread evenly over those that come
    before them: by such curves sends can be taken together, and each alone is off by less than what
    one of its own repeats costs. The curve ends where the pool does, so that it is exact for the
    send that takes all of it."""
    reached, taken, spent = again, 0, 0
    corners = [(0, 0), *_corners(taken, spent, reached, pool)]
    for step in laters:
        taken, spent = taken + 1, spent + int(step.within(1))
        if taken > pool:
            break
        reached = reached.plus(step.without(1))
        corners += [(taken, spent), *_corners(taken, spent, reached, pool)]
    (taken, spent), more = corners[0], list[tuple[Amount, Amount]]()
    while ahead := [(count, most) for count, most in corners if count > taken]:
        slope, count, most = max(
            (Fraction(most - spent, count - taken), count, most) for count, most in ahead
        )
        more.append((ceil(slope), count - taken))
        taken, spent = count, most
    return tuple(more)


def _corners(taken: int, spent: int, reached: Repeats, pool: Amount) -> Iterable[tuple[int, int]]:
    """Return how many repeats come to how much at most, where that changes its slope."""
    for price, there in reached.more:
        count = int(min(there, pool - taken))
        taken, spent = taken + count, spent + int(price * count)
        yield taken, spent


def _without_price(sending: SendTerms, calls: int, around: Amount, why: str) -> SendCost:
    most = min(_held(sending), around)
    return SendCost(calls, cost_bound(most), most, why if most == inf else "")


def _cost_bound(
    sending: SendTerms,
    total: Amount,
    single: CallCost | None,
    around: Amount,
    repeats: Repeats,
) -> CostBound:
    """A part that is written is held as a whole, the usual one of who has tools as far as it
    goes."""
    held = _held(sending)
    call_costs = None if single is None else (single,)
    spent = cost_bound(total, 0, call_costs, repeats).plus(sending.tools_spend)
    if held == inf:
        return spent
    alone = spent.within(min(held, around))
    slack = held - alone if sending.part is not None else 0
    return cost_bound(alone, slack, repeats=spent.repeats)


def _held(sending: SendTerms) -> Amount:
    if sending.part is not None:
        return sending.part
    is_loose = sending.spec.on_exceed in _LOOSE
    return DEFAULT_SEND_BUDGET if has_tools(sending.spec) and not is_loose else inf


def _steps(sending: SendTerms) -> int:
    spec = sending.spec
    most = _MAX_STEPS if spec.max_steps is None else spec.max_steps
    if has_tools(spec):
        return most
    return min(most, 2 if sending.answer == STR else 2 + RE_ASKS)


def has_tools(spec: AgentSpec) -> bool:
    """Return whether the agent may call something."""
    return bool(spec.tools or spec.mcp or spec.yaml)


def _attempts(spec: AgentSpec, known: ModelTerms | None) -> int:
    usual = _MAX_ATTEMPTS if spec.retry or known is None else known.attempts
    return (spec.retry or {}).get("max_attempts", usual)


def _calls_cost(
    sending: SendTerms, known: ModelTerms, steps: int
) -> tuple[Amount, Amount, tuple[Amount, ...]]:
    """The first at its least and at its most, and each later one."""
    max_tokens = sending.spec.max_tokens or known.max_tokens
    room = inf if known.window is None else max(known.window - max_tokens, 0)
    count_steps(10 + min(sending.least, _TOO_LONG) // 1_000)
    # A tokenizer may take any number of bytes for a few tokens.
    shortest = "" if known.tokenizer else "x" * min(sending.least, _TOO_LONG)
    least: Amount = known.count(_request(sending, shortest, 0, max_tokens))
    first, *later = (
        min(_longest_input(sending, known, step, max_tokens), room) for step in range(steps)
    )
    if least > room:
        return inf, 0, ()

    def cost(tokens: Amount) -> Amount:
        return inf if tokens == inf else worst_case(known.price, int(tokens), max_tokens)

    return cost(min(least, first)), cost(first), tuple(map(cost, later))


def _longest_input(sending: SendTerms, known: ModelTerms, step: int, max_tokens: int) -> Amount:
    """Return the most tokens of the input of a step: answers that did not fit, and what was said of
    them, come before one that was empty, of which nothing is kept."""
    if sending.size is None or sending.size > _TOO_LONG or sending.specs is None:
        return inf
    if step and has_tools(sending.spec):
        return inf
    if known.tokenizer is not None:
        return _counted_input(sending, known, step, max_tokens)
    count_steps(10 + sending.size // 1_000)
    return known.count(_request(sending, _longest(sending.size), step, max_tokens))


def _counted_input(sending: SendTerms, known: ModelTerms, step: int, max_tokens: int) -> int:
    """Return the same for a model whose tokenizer counts what is known, and no text that stands in
    for another: to what is asked around them, the tokens of the message and of each answer that did
    not fit are added, and what was said of it counts as bytes."""
    size = sending.size or 0
    tokens = size if sending.tokens is None else min(size, sending.tokens)
    if misfits := _misfits(sending.answer, step):
        answer = size_of_answer(max_tokens, known.tokenizer)
        told = min(PROBLEM_BYTES, problem_bytes(sending.answer, answer.number))
        tokens += misfits * (told + (answer.tokens or answer.number))
    count_steps(10)
    return known.count(_request(sending, "", step, max_tokens, is_bare=True)) + tokens


def _misfits(answer: Type, step: int) -> int:
    return 0 if answer == STR else min(step, RE_ASKS)


def _request(
    sending: SendTerms, message: str, step: int, max_tokens: int, *, is_bare: bool = False
) -> ModelRequest:
    """With `is_bare`, answers and what is said of them are left empty."""
    spec, answer = sending.spec, sending.answer
    misfits, said_bytes, told = _misfits(answer, step), 0, 0
    if misfits and not is_bare:
        said_bytes = max_tokens * ANSWER_BYTES
        told = min(PROBLEM_BYTES, problem_bytes(answer, said_bytes))
    said: list[Message] = [UserMessage((Text(message),))]
    for _ in range(misfits):
        said.append(AssistantMessage((Text(_longest(said_bytes)),), spec.model))
        said.append(UserMessage((Text(MISFIT_NOTE.format(_longest(told))),)))
    said += [UserMessage((Text(EMPTY_NOTE),))] * (step - misfits)
    output = None
    if answer != STR:
        name = answer.name.rpartition("::")[2] if isinstance(answer, RecordOf) else "Answer"
        output = OutputSpec(name, answer_schema(answer))
    settings = ModelSettings(max_tokens, spec.temperature)
    tools = sending.specs or ()
    return ModelRequest(spec.model, tuple(said), settings, spec.system, tools, output)


def _longest(size: int) -> str:
    """Return a text with as many bytes, and as many words, as one of this size can have."""
    return "x " * (size // 2 + 1)
