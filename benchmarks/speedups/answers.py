"""The provider of all ways: what is asked decides what is answered, and how long that takes.

Nothing depends on who asks or on what was asked before, so every way that asks the same gets the
same, after the same time.
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from benchmarks.speedups.cases import System
from vegakit.testing import ProviderReply, ProviderRequest, ProviderToolCall

__all__ = ["LEAST_MS", "Answers", "Asked", "asked"]

LEAST_MS, MOST_MS = 200, 1_000
DOCUMENTS = "returns shipping payment warranty gifts rentals".split()
PLAN = [
    "What does it cost to send goods back?",
    "How long does the money take?",
    "Who pays for what was damaged?",
    "What is never taken back?",
]
ORDERS = {
    "lamp": ("north", 12, 11_400),
    "frames": ("south", 3, 36_000),
    "tubes": ("west", 40, 16_800),
    "saddles": ("north", 2, 12_200),
    "chains": ("south", 18, 26_820),
    "pumps": ("west", 9, 19_800),
    "stand": ("north", 1, 18_000),
}
DESKS = {
    "parcel leave": "orders",
    "two parts": "money",
    "send back": "orders",
    "paid out": "money",
    "freight?": "orders",
}

Asked: TypeAlias = tuple[tuple[str, str, str], ...]
"""Role, text and tool calls of each message of one request; without ids, which differ."""


def asked(messages: Sequence[dict[str, Any]]) -> Asked:
    return tuple((said["role"], _text(said), _calls(said)) for said in messages)


def _text(said: dict[str, Any]) -> str:
    content: Any = said.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _calls(said: dict[str, Any]) -> str:
    calls: list[dict[str, Any]] = said.get("tool_calls") or []
    functions = [call["function"] for call in calls]
    return json.dumps([[made["name"], json.loads(made["arguments"])] for made in functions])


class _Prompt(NamedTuple):
    """`number` is as good as random, and the same for the same prompt."""

    text: str
    number: int


def _order(prompt: _Prompt) -> dict[str, Any]:
    customer, pieces, cents = next(o for word, o in ORDERS.items() if word in prompt.text)
    return {"customer": customer, "pieces": pieces, "cents": cents}


def _desk(prompt: _Prompt) -> dict[str, Any]:
    return {"desk": next((desk for word, desk in DESKS.items() if word in prompt.text), "nobody")}


def _ruling(prompt: _Prompt) -> dict[str, Any]:
    winner = ("friend", "sceptic", "builder")[prompt.number % 3]
    return {"winner": winner, "why": f"By argument {prompt.number % 97}."}


def _verdict(prompt: _Prompt) -> dict[str, Any]:
    same = prompt.number % 3 != 0
    return {"same": same, "why": "" if same else f"Word {prompt.number % 7} is another."}


_TYPED: dict[str, Callable[[_Prompt], dict[str, Any]]] = {
    System.SAMPLE: lambda prompt: {"answer": (1_005, 1_005, 1_015)[prompt.number % 3]},
    System.SCORER: lambda prompt: {"points": prompt.number % 101},
    System.PLANNER: lambda _: {"items": PLAN},
    System.JUDGE: _ruling,
    System.CHECKER: _verdict,
    System.READER: _order,
    System.ROUTER: _desk,
}


class Answers:
    """A script for `Provider`. `is_quick` leaves the waiting out, to warm up and to compare."""

    def __init__(self) -> None:
        self.is_quick = False

    def __call__(self, request: ProviderRequest) -> ProviderReply:
        said = asked(request.body["messages"])
        number = int.from_bytes(sha256(repr(said).encode()).digest()[:6])
        delay_ms = 0 if self.is_quick else LEAST_MS + number % (MOST_MS - LEAST_MS + 1)
        prompt, system = _Prompt(request.text, number >> 10), said[0][1]
        if typed := _TYPED.get(system):
            return ProviderReply(output=typed(prompt), delay_ms=delay_ms)
        if system == System.RESEARCHER and not request.tool_results:
            name = DOCUMENTS[prompt.number % len(DOCUMENTS)]
            return ProviderReply(
                calls=[ProviderToolCall("read", {"name": name})], delay_ms=delay_ms
            )
        return ProviderReply(f"Words {prompt.number % 1_000_003}.", delay_ms=delay_ms)
