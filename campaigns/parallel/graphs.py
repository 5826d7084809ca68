"""Programs that are graphs of calls: how long they must take, worked out without running them.

A program is lets and sends that depend on earlier variables, loops over literal lists, and calls of
functions. Each call takes the time that its message says. The shortest possible time is the longest
way through the graph; with few slots it is near what a list schedule takes: whenever a slot is
free, the ready call with the longest way behind it goes first.
"""

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from vegakit.conversation import ModelReply, ModelRequest, Text, UserMessage
from vegakit.host import LimiterRules
from vegakit.lang import check_program, compile_program
from vegakit.policy import BreakerRule, RateRule
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

__all__ = ["Call", "Graph", "graph", "list_schedule", "longest_way", "takes"]

SLOWEST_MS = 400


@dataclass
class Call:
    ms: int
    after: frozenset[int]


@dataclass
class Graph:
    """The calls in program order, each with those it needs the answers of."""

    text: str
    calls: list[Call] = field(default_factory=list[Call])


def graph(seed: int) -> Graph:
    return _Writer(Random(seed)).graph()


def longest_way(calls: list[Call]) -> int:
    ends: list[int] = []
    for call in calls:
        ends.append(call.ms + max((ends[at] for at in call.after), default=0))
    return max(ends, default=0)


def list_schedule(calls: list[Call], slots: int, *, foreseen: bool = True) -> int:
    """Without being `foreseen`, how long calls take is not known: the earlier in the program goes
    first."""
    behind = [0] * len(calls)
    for at in reversed(range(len(calls))):
        behind[at] += calls[at].ms
        for before in calls[at].after:
            behind[before] = max(behind[before], behind[at])
    if not foreseen:
        behind = [0] * len(calls)
    missing = [len(call.after) for call in calls]
    ready = [(-behind[at], at) for at, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    now, running = 0, list[tuple[int, int]]()
    while ready or running:
        while ready and len(running) < slots:
            _, at = heapq.heappop(ready)
            heapq.heappush(running, (now + calls[at].ms, at))
        now, done = heapq.heappop(running)
        for at, call in enumerate(calls):
            if done in call.after:
                missing[at] -= 1
                if not missing[at]:
                    heapq.heappush(ready, (-behind[at], at))
    return now


class _Writer:
    """Variables are known by the calls that their values come from."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._calls: list[Call] = []

    def graph(self) -> Graph:
        chance, lines = self._chance, list[str]()
        known: dict[str, frozenset[int]] = {"t0": frozenset()}
        for number in range(1, chance.randint(5, 25)):
            name = f"t{number}"
            write = chance.choices([self._send, self._let, self._loop, self._called], [6, 2, 1, 1])
            lines += write[0](name, known)
        shown = chance.sample(sorted(known), min(3, len(known)))
        lines.append(f'    return "{"".join(f"{{{name}}}" for name in shown)}";')
        body = "\n".join(lines)
        return Graph(f'{_HEAD}fn main() -> str {{\n    let t0 = "";\n{body}\n}}\n', self._calls)

    def _message(self, known: dict[str, frozenset[int]], ms: int) -> tuple[str, frozenset[int]]:
        names = self._chance.sample(sorted(known), min(len(known), self._chance.randrange(3)))
        after = frozenset[int]().union(*(known[name] for name in names))
        return f'"{ms} {"".join(f"{{{name}}}" for name in names)}"', after

    def _call(self, ms: int, after: frozenset[int]) -> frozenset[int]:
        self._calls.append(Call(ms, after))
        return frozenset({len(self._calls) - 1})

    def _ms(self) -> int:
        return self._chance.randint(1, SLOWEST_MS)

    def _send(self, name: str, known: dict[str, frozenset[int]]) -> list[str]:
        ms = self._ms()
        message, after = self._message(known, ms)
        known[name] = self._call(ms, after)
        return [f"    let {name} = A <- {message};"]

    def _let(self, name: str, known: dict[str, frozenset[int]]) -> list[str]:
        names = self._chance.choices(sorted(known), k=2)
        known[name] = known[names[0]] | known[names[1]]
        return [f"    let {name} = {names[0]} + {names[1]};"]

    def _loop(self, name: str, known: dict[str, frozenset[int]]) -> list[str]:
        """Each round asks on its own; what they said is put together."""
        rounds = [self._ms() for _ in range(self._chance.randint(1, 4))]
        message, after = self._message(known, 0)
        made = [self._call(ms, after) for ms in rounds]
        known[name] = frozenset[int]().union(*made)
        asked = message.replace('"0 ', '"{ms} ', 1)
        return [
            f'    let {name} = "";',
            f"    for ms in {rounds} {{ {name} = {name} + (A <- {asked}); }}",
        ]

    def _called(self, name: str, known: dict[str, frozenset[int]]) -> list[str]:
        """Two calls in a function, the second after the first."""
        one, two = self._ms(), self._ms()
        given = self._chance.choice(sorted(known))
        first = self._call(one, known[given])
        known[name] = self._call(two, first)
        return [f"    let {name} = twice({given}, {one}, {two});"]


_HEAD = """agent A { model m  max_tokens 10 }
fn twice(a: str, one: int, two: int) -> str {
    let b = A <- "{one} {a}";
    return A <- "{two} {b}";
}
"""


class _Timed(ScriptedModel):
    """Takes as long as the first word of a message says, and answers with a word."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("w")
        self._time = clock

    async def ask(self, request: ModelRequest) -> ModelReply:
        message = request.messages[-1]
        assert isinstance(message, UserMessage)
        part = message.parts[0]
        assert isinstance(part, Text)
        await self._time.wait_until(self._time.now() + int(part.text.split()[0]))
        return await super().ask(request)


def takes(made: Graph, window: int, slots: int | None = None) -> int:
    """In milliseconds of virtual time."""
    return run_virtual(_run(made, window, slots))


async def _run(made: Graph, window: int, slots: int | None) -> int:
    checked, found = check_program(made.text, "main.vega", lambda _: None)
    assert checked is not None, found
    clock = VirtualClock()
    rules = LimiterRules(RateRule(slots=slots), BreakerRule(threshold=1_000_000))
    model = _Timed(clock)
    began = clock.now()
    async with Runtime(
        "$1000", models=lambda _: model, clock=clock, limits=lambda _: rules, lookahead=window
    ) as rt:
        await rt.run(VegaProgram(compile_program(checked), Path()))
    return clock.now() - began
