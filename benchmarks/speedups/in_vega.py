"""Our own way: the ten files as they stand, through a runtime as people have it.

Ledger and traces are on disk. With `lookahead=0` nothing is begun ahead of its turn.
"""

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.speedups.cases import CASES, FOLDER, MODEL
from vegakit.program import Printed
from vegakit.providers import ProviderAccess, build_model
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger
from vegakit.telemetry import JsonLinesSink

__all__ = ["open_programs"]

KEY = "sk-test-0123456789"


class Notes:
    """What was printed and spent since they were taken last."""

    def __init__(self, rt: Runtime) -> None:
        self._printed, self._before, self.spent = list[str](), 0, 0
        rt.on(Printed, lambda news: self._printed.append(news.text))

    def take(self) -> dict[str, Any]:
        printed, self._printed = self._printed, []
        before, self._before = self._before, self.spent
        return {"printed": printed, "spent": self.spent - before}


class Program:
    def __init__(self, rt: Runtime, name: str, notes: Notes) -> None:
        self._rt, self._program = rt, rt.load(FOLDER / f"{name}.vega")
        self._notes, self.notes = notes, notes.take

    async def __call__(self, *arguments: Any) -> Any:
        result = await self._rt.run(self._program, *arguments)
        self._notes.spent = int(await self._rt.spent())
        return result


async def open_programs(
    url: str, stack: AsyncExitStack, window: int | None = None
) -> Mapping[str, Program]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    access = ProviderAccess(lambda: KEY, base_url=f"{url}/v1")
    runtime = Runtime(
        "$1000",
        ledger=SqliteLedger(folder / "ledger.db"),
        trace=JsonLinesSink(folder / "trace.jsonl"),
        models=lambda _: build_model(f"openai-chat:{MODEL}", access),
        lookahead=window,
    )
    rt = await stack.enter_async_context(runtime)
    notes = Notes(rt)
    return {name: Program(rt, name, notes) for name in CASES}
