"""Why a call was asked twice: each request beside the kills, from the provider's own log.

A call whose outcome was recorded is never sent again. One that was in flight when its worker or the
server was killed may be: between the request before and the one after there is such a kill, and the
program was told that the call before came to nothing known. So may one that a worker began while
the server was away, or had only just come back: the server does not know that it handed it out, or
waits in vain for a sign of life that was sent to the server before, and hands it out again. For
some seconds after it came back it may even refuse what a worker tells it ("not found"); then the
call is handed out again when the time for a sign of life is over, and not before.
"""

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from tests.durable.accounts import HEARTBEAT_MS, Bill, Scene, is_unknown
from tests.durable.oracle import number_in

__all__ = ["Kill", "Repeat", "check_known", "repeats", "table_of"]


SETTLING_MS = 10_000
"""How long after it has come back the server may refuse what workers tell it."""


class Kill(NamedTuple):
    at_ms: int
    who: str
    """worker, server, or both."""
    until_ms: int = 0
    """When a server that was killed answered again."""

    @property
    def felt_until_ms(self) -> int:
        """What a worker held of a server that was killed is handed out again when no sign of life
        has come for as long as the heartbeat may stay out."""
        return self.until_ms + HEARTBEAT_MS if self.until_ms else self.at_ms

    def explains(self, sent_ms: int, again_ms: int) -> bool:
        """Return whether a call of then may have been handed out again because of this kill."""
        if self.at_ms <= again_ms and self.felt_until_ms >= sent_ms:
            return True
        was_silent = again_ms - sent_ms >= HEARTBEAT_MS
        return was_silent and 0 < self.until_ms <= sent_ms <= self.until_ms + SETTLING_MS


class Repeat(NamedTuple):
    """A request that was sent although the same question had been sent before."""

    number: int
    before_ms: int
    ended_ms: int | None
    again_ms: int
    kill: Kill | None

    @property
    def cause(self) -> str:
        if self.kill is None:
            return "no kill in between: NOT EXPLAINED"
        if self.kill.at_ms < self.before_ms:
            return f"begun while the server was away, or just back, when killed: {self.kill.who}"
        if self.ended_ms is not None and self.ended_ms < self.kill.at_ms:
            return f"answered, not yet recorded when killed: {self.kill.who}"
        return f"in flight at the provider when killed: {self.kill.who}"

    def line(self, began_ms: int) -> str:
        def at(ms: int | None) -> str:
            return "–" if ms is None else f"{(ms - began_ms) / 1000:.3f} s"

        return (
            f"question {self.number}: sent at {at(self.before_ms)}, ended {at(self.ended_ms)}, "
            f"kill at {at(self.kill.at_ms if self.kill else None)}, sent again at "
            f"{at(self.again_ms)}; {self.cause}"
        )


def repeats(scene: Scene, kills: list[Kill]) -> list[Repeat]:
    """In the order in which they came."""
    sent: dict[int, list[dict[str, Any]]] = {}
    ended: dict[int, int] = {}
    for line in (scene.folder / "provider.jsonl").read_text().splitlines():
        logged = msgspec.json.decode(line)
        if logged["event"] == "received":
            sent.setdefault(number_in(logged["text"]), []).append(logged)
        else:
            ended[logged["n"]] = logged["ended_ms"]
    found: list[Repeat] = []
    for number, requests in sent.items():
        for before, again in pairwise(requests):
            first, second = before["started_ms"], again["started_ms"]
            between = [k for k in kills if first <= k.at_ms <= second]
            felt = [k for k in kills if k.explains(first, second)]
            ended_ms = ended.get(before["n"])
            kill = next(iter(between + felt[-1:]), None)
            found.append(Repeat(number, before["started_ms"], ended_ms, again["started_ms"], kill))
    return sorted(found, key=lambda repeat: repeat.again_ms)


def check_known(found: list[Repeat], bills: list[Bill]) -> None:
    """No request too many that the program was not told of."""
    told = Counter[int]()
    for each in bills:
        for number, outcomes in each.outcomes.items():
            told[number] += sum(map(is_unknown, outcomes))
    for number, count in Counter(repeat.number for repeat in found).items():
        assert count <= told[number], f"question {number} was sent again in silence"


def table_of(found: list[Repeat]) -> str:
    causes = Counter(repeat.cause for repeat in found)
    return "\n".join(f"{count:>6}  {cause}" for cause, count in causes.most_common())
