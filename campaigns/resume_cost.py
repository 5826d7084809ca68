"""What a resumed run costs before its first request: CPU time, and queries of its ledger.

    python -m campaigns.resume_cost [FEW MANY]

A loop and a fan-out record calls, and their last call fails. Each later life finds all answers and
asks the last question once more. Two sizes are compared within one process, and the least CPU time
of some lives of each counts, so that the load of the machine does not decide.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.store.postgres import own_schema, url_of

from vegakit.errors import AgentFailed, ErrorClass, Phase, WorldError
from vegakit.lang import check_program, compile_program
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import SqliteLedger

MOST_GROWTH, MOST_QUERIES = 10.0, 3
ROUNDS = 3
_QUERY = "_do"
"""The method of a ledger on SQL that carries out each query."""
_AGENT = "agent A { model fast  max_tokens 10  retry { max_attempts 1 } }\n"
PROGRAMS = {
    "loop": 'fn main(calls: int) { for i in range(calls + 1) { A <- "{i}"; } }',
    "fan": 'fn main(calls: int) {\n    let all = [for i in range(calls + 1) { async A <- "{i}" }];'
    "\n    for one in all { await one; }\n}",
}


class Cost(Struct, frozen=True):
    """The work of one life before its first request. `queries` are those about claims."""

    cpu_s: float
    queries: int


class Life:
    """One life of a run, until it asks the last question. Then its model is down."""

    def __init__(self, program: VegaProgram, place: str, calls: int) -> None:
        self._program, self._place, self._calls = program, place, calls
        self._queries = 0
        self._began = 0.0
        self.cost: Cost | None = None

    async def live(self) -> Cost:
        """Run the program, and return the cost until its last question."""
        gc.collect()
        self._queries, self.cost = 0, None
        model = ScriptedModel(self._answer)

        def find(name: str) -> ScriptedModel:
            del name
            return model

        with self._counted_queries(), suppress(AgentFailed):
            self._began = time.process_time()
            async with Runtime("$1000", observable=False, models=find, journal=self._place) as rt:
                await rt.run(self._program, self._calls)
        assert self.cost is not None, "the last question was not asked"
        return self.cost

    def _answer(self, request: Any) -> str | WorldError:
        if request.messages[-1].parts[0].text != str(self._calls):
            return "yes"
        self.cost = Cost(time.process_time() - self._began, self._queries)
        return WorldError("down", ErrorClass.SERVER, phase=Phase.ANSWERED)

    @contextmanager
    def _counted_queries(self) -> Generator[None]:
        base = next(kind for kind in SqliteLedger.__mro__ if _QUERY in vars(kind))
        do = getattr(base, _QUERY)

        def counted(ledger: Any, decide: Callable[..., Any], *more: Any) -> Any:
            self._queries += "claims" in decide.__qualname__ and self.cost is None
            return do(ledger, decide, *more)

        setattr(base, _QUERY, counted)
        try:
            yield
        finally:
            setattr(base, _QUERY, do)


class Growth(Struct, frozen=True):
    """How much more work the larger run needs. `queries` is the highest number of one life."""

    few_s: float
    many_s: float
    queries: int

    @property
    def ratio(self) -> float:
        """Return the growth of CPU time."""
        return self.many_s / self.few_s


async def compare(program: VegaProgram, places: tuple[str, str], calls: tuple[int, int]) -> Growth:
    """Return the growth between the cheapest lives of each size. In each round a long life stands
    between two short ones, so that a change of the load concerns both sizes."""
    small, large = (Life(program, *one) for one in zip(places, calls, strict=True))
    costs: dict[Life, list[Cost]] = {small: [], large: []}
    for life in (small, large):
        await life.live()
    for _ in range(ROUNDS):
        for life in (small, large, small):
            costs[life].append(await life.live())
    few_s, many_s = (min(one.cpu_s for one in costs[life]) for life in (small, large))
    return Growth(few_s, many_s, max(one.queries for all_ in costs.values() for one in all_))


@contextmanager
def places(folder: Path) -> Generator[dict[str, Callable[[str], str]]]:
    """Yield the backends, each with what makes the place of a journal."""
    with own_schema() as small, own_schema() as large:
        schemas = iter((small, large))
        yield {
            "SQLite": lambda name: str(folder / f"{name}.db"),
            "PostgreSQL": lambda _: url_of(next(schemas)),
        }


def main(few: int = 500, many: int = 5_000) -> int:
    """Print a row for each shape and backend; return 1 if one grows too much."""
    short = 0
    print(f"CPU from the start to the first request, {few:,} and {many:,} recorded calls")
    for shape, text in PROGRAMS.items():
        checked, problems = check_program(_AGENT + text, "main.vega", lambda _: None)
        assert checked is not None, problems
        with tempfile.TemporaryDirectory() as name, places(Path(name)) as backends:
            program = VegaProgram(compile_program(checked), Path(name))
            for backend, place in backends.items():
                at = place(f"{few}"), place(f"{many}")
                grown = asyncio.run(compare(program, at, (few, many)))
                is_short = grown.ratio > MOST_GROWTH or grown.queries > MOST_QUERIES
                short |= is_short
                print(
                    f"{shape:<5} {backend:<11} {grown.few_s:6.3f} s  {grown.many_s:6.3f} s  "
                    f"{grown.ratio:5.1f} x (at most {MOST_GROWTH:.0f})  "
                    f"{grown.queries} queries of claims (at most {MOST_QUERIES})  "
                    f"{'SHORT' if is_short else 'ok'}",
                    flush=True,
                )
    return int(short)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
