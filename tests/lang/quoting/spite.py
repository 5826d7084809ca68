"""A model that makes a program as costly as it can: it fails where that is billed, answers what
does not fit, calls tools until it may not, fills the window, gives the longest lists, and uses all
its tokens; here and there, as its chance says, it does less, so that the next call still fits a
budget.
"""

import re
from collections import Counter
from math import inf
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.lang.analysis.cost_sends import ANSWER_BYTES
from vegakit.ports import Clock
from vegakit.prices import bill, worst_case
from vegakit.providers import SCRIPTED_PRICE, ScriptedModel
from vegakit.records import to_json

WINDOW = 600
_ANY = 10**15
_NANOS = re.compile(r"n\d+")
_MOST_CALLS = 64
_PLAN = len('{"steps":{"a":"","b":"","c":""},"sure":false}')
_NOTE = 40
"""More words than an answer that does not fit is told of its mistake."""
_SHOWN = 20
"""Words of a name that is shown in full where it is none of a field."""
_CALL = 5
"""Words of a call and its result in the next request, with the marks around the result."""


class _Uneven(ScriptedModel):
    """It takes its time, now more and now less, so that what is begun early is dropped at times."""

    def __init__(self, script: Any, chance: Random, clock: Clock | None) -> None:
        super().__init__(script, context_tokens=WINDOW)
        self._delays = chance
        self._time = clock

    async def _wait(self, latency_ms: int) -> None:
        if self._time is not None:
            delay_ms = self._delays.choice([0, 1, 500, 3_000])
            await self._time.wait_until(self._time.now() + delay_ms)


KINDS = 8
"""Of sends, by agent and message."""


class Temper(NamedTuple):
    """How often it fails for good, does less than it could, says no, and leaves a list empty; how
    often it says `more` to a request before it says `fine`, None by chance; and, for each kind of
    send, how much of an answer is billed: one that fails for free leaves all to who comes after."""

    fails: float = 0.1
    is_short: float = 0.1
    says_no: float = 0.3
    is_empty: float = 0
    rounds: float | None = None
    bills: tuple[float, ...] = (1,) * KINDS


_USUAL = Temper()


class Spite:
    """Of an agent whose system text says how many attempts and steps it has. What it knows of a
    budget it uses up without going past it, which would be refused; so it does with the `pool` of
    paid repeats, and takes them for requests that cost `least` or more."""

    def __init__(
        self,
        seed: int,
        temper: Temper = _USUAL,
        clock: Clock | None = None,
        pool: int | None = None,
        least: float = 0,
    ) -> None:
        self._chance = Random(seed)
        self._pool: float = inf if pool is None else pool
        self._least, self.costliest = least, 0
        self._temper = temper
        self._asked_more: Counter[bytes] = Counter()
        self._tried: Counter[bytes] = Counter()
        self._spent: Counter[bytes] = Counter()
        self._calls = 0
        self.model = _Uneven(self.answer, Random(seed), clock)

    def answer(self, request: ModelRequest) -> Any:
        attempts, steps = map(int, request.system.split()[:2])
        if not self._billed(request):
            return WorldError("lost", ErrorClass.AUTH, phase=Phase.NOTHING_SENT)
        key, send = to_json(request), to_json(request.messages[0])
        left = _budget(request) - self._spent[send]
        self._tried[key] += 1
        self.costliest = max(self.costliest, self._worst(request))
        is_last = self._tried[key] % attempts == 0 or left < 2 * self._worst(request)
        if not is_last and self._may_repeat(request) and not self._now(self._temper.is_short):
            self._spent[send] += self._worst(request)
            self._pool -= 1
            return WorldError("lost", ErrorClass.TIMEOUT, phase=Phase.UNKNOWN)
        self._tried[key] = 0
        reply, is_over = self._reply(request, steps, left)
        self._spent[send] = 0 if is_over else self._spent[send] + self._cost(reply)
        return reply

    def _billed(self, request: ModelRequest) -> float:
        kind = f"{request.system} {_text(request.messages[0])}".encode()
        return self._temper.bills[crc32(kind) % KINDS]

    def _may_repeat(self, request: ModelRequest, more: int = 0) -> bool:
        """`more` is what it will cost beside when it has come to its longest."""
        return self._pool > 0 and self._worst(request) + more >= self._least

    def _now(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _worst(self, request: ModelRequest) -> int:
        tokens, most = self.model.bound_input(request), request.settings.max_tokens
        return worst_case(SCRIPTED_PRICE, tokens, most)

    def _cost(self, reply: Any) -> int:
        usage = getattr(reply, "usage", None)
        return 0 if usage is None else bill(SCRIPTED_PRICE, usage)

    def _reply(self, request: ModelRequest, steps: int, budget: int) -> tuple[Any, bool]:
        """With whether it is the last of its send."""
        told = "".join(map(_text, request.messages))
        empty, misfits = "was empty" in told, told.count("does not fit")
        done = empty + misfits + sum(1 for m in request.messages if getattr(m, "tool_calls", ()))
        left = steps - done - 1
        most = 2 if request.output is None else 4
        is_last = left == 0 if request.tools else min(left, most - 1 - done) <= 0
        is_last |= budget < 1.2 * self._worst(request)
        is_last |= not request.tools and not self._may_repeat(request, _grows(request, misfits))
        if is_last and self._now(self._temper.fails):
            # One that fails for free leaves all of a budget to who comes after it.
            phase = Phase.NOTHING_SENT if self._temper.fails == 1 else Phase.UNKNOWN
            return WorldError("lost", ErrorClass.AUTH, phase=phase), True
        if request.tools and not is_last:
            return self._call_tools(request, left, budget, is_first=done == 0), False
        self._pool -= not is_last
        if not is_last and request.output is not None and misfits < 2:
            words = self._room(request, (3 - misfits) * _NOTE, budget, min(left, 3 - misfits))
            return self._said(
                request, _misfit(min(words, _most_bytes(request) // 2)), budget
            ), False
        if not is_last and not empty:
            return self._said(request, budget=budget), False
        most = max((_most_bytes(request) - _PLAN) // 6, 1)
        words = "w " * min(self._chance.choice([1, 360, 510, 560]), most)
        count = 0 if self._temper.is_empty and self._now(self._temper.is_empty) else 3
        plan = {"steps": _steps(request, words, count), "sure": not self._now(self._temper.says_no)}
        word = self._word(request)
        text = word if request.output is None else to_json(plan).decode()
        return self._said(request, text), True

    def _word(self, request: ModelRequest) -> str:
        if self._temper.rounds is None:
            return self._chance.choice(["fine", "fine", "more"])
        key = to_json(request.messages[0])
        self._asked_more[key] += 1
        if self._asked_more[key] <= self._temper.rounds:
            return "more"
        self._asked_more[key] = 0
        return "fine"

    def _room(self, request: ModelRequest, kept: int, budget: int, later: int) -> int:
        """Words that a message may have so that so many are still left in the next request, and
        later calls, each with its attempts, still fit the budget; or else one of them."""
        used = self.model.bound_input(request) + request.settings.max_tokens
        room = WINDOW - used - kept
        if budget < _ANY:
            calls = self._chance.choice([1, later * int(request.system.split()[0])])
            taken = self._worst(request) * calls + self.model.bound_input(request) * 1_000
            room = min(room, (budget - taken) // (1_000 * calls) - _NOTE)
        if self._now(self._temper.is_short):
            room = int(room * self._chance.random())
        return max(room, 1)

    def _spare(self, request: ModelRequest, budget: int) -> int:
        """Of the budget, when this answer was as cheap as it can be and the next call is made."""
        taken = self.model.bound_input(request) * 1_000
        return max(budget - self._worst(request) - taken - _NOTE * 1_000, 0)

    def _call_tools(
        self, request: ModelRequest, left: int, budget: int, *, is_first: bool
    ) -> ModelReply:
        """As many as may be called, each with its own words; the first round fills the window."""
        count = _MOST_CALLS - left + 1 if is_first else 1
        if budget < _ANY:
            count = self._chance.choice([1, 1, 2, 4, count])
        later = (_CALL + 1) * left
        count = max(1, min(count, (self._room(request, later, budget, left) - _CALL) // _CALL))
        pad = 0
        if is_first:
            kept = _CALL * count + later - (_CALL + 1)
            pad = (self._room(request, kept, budget, left) - 2) // 2
        said: list[str] = []
        for _ in range(count):
            self._calls += 1
            said.append(_letters(self._calls))
        said[0] += " w" * max(pad, 0)
        name = request.tools[0].name
        calls = (ToolCall(f"c{words[:3]}", name, {"what": words}) for words in said)
        return self._as_reply(request, tuple(calls), Finish.TOOL_CALLS, budget, 3 * count + 2 * pad)

    def _said(self, request: ModelRequest, text: str = "", budget: int = _ANY) -> ModelReply:
        parts = (Text(text),) if text else ()
        return self._as_reply(request, parts, Finish.STOP, budget, text.count(" "))

    def _as_reply(
        self,
        request: ModelRequest,
        parts: tuple[Any, ...],
        finish: Finish,
        budget: int,
        words: int,
    ) -> ModelReply:
        """One that is not the last leaves what the next call needs, which has more words."""
        out, taken = request.settings.max_tokens, self.model.bound_input(request)
        if budget < _ANY:
            out = min(out, max(self._spare(request, budget) - words * 1_000, 0) // 5_000)
        if self._now(self._temper.is_short):
            out = int(out * self._chance.random())
            taken = self._chance.choice([taken, taken, 0])
        usage = Usage(taken, int(out * self._billed(request)))
        return ModelReply(AssistantMessage(parts, "scripted"), usage, finish)


_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"


def _letters(number: int) -> str:
    """Three of them, others for each number."""
    return "".join(_DIGITS[number // 36**place % 36] for place in range(3))


def _misfit(words: int) -> str:
    """Return an answer of so many words that is told as many as can be of its mistake: a field that
    its type does not have, whose name is shown up to 40 characters."""
    if words <= _SHOWN:
        return "n " * words
    return f'{{"{"w " * (_SHOWN - 1)}w":"{"n " * (words - _SHOWN - 3)}"}}'


def _steps(request: ModelRequest, words: str, count: int) -> list[str] | dict[str, str]:
    """So many steps, each as long as it may be."""
    schema: Any = {} if request.output is None else request.output.json_schema
    steps = schema.get("properties", {}).get("steps", {})
    item = steps.get("items") or steps.get("additionalProperties") or {}
    said = words[: item.get("maxLength")]
    return dict.fromkeys("abc"[:count], said) if "maxProperties" in steps else [said] * count


def _grows(request: ModelRequest, misfits: int) -> int:
    """Return how much more the last repeat of a send costs than this request of it."""
    words = _most_bytes(request) // 2 + _NOTE
    return 0 if request.output is None else max(2 - misfits, 0) * words * 1_000


def _most_bytes(request: ModelRequest) -> int:
    """Of an answer: as long as its tokens count as in a quote."""
    return request.settings.max_tokens * ANSWER_BYTES


def _budget(request: ModelRequest) -> int:
    """That of the send, or else of its agent: words like `n400000`."""
    texts = [_text(request.messages[0]), request.system]
    words = [word for text in texts for word in text.split() if _NANOS.fullmatch(word)]
    return int(words[0][1:]) if words else _ANY


def _text(message: object) -> str:
    if not isinstance(message, UserMessage):
        return ""
    return "".join(part.text for part in message.parts if isinstance(part, Text))
