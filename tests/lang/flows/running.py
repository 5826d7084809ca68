"""A run of a program on virtual time, in which every answer takes a second: when each line asks."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from random import Random

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest
from vegakit.lang import check_program, compile_program
from vegakit.money import dollars
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

TAG = re.compile(r"<(\d+)>")
WINDOW = 1_000
SECOND_MS = 1_000


class Watched(ScriptedModel):
    """Notes when each line asks; the same text gets the same answer."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        super().__init__(self._said, latency_ms=SECOND_MS, clock=clock)
        self.seed, self.clock = seed, clock
        self.asked: list[tuple[int, int]] = []

    def _said(self, request: ModelRequest) -> str:
        said = str(request.messages[-1])
        return Random(f"{self.seed} {said}").choice(["yes", "no", "perhaps"])

    async def ask(self, request: ModelRequest) -> ModelReply:
        self._note(request)
        return await super().ask(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        self._note(request)
        async for chunk in super().stream(request):
            yield chunk

    def _note(self, request: ModelRequest) -> None:
        line = TAG.search(str(request.messages[-1]))
        assert line is not None
        self.asked.append((int(line[1]), self.clock.now()))


def ran(text: str, seed: int, folder: Path, window: int) -> list[tuple[int, int]]:
    """The lines that asked, with the second of each; every program begins with an ask."""
    clock = VirtualClock()
    model = Watched(seed, clock)
    checked, _ = check_program(text, "main.vega", lambda _: None)
    assert checked is not None
    program = VegaProgram(compile_program(checked), folder)

    async def run() -> None:
        bounds = Bounds(window=window)
        async with Runtime("$9000", models=lambda _: model, clock=clock, bounds=bounds) as rt:
            given = ["x", ["a", "b"]]
            await rt.program.run(program, "main", given, dollars("$8000"), None)

    run_virtual(run())
    began = model.asked[0][1]
    return [(line, (at - began) // SECOND_MS) for line, at in model.asked]
