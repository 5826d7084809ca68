"""What a run came to: counted from its trace, told in one line."""

from typing import Any

from vegakit.events import CallKind, CallTraced
from vegakit.money import Money, show
from vegakit.ports import Sink
from vegakit.program import Overlapped, Wasted

__all__ = ["Account"]


_WORTH_TELLING_S = 0.1


class Account:
    """A sink around another one."""

    def __init__(self) -> None:
        self._next: Sink | None = None
        self.calls = self.input_tokens = self.output_tokens = self.spent = 0
        self.reserved = self.wasted = self.sequential_ms = self.critical_ms = 0

    def around(self, sink: Sink | None) -> "Account":
        self._next = sink
        return self

    def record(self, call: CallTraced) -> None:
        if call.kind is CallKind.MODEL:
            self.calls += 1
            self.input_tokens += call.input_tokens or 0
            self.output_tokens += call.output_tokens or 0
            self.spent += call.cost or 0
            self.reserved += call.reserved or 0
        if self._next is not None:
            self._next.record(call)

    def on_wasted(self, news: Wasted) -> None:
        self.wasted += news.amount

    def on_overlapped(self, news: Overlapped) -> None:
        """The program itself is the last to say it; tools written in Vega are inside its calls."""
        self.sequential_ms, self.critical_ms = news.sequential_ms, news.critical_ms

    async def aclose(self) -> None:
        if self._next is not None:
            await self._next.aclose()

    def line(self, took_s: float) -> str:
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        tokens = f"{self.input_tokens:,} + {self.output_tokens:,} tokens"
        parts = [f"{took_s:.1f} s{self._saved(took_s)}", calls, tokens, self._money()]
        return " · ".join(parts)

    def _saved(self, took_s: float) -> str:
        """Only where calls overlapped."""
        sequential_s = self.sequential_ms / 1000
        if sequential_s - took_s < _WORTH_TELLING_S:
            return ""
        chain = f"longest chain {self.critical_ms / 1000:.1f} s"
        return f" (one after another {sequential_s:.1f} s, {chain})"

    def _money(self) -> str:
        reserved, spent = (show(Money(amount)) for amount in (self.reserved, self.spent))
        wasted = f", {show(Money(self.wasted))} of it wasted" if self.wasted else ""
        return f"{reserved} reserved, {spent} spent{wasted}"

    def as_json(self, took_s: float) -> dict[str, Any]:
        return {
            "seconds": round(took_s, 3),
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "sequential_seconds": round(self.sequential_ms / 1000, 3),
            "critical_path_seconds": round(self.critical_ms / 1000, 3),
            "reserved_usd": self.reserved / 1_000_000_000,
            "spent_usd": self.spent / 1_000_000_000,
            "wasted_usd": self.wasted / 1_000_000_000,
        }
