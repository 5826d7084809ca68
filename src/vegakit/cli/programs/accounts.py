"""What a run came to: counted from its trace, told in one line."""

from typing import Any

from vegakit.events import CallKind, CallTraced
from vegakit.money import Money, show
from vegakit.ports import Sink

__all__ = ["Account"]


class Account:
    """A sink around another one."""

    def __init__(self) -> None:
        self._next: Sink | None = None
        self.calls = self.input_tokens = self.output_tokens = self.spent = 0

    def around(self, sink: Sink | None) -> "Account":
        self._next = sink
        return self

    def record(self, call: CallTraced) -> None:
        if call.kind is CallKind.MODEL:
            self.calls += 1
            self.input_tokens += call.input_tokens or 0
            self.output_tokens += call.output_tokens or 0
            self.spent += call.cost or 0
        if self._next is not None:
            self._next.record(call)

    async def aclose(self) -> None:
        if self._next is not None:
            await self._next.aclose()

    def line(self, took_s: float) -> str:
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        tokens = f"{self.input_tokens:,} + {self.output_tokens:,} tokens"
        return f"{took_s:.1f} s · {calls} · {tokens} · {show(Money(self.spent))} spent"

    def as_json(self, took_s: float) -> dict[str, Any]:
        return {
            "seconds": round(took_s, 3),
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "spent_usd": self.spent / 1_000_000_000,
        }
